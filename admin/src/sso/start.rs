//! The beginning of a sign-in: the browser is sent to the organisation's provider, with a ticket for the way back.

use super::issuer::known;
use super::ticket::{COOKIE, SECONDS, SignInTicket, is_local};
use crate::app::App;
use crate::cookies::set_cookie;
use crate::input::QueryString;
use crate::problem::{Problem, bad, internal, missing, unavailable_here};
use crate::route::{AdminReply, AdminRoute, MountPoint, Visit, guest};
use gateway_domain::id::OrgId;
use gateway_domain::snapshot::{Org, SavedSignOn};
use http::{Method, StatusCode, header};
use std::sync::Arc;

const PARAMETERS: &[&str] = &["return_to", "workspace_id"];

pub(super) fn routes() -> Vec<AdminRoute> {
    let route = guest(
        Method::GET,
        MountPoint::Api,
        "/sso/{id}/start",
        "Send a browser to the provider where people of an organisation sign in",
        start,
    );
    vec![route.asks(PARAMETERS)]
}

/// Where the provider sends browsers back to; it knows this address beforehand.
pub(super) fn redirect_uri(app: &App) -> Result<String, Problem> {
    let url = app.public_url.as_ref().ok_or_else(|| unavailable_here("sign-on needs --public-url on this node"))?;
    Ok(format!("{url}/v1/sso/callback"))
}

pub(super) fn settings(org: &Org) -> Result<Arc<SavedSignOn>, Problem> {
    org.sign_on.clone().ok_or_else(|| missing("sign-on"))
}

pub(super) fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~');
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// `a=b&c=d`, all of it encoded.
pub(super) fn form(pairs: &[(&str, &str)]) -> String {
    let one = |(name, value): &(&str, &str)| format!("{}={}", encoded(name), encoded(value));
    pairs.iter().map(one).collect::<Vec<_>>().join("&")
}

async fn start(visit: Visit) -> Result<AdminReply, Problem> {
    let app = &visit.app;
    let redirect = redirect_uri(app)?;
    let snapshot = app.live.snapshot();
    let name = visit.var("id");
    let org = match name.parse::<OrgId>() {
        Ok(id) => snapshot.org(id),
        Err(_) => snapshot.orgs().find(|org| &*org.slug == name),
    };
    // Who has no sign-on and who does not exist are answered alike.
    let org = org.ok_or_else(|| missing("sign-on"))?;
    let sign_on = settings(org)?;
    let known = known(app, &sign_on.settings.issuer, false).await?;
    let query = QueryString::parse(&visit.uri)?;
    let mut ticket = SignInTicket::new(app, org.id, &sign_on.settings.issuer);
    if let Some(path) = query.text("return_to") {
        if !is_local(path) {
            return Err(bad("return_to", "must be a path of this server"));
        }
        path.clone_into(&mut ticket.return_to);
    }
    if let Some(workspace) = query.text("workspace_id") {
        if workspace.len() > 255 {
            return Err(bad("workspace_id", "must be at most 255 bytes"));
        }
        ticket.workspace = Some(workspace.to_owned());
    }
    let (state, challenge) = (ticket.state.to_string(), ticket.challenge());
    let asked = form(&[
        ("response_type", "code"),
        ("client_id", sign_on.settings.client_id.as_str()),
        ("redirect_uri", redirect.as_str()),
        ("scope", "openid email profile"),
        ("state", state.as_str()),
        ("nonce", ticket.nonce.as_str()),
        ("code_challenge", challenge.as_str()),
        ("code_challenge_method", "S256"),
    ]);
    let endpoint = &known.metadata.authorization_endpoint;
    let joint = if endpoint.contains('?') { '&' } else { '?' };
    let sealed = ticket.seal(app).ok_or_else(|| internal("a ticket cannot be written"))?;
    Ok(AdminReply::nothing(StatusCode::SEE_OTHER)
        .with_header(header::LOCATION, format!("{endpoint}{joint}{asked}"))
        .cookie(set_cookie(COOKIE, &sealed, SECONDS)))
}
