//! Somebody connects an account of theirs at an MCP server (GET and POST below `/oauth/connect/`). The link that led
//! here says for whom it is: only that person, signed in here, is shown the button, and only behind the button the
//! browser leaves for the server's own sign-in. What comes back is read by [`super::connect_callback`].

use super::browser;
use super::connect_page::{self, ConnectShown};
use super::fault::OauthFault;
use super::form::OauthForm;
use super::request_context::OauthVisit;
use super::signer::{self, Signer};
use super::ticket::SignedBy;
use crate::app::App;
use crate::mcp_account::{
    AccountClient, AccountIssuer, AskedBefore, ConnectLink, HeldTokens, SignInWish, client_at, discover, redirect_uri,
};
use crate::reply::AdminReply;
use crate::seal;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gateway_domain::ports::McpAccountId;
use gateway_domain::resource::outbound::OutboundAuth;
use gateway_domain::snapshot::{McpUpstream, Snapshot};
use gateway_domain::time::Timestamp;
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use url::form_urlencoded::Serializer;
use uuid::Uuid;

const PAGE: &str = "mcp connect page";
const FLOW: &str = "mcp connect flow";
const LASTS_MICROS: i64 = 600 * 1_000_000;

/// What the page carries to its button.
#[derive(Serialize, Deserialize)]
struct ConnectPage {
    id: Uuid,
    browser: String,
    /// The text of the link, so that the page of one link serves no other.
    link: String,
    signed_by: Option<SignedBy>,
    at: Option<AccountIssuer>,
    until: Timestamp,
}

/// What the browser carries to the server's sign-in and back.
#[derive(Serialize, Deserialize)]
pub(super) struct ConnectFlow {
    /// Also the `state`, good for one answer.
    pub(super) id: Uuid,
    browser: String,
    pub(super) link: ConnectLink,
    pub(super) signed_by: SignedBy,
    /// The server's address when it began.
    pub(super) server: String,
    pub(super) at: AccountIssuer,
    pub(super) client: AccountClient,
    /// The code verifier of PKCE.
    pub(super) verifier: String,
    until: Timestamp,
}

impl ConnectFlow {
    /// `None`: none was begun here, it is over, or it is another browser's.
    pub(super) fn open(visit: &OauthVisit) -> Option<Self> {
        let flow: Self = seal::open(visit.app(), FLOW, browser::carried_away(visit)?)?;
        let is_theirs = browser::known(visit).is_some_and(|browser| browser == flow.browser);
        (is_theirs && flow.until > visit.visit.now).then_some(flow)
    }
}

fn over() -> OauthFault {
    OauthFault::forbidden("this link is over: ask in the app for a new one")
}

pub(super) fn public(visit: &OauthVisit) -> Result<&str, OauthFault> {
    visit.app().public_url.as_deref().ok_or_else(OauthFault::off)
}

/// The link that the path ends in, as it is written there.
fn link_of(visit: &OauthVisit) -> Result<(String, ConnectLink), OauthFault> {
    let text = visit.visit.uri.path().rsplit('/').next().unwrap_or_default();
    let link = ConnectLink::open(visit.app(), text).ok_or_else(over)?;
    Ok((text.to_owned(), link))
}

/// The integration that a link is for, if it is still one where people have accounts.
pub(super) fn upstream_of(snapshot: &Snapshot, link: &ConnectLink) -> Result<Arc<McpUpstream>, OauthFault> {
    let found = snapshot.mcp_upstream(link.integration).filter(|upstream| upstream.org == link.org);
    let open = found.filter(|upstream| upstream.auth == OutboundAuth::OauthAuto && upstream.open_to(link.workspace));
    open.cloned().ok_or_else(over)
}

/// The account that the link's person has by now.
pub(super) async fn held_before(app: &App, link: &ConnectLink) -> Result<Option<HeldTokens>, OauthFault> {
    let id = McpAccountId { integration: link.integration, user: link.user };
    let row = app.accounts.account(id).await?.filter(|row| row.is_connected() && row.org == link.org);
    Ok(row.and_then(|row| HeldTokens::open(app, &row)))
}

/// The person that a link is for, if it is they who signed in and may use servers of this workspace.
pub(super) fn person_of(
    visit: &OauthVisit,
    snapshot: &Snapshot,
    link: &ConnectLink,
    signed_by: SignedBy,
) -> Option<Signer> {
    let signer = signer::standing(snapshot, signed_by, visit.visit.now)?;
    let workspace = snapshot.workspace(link.workspace).filter(|workspace| workspace.active)?;
    let is_theirs = signer.person.id == link.user && signer.person.org == link.org;
    (is_theirs && snapshot.standing(link.user, workspace).is_some()).then_some(signer)
}

pub(super) async fn serve(visit: OauthVisit) -> Result<AdminReply, OauthFault> {
    visit.desk.paces.page.pass(visit.visit.client, visit.visit.now)?;
    let (text, link) = link_of(&visit)?;
    let signed_by = signer::of_session(&visit).await?;
    show(&visit, &text, &link, signed_by).await
}

/// The page that comes next: to sign in, or to decide.
async fn show(
    visit: &OauthVisit,
    text: &str,
    link: &ConnectLink,
    signed_by: Option<SignedBy>,
) -> Result<AdminReply, OauthFault> {
    let snapshot = visit.app().live.snapshot();
    let upstream = upstream_of(&snapshot, link)?;
    let person = signed_by.and_then(|signed_by| person_of(visit, &snapshot, link, signed_by));
    let found = match &person {
        Some(_) => {
            visit.desk.paces.fetch.pass(visit.visit.client, visit.visit.now)?;
            let before = held_before(visit.app(), link).await?.filter(|held| *held.server == *upstream.url);
            let asked = |held| HeldTokens::asked_scope(held).map(|scope| AskedBefore { issuer: &held.issuer, scope });
            let wish = SignInWish { lacked: link.scope.as_deref(), before: before.as_ref().and_then(asked) };
            let found = discover(visit.app(), &upstream.url, wish).await;
            Some(found.map_err(|why| OauthFault::bad_server(format!("the MCP server cannot be connected: {why}")))?)
        }
        None => None,
    };
    let browser = browser::of(visit);
    let host = found.as_ref().map(|at| host_of(&at.authorization_endpoint));
    let page = ConnectPage {
        id: Uuid::from_bytes(visit.app().bytes()),
        browser: browser.digest.clone(),
        link: text.to_owned(),
        signed_by: signed_by.filter(|_| person.is_some()),
        at: found,
        until: visit.visit.now.plus_micros(LASTS_MICROS),
    };
    let sealed = seal::seal(visit.app(), PAGE, &page).ok_or_else(OauthFault::internal)?;
    let action = format!("{}/oauth/connect/{text}", public(visit)?);
    let shown = ConnectShown { server: &upstream.slug, ticket: &sealed, action };
    let reply = match (&person, host) {
        (Some(signer), Some(host)) => connect_page::consent(&shown, &signer.person.email, &host),
        _ => {
            let another = signed_by.is_some().then_some("This link is for another person than the one signed in here.");
            let org = snapshot.org(link.org).filter(|org| org.sign_on.is_some());
            connect_page::sign_in(&shown, org.map(|org| &*org.slug), another)
        }
    };
    Ok(browser.cookie.into_iter().fold(reply, AdminReply::cookie))
}

pub(super) async fn decide(visit: OauthVisit) -> Result<AdminReply, OauthFault> {
    browser::check_own_page(&visit)?;
    let pace = &visit.desk.paces.failed_sign_in;
    pace.check(visit.visit.client, visit.visit.now)?;
    let (text, link) = link_of(&visit)?;
    let form = OauthForm::of_body(&visit.visit)?;
    let page = form.text("ticket").and_then(|ticket| opened(&visit, ticket, &text));
    let Some(page) = page else {
        pace.count(visit.visit.client, visit.visit.now);
        return Err(OauthFault::forbidden("this page is over, or another browser's: open the link again"));
    };
    match form.text("step") {
        Some("key") => by_key(&visit, &form, (&text, &link)).await,
        Some("organisation") => elsewhere(&visit, (&text, &link)),
        Some("connect") => leave(&visit, link, page).await,
        _ => Err(OauthFault::request("step must be one of the page's buttons")),
    }
}

fn opened(visit: &OauthVisit, ticket: &str, link: &str) -> Option<ConnectPage> {
    let page: ConnectPage = seal::open(visit.app(), PAGE, ticket)?;
    let is_theirs = browser::known(visit).is_some_and(|browser| browser == page.browser);
    (is_theirs && page.until > visit.visit.now && page.link == link).then_some(page)
}

async fn by_key(visit: &OauthVisit, form: &OauthForm, link: (&str, &ConnectLink)) -> Result<AdminReply, OauthFault> {
    let signed_by = signer::of_typed(visit, form, "/oauth/connect".to_owned())?;
    show(visit, link.0, link.1, Some(signed_by)).await
}

/// Sends the browser to the provider of the organisation, which leads it back to the link with a session.
fn elsewhere(visit: &OauthVisit, (text, link): (&str, &ConnectLink)) -> Result<AdminReply, OauthFault> {
    let snapshot = visit.app().live.snapshot();
    let org = snapshot.org(link.org).filter(|org| org.sign_on.is_some());
    let org = org.ok_or_else(|| OauthFault::request("the organisation has no provider where people sign in"))?;
    let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let public = public(visit)?;
    let base = public.splitn(4, '/').nth(3).map(|base| format!("/{base}")).unwrap_or_default();
    let back = encode(&format!("{base}/oauth/connect/{text}"));
    let start = format!("{public}/v1/sso/{}/start?return_to={back}", encode(&org.slug));
    Ok(AdminReply::nothing(StatusCode::SEE_OTHER).with_header(header::LOCATION, start))
}

/// Sends the browser to the server's own sign-in.
async fn leave(visit: &OauthVisit, link: ConnectLink, page: ConnectPage) -> Result<AdminReply, OauthFault> {
    let (app, now) = (visit.app(), visit.visit.now);
    let snapshot = app.live.snapshot();
    let upstream = upstream_of(&snapshot, &link)?;
    let signed_by = page.signed_by.filter(|by| person_of(visit, &snapshot, &link, *by).is_some());
    let (Some(signed_by), Some(at)) = (signed_by, page.at) else {
        return Err(OauthFault::forbidden("you are not signed in any more: open the link again"));
    };
    if app.claims.claim(&[page.id], now).await?.first() != Some(&now) {
        return Err(OauthFault::forbidden("this page was decided on already: open the link again"));
    }
    let public = public(visit)?;
    let client = client_at(app, link.org, &at, public, upstream.known_client.as_ref()).await;
    let client = client.map_err(|why| OauthFault::bad_server(format!("the MCP server cannot be connected: {why}")))?;
    let flow = ConnectFlow {
        id: Uuid::from_bytes(app.bytes()),
        browser: page.browser,
        link,
        signed_by,
        server: upstream.url.to_string(),
        at,
        client,
        verifier: URL_SAFE_NO_PAD.encode(app.bytes::<32>()),
        until: now.plus_micros(LASTS_MICROS),
    };
    let location = location(&flow, public);
    let sealed = seal::seal(app, FLOW, &flow).ok_or_else(OauthFault::internal)?;
    let carried = browser::carry_away(&sealed)?;
    Ok(AdminReply::nothing(StatusCode::SEE_OTHER).with_header(header::LOCATION, location).cookie(carried))
}

/// A request for authorisation (RFC 6749, 4.1.1; RFC 7636, 4.3; RFC 8707, 2.1).
fn location(flow: &ConnectFlow, public: &str) -> String {
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(flow.verifier.as_bytes()));
    let mut query = Serializer::new(String::new());
    query
        .append_pair("response_type", "code")
        .append_pair("client_id", &flow.client.id)
        .append_pair("redirect_uri", &redirect_uri(public))
        .append_pair("state", &flow.id.to_string())
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256")
        .append_pair("resource", &flow.at.resource);
    if let Some(scope) = &flow.at.scope {
        query.append_pair("scope", scope);
        // Without this prompt, servers of OpenID give nothing that renews (OpenID Connect Core 1.0, 11).
        if scope.split(' ').any(|word| word == "offline_access") {
            query.append_pair("prompt", "consent");
        }
    }
    let endpoint = &flow.at.authorization_endpoint;
    let joint = if endpoint.contains('?') { '&' } else { '?' };
    format!("{endpoint}{joint}{}", query.finish())
}

fn host_of(url: &str) -> String {
    url::Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}
