//! Which role members of a group have in a workspace, as an admin says it. A group has one role, in as many workspaces
//! as it is mapped to. Spoken in the words of the Admin API, not of the protocol.

use super::seats::{SeatScope, SeatsRead};
use crate::change::{Action, WriteView, audit, commit};
use crate::problem::{Problem, bad, conflict, missing};
use crate::resource::{NewRow, Resource, ResourceRow, locate, searched};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{Batch, ResourceQuery};
use gateway_domain::resource::Kind;
use gateway_domain::resource::person::WorkspaceRole;
use gateway_domain::resource::provisioning::{DirectoryGroup, GroupMapping};
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::{SavedGroup, SavedMapping, Snapshot};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

const MOST_MAPPINGS: usize = 5_000;
const LARGEST_PAGE: u64 = 100;
const ROLES: [&str; 3] = ["admin", "manager", "member"];

pub(super) fn routes() -> Vec<AdminRoute> {
    const READ: &[Scope] = &[Scope::named("organisation_settings.read")];
    const UPDATE: &[Scope] = &[Scope::named("organisation_settings.update")];
    const ALL: &str = "/scim/workspaces";
    vec![
        authed(Method::GET, ALL, READ, "List which groups of the directory have which role in workspaces", list)
            .asks(&["workspace_id", "scim_group_id", "role", "page", "page_size"]),
        authed(Method::POST, ALL, UPDATE, "Give members of a group of the directory a role in a workspace", create)
            .takes::<NewMapping>()
            .and(&["workspace_id"]),
        authed(
            Method::DELETE,
            "/scim/workspaces/{id}",
            UPDATE,
            "Take a group's role in a workspace, with its seats",
            remove,
        ),
        authed(Method::GET, "/scim/groups", READ, "List the groups of the directory", groups).asks(&[
            "search",
            "page",
            "page_size",
        ]),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMapping {
    workspace_id: String,
    /// The role's name, in upper or lower case.
    role: String,
    scim_group_id: Option<String>,
    scim_group_name: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct NoPatch {}

impl Resource for GroupMapping {
    const KIND: Kind = Kind::GroupMapping;
    const NOUN: &'static str = "group mapping";
    const SHARED: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = NewMapping;
    type Patch = NoPatch;

    fn create(_: NewMapping, _: Option<WorkspaceId>, _: &AdminCall) -> Result<NewRow<Self>, Problem> {
        Err(missing(Self::NOUN))
    }

    fn patch(_: &mut ResourceRow<Self>, _: NoPatch, _: &AdminCall) -> Result<(), Problem> {
        Ok(())
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let Some(org) = around.snapshot.org(row.org) else { return Err(missing("organisation")) };
        let directory = org.directory();
        if directory.group(row.doc.group).is_none() {
            return Err(missing("group"));
        }
        if around.snapshot.workspace(row.doc.workspace).is_none_or(|w| w.org != row.org || !w.active) {
            return Err(missing("workspace"));
        }
        let same: Vec<&SavedMapping> = directory.mappings().filter(|other| other.group == row.doc.group).collect();
        if directory.mappings().len() >= MOST_MAPPINGS {
            return Err(bad("the organisation", format_args!("has {MOST_MAPPINGS} mappings, which is the most")));
        }
        if let Some(other) = same.iter().find(|other| other.role != row.doc.role) {
            let role = json!(other.role);
            return Err(conflict(format!("the group has the role {role} in other workspaces, and one role only")));
        }
        if same.iter().any(|other| other.workspace == row.doc.workspace) {
            return Err(conflict("the group is mapped to this workspace already"));
        }
        Ok(())
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let mapping =
            SavedMapping { id: row.id, group: row.doc.group, workspace: row.doc.workspace, role: row.doc.role };
        shown(&call.snapshot(), call, &mapping)
    }
}

fn shown(snapshot: &Snapshot, call: &AdminCall, mapping: &SavedMapping) -> Value {
    let group = snapshot.org(call.actor.org).and_then(|org| org.directory().group(mapping.group));
    json!({
        "id": mapping.id,
        "workspace_id": mapping.workspace,
        "scim_group": group.map(|group| &*group.name),
        "scim_group_id": mapping.group,
        "role": mapping.role,
    })
}

fn role(text: &str) -> Result<WorkspaceRole, Problem> {
    serde_json::from_value(Value::String(text.to_lowercase()))
        .map_err(|_| bad("role", format_args!("must be one of {}", ROLES.join(", "))))
}

fn named(snapshot: &Snapshot, call: &AdminCall, input: &NewMapping) -> Result<Arc<SavedGroup>, Problem> {
    let org = snapshot.org(call.actor.org).ok_or_else(|| missing("organisation"))?;
    let found = match (&input.scim_group_id, &input.scim_group_name) {
        (Some(id), None) => id.parse().ok().and_then(|id| org.directory().group(id)),
        (None, Some(name)) => {
            let name = name.to_lowercase();
            org.directory().groups().find(|group| group.name.to_lowercase() == name)
        }
        _ => return Err(bad("scim_group_id", "or scim_group_name must be given, and only one of them")),
    };
    found.cloned().ok_or_else(|| missing("group"))
}

/// Mappings as they are in force, the oldest first.
async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let paging = call.query.paging_by("page", "page_size", LARGEST_PAGE)?;
    let snapshot = call.snapshot();
    let workspace = call.actor.named(&snapshot, call.query.text("workspace_id"))?;
    let group: Option<Uuid> = call.query.parsed("scim_group_id", "must be the id of a group")?;
    let wanted = call.query.text("role").map(role).transpose()?;
    let org = snapshot.org(call.actor.org).ok_or_else(|| missing("organisation"))?;
    let fitting = org.directory().mappings().filter(|m| {
        let is_there = snapshot.workspace(m.workspace).is_some_and(|w| w.active);
        is_there
            && workspace.is_none_or(|w| m.workspace == w)
            && group.is_none_or(|g| m.group == g)
            && wanted.is_none_or(|r| m.role == r)
    });
    let all: Vec<&SavedMapping> = fitting.collect();
    let mappings: Vec<Value> = paging.cut(&all).iter().map(|mapping| shown(&snapshot, &call, mapping)).collect();
    Ok(AdminReply::json(json!({"mappings": mappings, "total_count": all.len()})))
}

async fn groups(call: AdminCall) -> Result<AdminReply, Problem> {
    let paging = call.query.paging_by("page", "page_size", LARGEST_PAGE)?;
    let query = ResourceQuery { page: paging.page, page_size: paging.size, ..searched::<DirectoryGroup>(&call, None) };
    let page = call.app.directory.list(&query).await?;
    let rows = page.rows.iter().map(ResourceRow::read).collect::<Result<Vec<ResourceRow<DirectoryGroup>>, _>>()?;
    let groups: Vec<Value> = rows.iter().map(|row| DirectoryGroup::view(row, &call)).collect();
    Ok(AdminReply::json(json!({"groups": groups, "total_count": page.total})))
}

async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let snapshot = call.snapshot();
    let body = call.body()?;
    let told = body.0.clone();
    let input: NewMapping = body.read()?;
    let role = role(&input.role)?;
    let workspace = call.actor.named(&snapshot, Some(&input.workspace_id))?.ok_or_else(|| missing("workspace"))?;
    let group = named(&snapshot, &call, &input)?;
    let doc = GroupMapping { group: group.id, workspace, role, rest: Map::new() };
    let mut row = ResourceRow::fresh(&call.app, call.actor.org, None, Some(call.actor.key.0), doc);
    row.slug = row.id.to_string();
    row.name = group.name.to_string();
    let mut scope = SeatScope::default();
    scope.workspaces.insert(workspace);
    scope.users.extend(group.members.iter().copied());
    let seats = SeatsRead::of(&call, scope.clone()).await?;
    let decide = |around: &WriteView<'_>| {
        GroupMapping::check(&row, around)?;
        scope.users = members(around, &call, row.doc.group);
        let stored = row.stored()?;
        let audits = vec![audit(&call, Action::Create, &stored, &told)];
        let mut batch = Batch { rows: vec![stored], audit: audits, ..Batch::default() };
        seats.follow(&call, around, &scope, &mut batch)?;
        Ok(batch)
    };
    let revision = commit(&call.app, snapshot.revision, decide).await?;
    Ok(AdminReply::json(GroupMapping::view(&row, &call)).at(revision))
}

fn members(
    around: &WriteView<'_>,
    call: &AdminCall,
    group: Uuid,
) -> std::collections::BTreeSet<gateway_domain::id::UserId> {
    let org = around.snapshot.org(call.actor.org);
    let group = org.and_then(|org| org.directory().group(group));
    group.map(|group| group.members.iter().copied().collect()).unwrap_or_default()
}

async fn remove(call: AdminCall) -> Result<AdminReply, Problem> {
    let snapshot = call.snapshot();
    let row = locate::<GroupMapping>(&call, None, Action::Delete).await?;
    let mut scope = SeatScope::default();
    scope.workspaces.insert(row.doc.workspace);
    let held = snapshot.org(call.actor.org).and_then(|org| org.directory().group(row.doc.group));
    scope.users.extend(held.into_iter().flat_map(|group| group.members.iter().copied()));
    let seats = SeatsRead::of(&call, scope.clone()).await?;
    let decide = |around: &WriteView<'_>| {
        let row = around.newest(row)?;
        scope.users = members(around, &call, row.doc.group);
        let gone = row.tombstone(call.now)?;
        let audits = vec![audit(&call, Action::Delete, &gone, &Map::new())];
        let mut batch = Batch { rows: vec![gone], audit: audits, ..Batch::default() };
        seats.follow(&call, around, &scope, &mut batch)?;
        Ok(batch)
    };
    let revision = commit(&call.app, snapshot.revision, decide).await?;
    Ok(AdminReply::json(json!({"success": true})).at(revision))
}
