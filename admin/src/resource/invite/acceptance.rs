//! The other end of an invite: whoever brings its secret becomes the user that it names, once.

use crate::change::{Action, ChangeOrigin, WriteView, commit};
use crate::input::JsonBody;
use crate::problem::{Problem, bad, missing};
use crate::resource::{Resource, ResourceRow, api_key};
use crate::route::{AdminReply, Visit};
use gateway_domain::id::{OrgId, UserId};
use gateway_domain::ports::Batch;
use gateway_domain::resource::person::{Invite, Member, User};
use gateway_domain::resource::{Kind, check_name};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// The state of an invite that nobody took up.
pub(super) const PENDING: &str = "pending";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Accept {
    token: String,
    first_name: String,
    last_name: String,
}

/// The secret of a token, and which invite of which organisation it is for.
struct InviteToken<'t> {
    org: OrgId,
    invite: Uuid,
    secret: &'t str,
}

impl<'t> InviteToken<'t> {
    fn read(text: &'t str) -> Option<Self> {
        let (org, rest) = text.split_at_checked(32)?;
        let (invite, secret) = rest.split_at_checked(32)?;
        Some(Self { org: OrgId(Uuid::parse_str(org).ok()?), invite: Uuid::parse_str(invite).ok()?, secret })
    }
}

/// Every way in which a token does not open is answered alike.
fn refused() -> Problem {
    missing(Invite::NOUN)
}

async fn find(visit: &Visit, token: &InviteToken<'_>) -> Result<ResourceRow<Invite>, Problem> {
    let id = token.invite.to_string();
    let found = visit.app.directory.get(Kind::Invite, token.org, None, &id).await?;
    let row: ResourceRow<Invite> = ResourceRow::read(&found.ok_or_else(refused)?)?;
    if opens(&row, token, visit) { Ok(row) } else { Err(refused()) }
}

fn opens(row: &ResourceRow<Invite>, token: &InviteToken<'_>, visit: &Visit) -> bool {
    row.status == PENDING && row.doc.expires_at > visit.now && row.doc.opens_with(token.secret)
}

pub(super) async fn accept(visit: Visit) -> Result<AdminReply, Problem> {
    let seen = visit.app.live.snapshot().revision;
    let input: Accept = JsonBody::parse(&visit.bytes)?.read()?;
    check_name("first_name", &input.first_name)?;
    check_name("last_name", &input.last_name)?;
    let token = InviteToken::read(&input.token).ok_or_else(|| bad("token", "is not the token of an invite"))?;
    let row = find(&visit, &token).await?;
    let mut welcome = Welcome::default();
    let decide = |around: &WriteView<'_>| {
        let row = around.newest(row)?;
        if !opens(&row, &token, &visit) {
            return Err(refused());
        }
        Invite::check(&row, around)?;
        welcome.write(row, &input, &visit, around)
    };
    let revision = commit(&visit.app, seen, decide).await?;
    Ok(AdminReply::json(json!({"object": "user", "id": welcome.user, "api_keys": welcome.keys})).at(revision))
}

#[derive(Default)]
struct Welcome {
    user: Option<UserId>,
    /// The keys that were made, with their secrets, which only this answer holds.
    keys: Vec<Value>,
}

impl Welcome {
    fn write(
        &mut self,
        mut invite: ResourceRow<Invite>,
        input: &Accept,
        visit: &Visit,
        around: &WriteView<'_>,
    ) -> Result<Batch, Problem> {
        let app = &visit.app;
        let user = User {
            email: invite.doc.email.clone(),
            first_name: input.first_name.clone(),
            last_name: input.last_name.clone(),
            role: invite.doc.role,
            directory: None,
            signs_in_as: None,
            rest: Map::new(),
        };
        let mut user = ResourceRow::fresh(app, invite.org, None, Some(invite.doc.invited_by), user);
        user.slug.clone_from(&user.doc.email);
        user.name = format!("{} {}", input.first_name, input.last_name);
        let id = UserId(user.id);
        let mut rows = vec![user.stored()?];
        for seat in &invite.doc.workspaces {
            let member = Member { user_id: id, role: seat.role, by_group: false, by_sign_on: false, rest: Map::new() };
            let mut member = ResourceRow::fresh(app, invite.org, Some(seat.id), Some(invite.doc.invited_by), member);
            member.slug = id.to_string();
            member.name.clone_from(&member.slug);
            rows.push(member.stored()?);
            if let Some(scopes) = invite.doc.key_scopes {
                let workspace = around.workspace(Some(seat.id))?;
                let (key, secret) = api_key::for_user(app, around, workspace, id, scopes)?;
                self.keys.push(json!({"workspace_id": seat.id, "id": key.id, "key": secret}));
                rows.push(key.stored()?);
            }
        }
        "accepted".clone_into(&mut invite.status);
        invite.doc.accepted_at = Some(visit.now);
        invite.touch(visit.now);
        let origin = ChangeOrigin::of_visit(visit, id);
        let mut audit: Vec<_> = rows.iter().map(|row| origin.audit(Action::Create, row, &Map::new())).collect();
        let accepted = invite.stored()?;
        audit.push(origin.audit(Action::Update, &accepted, &Map::new()));
        rows.push(accepted);
        self.user = Some(id);
        Ok(Batch { rows, audit, ..Batch::default() })
    }
}
