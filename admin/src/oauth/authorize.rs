//! A client sends somebody here to be allowed something (RFC 6749, 4.1.1, with PKCE and a resource). Whatever is wrong
//! is told on a page: a browser is sent nowhere before somebody has decided, since anybody could have named the place.

use super::access::resource;
use super::authorize_request::{AuthorizeAsk, SCOPES};
use super::fault::OauthFault;
use super::form::OauthForm;
use super::request_context::OauthVisit;
use super::ticket::{AuthorizeTicket, SignedBy};
use super::{browser, client, page, redirect, signer};
use crate::reply::AdminReply;
use gateway_domain::resource::mcp::check_server_slug;
use gateway_domain::token::McpGrant;

const LONGEST_QUERY: usize = 8 * 1024;
const LONGEST_STATE: usize = 900;

pub(super) async fn serve(visit: OauthVisit) -> Result<AdminReply, OauthFault> {
    visit.desk.paces.page.pass(visit.visit.client, visit.visit.now)?;
    if visit.visit.uri.query().is_some_and(|query| query.len() > LONGEST_QUERY) {
        return Err(OauthFault::request(format!("the query must be at most {LONGEST_QUERY} bytes")));
    }
    let form = OauthForm::of_query(&visit.visit)?;
    if !form.is_empty() {
        let ask = asked(&visit, &form).await?;
        let signed_by = signer::of_session(&visit).await?;
        return show(&visit, ask, signed_by);
    }
    // The way back from a sign-in at the organisation's provider.
    let ticket = browser::carried(&visit).and_then(|ticket| AuthorizeTicket::open(&visit, ticket));
    let ticket = ticket.ok_or_else(|| OauthFault::request("nothing is asked for here: begin in the app"))?;
    let signed_by = signer::of_session(&visit).await?;
    Ok(show(&visit, ticket.ask, signed_by)?.cookie(browser::carry_nothing()))
}

/// The page that comes next: to sign in, or to decide.
pub(super) fn show(
    visit: &OauthVisit,
    ask: AuthorizeAsk,
    signed_by: Option<SignedBy>,
) -> Result<AdminReply, OauthFault> {
    let snapshot = visit.app().live.snapshot();
    let signer = signed_by.and_then(|signed_by| signer::standing(&snapshot, signed_by, visit.visit.now));
    let browser = browser::of(visit);
    let places = signer.as_ref().map(|signer| signer.places(&snapshot, &ask)).unwrap_or_default();
    // Who may not use it is told so, and may be somebody else.
    let decides = signer.as_ref().filter(|_| !places.is_empty());
    let ticket = AuthorizeTicket::new(visit, &browser.digest, ask, signed_by.filter(|_| decides.is_some()));
    let sealed = ticket.seal(visit)?;
    let shown = page::PageFrame { ask: &ticket.ask, ticket: &sealed, action: visit.place("/oauth/authorize")? };
    let reply = match decides {
        Some(signer) => page::consent(&shown, &signer.person.email, &places),
        None => {
            let mut with_sign_on = snapshot.orgs().filter(|org| org.sign_on.is_some());
            let organisations = match (with_sign_on.next(), with_sign_on.next()) {
                (None, _) => page::SignOns::None,
                (Some(one), None) => page::SignOns::One(one.slug.to_string()),
                _ => page::SignOns::Several,
            };
            let note = signer.map(|signer| {
                format!("{} may use no server at this address. Sign in as somebody who may.", signer.person.email)
            });
            page::sign_in(&shown, &organisations, note.as_deref())
        }
    };
    Ok(browser.cookie.into_iter().fold(reply, AdminReply::cookie))
}

/// What the client asks for, in full and in order.
async fn asked(visit: &OauthVisit, form: &OauthForm) -> Result<AuthorizeAsk, OauthFault> {
    let client_id = form.required("client_id")?;
    let client = client::find(visit, client_id).await?;
    let client = client.ok_or_else(|| OauthFault::request("client_id names no client: it registers anew"))?;
    let redirect_uri = form.at_most("redirect_uri", redirect::LONGEST_REDIRECT)?;
    let redirect_uri = redirect_uri.ok_or_else(|| OauthFault::request("redirect_uri is required"))?;
    if !client.may_return_to(redirect_uri) {
        return Err(OauthFault::request("redirect_uri is none of those that the client has registered"));
    }
    if form.text("response_type") != Some("code") {
        return Err(OauthFault::request("response_type must be code"));
    }
    if form.text("response_mode").is_some_and(|mode| mode != "query") {
        return Err(OauthFault::request("response_mode must be query"));
    }
    let challenge = form.required("code_challenge")?;
    let is_digest = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    // A missing method would mean `plain` (RFC 7636, 4.3).
    if form.text("code_challenge_method") != Some("S256") || challenge.len() != 43 || !challenge.bytes().all(is_digest)
    {
        return Err(OauthFault::request("code_challenge must be a SHA-256 digest, with code_challenge_method=S256"));
    }
    let server = server_of(visit, form.required("resource")?)?;
    Ok(AuthorizeAsk {
        client_id: client_id.to_owned(),
        client_name: if client.name.is_empty() { "An app without a name".to_owned() } else { client.name },
        client_org: client.made_in,
        vouched_by: client.vouched_by,
        redirect_uri: redirect_uri.to_owned(),
        state: form.at_most("state", LONGEST_STATE)?.map(str::to_owned),
        challenge: challenge.to_owned(),
        server,
        scope: within(scope(form.text("scope"))?, client.scope.as_deref()),
    })
}

/// Those that there are, as they were asked for. A client that asks for none means all.
fn scope(asked: Option<&str>) -> Result<String, OauthFault> {
    let Some(asked) = asked else { return Ok(SCOPES[0].to_owned()) };
    let mut known: Vec<&str> = Vec::new();
    for name in asked.split_ascii_whitespace().filter(|name| SCOPES.contains(name)) {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    if known.is_empty() {
        return Err(OauthFault::bad("invalid_scope", "scope holds none of mcp, mcp:read and mcp:write"));
    }
    Ok(known.join(" "))
}

/// No more than a client may ask for: what is beyond it is left out, and where nothing is left it is all that it may
/// (RFC 6749, 3.3).
fn within(asked: String, most: Option<&str>) -> String {
    let Some(most) = most else { return asked };
    let may = McpGrant::read(most);
    let covered = |name: &&str| {
        let wants = McpGrant::read(name);
        (may.reads || !wants.reads) && (may.writes || !wants.writes)
    };
    let left: Vec<&str> = asked.split(' ').filter(covered).collect();
    if left.is_empty() { most.to_owned() } else { left.join(" ") }
}

/// The server that an address is of: exactly as its own document has it (RFC 8707, 2).
pub(super) fn server_of(visit: &OauthVisit, asked: &str) -> Result<String, OauthFault> {
    let issuer = visit.issuer()?;
    let slug = asked.strip_prefix(issuer).and_then(|rest| rest.strip_prefix('/')?.strip_suffix("/mcp"));
    let slug = slug.filter(|slug| check_server_slug(slug).is_ok() && resource(issuer, slug) == asked);
    let told = "resource must be the address of an MCP server here, as its metadata has it";
    slug.map(str::to_owned).ok_or_else(|| OauthFault::bad("invalid_target", told))
}

#[cfg(test)]
mod tests {
    use super::{scope, within};

    #[test]
    fn a_client_gets_no_more_than_it_may_ask_for() {
        let of = |asked: &str, most: Option<&str>| within(asked.to_owned(), most);
        assert_eq!((of("mcp", None), of("mcp", Some("mcp"))), ("mcp".to_owned(), "mcp".to_owned()));
        assert_eq!(of("mcp:read mcp:write", Some("mcp:read")), "mcp:read");
        assert_eq!(of("mcp", Some("mcp:read")), "mcp:read");
    }

    #[test]
    fn what_is_asked_for_is_what_there_is() {
        assert_eq!(scope(None).as_deref(), Ok("mcp"));
        assert_eq!(scope(Some("openid mcp:read offline_access mcp:read")).as_deref(), Ok("mcp:read"));
        assert_eq!(scope(Some("mcp mcp:read mcp:write")).as_deref(), Ok("mcp mcp:read mcp:write"));
        assert!(scope(Some("openid")).is_err());
    }
}
