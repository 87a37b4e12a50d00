//! A grant begins when somebody presses "allow", with a code on its way to the client, and ends when anybody takes it
//! back: then no token that names it opens anything, on any node.

use super::fault::OauthFault;
use super::request_context::OauthVisit;
use super::signer::{self, Signer};
use super::signing;
use super::ticket::AuthorizeTicket;
use crate::app::App;
use crate::change::{Action, ChangeOrigin, WriteView, commit};
use crate::problem::{Problem, forbidden};
use crate::resource::tombstone;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gateway_domain::id::{GrantId, OrgId, WorkspaceId};
use gateway_domain::ports::{Batch, OauthCode};
use gateway_domain::resource::mcp_grant::McpSignIn;
use gateway_domain::resource::{Kind, Stored};
use gateway_domain::snapshot::{SavedGrant, WorkspaceEntry};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;

const CODE_MICROS: i64 = 60 * 1_000_000;

/// What a code must be exchanged with.
#[derive(Serialize, Deserialize)]
pub(super) struct CodeTerms {
    pub(super) client_id: String,
    pub(super) redirect_uri: String,
    pub(super) challenge: String,
}

pub(super) fn digest(code: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(code.as_bytes()))
}

/// A page is decided on once, whichever node hears of it.
pub(super) async fn decide_once(visit: &OauthVisit, ticket: &AuthorizeTicket) -> Result<(), OauthFault> {
    let at = visit.visit.now;
    let first = visit.app().claims.claim(&[ticket.id], at).await?;
    if first.first() == Some(&at) {
        return Ok(());
    }
    Err(OauthFault::forbidden("this page was decided on already: begin again in the app"))
}

/// The code for the client.
pub(super) async fn begin(
    visit: &OauthVisit,
    ticket: &AuthorizeTicket,
    workspace: Option<&str>,
) -> Result<String, OauthFault> {
    let (app, now) = (visit.app(), visit.visit.now);
    let snapshot = app.live.snapshot();
    let over = || OauthFault::forbidden("you are not signed in any more: begin again in the app");
    let signed_by = ticket.signed_by.ok_or_else(over)?;
    let signer = signer::standing(&snapshot, signed_by, now).ok_or_else(over)?;
    let place = place(&signer, &signer.places(&snapshot, &ticket.ask), workspace)?;
    decide_once(visit, ticket).await?;
    let store = app.oauth.as_ref().ok_or_else(OauthFault::off)?;
    let code = URL_SAFE_NO_PAD.encode(app.bytes::<32>());
    let row = row(app, ticket, &signer, place)?;
    let terms = CodeTerms {
        client_id: ticket.ask.client_id.clone(),
        redirect_uri: ticket.ask.redirect_uri.clone(),
        challenge: ticket.ask.challenge.clone(),
    };
    let new = OauthCode {
        id: digest(&code),
        grant: GrantId(row.id),
        org: OrgId(row.org),
        asked: serde_json::to_string(&terms).map_err(|_| OauthFault::internal())?,
        expires_at: now.plus_micros(CODE_MICROS),
    };
    let oldest = oldest(app, &signer).await?;
    // First what upkeep finds: a grant that nobody could turn into tokens goes by itself.
    store.begin_grant(&new).await?;
    let told = audit_details(ticket);
    let decide = |around: &WriteView<'_>| {
        let still = signer::standing(&around.snapshot, signed_by, now);
        let open = still.map(|signer| signer.places(&around.snapshot, &ticket.ask)).unwrap_or_default();
        if !open.iter().any(|open| open.id == place) {
            return Err(forbidden("what you may do has changed meanwhile: begin again in the app"));
        }
        let origin = ChangeOrigin::of_visit(&visit.visit, signer.person.id);
        let mut batch = Batch::default();
        batch.rows.extend(signing::first_key(app, &around.snapshot)?);
        if let Some(oldest) = oldest.filter(|row| around.snapshot.grant(GrantId(row.id)).is_some()) {
            batch.audit.push(origin.audit(Action::Delete, &oldest, &Map::new()));
            batch.rows.push(oldest);
        }
        batch.audit.push(origin.audit(Action::Create, &row, &told));
        batch.rows.push(row);
        Ok(batch)
    };
    commit(app, snapshot.revision, decide).await?;
    Ok(code)
}

fn place(signer: &Signer, open: &[Arc<WorkspaceEntry>], asked: Option<&str>) -> Result<WorkspaceId, OauthFault> {
    let named = |w: &&Arc<WorkspaceEntry>| asked.is_none_or(|asked| w.id.to_string() == asked);
    let mut found = open.iter().filter(named);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one.id),
        (Some(_), Some(_)) => Err(OauthFault::request("workspace is required")),
        (None, _) => {
            let told = format!("{} may use no server at this address", signer.person.email);
            Err(OauthFault::forbidden(told))
        }
    }
}

fn row(app: &App, ticket: &AuthorizeTicket, signer: &Signer, place: WorkspaceId) -> Result<Stored, OauthFault> {
    let doc = McpSignIn {
        user: signer.person.id,
        key: (!signer.by_session).then_some(signer.key.id),
        client_id: ticket.ask.client_id.clone(),
        client_name: ticket.ask.client_name.clone(),
        server: ticket.ask.server.clone(),
        scope: ticket.ask.scope.clone(),
        rest: Map::new(),
    };
    let (id, now) = (app.id(), app.now());
    Ok(Stored {
        kind: Kind::McpGrant.name().to_owned(),
        id,
        org: signer.key.org.0,
        workspace: Some(place.0),
        slug: id.to_string(),
        name: ticket.ask.client_name.clone(),
        status: "active".to_owned(),
        owner: Some(signer.person.id.0),
        schema: 1,
        version: 1,
        revision: 0,
        doc: serde_json::to_string(&doc).map_err(|_| OauthFault::internal())?,
        created_at: now,
        updated_at: now,
        deleted_at: None,
    })
}

/// What the audit trail is told of a grant.
fn audit_details(ticket: &AuthorizeTicket) -> Map<String, Value> {
    let ask = &ticket.ask;
    [("client_id", json!(ask.client_id)), ("server", json!(ask.server)), ("scope", json!(ask.scope))]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// The one that makes room where somebody has as many as they may.
async fn oldest(app: &App, signer: &Signer) -> Result<Option<Stored>, OauthFault> {
    let snapshot = app.live.snapshot();
    let mut theirs: Vec<&Arc<SavedGrant>> = snapshot.grants().filter(|g| g.user == signer.person.id).collect();
    if theirs.len() < McpSignIn::MOST {
        return Ok(None);
    }
    theirs.sort_by_key(|grant| (grant.created_at, grant.id));
    let Some(oldest) = theirs.first() else { return Ok(None) };
    if let Some(store) = &app.oauth {
        store.end_grant(oldest.id).await?;
    }
    let stored = app.directory.get(Kind::McpGrant, oldest.org, Some(oldest.workspace), &oldest.id.to_string()).await?;
    Ok(stored.map(|row| tombstone(row, app.now())).transpose()?)
}

/// The grant's row in the store: this node may not have heard of the grant yet, or not yet of its end.
pub(super) async fn stored(app: &App, org: OrgId, grant: GrantId) -> Result<Option<Stored>, OauthFault> {
    Ok(app.directory.get(Kind::McpGrant, org, None, &grant.to_string()).await?)
}

/// Takes a grant back, whoever holds tokens of it. `why` stands in the audit trail.
pub(super) async fn end(visit: &OauthVisit, org: OrgId, grant: GrantId, why: &str) -> Result<(), OauthFault> {
    let app = visit.app();
    if let Some(store) = &app.oauth {
        store.end_grant(grant).await?;
    }
    let seen = app.live.snapshot().revision;
    let Some(row) = stored(app, org, grant).await? else { return Ok(()) };
    let doc: McpSignIn = serde_json::from_str(&row.doc).map_err(|_| OauthFault::internal())?;
    let gone = tombstone(row, app.now())?;
    let told = Map::from_iter([("why".to_owned(), json!(why))]);
    let decide = |around: &WriteView<'_>| -> Result<Batch, Problem> {
        if around.since(Kind::McpGrant, gone.id, gone.version - 1).is_some_and(|row| row.deleted_at.is_some()) {
            return Ok(Batch::default());
        }
        let audit = vec![ChangeOrigin::of_visit(&visit.visit, doc.user).audit(Action::Delete, &gone, &told)];
        Ok(Batch { rows: vec![gone], audit, ..Batch::default() })
    };
    commit(app, seen, decide).await?;
    Ok(())
}
