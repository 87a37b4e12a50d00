//! A session: a key of the person that ends by itself, kept as a hash like every key, taken out by signing out or by an
//! admin. A browser holds it in a cookie that scripts cannot read; a program may hold it as a bearer token.

use crate::app::App;
use crate::change::{Action, WriteView, audit};
use crate::cookies::session_cookie;
use crate::grant;
use crate::problem::{Problem, forbidden};
use crate::resource::{ResourceRow, api_key, tombstone};
use crate::route::{AdminCall, AdminReply, AdminRoute, any_key};
use gateway_domain::id::{OrgId, UserId};
use gateway_domain::ports::{Batch, ResourceQuery};
use gateway_domain::resource::api_key::{ApiKey, KeyKind};
use gateway_domain::resource::person::OrgRole;
use gateway_domain::resource::{Kind, Stored};
use gateway_domain::scope::Scopes;
use gateway_domain::snapshot::{Snapshot, WorkspaceEntry};
use http::Method;
use serde_json::{Map, json};
use std::sync::Arc;

/// Sessions of one person at a time: the oldest ends when another begins.
const MOST: usize = 10;

pub(super) fn routes() -> Vec<AdminRoute> {
    vec![any_key(Method::DELETE, "/api-keys/self/session", "Sign out: end the session that asks", sign_out)]
}

/// Where somebody works: the workspace that was asked for, else the default one, else any with a seat.
pub(super) fn home(
    snapshot: &Snapshot,
    org: OrgId,
    user: UserId,
    asked: Option<&str>,
) -> Result<Arc<WorkspaceEntry>, Problem> {
    let role = snapshot.person(user).map_or(OrgRole::Member, |person| person.role);
    let belongs = |w: &&Arc<WorkspaceEntry>| {
        w.org == org && w.active && (role != OrgRole::Member || w.members().contains_key(&user))
    };
    let default = snapshot.org(org).map(|org| org.default_workspace);
    let mut all: Vec<&Arc<WorkspaceEntry>> = snapshot.workspaces().filter(belongs).collect();
    all.sort_by_key(|w| (Some(w.id) != default, w.id));
    let found = match asked {
        None => all.first(),
        Some(name) => all.iter().find(|w| &*w.slug == name || w.id.to_string() == name),
    };
    found.map(|w| (*w).clone()).ok_or_else(|| forbidden("you have no seat in such a workspace"))
}

pub(super) struct NewSession {
    pub(super) row: ResourceRow<ApiKey>,
    pub(super) secret: String,
}

/// A new one, which may what the person may there: never calls of models, for which keys are made.
pub(super) fn begin(
    app: &App,
    around: &WriteView<'_>,
    workspace: &WorkspaceEntry,
    user: UserId,
    seconds: u32,
) -> Result<NewSession, Problem> {
    let standing = around.snapshot.standing(user, workspace);
    let (role, seat) = standing.ok_or_else(|| forbidden("you are not active here"))?;
    let mut scopes: Scopes =
        around.snapshot.security(workspace).bound(role, seat).meet(&grant::all(KeyKind::WorkspaceUser));
    grant::data_plane().into_iter().for_each(|scope| scopes.remove(scope));
    let (mut row, secret) = api_key::for_user(app, around, workspace, user, scopes)?;
    "Session".clone_into(&mut row.name);
    ApiKey::SIGN_ON.clone_into(&mut row.doc.creation_mode);
    row.doc.rotation_policy = None;
    row.doc.expires_at = Some(app.now().plus_micros(i64::from(seconds) * 1_000_000));
    Ok(NewSession { row, secret })
}

/// Keys of somebody as they are stored.
pub(super) async fn keys_of(app: &App, org: OrgId, user: UserId) -> Result<Vec<Stored>, Problem> {
    let snapshot = app.live.snapshot();
    let ids: Vec<_> =
        snapshot.keys().filter(|key| key.owner == Some(user.0) && key.org == org).map(|key| key.id.0).collect();
    let mut rows = Vec::new();
    for ids in ids.chunks(1000) {
        let query = ResourceQuery { ids: ids.to_vec(), ..ResourceQuery::all(Kind::ApiKey, org) };
        rows.extend(app.directory.list(&query).await?.rows);
    }
    Ok(rows)
}

/// Sessions that are over, and the oldest where there are too many.
pub(super) fn ended(
    app: &App,
    around: &WriteView<'_>,
    read: Vec<Stored>,
    user: UserId,
) -> Result<Vec<Stored>, Problem> {
    let is_session = |stored: &Stored| {
        stored.kind == Kind::ApiKey.name()
            && ResourceRow::<ApiKey>::read(stored)
                .is_ok_and(|key| key.doc.is_session() && key.doc.user_id == Some(user.0))
    };
    let now = app.now();
    let mut all: Vec<Stored> = around.now(read, is_session).into_iter().filter(is_session).collect();
    all.sort_by_key(|stored| std::cmp::Reverse((stored.created_at, stored.id)));
    let mut gone = Vec::new();
    for (at, stored) in all.into_iter().enumerate() {
        let is_over = ResourceRow::<ApiKey>::read(&stored)?.doc.expires_at.is_some_and(|until| until <= now);
        if is_over || at + 1 >= MOST {
            gone.push(tombstone(stored, now)?);
        }
    }
    Ok(gone)
}

/// Any other key is no session, and stays.
async fn sign_out(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let found = call.app.directory.get(Kind::ApiKey, call.actor.org, None, &call.actor.key.to_string()).await?;
    let row = found.as_ref().map(ResourceRow::<ApiKey>::read).transpose()?.filter(|row| row.doc.is_session());
    let Some(row) = row else { return Ok(AdminReply::json(json!({"ended": false}))) };
    let decide = |around: &WriteView<'_>| {
        let gone = around.newest(row)?.tombstone(call.now)?;
        let audit = vec![audit(&call, Action::Delete, &gone, &Map::new())];
        Ok(Batch { rows: vec![gone], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({"ended": true})).cookie(session_cookie("", 0)).at(revision))
}
