//! Where an MCP server has people sign in: its own document (RFC 9728) names an authorisation server, and that one's
//! document (RFC 8414, or OpenID's discovery) its endpoints. Each is believed for itself alone: a document that speaks
//! for somebody else is none. Everything is fetched by the checked dialler, and no redirect is followed.

use crate::app::App;
use crate::sso::check_address;
use bytes::Bytes;
use gateway_domain::ports::{OutsideCall, OutsideReply};
use gateway_mcp::challenge::BearerChallenge;
use gateway_mcp::{McpVersion, bridge};
use http::{HeaderName, HeaderValue, Method, header};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;
use url::Url;

const WITHIN: Duration = Duration::from_secs(5);
const MOST_REPLY: usize = 256 * 1024;
const LONGEST_ADDRESS: usize = 600;
const LONGEST_SCOPE: usize = 600;

/// An authorisation server, and what it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AccountIssuer {
    /// Exactly as it calls itself.
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: String,
    pub(crate) token_endpoint: String,
    pub(crate) revocation_endpoint: Option<String>,
    pub(crate) registration_endpoint: Option<String>,
    /// Whether a document at an address may be a client.
    pub(crate) takes_documents: bool,
    /// Whether its answers name it (RFC 9207).
    pub(crate) names_itself: bool,
    /// How clients may prove themselves at its token endpoint.
    pub(crate) methods: Vec<String>,
    /// The server that tokens are for, as it calls itself.
    pub(crate) resource: String,
    pub(crate) scope: Option<String>,
}

#[derive(Deserialize)]
struct ResourceDocument {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct IssuerDocument {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    #[serde(default)]
    revocation_endpoint: Option<String>,
    #[serde(default)]
    registration_endpoint: Option<String>,
    #[serde(default)]
    code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    #[serde(default)]
    client_id_metadata_document_supported: bool,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

/// Why somebody is sent to a sign-in who may have an account already.
#[derive(Clone, Copy, Default)]
pub(crate) struct SignInWish<'a> {
    /// Scopes that a call lacked, in place of what the server asks for by itself; empty: it did not say which.
    pub(crate) lacked: Option<&'a str>,
    pub(crate) before: Option<AskedBefore<'a>>,
}

/// What the person was sent for before, and where.
#[derive(Clone, Copy)]
pub(crate) struct AskedBefore<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) scope: &'a str,
}

/// `Err`: the rest of a sentence.
pub(crate) async fn discover(app: &App, server: &str, wish: SignInWish<'_>) -> Result<AccountIssuer, String> {
    let at = Url::parse(server).map_err(|_| "its address cannot be read".to_owned())?;
    let challenge = challenge(app, server).await.unwrap_or_default();
    let document = resource_document(app, &at, &challenge).await?;
    let (resource, named, listed) = match document {
        Some(document) => (document.resource, document.authorization_servers, document.scopes_supported),
        // Servers of 2025-03-26 have no such document: they sign people in themselves.
        None => (server.to_owned(), vec![at.origin().ascii_serialization()], None),
    };
    let issuer = named.into_iter().next().ok_or("its document names no authorisation server")?;
    let found = issuer_document(app, &issuer).await?;
    let lacked = wish.lacked.filter(|lacked| !lacked.is_empty()).map(str::to_owned);
    let scope = lacked.or(challenge.scope).or_else(|| listed.map(|all| all.join(" ")));
    // What was asked for before is asked for again: else a token for one call would be none for another. Of another
    // issuer it means nothing.
    let before = wish.before.filter(|before| wish.lacked.is_some() && before.issuer == found.issuer);
    let scope = match before {
        Some(before) => Some(joined(before.scope, scope.as_deref().unwrap_or_default())),
        None => scope,
    };
    checked(app, found, resource, scope.as_deref())
}

fn joined(before: &str, scope: &str) -> String {
    let mut words: Vec<&str> = before.split_ascii_whitespace().collect();
    words.extend(scope.split_ascii_whitespace().filter(|word| !before.split_ascii_whitespace().any(|b| b == *word)));
    words.join(" ")
}

/// What a call without a token is told. Some servers open for everybody, and ask for a token where something is listed.
async fn challenge(app: &App, server: &str) -> Option<BearerChallenge> {
    let of = |reply: &OutsideReply| {
        let values = reply.headers.get_all(header::WWW_AUTHENTICATE).iter();
        BearerChallenge::read(values.filter_map(|value| value.to_str().ok()))
    };
    let params = bridge::initialize_params(McpVersion::NEWEST_LEGACY);
    let opened = unsigned(app, server, ("initialize", params), Vec::new()).await?;
    if let Some(told) = of(&opened) {
        return Some(told);
    }
    let mut headers = Vec::new();
    let version = if opened.status == 200 { McpVersion::NEWEST_LEGACY } else { McpVersion::V2026_07_28 };
    headers.push((HeaderName::from_static("mcp-protocol-version"), HeaderValue::from_static(version.name())));
    let params = match version {
        McpVersion::V2026_07_28 => {
            headers.push((HeaderName::from_static("mcp-method"), HeaderValue::from_static("tools/list")));
            serde_json::from_str(&bridge::to_modern(None)).unwrap_or_default()
        }
        _ => json!({}),
    };
    let session = opened.headers.get("mcp-session-id").cloned();
    let session = session.map(|id| (HeaderName::from_static("mcp-session-id"), id));
    headers.extend(session.clone());
    let told = unsigned(app, server, ("tools/list", params), headers).await.as_ref().and_then(of);
    if let Some(session) = session {
        let call = asking(Method::DELETE, server, vec![session], Bytes::new());
        // Whether the server minds is its own matter.
        let _ = app.outside.as_ref()?.call(call).await;
    }
    told
}

async fn unsigned(
    app: &App,
    server: &str,
    (method, params): (&str, Value),
    mut headers: Vec<(HeaderName, HeaderValue)>,
) -> Option<OutsideReply> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    headers.push((header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream")));
    headers.push((header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
    app.outside.as_ref()?.call(asking(Method::POST, server, headers, Bytes::from(body))).await.ok()
}

fn asking(method: Method, server: &str, headers: Vec<(HeaderName, HeaderValue)>, body: Bytes) -> OutsideCall {
    let (url, within, most_reply) = (server.to_owned(), WITHIN, MOST_REPLY);
    OutsideCall { method, url, headers, body, within, most_reply, redirects: 0 }
}

/// `None`: the server has none.
async fn resource_document(
    app: &App,
    server: &Url,
    challenge: &BearerChallenge,
) -> Result<Option<ResourceDocument>, String> {
    const NAME: &str = "/.well-known/oauth-protected-resource";
    let origin = server.origin().ascii_serialization();
    let path = server.path().trim_end_matches('/');
    let places = match &challenge.resource_metadata {
        Some(named) => vec![named.clone()],
        None if path.is_empty() => vec![format!("{origin}{NAME}")],
        None => vec![format!("{origin}{NAME}{path}"), format!("{origin}{NAME}")],
    };
    for place in places {
        let Some(document) = fetch::<ResourceDocument>(app, &place).await? else { continue };
        if !covers(&document.resource, server) {
            return Err("its document is about another server".to_owned());
        }
        return Ok(Some(document));
    }
    match challenge.resource_metadata {
        Some(_) => Err("the document that it names is not there".to_owned()),
        None => Ok(None),
    }
}

/// Whether a document about `resource` is about the server at this address: it is it, or lies above it at the same
/// host.
fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let above = resource.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(above);
    resource.origin() == server.origin()
        && resource.origin().is_tuple()
        && resource.fragment().is_none()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        && (resource.query().is_none() || resource.query() == server.query())
}

async fn issuer_document(app: &App, issuer: &str) -> Result<IssuerDocument, String> {
    check(app, issuer).map_err(|why| format!("its document names an address that {why}"))?;
    let url = Url::parse(issuer).map_err(|_| "its authorisation server has no address".to_owned())?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err("its authorisation server has an address with a query".to_owned());
    }
    let (origin, path) = (url.origin().ascii_serialization(), url.path().trim_end_matches('/'));
    let mut places = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    for place in places {
        let Some(document) = fetch::<IssuerDocument>(app, &place).await? else { continue };
        // Else one could speak for another (RFC 8414, 3.3). An origin may be written with a slash or without.
        let is_bare = path.is_empty() && document.issuer.trim_end_matches('/') == issuer.trim_end_matches('/');
        if document.issuer != issuer && !is_bare {
            return Err("its authorisation server calls itself otherwise".to_owned());
        }
        return Ok(document);
    }
    Err("its authorisation server says nothing of itself".to_owned())
}

fn checked(app: &App, found: IssuerDocument, resource: String, scope: Option<&str>) -> Result<AccountIssuer, String> {
    // Without PKCE a code that is caught on its way is as good as a token; `plain` protects nothing.
    if !found.code_challenge_methods_supported.iter().any(|method| method == "S256") {
        return Err("its authorisation server does not take proof of who asked (PKCE with S256)".to_owned());
    }
    let optional = [found.revocation_endpoint.as_ref(), found.registration_endpoint.as_ref()];
    let needed = [Some(&found.issuer), Some(&found.authorization_endpoint), Some(&found.token_endpoint)];
    for url in needed.into_iter().chain(optional).flatten() {
        check(app, url).map_err(|why| format!("its authorisation server names an address that {why}"))?;
    }
    if resource.len() > LONGEST_ADDRESS {
        return Err("its document names too long an address".to_owned());
    }
    Ok(AccountIssuer {
        scope: asked_scope(scope, &found.scopes_supported),
        issuer: found.issuer,
        authorization_endpoint: found.authorization_endpoint,
        token_endpoint: found.token_endpoint,
        revocation_endpoint: found.revocation_endpoint,
        registration_endpoint: found.registration_endpoint,
        takes_documents: found.client_id_metadata_document_supported,
        names_itself: found.authorization_response_iss_parameter_supported,
        methods: found.token_endpoint_auth_methods_supported,
        resource,
    })
}

/// An address where a browser or a secret is sent.
fn check(app: &App, url: &str) -> Result<(), &'static str> {
    let is_plain = url.len() <= LONGEST_ADDRESS && url.bytes().all(|b| b.is_ascii_graphic()) && !url.contains('#');
    if !is_plain {
        return Err("is too long or not written plainly");
    }
    check_address(url.split('?').next().unwrap_or(url), &app.trusted)
}

/// What is asked for, in words that may stand in a request (RFC 6749, 3.3), and with it that tokens can be renewed
/// where the server has a word for that.
fn asked_scope(scope: Option<&str>, known: &[String]) -> Option<String> {
    const RENEWED: &str = "offline_access";
    let plain = |word: &&str| word.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\'));
    let mut words: Vec<&str> = scope.unwrap_or_default().split_ascii_whitespace().filter(plain).collect();
    if known.iter().any(|name| name == RENEWED) && !words.contains(&RENEWED) {
        words.push(RENEWED);
    }
    let mut asked = String::new();
    for word in words {
        if asked.len() + word.len() >= LONGEST_SCOPE {
            break;
        }
        if !asked.is_empty() {
            asked.push(' ');
        }
        asked.push_str(word);
    }
    (!asked.is_empty()).then_some(asked)
}

/// `None`: there is nothing at this address.
async fn fetch<T: DeserializeOwned>(app: &App, url: &str) -> Result<Option<T>, String> {
    check(app, url).map_err(|why| format!("it names an address that {why}"))?;
    let version = HeaderValue::from_static(McpVersion::NEWEST_LEGACY.name());
    let headers = vec![
        (header::ACCEPT, HeaderValue::from_static("application/json")),
        (HeaderName::from_static("mcp-protocol-version"), version),
    ];
    let call = OutsideCall {
        method: Method::GET,
        url: url.to_owned(),
        headers,
        body: Bytes::new(),
        within: WITHIN,
        most_reply: MOST_REPLY,
        redirects: 0,
    };
    let outside = app.outside.as_ref().ok_or("this process asks no servers")?;
    // What the network said is for the operator: a tenant must not learn from it what stands where.
    let reply = outside.call(call).await.map_err(|why| {
        tracing::info!(%why, "a document of an MCP server's sign-in cannot be fetched");
        "a document of its sign-in cannot be fetched".to_owned()
    })?;
    match reply.status {
        200 => serde_json::from_slice(&reply.body)
            .map(Some)
            .map_err(|_| "a document of its sign-in cannot be read".to_owned()),
        500.. => Err("a document of its sign-in cannot be fetched".to_owned()),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_speaks_for_its_own_server() {
        let server = Url::parse("https://mcp.example.com/team/mcp").expect("a URL");
        for good in [
            "https://mcp.example.com/team/mcp",
            "https://mcp.example.com/team/mcp/",
            "https://mcp.example.com/team",
            "https://mcp.example.com",
            "https://mcp.example.com/",
        ] {
            assert!(covers(good, &server), "{good}");
        }
        for bad in [
            "https://other.example.com/team/mcp",
            "http://mcp.example.com/team/mcp",
            "https://mcp.example.com:8443/team/mcp",
            "https://mcp.example.com/tea",
            "https://mcp.example.com/team/mcp/more",
            "https://mcp.example.com/team/mcp#x",
            "https://mcp.example.com.evil.example/team/mcp",
            "mcp.example.com",
            "data:x",
            "",
        ] {
            assert!(!covers(bad, &server), "{bad}");
        }
    }

    #[test]
    fn what_was_asked_for_before_is_asked_for_again() {
        assert_eq!(joined("a b", "b c"), "a b c");
        assert_eq!((joined("a", "").as_str(), joined("", "a").as_str()), ("a", "a"));
    }

    #[test]
    fn scopes_are_plain_words_within_a_bound() {
        assert_eq!(asked_scope(Some("a  b\u{e9} c\"d e"), &[]).as_deref(), Some("a e"));
        assert_eq!(asked_scope(None, &[]), None);
        let renewed = ["offline_access".to_owned()];
        assert_eq!(asked_scope(Some("a"), &renewed).as_deref(), Some("a offline_access"));
        assert_eq!(asked_scope(Some("offline_access"), &renewed).as_deref(), Some("offline_access"));
        assert!(asked_scope(Some(&"word ".repeat(1000)), &[]).expect("some").len() <= LONGEST_SCOPE);
    }
}
