//! Users of the organisation. They come by invite; what their keys may do is bounded by their role, and their
//! keys end with them. An owner is neither made, changed nor deleted here.

mod declared;

use super::{NewRow, Resource, ResourceRow, collect, everything, locate, searched, tombstone};
use crate::actor::Actor;
use crate::change::{Action, WriteView, audit};
use crate::input::QueryString;
use crate::problem::{Problem, bad, forbidden, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::id::{UserId, WorkspaceId};
use gateway_domain::ports::{Batch, ResourceQuery, Revision};
use gateway_domain::resource::api_key::ApiKey;
use gateway_domain::resource::person::{Member, OrgRole, User};
use gateway_domain::resource::{Kind, Stored};
use gateway_domain::scope::Scope;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("organisation_users.list")];
    const READ: &[Scope] = &[Scope::named("organisation_users.read")];
    const UPDATE: &[Scope] = &[Scope::named("organisation_users.update")];
    const DELETE: &[Scope] = &[Scope::named("organisation_users.delete")];
    vec![
        authed(Method::GET, "/admin/users", LIST, "List the users of the organisation", list).asks(&[
            "search",
            "role",
            "email",
            "currentPage",
            "pageSize",
        ]),
        authed(Method::GET, "/admin/users/{id}", READ, "Show a user by id or e-mail address", super::get::<User>),
        authed(Method::PUT, "/admin/users/{id}", UPDATE, "Change the role of a user", change).takes::<UserPatch>(),
        authed(Method::DELETE, "/admin/users/{id}", DELETE, "Delete a user with their seats and keys", remove),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserPatch {
    role: OrgRole,
}

impl Resource for User {
    const KIND: Kind = Kind::User;
    const NOUN: &'static str = "user";
    const SHARED: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = UserPatch;
    type Patch = UserPatch;

    fn create(_input: UserPatch, _home: Option<WorkspaceId>, _call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        Err(missing(Self::NOUN))
    }

    fn patch(row: &mut ResourceRow<Self>, input: UserPatch, _call: &AdminCall) -> Result<(), Problem> {
        if input.role == OrgRole::Owner {
            return Err(bad("role", "must be one of admin, member"));
        }
        row.doc.role = input.role;
        Ok(())
    }

    fn check(_row: &ResourceRow<Self>, _around: &WriteView<'_>) -> Result<(), Problem> {
        Ok(())
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let snapshot = call.snapshot();
        let seated = snapshot.workspaces().filter(|w| w.members().contains_key(&UserId(row.id)));
        let mut workspaces: Vec<WorkspaceId> = seated.map(|w| w.id).collect();
        workspaces.sort_unstable();
        json!({
            "object": "user",
            "id": row.id,
            "first_name": row.doc.first_name,
            "last_name": row.doc.last_name,
            "email": row.doc.email,
            "role": row.doc.role,
            "created_at": row.created_at,
            "last_updated_at": row.updated_at,
            "workspace_ids": workspaces,
            "status": row.status,
        })
    }

    fn allow(row: &ResourceRow<Self>, _actor: &Actor, action: Action) -> Result<(), Problem> {
        if row.doc.role == OrgRole::Owner && matches!(action, Action::Update | Action::Delete) {
            return Err(forbidden("the owner of an organisation is not changed through the API"));
        }
        Ok(())
    }
}

/// The user keys that end when somebody leaves.
pub(crate) struct UserKeys<F> {
    pub(crate) user: UserId,
    /// Whether keys of this workspace stay.
    pub(crate) kept: F,
}

impl<F: Fn(WorkspaceId) -> bool> UserKeys<F> {
    /// `read`: the user's keys as they were before the write.
    pub(crate) fn to_end(&self, around: &WriteView<'_>, read: Vec<Stored>) -> Vec<Stored> {
        let theirs = |r: &Stored| {
            let key = (r.kind == Kind::ApiKey.name()).then(|| ResourceRow::<ApiKey>::read(r));
            key.is_some_and(|key| key.is_ok_and(|k| k.doc.user_id == Some(self.user.0)))
        };
        let mut rows = around.now(read, theirs);
        rows.retain(|r| !r.workspace.is_some_and(|w| (self.kept)(WorkspaceId(w))));
        rows
    }
}

pub(crate) async fn keys_of(call: &AdminCall, user: UserId) -> Result<Vec<Stored>, Problem> {
    let snapshot = call.snapshot();
    let ids: Vec<_> = snapshot.keys().filter(|k| k.owner == Some(user.0)).map(|k| k.id.0).collect();
    let mut rows = Vec::new();
    for ids in ids.chunks(1000) {
        let query = ResourceQuery { ids: ids.to_vec(), ..everything::<ApiKey>(call, None) };
        rows.extend(call.app.directory.list(&query).await?.rows);
    }
    Ok(rows)
}

/// The filter by e-mail address and role that users and invites share.
pub(crate) fn sift(q: &QueryString, roles: &[&str]) -> Result<impl Fn(&str, OrgRole) -> bool, Problem> {
    let role = q.one_of("role", roles)?.map(str::to_owned);
    let email = q.text("email").map(str::to_lowercase);
    Ok(move |address: &str, has: OrgRole| {
        role.as_ref().is_none_or(|r| json!(has) == **r) && email.as_ref().is_none_or(|e| address == e)
    })
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let paging = call.query.paging_by("currentPage", "pageSize", 1000)?;
    let fits = sift(&call.query, &["admin", "member", "owner"])?;
    let mut rows = collect::<User>(&call, searched::<User>(&call, None)).await?;
    rows.retain(|r| fits(&r.doc.email, r.doc.role));
    let data = paging.cut(&rows).iter().map(|row| User::view(row, &call)).collect();
    Ok(AdminReply::json(User::listed(rows.len() as u64, data)))
}

/// Who no longer runs the organisation keeps their keys where they have a seat, and nowhere else.
async fn change(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = locate::<User>(&call, None, Action::Update).await?;
    let body = call.body()?;
    let told = body.0.clone();
    let input: UserPatch = body.read()?;
    let user = UserId(row.id);
    let read = keys_of(&call, user).await?;
    let mut done = None;
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        User::patch(&mut row, input, &call)?;
        row.touch(call.now);
        let mut rows = vec![row.stored()?];
        let mut audits = vec![audit(&call, Action::Update, &rows[0], &told)];
        let seated = |w| around.snapshot.workspace(w).is_some_and(|w| w.members().contains_key(&user));
        let keys = UserKeys { user, kept: |w| row.doc.role != OrgRole::Member || seated(w) };
        for key in keys.to_end(around, read) {
            let gone = tombstone(key, call.now)?;
            audits.push(audit(&call, Action::Delete, &gone, &Map::new()));
            rows.push(gone);
        }
        done = Some(row);
        Ok(Batch { rows, audit: audits, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    let row = done.ok_or_else(|| missing(User::NOUN))?;
    Ok(AdminReply::json(User::view(&row, &call)).at(revision))
}

async fn remove(call: AdminCall) -> Result<AdminReply, Problem> {
    let revision = end(&call, |_| Ok(())).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}

/// Deletes the user that the path names, with seats and keys; `check` sees the row as it is when it goes.
pub(crate) async fn end<F>(call: &AdminCall, check: F) -> Result<Revision, Problem>
where
    F: FnOnce(&ResourceRow<User>) -> Result<(), Problem> + Send,
{
    let seen = call.snapshot().revision;
    let row = locate::<User>(call, None, Action::Delete).await?;
    let user = UserId(row.id);
    let name = user.to_string();
    let query = ResourceQuery { name: Some(name.clone()), ..everything::<Member>(call, None) };
    let seats = call.app.directory.list(&query).await?.rows;
    let read = keys_of(call, user).await?;
    let decide = |around: &WriteView<'_>| {
        let row = around.newest(row)?;
        User::allow(&row, &call.actor, Action::Delete)?;
        check(&row)?;
        let mut gone = vec![row.tombstone(call.now)?];
        let seats = around.now(seats, |r| r.kind == Kind::Member.name() && r.name == name);
        let keys = UserKeys { user, kept: |_| false };
        for row in seats.into_iter().chain(keys.to_end(around, read)) {
            gone.push(tombstone(row, call.now)?);
        }
        let audit = gone.iter().map(|row| audit(call, Action::Delete, row, &Map::new())).collect();
        Ok(Batch { rows: gone, audit, ..Batch::default() })
    };
    call.commit(seen, decide).await
}
