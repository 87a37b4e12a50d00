//! The way back from the provider: the answer must be to what this browser started, and is taken once. The code is
//! exchanged for an id token, whose claims say who it is.

use super::client_assertion::{Asserted, AssertionKey, TYPE};
use super::id_token::{BadIdToken, Expected, claims};
use super::issuer::{KnownIssuer, known, post};
use super::person::admit;
use super::start::{encoded, form, redirect_uri, settings};
use super::ticket::{COOKIE, SignInTicket};
use crate::app::App;
use crate::cookies::{named_cookie, session_cookie, set_cookie};
use crate::input::QueryString;
use crate::problem::{Problem, busy, internal, unauthenticated};
use crate::route::{AdminReply, AdminRoute, MountPoint, Visit, guest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gateway_domain::denied_caller::{Stranger, TurnedAway, Unwelcome};
use gateway_domain::id::OrgId;
use gateway_domain::snapshot::SavedSignOn;
use http::{HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use serde_json::{Map, Value};

/// What providers add beside them (RFC 6749, 4.1.2; OpenID Connect Session Management) is taken and not read.
const PARAMETERS: &[&str] =
    &["code", "state", "iss", "error", "error_description", "error_uri", "session_state", "scope"];

pub(super) fn routes() -> Vec<AdminRoute> {
    let route = guest(
        Method::GET,
        MountPoint::Api,
        "/sso/callback",
        "Take a browser back from the provider, and begin a session",
        callback,
    );
    vec![route.asks(PARAMETERS)]
}

async fn callback(visit: Visit) -> Result<AdminReply, Problem> {
    let mut org = None;
    let done = finish(&visit, &mut org).await;
    if let Err(problem) = &done
        && problem.status.is_client_error()
    {
        let why = if problem.status == StatusCode::FORBIDDEN { Unwelcome::NoPlace } else { Unwelcome::BadToken };
        visit.app.door.note(TurnedAway {
            stranger: Stranger::with_token(why, org),
            at: visit.now,
            status: problem.status.as_u16(),
            message: problem.message.clone(),
            method: visit.method.to_string(),
            path: TurnedAway::short(visit.uri.path()),
            client: visit.client,
        });
    }
    done
}

fn refused(why: &str) -> Problem {
    unauthenticated(&format!("the sign-in was refused: {why}"))
}

async fn finish(visit: &Visit, org: &mut Option<OrgId>) -> Result<AdminReply, Problem> {
    let app = &visit.app;
    let query = QueryString::parse(&visit.uri)?;
    let ticket = named_cookie(&visit.headers, COOKIE).and_then(|text| SignInTicket::open(app, text, visit.now));
    let ticket = ticket.ok_or_else(|| refused("this browser has started none, or too long ago"))?;
    *org = Some(ticket.org);
    if query.text("state") != Some(&*ticket.state.to_string()) {
        return Err(refused("the answer is to another one"));
    }
    // Whoever brings it again, with whatever code, is not the one who started it.
    let first = app.claims.claim(&[ticket.state], visit.now).await?;
    if first.first() != Some(&visit.now) {
        return Err(refused("the answer was taken already"));
    }
    let snapshot = app.live.snapshot();
    let sign_on = settings(snapshot.org(ticket.org).ok_or_else(|| refused("the organisation is gone"))?)?;
    if sign_on.settings.issuer != ticket.issuer {
        return Err(refused("the settings have changed meanwhile"));
    }
    let provider = known(app, &ticket.issuer, false).await?;
    let iss = query.text("iss");
    if iss.is_some_and(|iss| iss != ticket.issuer)
        || iss.is_none() && provider.metadata.authorization_response_iss_parameter_supported
    {
        return Err(refused("the answer is of another provider"));
    }
    if query.text("error").is_some() {
        return Err(refused("the provider says no"));
    }
    let code = query.text("code").ok_or_else(|| refused("the answer holds no code"))?;
    let token = exchange(app, &sign_on, &provider, (code, ticket.verifier.as_str())).await?;
    let claims = verified(app, &sign_on, &provider, (token.as_str(), &ticket)).await?;
    let admitted = admit(visit, &sign_on.settings, &ticket, &claims).await?;
    let seconds = i64::from(sign_on.settings.session_seconds);
    Ok(AdminReply::nothing(StatusCode::SEE_OTHER)
        .with_header(header::LOCATION, ticket.return_to.clone())
        .cookie(session_cookie(&admitted.secret, seconds))
        .cookie(set_cookie(COOKIE, "", 0))
        .at(admitted.revision))
}

#[derive(Deserialize)]
struct TokenReply {
    id_token: String,
}

async fn exchange(
    app: &App,
    sign_on: &SavedSignOn,
    provider: &KnownIssuer,
    (code, verifier): (&str, &str),
) -> Result<String, Problem> {
    let redirect = redirect_uri(app)?;
    let client = &sign_on.settings.client_id;
    let mut pairs = vec![
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", redirect.as_str()),
        ("code_verifier", verifier),
    ];
    let methods = &provider.metadata.token_endpoint_auth_methods_supported;
    // Unless it says otherwise a provider takes the header (OpenID Connect Discovery 1.0, 3).
    let by_form = !methods.is_empty() && !methods.iter().any(|method| method == "client_secret_basic");
    let (mut basic, asserted) = (None, assertion(app, sign_on, &provider.metadata.token_endpoint)?);
    if let Some(asserted) = &asserted {
        pairs.extend([("client_id", client.as_str()), ("client_assertion_type", TYPE), ("client_assertion", asserted)]);
    }
    match sign_on.client_secret.as_ref().map(|secret| secret.expose().as_str()) {
        Some(secret) if by_form => pairs.extend([("client_id", client.as_str()), ("client_secret", secret)]),
        Some(secret) => {
            let both = STANDARD.encode(format!("{}:{}", encoded(client), encoded(secret)));
            let mut value =
                HeaderValue::try_from(format!("Basic {both}")).map_err(|_| refused("the client cannot be told"))?;
            value.set_sensitive(true);
            basic = Some(value);
        }
        None if asserted.is_some() => {}
        None => pairs.push(("client_id", client.as_str())),
    }
    let (status, body) = post(app, &provider.metadata.token_endpoint, form(&pairs), basic).await?;
    if status >= 500 {
        return Err(busy("the provider of this sign-on failed, try again"));
    }
    let read: Option<TokenReply> = serde_json::from_slice(&body).ok().filter(|_| status == 200);
    read.map(|reply| reply.id_token).ok_or_else(|| refused("the provider gives nothing for this code"))
}

/// What the client's key says in the place of a secret; `None`: it has none.
fn assertion(app: &App, sign_on: &SavedSignOn, audience: &str) -> Result<Option<String>, Problem> {
    let Some(pem) = &sign_on.client_private_key else { return Ok(None) };
    let settings = &sign_on.settings;
    let (id, certificate) = (settings.client_key_id.as_deref(), settings.client_certificate.as_deref());
    let key = AssertionKey { pem: pem.expose(), id, certificate };
    let said = Asserted { client_id: &settings.client_id, audience, id: app.id(), now: app.now() };
    key.sign(&said).map(Some).map_err(internal)
}

/// The claims; keys are fetched anew where nobody knows the one that signed.
async fn verified(
    app: &App,
    sign_on: &SavedSignOn,
    provider: &KnownIssuer,
    (token, ticket): (&str, &SignInTicket),
) -> Result<Map<String, Value>, Problem> {
    let expected = Expected {
        issuer: &ticket.issuer,
        client_id: &sign_on.settings.client_id,
        nonce: &ticket.nonce,
        now: app.now(),
    };
    let read = match claims(token, &provider.keys, &expected) {
        Err(BadIdToken::UnknownKey) => claims(token, &known(app, &ticket.issuer, true).await?.keys, &expected),
        read => read,
    };
    read.map_err(|why| match why {
        BadIdToken::UnknownKey => refused("the token is signed with a key that the provider does not name"),
        BadIdToken::Wrong(why) => refused(&format!("the token {why}")),
    })
}
