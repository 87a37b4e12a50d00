//! Groups of users. Members are users of the organisation; groups in groups are not taken. What belonging to one gives
//! is said by mappings, and follows in the same write.

use super::document;
use super::etag::check_match;
use super::filter::ScimFilter;
use super::handlers::{NextProfile, ScimWritten, WrittenRow, change, create, replace, show};
use super::lookup::{base, meta, one};
use super::page::{self, ScimListed, list};
use super::refusal::{invalid_value, taken};
use super::schema::{GROUP, GROUPS, ResourceType, USERS, group_body, patch_body};
use super::seats::{SeatScope, SeatsRead, workspaces_of};
use super::selection::{self, AttributeSelection};
use crate::app::DirectoryBounds;
use crate::change::{Action, WriteView, audit, commit};
use crate::problem::{Problem, bad, missing};
use crate::resource::{NewRow, Resource, ResourceRow, everything, tombstone};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::id::{UserId, WorkspaceId};
use gateway_domain::ports::{Batch, Fut, ResourceQuery};
use gateway_domain::resource::Kind;
use gateway_domain::resource::check_name;
use gateway_domain::resource::provisioning::{DirectoryGroup, GroupMapping};
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::Person;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use uuid::Uuid;

/// Tries of a change that meets others of the same group.
const TRIES: usize = 5;

pub(super) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("scim.list")];
    const CREATE: &[Scope] = &[Scope::named("scim.create")];
    const READ: &[Scope] = &[Scope::named("scim.read")];
    const UPDATE: &[Scope] = &[Scope::named("scim.update")];
    const DELETE: &[Scope] = &[Scope::named("scim.delete")];
    const ALL: &str = "/scim/Groups";
    const ONE: &str = "/scim/Groups/{id}";
    let parameters = selection::PARAMETERS;
    vec![
        authed(Method::GET, ALL, LIST, "List groups by SCIM", list::<DirectoryGroup>).asks(page::PARAMETERS),
        authed(Method::POST, ALL, CREATE, "Make a group by SCIM", create::<DirectoryGroup>)
            .reads(group_body)
            .asks(parameters),
        authed(Method::GET, ONE, READ, "Show a group by SCIM", show::<DirectoryGroup>).asks(parameters),
        authed(Method::PUT, ONE, UPDATE, "Replace a group by SCIM", replace::<DirectoryGroup>)
            .reads(group_body)
            .asks(parameters),
        authed(Method::PATCH, ONE, UPDATE, "Change a group by SCIM", change::<DirectoryGroup>)
            .reads(patch_body)
            .asks(parameters),
        authed(Method::DELETE, ONE, DELETE, "Delete a group with the seats that it gives by SCIM", remove),
    ]
}

/// Groups have routes of their own.
#[derive(Deserialize)]
pub(crate) struct NoBody {}

impl Resource for DirectoryGroup {
    const KIND: Kind = Kind::DirectoryGroup;
    const NOUN: &'static str = "group";
    const SHARED: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = NoBody;
    type Patch = NoBody;

    fn create(_: NoBody, _: Option<WorkspaceId>, _: &AdminCall) -> Result<NewRow<Self>, Problem> {
        Err(missing(Self::NOUN))
    }

    fn patch(_: &mut ResourceRow<Self>, _: NoBody, _: &AdminCall) -> Result<(), Problem> {
        Ok(())
    }

    /// Names are told apart whatever their case, so that mappings may name groups.
    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let Some(org) = around.snapshot.org(row.org) else { return Err(missing("organisation")) };
        let DirectoryBounds { groups, memberships, .. } = around.app.quotas.directory;
        let others = || org.directory().groups().filter(|group| group.id != row.id);
        if others().any(|group| group.name.to_lowercase() == row.slug) {
            return Err(taken("displayName"));
        }
        if others().count() >= groups {
            return Err(bad("the organisation", format_args!("has {groups} groups, which is the most")));
        }
        if others().map(|group| group.members.len()).sum::<usize>() + row.doc.members.len() > memberships {
            return Err(bad("members", format_args!("of all groups must be at most {memberships}")));
        }
        let is_ours = |id: &&UserId| around.snapshot.person(**id).is_some_and(|person| person.org == row.org);
        match row.doc.members.iter().find(|id| !is_ours(id)) {
            Some(id) => Err(invalid_value("members", format_args!("holds {id}, which is no user"))),
            None => Ok(()),
        }
    }

    fn view(row: &ResourceRow<Self>, _: &AdminCall) -> Value {
        json!({
            "id": row.id,
            "display_name": row.name,
            "external_id": row.doc.external_id,
            "member_count": row.doc.members.len(),
            "created_at": row.created_at,
            "last_updated_at": row.updated_at,
        })
    }
}

impl ScimListed for DirectoryGroup {
    const TYPE: &'static ResourceType = &GROUPS;

    fn render(row: &ResourceRow<Self>, call: &AdminCall, selection: &AttributeSelection) -> Map<String, Value> {
        let mut out = Map::new();
        out.insert("schemas".to_owned(), json!([GROUP.id]));
        out.insert("id".to_owned(), json!(row.id));
        out.insert("displayName".to_owned(), row.name.as_str().into());
        if let Some(id) = &row.doc.external_id {
            out.insert("externalId".to_owned(), id.as_str().into());
        }
        if selection.shows("members") {
            let (snapshot, base) = (call.snapshot(), base(call));
            let people = row.doc.members.iter().filter_map(|id| snapshot.person(*id));
            let members: Vec<Value> = people
                .map(|person| {
                    let at = format!("{base}{}/{}", USERS.endpoint, person.id);
                    json!({"value": person.id, "$ref": at, "display": display(person), "type": "User"})
                })
                .collect();
            if !members.is_empty() {
                out.insert("members".to_owned(), Value::Array(members));
            }
        }
        out.insert("meta".to_owned(), meta(row, &GROUPS, call));
        out
    }

    fn candidates(filter: &ScimFilter, call: &AdminCall) -> Option<Vec<Uuid>> {
        let snapshot = call.snapshot();
        let directory = snapshot.org(call.actor.org)?.directory();
        let ids = |fits: &dyn Fn(&gateway_domain::snapshot::SavedGroup) -> bool| -> Vec<Uuid> {
            directory.groups().filter(|group| fits(group)).map(|group| group.id).collect()
        };
        filter.equals().iter().find_map(|one| match (one.attribute, one.part) {
            ("id", None) => Some(one.text.parse().into_iter().collect()),
            ("displayName", None) => Some(ids(&|group| group.name.to_lowercase() == one.text.to_lowercase())),
            ("externalId", None) => Some(ids(&|group| group.external_id.as_deref() == Some(one.text))),
            ("members", None | Some("value")) => {
                Some(one.text.parse().map_or_else(|_| Vec::new(), |id| ids(&|group| group.holds(UserId(id)))))
            }
            _ => None,
        })
    }

    fn weight(row: &ResourceRow<Self>, selection: &AttributeSelection) -> usize {
        if selection.shows("members") { row.doc.members.len() + 1 } else { 1 }
    }
}

fn display(person: &Person) -> String {
    let name = format!("{} {}", person.first_name, person.last_name);
    if name.trim().is_empty() { person.user_name.to_string() } else { name.trim().to_owned() }
}

/// The groups that somebody belongs to, as their user shows them.
pub(super) fn shown_of(call: &AdminCall, user: UserId) -> Vec<Value> {
    let snapshot = call.snapshot();
    let Some(org) = snapshot.org(call.actor.org) else { return Vec::new() };
    let base = base(call);
    let told = org.directory().groups_of(user).map(|group| {
        let at = format!("{base}{}/{}", GROUPS.endpoint, group.id);
        json!({"value": group.id, "$ref": at, "display": &*group.name, "type": "direct"})
    });
    told.collect()
}

/// What clients write of a group.
fn written(row: &ResourceRow<DirectoryGroup>) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("displayName".to_owned(), row.name.as_str().into());
    if let Some(id) = &row.doc.external_id {
        out.insert("externalId".to_owned(), id.as_str().into());
    }
    let members: Vec<Value> = row.doc.members.iter().map(|id| json!({"value": id})).collect();
    out.insert("members".to_owned(), Value::Array(members));
    out
}

/// Attributes that are held to their schema, as the group is to be.
#[derive(Debug)]
pub(super) struct GroupProfile {
    name: String,
    external_id: Option<String>,
    members: Vec<UserId>,
}

impl GroupProfile {
    /// `most`: members that a group may have.
    fn read(mut fields: Map<String, Value>, most: usize) -> Result<Self, Problem> {
        let name = document::take_text(&mut fields, "displayName").unwrap_or_default();
        check_name("displayName", &name).map_err(|wrong| invalid_value(wrong.field, wrong.rule))?;
        let external_id = document::take_text(&mut fields, "externalId");
        if external_id.as_ref().is_some_and(|id| id.chars().count() > 255) {
            return Err(invalid_value("externalId", "must be at most 255 characters"));
        }
        let given = fields.shift_remove("members").unwrap_or(Value::Null);
        let given = given.as_array().map(Vec::as_slice).unwrap_or_default();
        if given.len() > most {
            return Err(invalid_value("members", format_args!("must be at most {most}")));
        }
        let mut members = BTreeSet::new();
        for member in given {
            if member["type"].as_str().is_some_and(|kind| !kind.eq_ignore_ascii_case("user")) {
                return Err(invalid_value("members", "must be users: groups in groups are not taken"));
            }
            let id = member["value"].as_str().and_then(|id| id.parse().ok());
            members.insert(UserId(id.ok_or_else(|| invalid_value("members", "must have the ids of users as values"))?));
        }
        Ok(Self { name, external_id, members: members.into_iter().collect() })
    }

    fn onto(self, row: &mut ResourceRow<DirectoryGroup>) {
        row.slug = self.name.to_lowercase();
        row.name = self.name;
        row.doc.external_id = self.external_id;
        row.doc.members = self.members;
    }
}

/// Takes out of a group the members whom nobody knows any more.
fn living(row: &mut ResourceRow<DirectoryGroup>, around: &WriteView<'_>) {
    row.doc.members.retain(|id| around.snapshot.person(*id).is_some());
}

impl ScimWritten for DirectoryGroup {
    type Profile = GroupProfile;
    const IS_LONG: bool = true;

    fn profile(fields: Map<String, Value>, bounds: DirectoryBounds) -> Result<GroupProfile, Problem> {
        GroupProfile::read(fields, bounds.members)
    }

    fn written(row: &ResourceRow<Self>) -> Map<String, Value> {
        written(row)
    }

    fn made(profile: GroupProfile, call: &AdminCall) -> ResourceRow<Self> {
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, None, Some(call.actor.key.0), Self::default());
        profile.onto(&mut row);
        row
    }

    fn admit(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        Self::check(row, around)
    }

    fn change<'c>(
        call: &'c AdminCall,
        told: &'c Map<String, Value>,
        next: &'c NextProfile<'c, Self>,
    ) -> Fut<'c, Result<WrittenRow<Self>, Problem>> {
        Box::pin(write(call, told, next))
    }
}

async fn write(
    call: &AdminCall,
    told: &Map<String, Value>,
    next: &NextProfile<'_, DirectoryGroup>,
) -> Result<WrittenRow<DirectoryGroup>, Problem> {
    let mut tries = 0;
    loop {
        tries += 1;
        match write_once(call, told, next).await {
            // The seats were read before others changed the group, so that some may be missing: all is read again.
            Err(problem) if problem.status == StatusCode::SERVICE_UNAVAILABLE && tries < TRIES => {}
            done => return done,
        }
    }
}

async fn write_once(
    call: &AdminCall,
    told: &Map<String, Value>,
    next: &NextProfile<'_, DirectoryGroup>,
) -> Result<WrittenRow<DirectoryGroup>, Problem> {
    let snapshot = call.snapshot();
    let row = one::<DirectoryGroup>(call).await?;
    let workspaces = workspaces_of(&snapshot, call, row.id);
    let users = if workspaces.is_empty() { BTreeSet::new() } else { differing(&row, &next(&row)?.members) };
    let seats = SeatsRead::of(call, SeatScope { users, workspaces }).await?;
    let mut done = None;
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        check_match(call, row.version)?;
        living(&mut row, around);
        let before = row.clone();
        next(&row)?.onto(&mut row);
        DirectoryGroup::check(&row, around)?;
        row.touch(call.now);
        let stored = row.stored()?;
        let audits = vec![audit(call, Action::Update, &stored, told)];
        let mut batch = Batch { rows: vec![stored], audit: audits, ..Batch::default() };
        let workspaces = workspaces_of(&around.snapshot, call, row.id);
        let users = if workspaces.is_empty() { BTreeSet::new() } else { differing(&before, &row.doc.members) };
        seats.follow(call, around, &SeatScope { users, workspaces }, &mut batch)?;
        done = Some(row);
        Ok(batch)
    };
    let revision = commit(&call.app, snapshot.revision, decide).await?;
    done.map(|row| WrittenRow { row, revision }).ok_or_else(|| missing(DirectoryGroup::NOUN))
}

/// Who comes and who goes.
fn differing(row: &ResourceRow<DirectoryGroup>, after: &[UserId]) -> BTreeSet<UserId> {
    let (before, after): (BTreeSet<UserId>, BTreeSet<UserId>) =
        (row.doc.members.iter().copied().collect(), after.iter().copied().collect());
    before.symmetric_difference(&after).copied().collect()
}

async fn remove(call: AdminCall) -> Result<AdminReply, Problem> {
    let snapshot = call.snapshot();
    let row = one::<DirectoryGroup>(&call).await?;
    let workspaces = workspaces_of(&snapshot, &call, row.id);
    let users: BTreeSet<UserId> = row.doc.members.iter().copied().collect();
    let seats = SeatsRead::of(&call, SeatScope { users, workspaces }).await?;
    let mappings = mappings_of(&call, row.id).await?;
    let decide = |around: &WriteView<'_>| {
        let row = around.newest(row)?;
        check_match(&call, row.version)?;
        let workspaces = workspaces_of(&around.snapshot, &call, row.id);
        let users: BTreeSet<UserId> = row.doc.members.iter().copied().collect();
        let of_group = |stored: &gateway_domain::resource::Stored| {
            let mapping = (stored.kind == Kind::GroupMapping.name()).then(|| ResourceRow::<GroupMapping>::read(stored));
            mapping.is_some_and(|mapping| mapping.is_ok_and(|mapping| mapping.doc.group == row.id))
        };
        let mut rows = Vec::new();
        for mapping in around.now(mappings, of_group) {
            rows.push(tombstone(mapping, call.now)?);
        }
        rows.push(row.clone().tombstone(call.now)?);
        let audits = rows.iter().map(|row| audit(&call, Action::Delete, row, &Map::new())).collect();
        let mut batch = Batch { rows, audit: audits, ..Batch::default() };
        seats.follow(&call, around, &SeatScope { users, workspaces }, &mut batch)?;
        Ok(batch)
    };
    let revision = commit(&call.app, snapshot.revision, decide).await?;
    Ok(AdminReply::nothing(StatusCode::NO_CONTENT).at(revision))
}

async fn mappings_of(call: &AdminCall, group: Uuid) -> Result<Vec<gateway_domain::resource::Stored>, Problem> {
    let snapshot = call.snapshot();
    let Some(org) = snapshot.org(call.actor.org) else { return Ok(Vec::new()) };
    let ids: Vec<Uuid> = org.directory().mappings().filter(|m| m.group == group).map(|m| m.id).collect();
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let query = ResourceQuery { ids, ..everything::<GroupMapping>(call, None) };
    Ok(call.app.directory.list(&query).await?.rows)
}
