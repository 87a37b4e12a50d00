//! Clients register by themselves (RFC 7591). Anybody may, so what is kept of one is little, there is a bound of them,
//! and one that nobody signs in with is forgotten.

use super::authorize_request::SCOPES;
use super::fault::OauthFault;
use super::known_client::{KnownClient, MOST_REDIRECTS, plain_name};
use super::redirect;
use super::request_context::OauthVisit;
use crate::reply::AdminReply;
use gateway_domain::ports::OauthClient;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;
use uuid::Uuid;

/// Clients that registered themselves, in the whole installation.
const MOST_CLIENTS: u64 = 10_000;
/// When there are that many, a client that registered so long ago and was never used makes room for the next.
const IDLE_MICROS: i64 = 3_600 * 1_000_000;

/// What is not listed is not read, as the RFC wants it.
#[derive(Deserialize)]
struct ClientMetadata {
    #[serde(default)]
    redirect_uris: Vec<String>,
    #[serde(default)]
    client_name: Option<String>,
    #[serde(default)]
    grant_types: Option<Vec<String>>,
    #[serde(default)]
    response_types: Option<Vec<String>>,
    #[serde(default)]
    scope: Option<String>,
}

pub(super) async fn serve(visit: OauthVisit) -> Result<AdminReply, OauthFault> {
    let (app, now) = (visit.app(), visit.visit.now);
    visit.desk.paces.register.pass(visit.visit.client, now)?;
    let wrong = |told: &str| OauthFault::bad("invalid_client_metadata", told);
    let read: Result<ClientMetadata, _> = serde_json::from_slice(&visit.visit.bytes);
    let read = read.map_err(|_| wrong("the body must be a JSON object of client metadata"))?;
    let redirects = read.redirect_uris;
    if redirects.is_empty() || redirects.len() > MOST_REDIRECTS {
        let told = format!("redirect_uris must hold 1..{MOST_REDIRECTS} addresses");
        return Err(OauthFault::bad("invalid_redirect_uri", told));
    }
    for uri in &redirects {
        redirect::check_redirect(uri)
            .map_err(|rule| OauthFault::bad("invalid_redirect_uri", format!("redirect_uris {rule}")))?;
    }
    let lacks =
        |given: &Option<Vec<String>>, wanted: &str| given.as_ref().is_some_and(|all| !all.iter().any(|g| g == wanted));
    if lacks(&read.grant_types, "authorization_code") || lacks(&read.response_types, "code") {
        return Err(wrong("grant_types must hold authorization_code, and response_types code"));
    }
    let name = plain_name(read.client_name.as_deref().unwrap_or_default());
    let asked = read.scope.unwrap_or_default();
    let known: Vec<&str> = asked.split_ascii_whitespace().filter(|name| SCOPES.contains(name)).collect();
    let scope = if known.is_empty() { SCOPES[0].to_owned() } else { known.join(" ") };
    let client = KnownClient { name, redirect_uris: redirects, vouched_by: None, made_in: None, scope: None };
    let new = OauthClient {
        id: Uuid::from_bytes(app.bytes()).to_string(),
        metadata: serde_json::to_string(&client).map_err(|_| OauthFault::internal())?,
        created_at: now,
    };
    let store = app.oauth.as_ref().ok_or_else(OauthFault::off)?;
    if !store.add_client(&new, MOST_CLIENTS, now.plus_micros(-IDLE_MICROS)).await? {
        return Err(OauthFault::busy("there are as many clients as there may be, try again later"));
    }
    let mut told = json!({
        "client_id": new.id,
        "client_id_issued_at": now.micros() / 1_000_000,
        "redirect_uris": client.redirect_uris,
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        // Whatever was asked for: no client is given a secret.
        "token_endpoint_auth_method": "none",
        "scope": scope,
    });
    if !client.name.is_empty() {
        told["client_name"] = client.name.into();
    }
    Ok(AdminReply::json(told).with_status(StatusCode::CREATED))
}
