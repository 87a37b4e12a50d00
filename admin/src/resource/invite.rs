//! Invites: a link with a secret, good for a week, that makes a user with seats in workspaces and, if asked for,
//! a key in each. The secret is shown when it is made and kept as a hash; who holds it needs no key.

mod acceptance;

use super::user::sift;
use super::{NewRow, Resource, ResourceRow, collect, everything, get, locate};
use crate::change::{Action, WriteView, audit};
use crate::grant;
use crate::problem::{Problem, bad, conflict, forbidden, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, MountPoint, authed, guest};
use acceptance::PENDING;
use gateway_domain::id::WorkspaceId;
use gateway_domain::keys::{KeyHash, mint};
use gateway_domain::ports::Batch;
use gateway_domain::resource::Kind;
use gateway_domain::resource::api_key::KeyKind;
use gateway_domain::resource::person::{Invite, OrgRole, WorkspaceRole, WorkspaceSeat, email};
use gateway_domain::scope::{Scope, Scopes};
use gateway_domain::time::Timestamp;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const WEEK: i64 = 7 * 86_400_000_000;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("organisation_users.list")];
    const CREATE: &[Scope] = &[Scope::named("organisation_users.create")];
    const READ: &[Scope] = &[Scope::named("organisation_users.read")];
    const DELETE: &[Scope] = &[Scope::named("organisation_users.delete")];
    vec![
        authed(Method::GET, "/admin/users/invites", LIST, "List invites in every state", list).asks(&[
            "role",
            "email",
            "status",
            "currentPage",
            "pageSize",
        ]),
        authed(Method::POST, "/admin/users/invites", CREATE, "Invite somebody; the link is in this answer", create)
            .takes::<NewInvite>(),
        authed(Method::GET, "/admin/users/invites/{id}", READ, "Show an invite", get::<Invite>),
        authed(Method::DELETE, "/admin/users/invites/{id}", DELETE, "Cancel an invite", cancel),
        authed(
            Method::POST,
            "/admin/users/invites/{id}/resend",
            CREATE,
            "Give an invite a new link for another week; the old one ends",
            resend,
        ),
        guest(
            Method::POST,
            MountPoint::Api,
            "/invites/accept",
            "Become a user by the token of an invite's link",
            acceptance::accept,
        )
        .takes::<acceptance::Accept>(),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewInvite {
    email: String,
    role: OrgRole,
    /// Seats that come with the invite; without one, somebody of the organisation is invited who gets a seat later.
    #[serde(default)]
    workspaces: Vec<SeatInput>,
    workspace_api_key_details: Option<KeyDetails>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeatInput {
    id: String,
    role: WorkspaceRole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyDetails {
    scopes: Vec<String>,
}

/// Invites are not edited.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InvitePatch {}

impl Resource for Invite {
    const KIND: Kind = Kind::Invite;
    const NOUN: &'static str = "invite";
    const SHARED: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = NewInvite;
    type Patch = InvitePatch;

    fn create(_input: NewInvite, _home: Option<WorkspaceId>, _call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        Err(missing(Self::NOUN))
    }

    fn patch(_row: &mut ResourceRow<Self>, _input: InvitePatch, _call: &AdminCall) -> Result<(), Problem> {
        Ok(())
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let taken = around.snapshot.people().any(|p| p.org == row.org && *p.email == *row.doc.email);
        if taken {
            return Err(conflict("this address belongs to a user of the organisation already"));
        }
        for (i, seat) in row.doc.workspaces.iter().enumerate() {
            let field = format!("workspaces[{i}].id");
            let known = around.snapshot.workspace(seat.id).filter(|w| w.org == row.org && w.active);
            let workspace = known.ok_or_else(|| bad(&field, "names no workspace of this organisation"))?;
            let bound = around.snapshot.security(workspace).bound(row.doc.role, Some(seat.role));
            if row.doc.key_scopes.is_some_and(|s| !s.within(&bound)) {
                return Err(forbidden(format!(
                    "workspace_api_key_details.scopes holds more than the role in {field} may do"
                )));
            }
        }
        Ok(())
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        json!({
            "object": "invite",
            "id": row.id,
            "email": row.doc.email,
            "role": row.doc.role,
            "workspaces": row.doc.workspaces,
            "created_at": row.created_at,
            "expires_at": row.doc.expires_at,
            "accepted_at": row.doc.accepted_at,
            "status": state(row, call.now),
            "invited_by": row.doc.invited_by,
        })
    }
}

/// Pending ones end by themselves.
fn state(row: &ResourceRow<Invite>, now: Timestamp) -> &str {
    if row.status == PENDING && row.doc.expires_at <= now { "expired" } else { &row.status }
}

/// What stands in the link: enough to find the invite, and its secret.
fn token(row: &ResourceRow<Invite>, secret: &str) -> String {
    format!("{}{}{secret}", row.org.0.simple(), row.id.simple())
}

fn link(call: &AdminCall, row: &ResourceRow<Invite>, secret: &str) -> String {
    let secret = token(row, secret);
    if let Some(url) = &call.app.public_url {
        return format!("{url}/invite#{secret}");
    }
    let host = call.host().unwrap_or("localhost");
    // After the hash, where no server and no log sees it.
    format!("http://{host}/invite#{secret}")
}

fn renew(row: &mut ResourceRow<Invite>, call: &AdminCall) -> String {
    let secret = mint("inv", &call.app.bytes());
    row.doc.token_hash = KeyHash::of(&secret).to_string();
    row.doc.expires_at = call.now.plus_micros(WEEK);
    PENDING.clone_into(&mut row.status);
    secret
}

fn read(input: NewInvite, call: &AdminCall) -> Result<ResourceRow<Invite>, Problem> {
    if input.role == OrgRole::Owner {
        return Err(bad("role", "must be one of admin, member"));
    }
    if input.workspaces.len() > 1000 {
        return Err(bad("workspaces", "must hold at most 1000 items"));
    }
    let snapshot = call.snapshot();
    let mut workspaces: Vec<WorkspaceSeat> = Vec::new();
    for (i, seat) in input.workspaces.into_iter().enumerate() {
        let found = call.actor.named(&snapshot, Some(&seat.id)).ok().flatten();
        let id = found.filter(|id| workspaces.iter().all(|w| w.id != *id)).ok_or_else(|| {
            bad(format_args!("workspaces[{i}].id"), "names no workspace of this organisation, or one twice")
        })?;
        workspaces.push(WorkspaceSeat { id, role: seat.role });
    }
    let key_scopes = input.workspace_api_key_details.map(|d| scopes(&d.scopes, call)).transpose()?;
    let doc = Invite {
        email: email("email", &input.email)?,
        role: input.role,
        workspaces,
        key_scopes,
        token_hash: String::new(),
        expires_at: call.now,
        accepted_at: None,
        invited_by: call.actor.user.unwrap_or(call.actor.key.0),
        rest: Map::new(),
    };
    let mut row = ResourceRow::fresh(&call.app, call.actor.org, None, Some(call.actor.key.0), doc);
    row.name.clone_from(&row.doc.email);
    Ok(row)
}

fn scopes(names: &[String], call: &AdminCall) -> Result<Scopes, Problem> {
    let wanted = grant::parse(KeyKind::WorkspaceUser, names)?;
    if wanted.within(&call.actor.grantable()) {
        return Ok(wanted);
    }
    Err(forbidden("workspace_api_key_details.scopes holds some that this API key does not have itself"))
}

async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let body = call.body()?;
    let told = body.0.clone();
    let mut row = read(body.read()?, &call)?;
    let secret = renew(&mut row, &call);
    let others = pending_for(&call, &row.doc.email).await?;
    let decide = |around: &WriteView<'_>| {
        let meanwhile = |r: &gateway_domain::resource::Stored| r.kind == Kind::Invite.name() && r.name == row.name;
        let twin = around
            .now(others, meanwhile)
            .iter()
            .any(|r| ResourceRow::<Invite>::read(r).is_ok_and(|r| r.org == row.org && state(&r, call.now) == PENDING));
        if twin {
            return Err(conflict("this address has a pending invite already; resend or cancel that one"));
        }
        Invite::check(&row, around)?;
        let stored = row.stored()?;
        let audit = vec![audit(&call, Action::Create, &stored, &told)];
        call.promise(|| json!({"id": row.id, "invite_link": link(&call, &row, &secret)}));
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({"id": row.id, "invite_link": link(&call, &row, &secret)})).at(revision))
}

async fn pending_for(call: &AdminCall, address: &str) -> Result<Vec<gateway_domain::resource::Stored>, Problem> {
    let mut query = everything::<Invite>(call, None);
    query.name = Some(address.to_owned());
    query.status = Some(PENDING.to_owned());
    Ok(call.app.directory.list(&query).await?.rows)
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let paging = call.query.paging_by("currentPage", "pageSize", 1000)?;
    let fits = sift(&call.query, &["admin", "member"])?;
    let status = call.query.one_of("status", &[PENDING, "cancelled", "accepted", "expired"])?;
    let mut rows = collect::<Invite>(&call, everything::<Invite>(&call, None)).await?;
    rows.retain(|r| fits(&r.doc.email, r.doc.role) && status.is_none_or(|s| state(r, call.now) == s));
    let data = paging.cut(&rows).iter().map(|row| Invite::view(row, &call)).collect();
    Ok(AdminReply::json(Invite::listed(rows.len() as u64, data)))
}

async fn cancel(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = locate::<Invite>(&call, None, Action::Delete).await?;
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        if row.status != PENDING {
            return Err(conflict(format!("the invite is {} already", row.status)));
        }
        "cancelled".clone_into(&mut row.status);
        row.touch(call.now);
        let stored = row.stored()?;
        let audit = vec![audit(&call, Action::Delete, &stored, &Map::new())];
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}

async fn resend(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = locate::<Invite>(&call, None, Action::Update).await?;
    let mut made = None;
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        if row.status != PENDING {
            return Err(conflict(format!("the invite is {} already", row.status)));
        }
        Invite::check(&row, around)?;
        let secret = renew(&mut row, &call);
        row.touch(call.now);
        let stored = row.stored()?;
        let audit = vec![audit(&call, Action::Update, &stored, &Map::new())];
        let link = link(&call, &row, &secret);
        call.promise(|| json!({"inviteLink": link, "invite_link": link}));
        made = Some(link);
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({"inviteLink": made, "invite_link": made})).at(revision))
}
