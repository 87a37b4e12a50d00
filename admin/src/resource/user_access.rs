//! Who may use an MCP server or an agent of a workspace: people one by one, and a default for all others and for
//! services.

use super::{Resource, locate};
use crate::change::{Action, WriteView, audit};
use crate::input::Flag;
use crate::problem::{Problem, bad, missing};
use crate::resource::declared::{Assuming, Declaring, put, take};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::id::UserId;
use gateway_domain::ports::Batch;
use gateway_domain::resource::Kind;
use gateway_domain::resource::access::UserAccess;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Rows of a page of what stands below a server.
pub(super) const MOST_BELOW: u64 = 500;

/// A resource that people are let in to.
pub(super) trait OpenToUsers: Resource {
    /// Whether people connect accounts of their own, which is then told of each.
    const HAS_CONNECTIONS: bool;

    fn user_access(&self) -> &UserAccess;
    fn user_access_mut(&mut self) -> &mut UserAccess;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenUsers {
    user_access: Option<Vec<GivenUser>>,
    default_user_access: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenUser {
    user_id: String,
    enabled: Flag,
}

const fn worded(allow: bool) -> &'static str {
    if allow { "allow" } else { "deny" }
}

fn read_default(given: Option<&str>) -> Result<Option<bool>, Problem> {
    match given {
        None => Ok(None),
        Some("allow") => Ok(Some(true)),
        Some("deny") => Ok(Some(false)),
        Some(_) => Err(bad("default_user_access", "must be one of allow, deny")),
    }
}

/// The page of a list that counts its pages from 1.
pub(super) fn page_from_one<T>(call: &AdminCall, rows: &[T]) -> Result<(Vec<T>, bool), Problem>
where
    T: Clone,
{
    let mut paging = call.query.paging_by("page", "page_size", MOST_BELOW)?;
    paging.page = paging.page.saturating_sub(1);
    let more = (paging.page + 1).saturating_mul(paging.size) < rows.len() as u64;
    Ok((paging.cut(rows).to_vec(), more))
}

pub(super) async fn list<R: OpenToUsers>(call: AdminCall) -> Result<AdminReply, Problem> {
    list_with::<R>(call, &BTreeSet::new()).await
}

/// `connected`: people who have an account where one is needed.
pub(super) async fn list_with<R: OpenToUsers>(
    call: AdminCall,
    connected: &BTreeSet<UserId>,
) -> Result<AdminReply, Problem> {
    let row = locate::<R>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let snapshot = call.snapshot();
    let workspace = row.workspace.and_then(|id| snapshot.workspace(id)).ok_or_else(|| missing("workspace"))?;
    let search = call.query.text("search").map(str::to_lowercase);
    let access = row.doc.user_access();
    let mut ids: Vec<UserId> = workspace.members().keys().chain(access.users.keys()).copied().collect();
    ids.sort();
    ids.dedup();
    let one = |id: UserId| {
        let person = snapshot.person(id).filter(|p| p.org == row.org)?;
        let text = format!("{} {} {}", person.first_name, person.last_name, person.email).to_lowercase();
        search.as_ref().is_none_or(|search| text.contains(search)).then(|| {
            let mut view = json!({
                "user_id": id, "first_name": person.first_name, "last_name": person.last_name,
                "enabled": access.allows(Some(id)), "has_override": access.users.contains_key(&id),
            });
            if R::HAS_CONNECTIONS {
                let status = if connected.contains(&id) { "connected" } else { "not_connected" };
                view["connection_status"] = status.into();
            }
            view
        })
    };
    let all: Vec<Value> = ids.into_iter().filter_map(one).collect();
    let (data, more) = page_from_one(&call, &all)?;
    let default = worded(access.default_allow);
    Ok(AdminReply::json(json!({"data": data, "default_user_access": default, "total": all.len(), "has_more": more})))
}

pub(super) async fn set<R: OpenToUsers>(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<R>(&call, call.query.text("workspace_id"), Action::Update).await?;
    let body = call.body()?;
    let told = body.0.clone();
    let given: GivenUsers = body.read()?;
    let default = read_default(given.default_user_access.as_deref())?;
    let snapshot = call.snapshot();
    let mut people = Vec::new();
    for (at, user) in given.user_access.into_iter().flatten().enumerate() {
        let id = user.user_id.parse::<UserId>().ok();
        let known = id.filter(|id| snapshot.person(*id).is_some_and(|p| p.org == call.actor.org));
        let field = || format!("user_access[{at}].user_id");
        people.push((known.ok_or_else(|| bad(field(), "names no user of the organisation"))?, user.enabled.0));
    }
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        let access = row.doc.user_access_mut();
        access.default_allow = default.unwrap_or(access.default_allow);
        access.users.extend(people);
        if access.users.len() > UserAccess::MOST {
            return Err(bad("user_access", format_args!("may name {} people in all", UserAccess::MOST)));
        }
        row.touch(call.now);
        let rows = vec![row.stored()?];
        let audit = vec![audit(&call, Action::Update, &rows[0], &told)];
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(snapshot.revision, decide).await?;
    Ok(AdminReply::json(json!({"success": true})).at(revision))
}

/// Puts who has access into the fields of a declaration, as a configuration file holds it.
pub(super) fn declare(access: &UserAccess, fields: &mut Map<String, Value>, to: &Declaring<'_>) {
    if !access.default_allow {
        put(fields, "default_user_access", worded(false));
    }
    let people = access.users.iter().map(|(id, on)| (to.names.name(id.0), *on));
    let mut people: Vec<(String, bool)> = people.collect();
    people.sort();
    let people = people.into_iter().map(|(name, on)| json!({"user_id": name, "enabled": on}));
    put(fields, "user_access", people.collect::<Vec<_>>());
}

/// Reads who has access from a configuration file, and takes that out of the fields.
pub(super) fn assume(fields: &mut Map<String, Value>, from: &Assuming<'_>) -> Result<UserAccess, Problem> {
    let default_allow = read_default(take::<String>(fields, "default_user_access")?.as_deref())?.unwrap_or(true);
    let people: Vec<GivenUser> = take(fields, "user_access")?.unwrap_or_default();
    if people.len() > UserAccess::MOST {
        return Err(bad("user_access", format_args!("may name {} people in all", UserAccess::MOST)));
    }
    let mut access = UserAccess { default_allow, ..UserAccess::default() };
    for (at, person) in people.iter().enumerate() {
        let field = format!("user_access[{at}].user_id");
        let id = UserId(from.find(Kind::User, None, &field, &person.user_id)?);
        access.users.insert(id, person.enabled.0);
    }
    Ok(access)
}
