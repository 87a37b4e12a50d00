//! Usage-limit policies: how much may be spent by who matches, in dollars, tokens or requests. What each group
//! has used is told and set back through a port; a delete archives.

mod declared;

use super::limits::{self, BudgetEdit};
use super::policy::{self, CREATE, DELETE, GivenCondition, GivenGroup, LIST, READ, UPDATE};
use super::provider::slug_of;
use super::{NewRow, Resource, ResourceRow, Slug, create, edit, locate};
use crate::change::{Action, WriteView, audit};
use crate::input::{Edit, WholeNumber};
use crate::problem::{Problem, bad, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::counters::FailMode;
use gateway_domain::id::{PolicyId, WorkspaceId};
use gateway_domain::ports::{Batch, Entity, EntityQuery, Holder, Which};
use gateway_domain::resource::budget::{Amount, Reset, Spend, Week};
use gateway_domain::resource::policy::{Enforcement, Target, UsageLimitPolicy};
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::snapshot::WorkspaceEntry;
use gateway_domain::time::Timestamp;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(crate) fn routes() -> Vec<AdminRoute> {
    const ALL: &str = "/policies/usage-limits";
    const ONE: &str = "/policies/usage-limits/{id}";
    const ENTITIES: &str = "/policies/usage-limits/{id}/entities";
    const RESET: &str = "/policies/usage-limits/{id}/entities/{entity}/reset";
    vec![
        authed(Method::GET, ALL, LIST, "List the usage-limit policies of a workspace", list).asks(&[
            "workspace_id",
            "search",
            "status",
            "type",
            "target",
            "include_usage",
            "current_page",
            "page_size",
        ]),
        authed(Method::POST, ALL, CREATE, "Limit what who matches may spend", create::<UsageLimitPolicy>)
            .takes::<NewUsageLimit>()
            .and(&["workspace_id"]),
        authed(Method::GET, ONE, READ, "Show a usage-limit policy, with what was used if asked", show).asks(&[
            "workspace_id",
            "status",
            "include_usage",
        ]),
        authed(Method::PUT, ONE, UPDATE, "Change a usage-limit policy, or forget what one value has used", change)
            .takes::<UsageLimitPatch>()
            .and(&["workspace_id", "reset_usage_for_value"])
            .asks(HERE),
        authed(Method::DELETE, ONE, DELETE, "Archive a usage-limit policy", policy::archive::<UsageLimitPolicy>)
            .asks(HERE),
        authed(Method::GET, ENTITIES, LIST, "List what each group of a usage-limit policy has used", entities).asks(&[
            "workspace_id",
            "status",
            "search",
            "current_page",
            "page_size",
        ]),
        authed(Method::PUT, RESET, UPDATE, "Forget what one group has used", reset).asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewUsageLimit {
    name: Option<String>,
    description: Option<String>,
    #[serde(default)]
    target: Target,
    #[serde(rename = "type")]
    spend: Spend,
    credit_limit: Amount,
    #[serde(default)]
    alert_threshold: Edit<Amount>,
    #[serde(default)]
    periodic_reset: Edit<Reset>,
    #[serde(default)]
    periodic_reset_days: Edit<WholeNumber>,
    #[serde(default)]
    next_usage_reset_at: Edit<Timestamp>,
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
pub(crate) struct UsageLimitPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    description: Edit<String>,
    #[serde(default)]
    credit_limit: Edit<Amount>,
    #[serde(default)]
    alert_threshold: Edit<Amount>,
    #[serde(default)]
    periodic_reset: Edit<Reset>,
    #[serde(default)]
    periodic_reset_days: Edit<WholeNumber>,
    #[serde(default)]
    next_usage_reset_at: Edit<Timestamp>,
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
    spend: Option<Spend>,
    group_by: Option<Vec<GivenGroup>>,
}

impl Resource for UsageLimitPolicy {
    const KIND: Kind = Kind::UsageLimitPolicy;
    const NOUN: &'static str = "policy";
    const LATER: &'static [&'static str] = &[];
    type Create = NewUsageLimit;
    type Patch = UsageLimitPatch;

    fn create(input: NewUsageLimit, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        if let Some(name) = &input.name {
            check_name("name", name)?;
        }
        let budget = BudgetEdit {
            spend: Some(input.spend),
            credit_limit: Edit::Set(input.credit_limit),
            alert_threshold: input.alert_threshold,
            periodic_reset: input.periodic_reset,
            periodic_reset_days: input.periodic_reset_days,
            next_usage_reset_at: input.next_usage_reset_at,
        };
        let doc = Self {
            description: input.description,
            target: input.target,
            budget: budget.fresh("", call.now)?,
            conditions: policy::named(input.conditions, &[], home, call)?,
            group_by: policy::groups(&input.group_by),
            enforcement: input.enforcement,
            assume_output: input.assume_output.map(|tokens| tokens.0),
            fail_mode: input.fail_mode,
            rest: Map::new(),
        };
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        row.name = input.name.unwrap_or_default();
        let slug = slug_of(&row.name, &format!("usage-limit-{}", call.app.tail::<6>()));
        Ok(NewRow { row, slug: Slug::Derived(slug) })
    }

    fn patch(row: &mut ResourceRow<Self>, input: UsageLimitPatch, call: &AdminCall) -> Result<(), Problem> {
        call.actor.require_limits(row.owner == Some(call.actor.key.0))?;
        let stored = &row.doc;
        policy::refuse_fixed(&[
            ("target", input.target.is_some_and(|t| t != stored.target)),
            ("type", input.spend.is_some_and(|s| s != stored.budget.spend)),
            ("group_by", input.group_by.as_ref().is_some_and(|g| policy::groups(g) != stored.group_by)),
        ])?;
        policy::rename(row, input.name)?;
        input.description.onto(&mut row.doc.description);
        let budget = BudgetEdit {
            spend: None,
            credit_limit: input.credit_limit,
            alert_threshold: input.alert_threshold,
            periodic_reset: input.periodic_reset,
            periodic_reset_days: input.periodic_reset_days,
            next_usage_reset_at: input.next_usage_reset_at,
        };
        budget.onto("", &mut row.doc.budget, call.now)?;
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

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let mut more = limits::view(&row.doc.budget, Week::Monday, call.now);
        if let Some(more) = more.as_object_mut() {
            // Each group has its own; those of the policy are told apart.
            more.shift_remove("current_usage");
            more.shift_remove("status");
        }
        more["description"] = json!(row.doc.description);
        more["target"] = json!(row.doc.target);
        more["conditions"] = json!(row.doc.conditions);
        more["group_by"] = json!(row.doc.group_by);
        more["enforcement"] = json!(row.doc.enforcement);
        more["assume_output"] = json!(row.doc.assume_output);
        more["fail_mode"] = json!(row.doc.fail_mode);
        policy::view(row, &more)
    }

    fn held(workspace: &WorkspaceEntry, slug: &str) -> bool {
        workspace.usage_policies().values().any(|p| *p.slug == *slug)
    }

    fn created(row: &ResourceRow<Self>) -> Value {
        json!({"id": row.id, "slug": row.slug, "object": "policy"})
    }
}

const fn holder(row: &ResourceRow<UsageLimitPolicy>) -> Holder {
    Holder::Policy(PolicyId(row.id))
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let q = &call.query;
    let spend = q.one_of("type", &["cost", "tokens", "requests"])?;
    let target = q.one_of("target", &["llm", "mcp_tools"])?;
    let usage = wants_usage(&call)?;
    let same = |wanted: Option<&str>, value: Value| wanted.is_none_or(|w| value == w);
    let (total, rows) = policy::page::<UsageLimitPolicy>(&call, |doc| {
        same(spend, json!(doc.budget.spend)) && same(target, json!(doc.target))
    })
    .await?;
    let mut data = Vec::with_capacity(rows.len());
    for row in &rows {
        data.push(render_policy(&call, row, usage).await?);
    }
    Ok(AdminReply::json(UsageLimitPolicy::listed(total, data)))
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let usage = wants_usage(&call)?;
    let row = policy::find::<UsageLimitPolicy>(&call).await?;
    Ok(AdminReply::json(render_policy(&call, &row, usage).await?))
}

fn wants_usage(call: &AdminCall) -> Result<bool, Problem> {
    Ok(call.query.one_of("include_usage", &["true", "false", "1", "0"])?.is_some_and(|v| v == "true" || v == "1"))
}

/// The most groups whose use is told with a policy; all of them have a list of their own.
const MOST_TOLD: u64 = 1000;

async fn render_policy(call: &AdminCall, row: &ResourceRow<UsageLimitPolicy>, usage: bool) -> Result<Value, Problem> {
    let mut view = UsageLimitPolicy::view(row, call);
    if usage {
        let limit = row.doc.budget.limit();
        let query =
            EntityQuery { holder: holder(row), limit, exhausted: None, search: None, page: 0, page_size: MOST_TOLD };
        let page = call.app.standings.entities(&query).await?;
        let used = page.rows.iter().map(|e| (e.value_key.clone(), entity(e, row)));
        view["value_key_usage_map"] = Value::Object(used.collect());
    }
    Ok(view)
}

fn entity(entity: &Entity, row: &ResourceRow<UsageLimitPolicy>) -> Value {
    json!({
        "id": entity.id,
        "value_key": entity.value_key,
        "current_usage": Amount::shown(entity.used, row.doc.budget.spend),
        "status": if entity.exhausted { "exhausted" } else { "active" },
        "last_reset_at": entity.last_reset_at,
    })
}

async fn entities(call: AdminCall) -> Result<AdminReply, Problem> {
    let q = &call.query;
    let paging = q.paging_by("current_page", "page_size", 100)?;
    let exhausted = q.one_of("status", &["active", "exhausted"])?.map(|s| s == "exhausted");
    let row = locate::<UsageLimitPolicy>(&call, q.text("workspace_id"), Action::Read).await?;
    let query = EntityQuery {
        holder: holder(&row),
        limit: row.doc.budget.limit(),
        exhausted,
        search: q.text("search").map(str::to_owned),
        page: paging.page,
        page_size: paging.size,
    };
    let page = call.app.standings.entities(&query).await?;
    let data = page.rows.iter().map(|e| entity(e, &row)).collect();
    Ok(AdminReply::json(UsageLimitPolicy::listed(page.total, data)))
}

async fn change(call: AdminCall) -> Result<AdminReply, Problem> {
    let mut body = call.body()?;
    let value = body.take_text("reset_usage_for_value")?;
    let Some(value) = value else {
        let (_, revision) = edit::<UsageLimitPolicy>(&call, body).await?;
        return Ok(AdminReply::json(json!({})).at(revision));
    };
    if body.0.keys().all(|name| name == "workspace_id") {
        let given = body.take_text("workspace_id")?;
        let given = given.as_deref().or_else(|| call.query.text("workspace_id"));
        let row = locate::<UsageLimitPolicy>(&call, given, Action::Update).await?;
        forget(&call, &row, Which::ValueKey(&value)).await?;
        return Ok(AdminReply::json(json!({})));
    }
    let (row, revision) = edit::<UsageLimitPolicy>(&call, body).await?;
    forget(&call, &row, Which::ValueKey(&value)).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}

async fn reset(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<UsageLimitPolicy>(&call, call.query.text("workspace_id"), Action::Update).await?;
    forget(&call, &row, Which::Id(call.var("entity"))).await?;
    Ok(AdminReply::json(json!({})))
}

/// Told in the audit trail once it is done: the counters are no part of the configuration's transaction.
async fn forget(call: &AdminCall, row: &ResourceRow<UsageLimitPolicy>, which: Which<'_>) -> Result<(), Problem> {
    call.actor.require_limits(row.owner == Some(call.actor.key.0))?;
    call.subject.check_found()?;
    if !call.app.standings.reset(holder(row), which).await? {
        return Err(match which {
            Which::ValueKey(_) => bad("reset_usage_for_value", "names no value that this policy has counted"),
            Which::All | Which::Id(_) => missing("entity"),
        });
    }
    let mut request = Map::new();
    match which {
        Which::All => {}
        Which::Id(id) => {
            request.insert("reset_usage_for_entity".into(), id.into());
        }
        Which::ValueKey(value) => {
            request.insert("reset_usage_for_value".into(), value.into());
        }
    }
    let audit = vec![audit(call, Action::Update, &row.stored()?, &request)];
    call.commit(call.snapshot().revision, |_| Ok(Batch { audit, ..Batch::default() })).await?;
    Ok(())
}
