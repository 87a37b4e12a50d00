//! What both kinds of policies share: whom a condition may name, lists by status, and archiving instead of
//! deleting. Knows no limit and no counter.

pub(super) mod declared;

use super::{Resource, ResourceRow, collect, edit, locate, searched};
use crate::actor::Actor;
use crate::app::Counting;
use crate::change::{Action, WriteView};
use crate::input::{Edit, JsonBody, WholeNumber};
use crate::problem::{Problem, bad, missing};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::counters::FailMode;
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::check_name;
use gateway_domain::resource::policy::{Condition, Enforcement, GroupBy, OneOrMany};
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::Snapshot;
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) const LIST: &[Scope] = &[Scope::named("policies.list")];
pub(super) const CREATE: &[Scope] = &[Scope::named("policies.create")];
pub(super) const READ: &[Scope] = &[Scope::named("policies.read")];
pub(super) const UPDATE: &[Scope] = &[Scope::named("policies.update")];
pub(super) const DELETE: &[Scope] = &[Scope::named("policies.delete")];

const STATUSES: &[&str] = &["active", "archived"];

/// A condition as a body gives it. A word that is not understood would change whom the policy holds, so it is refused
/// here; documents carry what a newer version wrote.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenCondition {
    key: String,
    value: Option<OneOrMany>,
    excludes: Option<OneOrMany>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenGroup {
    key: String,
}

pub(super) fn groups(given: &[GivenGroup]) -> Vec<GroupBy> {
    given.iter().map(|group| GroupBy { key: group.key.clone() }).collect()
}

/// Policies may go without a name.
pub(super) fn rename<R: Resource>(row: &mut ResourceRow<R>, name: Edit<String>) -> Result<(), Problem> {
    match name {
        Edit::Keep => {}
        Edit::Clear => row.name.clear(),
        Edit::Set(name) => {
            check_name("name", &name)?;
            row.name = name;
        }
    }
    Ok(())
}

pub(super) fn set_status<R: Resource>(row: &mut ResourceRow<R>, status: Edit<String>) -> Result<(), Problem> {
    if let Some(status) = status.required("status")? {
        if !STATUSES.contains(&status.as_str()) {
            return Err(bad("status", "must be one of active, archived"));
        }
        row.status = status;
    }
    Ok(())
}

/// How tokens and money are held, on policies of both kinds.
pub(super) fn set_holding(
    (enforcement, assume): (Edit<Enforcement>, Edit<WholeNumber>),
    (kept, assumed): (&mut Enforcement, &mut Option<u64>),
) -> Result<(), Problem> {
    if let Some(chosen) = enforcement.required("enforcement")? {
        *kept = chosen;
    }
    match assume {
        Edit::Keep => {}
        Edit::Clear => *assumed = None,
        Edit::Set(tokens) => *assumed = Some(tokens.0),
    }
    Ok(())
}

/// What insists on being counted exactly cannot be saved where nothing can.
pub(super) fn check_fail_mode(status: &str, mode: FailMode, around: &WriteView<'_>) -> Result<(), Problem> {
    let insists = mode == FailMode::Closed && status == "active";
    if insists && around.app.status.counting() == Counting::Divided {
        let rule = "cannot be closed while several nodes run without --redis-url: their counts are not exact";
        return Err(bad("fail_mode", rule));
    }
    Ok(())
}

/// The first of these fields that would change is refused.
pub(super) fn refuse_fixed(changed: &[(&str, bool)]) -> Result<(), Problem> {
    match changed.iter().find(|(_, changed)| *changed) {
        Some((field, _)) => {
            Err(bad(field, "cannot be changed after creation; archive the policy and create a new one"))
        }
        None => Ok(()),
    }
}

/// Keys and workspaces are matched by their ids. A workspace may be named by its slug, which is looked up here;
/// any other text could never match, and a limit that never matches is no limit. `home`: whose keys may be named.
/// What `before` names may have gone since, and stays.
pub(super) fn named(
    conditions: Vec<GivenCondition>,
    before: &[Condition],
    home: Option<WorkspaceId>,
    call: &AdminCall,
) -> Result<Vec<Condition>, Problem> {
    let snapshot = call.snapshot();
    let taken = |given: GivenCondition| Condition { key: given.key, value: given.value, excludes: given.excludes };
    let mut conditions: Vec<Condition> = conditions.into_iter().map(taken).collect();
    let lists = before.iter().flat_map(|c| [&c.value, &c.excludes]).flatten();
    let stored: Vec<&str> = lists.flat_map(OneOrMany::as_slice).map(String::as_str).collect();
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
                if stored.contains(&item.as_str()) {
                    continue;
                }
                let found =
                    if workspace { workspace_of(item, &call.actor, &snapshot) } else { key_of(item, home, &snapshot) };
                *item = found.map_err(|rule| bad(format_args!("conditions[{i}].{name}"), rule))?;
            }
        }
    }
    Ok(conditions)
}

fn workspace_of(text: &str, actor: &Actor, snapshot: &Snapshot) -> Result<String, &'static str> {
    let found = actor.named(snapshot, Some(text)).ok().flatten();
    found.map(|id| id.to_string()).ok_or("must hold ids or slugs of workspaces, or *")
}

fn key_of(text: &str, home: Option<WorkspaceId>, snapshot: &Snapshot) -> Result<String, &'static str> {
    let key = text.parse().ok().and_then(|id| snapshot.key_by_id(id)).filter(|key| key.workspace == home);
    key.map(|key| key.id.to_string()).ok_or("must hold ids of API keys of this workspace, or *")
}

/// One page, and how many there are in all. The filters look into documents, which the store does not: policies
/// are few, so they are sifted here.
pub(super) async fn page<R: Resource>(
    call: &AdminCall,
    wanted: impl Fn(&R) -> bool + Send,
) -> Result<(u64, Vec<ResourceRow<R>>), Problem> {
    let q = &call.query;
    let home = call.actor.home(&call.snapshot(), q.text("workspace_id"))?;
    let paging = q.paging()?;
    let status = q.one_of("status", STATUSES)?.unwrap_or("active").to_owned();
    let mut query = searched::<R>(call, Some(Some(home)));
    query.status = Some(status);
    let mut rows = collect::<R>(call, query).await?;
    rows.retain(|r| wanted(&r.doc));
    let total = rows.len() as u64;
    Ok((total, paging.cut(&rows).to_vec()))
}

/// Archived ones are shown to those who ask for archived ones.
pub(super) async fn find<R: Resource>(call: &AdminCall) -> Result<ResourceRow<R>, Problem> {
    let status = call.query.one_of("status", STATUSES)?.unwrap_or("active");
    let row = locate::<R>(call, call.query.text("workspace_id"), Action::Read).await?;
    if row.status == status { Ok(row) } else { Err(missing(R::NOUN)) }
}

/// A change of state like any other, so that the counters' history keeps its policy.
pub(super) async fn archive<R: Resource>(call: AdminCall) -> Result<AdminReply, Problem> {
    let mut change = JsonBody::default();
    change.0.insert("status".into(), "archived".into());
    let (_, revision) = edit::<R>(&call, change).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}

/// What every view of a policy begins with.
pub(super) fn view<R: Resource>(row: &ResourceRow<R>, more: &Value) -> Value {
    let mut view = row.common("policy");
    if row.name.is_empty() {
        view.insert("name".into(), Value::Null);
    }
    view.extend(more.as_object().cloned().unwrap_or_default());
    Value::Object(view)
}
