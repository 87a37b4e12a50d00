//! Who belongs to a workspace, and as what. A membership is addressed by the user's id. Taking somebody out
//! takes the keys that they have there along.

mod declared;

use super::user::{UserKeys, keys_of};
use super::{NewRow, Resource, ResourceRow, collect, everything, tombstone};
use crate::change::{Action, WriteView, audit};
use crate::problem::{Problem, bad, conflict, forbidden, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::id::{UserId, WorkspaceId};
use gateway_domain::ports::{Batch, Revision};
use gateway_domain::resource::Kind;
use gateway_domain::resource::person::{Member, OrgRole, WorkspaceRole};
use gateway_domain::scope::Scope;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The workspace that a path below it names, as far as this actor knows it.
struct ParentWorkspace {
    id: WorkspaceId,
    seen: Revision,
}

impl ParentWorkspace {
    fn of(call: &AdminCall) -> Result<Self, Problem> {
        let snapshot = call.snapshot();
        let named = call.actor.named(&snapshot, Some(call.var("id")))?;
        Ok(Self { id: named.ok_or_else(|| missing("workspace"))?, seen: snapshot.revision })
    }
}

/// Members that are shown with their workspace.
const MOST_SHOWN: usize = 1000;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("workspace_users.list")];
    const CREATE: &[Scope] = &[Scope::named("workspace_users.create")];
    const READ: &[Scope] = &[Scope::named("workspace_users.read")];
    const UPDATE: &[Scope] = &[Scope::named("workspace_users.update")];
    const DELETE: &[Scope] = &[Scope::named("workspace_users.delete")];
    let at = |all: &'static str, one: &'static str| {
        vec![
            authed(Method::GET, all, LIST, "List the members of a workspace", list).asks(&[
                "role",
                "email",
                "current_page",
                "page_size",
            ]),
            authed(Method::POST, all, CREATE, "Add users to a workspace", add).takes::<Added>(),
            authed(Method::GET, one, READ, "Show a member of a workspace", show),
            authed(Method::PUT, one, UPDATE, "Change the role of a member", change).takes::<MemberPatch>(),
            authed(Method::DELETE, one, DELETE, "Take a user and their keys out of a workspace", remove),
        ]
    };
    let admin = at("/admin/workspaces/{id}/users", "/admin/workspaces/{id}/users/{user_id}");
    let plain = at("/workspaces/{id}/users", "/workspaces/{id}/users/{user_id}");
    admin.into_iter().chain(plain).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemberPatch {
    role: WorkspaceRole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Added {
    users: Vec<AddedMember>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddedMember {
    id: UserId,
    role: WorkspaceRole,
}

impl Resource for Member {
    const KIND: Kind = Kind::Member;
    const NOUN: &'static str = "workspace member";
    const LATER: &'static [&'static str] = &[];
    type Create = MemberPatch;
    type Patch = MemberPatch;

    fn create(_input: MemberPatch, _home: Option<WorkspaceId>, _call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        Err(missing(Self::NOUN))
    }

    fn patch(row: &mut ResourceRow<Self>, input: MemberPatch, _call: &AdminCall) -> Result<(), Problem> {
        row.doc.role = input.role;
        // The role is the admin's from now on, whatever groups and claims say.
        (row.doc.by_group, row.doc.by_sign_on) = (false, false);
        Ok(())
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let known = around.snapshot.person(row.doc.user_id).is_some_and(|p| p.org == row.org);
        if known { Ok(()) } else { Err(bad("users", format_args!("names {}, which is no user", row.doc.user_id))) }
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let snapshot = call.snapshot();
        let person = snapshot.person(row.doc.user_id);
        let org_role = person.map_or(OrgRole::Member, |p| p.role);
        let scopes = row.workspace.and_then(|w| snapshot.workspace(w)).map(|w| {
            let security = snapshot.security(w);
            security.bound(org_role, Some(row.doc.role)).names()
        });
        json!({
            "object": "workspace-user",
            "id": row.doc.user_id,
            "user_id": row.doc.user_id,
            "first_name": person.map(|p| &*p.first_name),
            "last_name": person.map(|p| &*p.last_name),
            "email": person.map(|p| &*p.email),
            "org_role": org_role,
            "role": row.doc.role,
            "scopes": scopes,
            "settings": null,
            "status": row.status,
            "workspace_id": row.workspace,
            "created_at": row.created_at,
            "last_updated_at": row.updated_at,
        })
    }
}

/// A new membership; the user must be one of the organisation's.
pub(crate) fn member_of(
    call: &AdminCall,
    around: &WriteView<'_>,
    workspace: WorkspaceId,
    user: UserId,
    role: WorkspaceRole,
) -> Result<ResourceRow<Member>, Problem> {
    let doc = Member { user_id: user, role, by_group: false, by_sign_on: false, rest: Map::new() };
    let mut row = ResourceRow::fresh(&call.app, call.actor.org, Some(workspace), Some(call.actor.key.0), doc);
    // The store finds rows by slug and by name.
    row.slug = user.to_string();
    row.name.clone_from(&row.slug);
    Member::check(&row, around)?;
    Ok(row)
}

async fn members(call: &AdminCall, workspace: WorkspaceId) -> Result<Vec<ResourceRow<Member>>, Problem> {
    collect::<Member>(call, everything::<Member>(call, Some(Some(workspace)))).await
}

/// Those that are shown with a workspace; the list of them has all.
pub(super) async fn views_of(call: &AdminCall, workspace: WorkspaceId) -> Result<Vec<Value>, Problem> {
    Ok(members(call, workspace).await?.iter().take(MOST_SHOWN).map(|row| Member::view(row, call)).collect())
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let here = ParentWorkspace::of(&call)?;
    let paging = call.query.paging()?;
    let role = call.query.one_of("role", &["admin", "manager", "member"])?;
    let email = call.query.text("email").map(str::to_lowercase);
    let snapshot = call.snapshot();
    let mut rows = members(&call, here.id).await?;
    rows.retain(|r| {
        role.is_none_or(|role| json!(r.doc.role) == role)
            && email.as_ref().is_none_or(|e| snapshot.person(r.doc.user_id).is_some_and(|p| *p.email == **e))
    });
    let data = paging.cut(&rows).iter().map(|row| Member::view(row, &call)).collect();
    Ok(AdminReply::json(Member::listed(rows.len() as u64, data)))
}

async fn add(call: AdminCall) -> Result<AdminReply, Problem> {
    let here = ParentWorkspace::of(&call)?;
    let body = call.body()?;
    let told = body.0.clone();
    let added: Added = body.read()?;
    added.users.iter().try_for_each(|seat| allow_role(&call, seat.role))?;
    if added.users.is_empty() || added.users.len() > 1000 {
        return Err(bad("users", "must hold 1..1000 items"));
    }
    let decide = |around: &WriteView<'_>| {
        let workspace = around.workspace(Some(here.id))?;
        let mut rows = Vec::new();
        for (i, seat) in added.users.iter().enumerate() {
            let twice = added.users[..i].iter().any(|other| other.id == seat.id);
            if twice || workspace.members().contains_key(&seat.id) {
                return Err(conflict(format!("the user {} is a member of this workspace already", seat.id)));
            }
            rows.push(member_of(&call, around, here.id, seat.id, seat.role)?.stored()?);
        }
        let audit = rows.iter().map(|row| audit(&call, Action::Create, row, &told)).collect();
        call.promise(|| json!({}));
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(here.seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}

/// Nobody raises themselves or others above their own role, nor takes it from those above.
fn allow_role(call: &AdminCall, role: WorkspaceRole) -> Result<(), Problem> {
    if role == WorkspaceRole::Admin && !call.actor.may_make_admins {
        return Err(forbidden("only an admin of the workspace makes or changes its admins"));
    }
    Ok(())
}

async fn find(call: &AdminCall, workspace: WorkspaceId) -> Result<ResourceRow<Member>, Problem> {
    let found = call.app.directory.get(Kind::Member, call.actor.org, Some(workspace), call.var("user_id")).await?;
    let found = found.ok_or_else(|| missing(Member::NOUN))?;
    call.subject.found(&found);
    ResourceRow::read(&found)
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let here = ParentWorkspace::of(&call)?;
    let row = find(&call, here.id).await?;
    Ok(AdminReply::json(Member::view(&row, &call)))
}

async fn change(call: AdminCall) -> Result<AdminReply, Problem> {
    let here = ParentWorkspace::of(&call)?;
    let row = find(&call, here.id).await?;
    let body = call.body()?;
    let told = body.0.clone();
    let input: MemberPatch = body.read()?;
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        allow_role(&call, row.doc.role)?;
        allow_role(&call, input.role)?;
        Member::patch(&mut row, input, &call)?;
        Member::check(&row, around)?;
        row.touch(call.now);
        let stored = row.stored()?;
        let audit = vec![audit(&call, Action::Update, &stored, &told)];
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = call.commit(here.seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}

async fn remove(call: AdminCall) -> Result<AdminReply, Problem> {
    let here = ParentWorkspace::of(&call)?;
    call.body()?;
    let row = find(&call, here.id).await?;
    let user = row.doc.user_id;
    let read = keys_of(&call, user).await?;
    let decide = |around: &WriteView<'_>| {
        let row = around.newest(row)?;
        allow_role(&call, row.doc.role)?;
        // Who runs the organisation belongs everywhere, also without a seat.
        let stays = around.snapshot.person(user).is_some_and(|p| p.role != OrgRole::Member);
        let keys = UserKeys { user, kept: |w| stays || w != here.id };
        let mut gone = vec![row.tombstone(call.now)?];
        for key in keys.to_end(around, read) {
            gone.push(tombstone(key, call.now)?);
        }
        let audit = gone.iter().map(|row| audit(&call, Action::Delete, row, &Map::new())).collect();
        Ok(Batch { rows: gone, audit, ..Batch::default() })
    };
    let revision = call.commit(here.seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}
