//! Lets somebody in whom the provider's claims name: what becomes of the person, and the session that begins, are one
//! write.

use super::provisioning::{Belongings, Entrance};
use super::session::{begin, ended, home, keys_of};
use super::ticket::SignInTicket;
use super::user_lookup::{SignedPerson, no_place};
use crate::app::App;
use crate::change::{Action, ChangeOrigin, WriteView, commit};
use crate::problem::{Problem, busy};
use crate::resource::{ResourceRow, pages};
use crate::route::Visit;
use gateway_domain::id::{OrgId, UserId};
use gateway_domain::ports::{Batch, ResourceQuery, Revision};
use gateway_domain::resource::Kind;
use gateway_domain::resource::person::User;
use gateway_domain::resource::sign_on::SignOn;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use uuid::Uuid;

pub(super) struct Admitted {
    pub(super) secret: String,
    pub(super) revision: Revision,
}

pub(super) async fn admit(
    visit: &Visit,
    settings: &SignOn,
    ticket: &SignInTicket,
    claims: &Map<String, Value>,
) -> Result<Admitted, Problem> {
    let app = &visit.app;
    let claimed = SignedPerson::read(claims, settings);
    let snapshot = app.live.snapshot();
    let known = claimed.known(&snapshot, ticket)?;
    let held = match known {
        Some(id) => belongings(app, ticket.org, id).await?,
        None => Belongings::default(),
    };
    let mut secret = None;
    let decide = |around: &WriteView<'_>| {
        // Somebody may have become a user since it was looked.
        if claimed.known(&around.snapshot, ticket)? != known {
            return Err(busy("the user was changed at the same time, try again"));
        }
        let mut batch = Batch::default();
        let keys = held.keys.clone();
        let user = Entrance { visit, settings, ticket, claimed: &claimed, batch: &mut batch }.enter(held, around)?;
        let after = around.plus(&batch.rows)?;
        let workspace = home(&after.snapshot, ticket.org, user, ticket.workspace.as_deref())?;
        let session = begin(app, &after, &workspace, user, settings.session_seconds)?;
        let origin = ChangeOrigin::of_visit(visit, user);
        let stored = session.row.stored()?;
        batch.audit.push(origin.audit(Action::Create, &stored, &Map::from_iter([("sign_in".to_owned(), json!(true))])));
        batch.rows.push(stored);
        let ending: BTreeSet<Uuid> =
            batch.rows.iter().filter(|row| row.deleted_at.is_some()).map(|row| row.id).collect();
        for gone in ended(app, around, keys, user)?.into_iter().filter(|gone| !ending.contains(&gone.id)) {
            batch.audit.push(origin.audit(Action::Delete, &gone, &Map::new()));
            batch.rows.push(gone);
        }
        secret = Some(session.secret);
        Ok(batch)
    };
    let revision = commit(app, snapshot.revision, decide).await?;
    let secret = secret.ok_or_else(|| no_place("no session could begin"))?;
    Ok(Admitted { secret, revision })
}

async fn belongings(app: &App, org: OrgId, user: UserId) -> Result<Belongings, Problem> {
    let stored = app.directory.get(Kind::User, org, None, &user.to_string()).await?;
    let row = stored.as_ref().map(ResourceRow::<User>::read).transpose()?;
    let query = ResourceQuery { name: Some(user.to_string()), ..ResourceQuery::all(Kind::Member, org) };
    let seats = pages(app, query).await?;
    Ok(Belongings { user: row, seats, keys: keys_of(app, org, user).await? })
}
