//! Rate-limit policies. A delete archives; an archived one is shown to those who ask for archived ones.

use super::provider::slug_of;
use super::{Draft, Resource, Row, Slug, collect, create, edit, everything, locate, update};
use crate::actor::Actor;
use crate::change::{Action, Around};
use crate::input::{Body, Edit, Whole};
use crate::problem::{Problem, bad, missing};
use crate::route::{Call, Reply, Route, authed};
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::policy::{Condition, GroupBy, Measure, OneOrMany, RateLimitPolicy, Target, Unit};
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::{Snapshot, Workspace};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

const STATUSES: &[&str] = &["active", "archived"];
const UNITS: &[&str] = &["rpm", "rph", "rpd", "rpw", "tpm", "tph", "tpd", "tpw"];

pub(crate) fn routes() -> Vec<Route> {
    const LIST: &[Scope] = &[Scope::named("policies.list")];
    const CREATE: &[Scope] = &[Scope::named("policies.create")];
    const READ: &[Scope] = &[Scope::named("policies.read")];
    const UPDATE: &[Scope] = &[Scope::named("policies.update")];
    const DELETE: &[Scope] = &[Scope::named("policies.delete")];
    vec![
        authed(Method::GET, "/policies/rate-limits", LIST, "List the rate-limit policies of a workspace", list),
        authed(
            Method::POST,
            "/policies/rate-limits",
            CREATE,
            "Limit requests or tokens of who matches",
            create::<RateLimitPolicy>,
        )
        .takes::<Create>()
        .and(&["workspace_id"]),
        authed(Method::GET, "/policies/rate-limits/{id}", READ, "Show a rate-limit policy", show),
        authed(
            Method::PUT,
            "/policies/rate-limits/{id}",
            UPDATE,
            "Change a rate-limit policy, but for its target",
            update::<RateLimitPolicy>,
        )
        .takes::<Patch>(),
        authed(Method::DELETE, "/policies/rate-limits/{id}", DELETE, "Archive a rate-limit policy", archive),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Create {
    name: Option<String>,
    description: Option<String>,
    #[serde(default)]
    target: Target,
    #[serde(rename = "type")]
    measure: Measure,
    unit: Unit,
    value: Whole,
    conditions: Vec<Condition>,
    #[serde(default)]
    group_by: Vec<GroupBy>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Patch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    description: Edit<String>,
    #[serde(default)]
    unit: Edit<Unit>,
    #[serde(default)]
    value: Edit<Whole>,
    #[serde(default)]
    conditions: Edit<Vec<Condition>>,
    #[serde(default)]
    status: Edit<String>,
    // Clients that send the whole object back may, as long as these are as they were.
    target: Option<Target>,
    #[serde(rename = "type")]
    measure: Option<Measure>,
    group_by: Option<Vec<GroupBy>>,
}

impl Resource for RateLimitPolicy {
    const KIND: Kind = Kind::RateLimitPolicy;
    const NOUN: &'static str = "policy";
    const LATER: &'static [&'static str] = &[];
    type Create = Create;
    type Patch = Patch;

    fn create(input: Create, home: Option<WorkspaceId>, call: &Call) -> Result<Draft<Self>, Problem> {
        if let Some(name) = &input.name {
            check_name("name", name)?;
        }
        let doc = Self {
            description: input.description,
            target: input.target,
            measure: input.measure,
            unit: input.unit,
            value: input.value.0,
            conditions: named(input.conditions, call)?,
            group_by: input.group_by,
            rest: Map::new(),
        };
        let mut row = Row::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        row.name = input.name.unwrap_or_default();
        let slug = slug_of(&row.name, &format!("rate-limit-{}", call.app.tail::<6>()));
        Ok(Draft { row, slug: Slug::Derived(slug) })
    }

    fn patch(row: &mut Row<Self>, input: Patch, call: &Call) -> Result<(), Problem> {
        input.refuse_fixed(&row.doc)?;
        match input.name {
            Edit::Keep => {}
            Edit::Clear => row.name.clear(),
            Edit::Set(name) => {
                check_name("name", &name)?;
                row.name = name;
            }
        }
        input.description.onto(&mut row.doc.description);
        if let Some(unit) = input.unit.required("unit")? {
            row.doc.unit = unit;
        }
        if let Some(value) = input.value.required("value")? {
            row.doc.value = value.0;
        }
        if let Some(conditions) = input.conditions.required("conditions")? {
            row.doc.conditions = named(conditions, call)?;
        }
        if let Some(status) = input.status.required("status")? {
            if !STATUSES.contains(&status.as_str()) {
                return Err(bad("status", "must be one of active, archived"));
            }
            row.status = status;
        }
        Ok(())
    }

    fn check(row: &Row<Self>, around: &Around<'_>) -> Result<(), Problem> {
        row.doc.check()?;
        (around.app.check_policy)(&row.doc)?;
        Ok(())
    }

    fn view(row: &Row<Self>, _call: &Call) -> Value {
        let mut view = row.common("policy");
        if row.name.is_empty() {
            view.insert("name".into(), Value::Null);
        }
        let more = json!({
            "description": row.doc.description,
            "target": row.doc.target,
            "type": row.doc.measure,
            "unit": row.doc.unit,
            "value": row.doc.value,
            "conditions": row.doc.conditions,
            "group_by": row.doc.group_by,
        });
        view.extend(more.as_object().cloned().unwrap_or_default());
        Value::Object(view)
    }

    fn held(workspace: &Workspace, slug: &str) -> bool {
        workspace.policies().values().any(|p| *p.slug == *slug)
    }

    fn created(row: &Row<Self>) -> Value {
        json!({"id": row.id, "slug": row.slug, "object": "policy"})
    }
}

impl Patch {
    fn refuse_fixed(&self, stored: &RateLimitPolicy) -> Result<(), Problem> {
        let changed = [
            ("target", self.target.is_some_and(|t| t != stored.target)),
            ("type", self.measure.is_some_and(|m| m != stored.measure)),
            ("group_by", self.group_by.as_ref().is_some_and(|g| *g != stored.group_by)),
        ];
        match changed.iter().find(|(_, changed)| *changed) {
            Some((field, _)) => {
                Err(bad(field, "cannot be changed after creation; archive the policy and create a new one"))
            }
            None => Ok(()),
        }
    }
}

/// Keys and workspaces are matched by their ids. A workspace may be named by its slug, which is looked up here;
/// any other text could never match, and a limit that never matches is no limit.
fn named(mut conditions: Vec<Condition>, call: &Call) -> Result<Vec<Condition>, Problem> {
    let snapshot = call.snapshot();
    for (i, condition) in conditions.iter_mut().enumerate() {
        let workspace = match condition.key.as_str() {
            "workspace_id" => true,
            "api_key" => false,
            _ => continue,
        };
        for (name, list) in [("value", &mut condition.value), ("excludes", &mut condition.excludes)] {
            let items: &mut [String] = match list {
                None => continue,
                Some(OneOrMany::One(one)) => std::slice::from_mut(one),
                Some(OneOrMany::Many(many)) => many,
            };
            for item in items.iter_mut().filter(|item| *item != "*") {
                *item = id_of(item, workspace, &call.actor, &snapshot)
                    .map_err(|rule| bad(format_args!("conditions[{i}].{name}"), rule))?;
            }
        }
    }
    Ok(conditions)
}

fn id_of(text: &str, workspace: bool, actor: &Actor, snapshot: &Snapshot) -> Result<String, &'static str> {
    if let Ok(id) = Uuid::parse_str(text) {
        return Ok(id.to_string());
    }
    if !workspace {
        return Err("must hold ids of API keys, or *");
    }
    let found = actor.named(snapshot, Some(text)).ok().flatten();
    found.map(|id| id.to_string()).ok_or("must hold ids or slugs of workspaces, or *")
}

/// The filters look into documents, which the store does not: policies are few, so they are sifted here.
async fn list(call: Call) -> Result<Reply, Problem> {
    let q = &call.query;
    let home = call.actor.home(&call.snapshot(), q.text("workspace_id"))?;
    let paging = q.paging()?;
    let status = q.one_of("status", STATUSES)?.unwrap_or("active").to_owned();
    let measure = q.one_of("type", &["requests", "tokens"])?;
    let target = q.one_of("target", &["llm", "mcp_tools"])?;
    let unit = q.one_of("unit", UNITS)?.map(|u| u.replacen('t', "r", 1));
    let mut query = everything::<RateLimitPolicy>(&call, Some(Some(home)));
    query.status = Some(status);
    let mut rows = collect::<RateLimitPolicy>(&call, query).await?;
    rows.retain(|r| {
        let same = |wanted: Option<&str>, value: Value| wanted.is_none_or(|w| value == w);
        same(measure, json!(r.doc.measure))
            && same(target, json!(r.doc.target))
            && same(unit.as_deref(), json!(r.doc.unit))
    });
    let start = usize::try_from(paging.page * paging.size).unwrap_or(usize::MAX);
    let page = rows.iter().skip(start).take(usize::try_from(paging.size).unwrap_or(usize::MAX));
    let data = page.map(|row| RateLimitPolicy::view(row, &call)).collect();
    Ok(Reply::json(RateLimitPolicy::listed(rows.len() as u64, data)))
}

async fn show(call: Call) -> Result<Reply, Problem> {
    let status = call.query.one_of("status", STATUSES)?.unwrap_or("active");
    let row = locate::<RateLimitPolicy>(&call, call.query.text("workspace_id"), Action::Read).await?;
    if row.status != status {
        return Err(missing(RateLimitPolicy::NOUN));
    }
    Ok(Reply::json(RateLimitPolicy::view(&row, &call)))
}

/// A change of state like any other, so that the counters' history keeps its policy.
async fn archive(call: Call) -> Result<Reply, Problem> {
    let mut change = Body::default();
    change.0.insert("status".into(), "archived".into());
    let (_, revision) = edit::<RateLimitPolicy>(&call, change).await?;
    Ok(Reply::json(json!({})).at(revision))
}
