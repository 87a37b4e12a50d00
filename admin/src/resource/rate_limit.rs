//! Rate-limit policies. A delete archives; an archived one is shown to those who ask for archived ones.

mod declared;

use super::policy::{self, CREATE, DELETE, GivenCondition, GivenGroup, LIST, READ, UPDATE};
use super::provider::slug_of;
use super::{NewRow, Resource, ResourceRow, Slug, create, update};
use crate::change::WriteView;
use crate::input::{Edit, WholeNumber};
use crate::problem::Problem;
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::counters::FailMode;
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::policy::{Enforcement, Measure, RateLimitPolicy, Target, Unit};
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::snapshot::WorkspaceEntry;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const UNITS: &[&str] = &["rpm", "rph", "rpd", "rpw", "tpm", "tph", "tpd", "tpw"];

pub(crate) fn routes() -> Vec<AdminRoute> {
    vec![
        authed(Method::GET, "/policies/rate-limits", LIST, "List the rate-limit policies of a workspace", list)
            .asks(&["workspace_id", "status", "type", "target", "unit", "search", "current_page", "page_size"]),
        authed(
            Method::POST,
            "/policies/rate-limits",
            CREATE,
            "Limit requests or tokens of who matches",
            create::<RateLimitPolicy>,
        )
        .takes::<NewRateLimit>()
        .and(&["workspace_id"]),
        authed(Method::GET, "/policies/rate-limits/{id}", READ, "Show a rate-limit policy", show)
            .asks(&["workspace_id", "status"]),
        authed(
            Method::PUT,
            "/policies/rate-limits/{id}",
            UPDATE,
            "Change a rate-limit policy, but for its target",
            update::<RateLimitPolicy>,
        )
        .takes::<RateLimitPatch>()
        .asks(HERE),
        authed(
            Method::DELETE,
            "/policies/rate-limits/{id}",
            DELETE,
            "Archive a rate-limit policy",
            policy::archive::<RateLimitPolicy>,
        )
        .asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRateLimit {
    name: Option<String>,
    description: Option<String>,
    #[serde(default)]
    target: Target,
    #[serde(rename = "type")]
    measure: Measure,
    unit: Unit,
    value: WholeNumber,
    conditions: Vec<GivenCondition>,
    #[serde(default)]
    group_by: Vec<GivenGroup>,
    #[serde(default)]
    enforcement: Enforcement,
    assume_output: Option<WholeNumber>,
    #[serde(default)]
    fail_mode: FailMode,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateLimitPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    description: Edit<String>,
    #[serde(default)]
    unit: Edit<Unit>,
    #[serde(default)]
    value: Edit<WholeNumber>,
    #[serde(default)]
    conditions: Edit<Vec<GivenCondition>>,
    #[serde(default)]
    fail_mode: Edit<FailMode>,
    #[serde(default)]
    status: Edit<String>,
    #[serde(default)]
    enforcement: Edit<Enforcement>,
    #[serde(default)]
    assume_output: Edit<WholeNumber>,
    // Clients that send the whole object back may, as long as these are as they were.
    target: Option<Target>,
    #[serde(rename = "type")]
    measure: Option<Measure>,
    group_by: Option<Vec<GivenGroup>>,
}

impl Resource for RateLimitPolicy {
    const KIND: Kind = Kind::RateLimitPolicy;
    const NOUN: &'static str = "policy";
    const LATER: &'static [&'static str] = &[];
    type Create = NewRateLimit;
    type Patch = RateLimitPatch;

    fn create(input: NewRateLimit, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        if let Some(name) = &input.name {
            check_name("name", name)?;
        }
        let doc = Self {
            description: input.description,
            target: input.target,
            measure: input.measure,
            unit: input.unit,
            value: input.value.0,
            conditions: policy::named(input.conditions, &[], home, call)?,
            group_by: policy::groups(&input.group_by),
            enforcement: input.enforcement,
            assume_output: input.assume_output.map(|tokens| tokens.0),
            fail_mode: input.fail_mode,
            rest: Map::new(),
        };
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        row.name = input.name.unwrap_or_default();
        let slug = slug_of(&row.name, &format!("rate-limit-{}", call.app.tail::<6>()));
        Ok(NewRow { row, slug: Slug::Derived(slug) })
    }

    fn patch(row: &mut ResourceRow<Self>, input: RateLimitPatch, call: &AdminCall) -> Result<(), Problem> {
        call.actor.require_limits(row.owner == Some(call.actor.key.0))?;
        input.refuse_fixed(&row.doc)?;
        policy::rename(row, input.name)?;
        input.description.onto(&mut row.doc.description);
        if let Some(unit) = input.unit.required("unit")? {
            row.doc.unit = unit;
        }
        if let Some(value) = input.value.required("value")? {
            row.doc.value = value.0;
        }
        if let Some(conditions) = input.conditions.required("conditions")? {
            row.doc.conditions = policy::named(conditions, &row.doc.conditions, row.workspace, call)?;
        }
        let kept = (&mut row.doc.enforcement, &mut row.doc.assume_output);
        policy::set_holding((input.enforcement, input.assume_output), kept)?;
        if let Some(mode) = input.fail_mode.or_default() {
            row.doc.fail_mode = mode;
        }
        policy::set_status(row, input.status)
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        row.doc.check()?;
        policy::check_fail_mode(&row.status, row.doc.fail_mode, around)
    }

    fn view(row: &ResourceRow<Self>, _call: &AdminCall) -> Value {
        let more = json!({
            "description": row.doc.description,
            "target": row.doc.target,
            "type": row.doc.measure,
            "unit": row.doc.unit,
            "value": row.doc.value,
            "conditions": row.doc.conditions,
            "group_by": row.doc.group_by,
            "enforcement": row.doc.enforcement,
            "assume_output": row.doc.assume_output,
            "fail_mode": row.doc.fail_mode,
        });
        policy::view(row, &more)
    }

    fn held(workspace: &WorkspaceEntry, slug: &str) -> bool {
        workspace.policies().values().any(|p| *p.slug == *slug)
    }

    fn created(row: &ResourceRow<Self>) -> Value {
        json!({"id": row.id, "slug": row.slug, "object": "policy"})
    }
}

impl RateLimitPatch {
    fn refuse_fixed(&self, stored: &RateLimitPolicy) -> Result<(), Problem> {
        policy::refuse_fixed(&[
            ("target", self.target.is_some_and(|t| t != stored.target)),
            ("type", self.measure.is_some_and(|m| m != stored.measure)),
            ("group_by", self.group_by.as_ref().is_some_and(|g| policy::groups(g) != stored.group_by)),
        ])
    }
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let q = &call.query;
    let measure = q.one_of("type", &["requests", "tokens"])?;
    let target = q.one_of("target", &["llm", "mcp_tools"])?;
    let unit = q.one_of("unit", UNITS)?.map(|u| u.replacen('t', "r", 1));
    let same = |wanted: Option<&str>, value: Value| wanted.is_none_or(|w| value == w);
    let (total, rows) = policy::page::<RateLimitPolicy>(&call, |doc| {
        same(measure, json!(doc.measure)) && same(target, json!(doc.target)) && same(unit.as_deref(), json!(doc.unit))
    })
    .await?;
    let data = rows.iter().map(|row| RateLimitPolicy::view(row, &call)).collect();
    Ok(AdminReply::json(RateLimitPolicy::listed(total, data)))
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = policy::find::<RateLimitPolicy>(&call).await?;
    Ok(AdminReply::json(RateLimitPolicy::view(&row, &call)))
}
