//! The gateway as a client of somebody else's authorisation server: by the address of a document of its own where such
//! clients are taken, else registered there (RFC 7591), once for all people of an organisation.

use super::issuer::AccountIssuer;
use crate::app::App;
use bytes::Bytes;
use gateway_domain::id::OrgId;
use gateway_domain::ports::{McpServerClient, OutsideCall};
use gateway_domain::resource::mcp_sign_in::McpKnownClient;
use http::{HeaderValue, Method, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(5);
const MOST_REPLY: usize = 64 * 1024;
const LONGEST: usize = 600;
/// Registrations of an organisation; the oldest make room.
const MOST_CLIENTS: u64 = 500;
/// A secret that ends sooner is asked for anew.
const AHEAD_SECONDS: i64 = 3_600;

/// Who asks at a token endpoint, and how that is proven.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AccountClient {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
    pub(crate) method: ClientProof,
    /// Seconds since 1970, where the secret has an end.
    #[serde(default)]
    pub(crate) until: Option<i64>,
    /// Where people are sent back to: another address is another client.
    #[serde(default)]
    pub(crate) redirect: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClientProof {
    /// PKCE alone.
    None,
    ClientSecretBasic,
    ClientSecretPost,
}

impl ClientProof {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
        }
    }

    /// The first that a server takes; one that says nothing takes the header (RFC 8414, 2).
    fn of(methods: &[String]) -> Option<Self> {
        let all = [Self::None, Self::ClientSecretBasic, Self::ClientSecretPost];
        if methods.is_empty() {
            return Some(Self::ClientSecretBasic);
        }
        all.into_iter().find(|proof| methods.iter().any(|method| method == proof.name()))
    }
}

pub(crate) fn redirect_uri(public: &str) -> String {
    format!("{public}/oauth/upstream-callback")
}

fn document_address(public: &str) -> String {
    format!("{public}/oauth/client.json")
}

fn registration(public: &str) -> Value {
    // What may come back over plain HTTP is on the same machine (OpenID Connect Dynamic Client Registration 1.0,
    // section 2).
    let kind = if public.starts_with("https://") { "web" } else { "native" };
    json!({
        "application_type": kind,
        "client_name": "AI gateway",
        "redirect_uris": [redirect_uri(public)],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": ClientProof::None.name(),
    })
}

/// What stands at the address that is the gateway's name where documents are taken.
pub(crate) fn client_document(public: &str) -> Value {
    let mut document = registration(public);
    document["client_id"] = json!(document_address(public));
    document["client_uri"] = json!(public);
    document
}

/// `Err`: the rest of a sentence.
pub(crate) async fn client_at(
    app: &App,
    org: OrgId,
    at: &AccountIssuer,
    public: &str,
    known: Option<&McpKnownClient>,
) -> Result<AccountClient, String> {
    let redirect = redirect_uri(public);
    if let Some(known) = known {
        return known_at(app, at, known, redirect);
    }
    let takes_none = at.methods.is_empty() || at.methods.iter().any(|method| method == ClientProof::None.name());
    if at.takes_documents && takes_none && public.starts_with("https://") {
        let (id, method) = (document_address(public), ClientProof::None);
        return Ok(AccountClient { id, secret: None, method, until: None, redirect });
    }
    let away = |_| "what the gateway registered as cannot be read now".to_owned();
    let stored = app.accounts.server_client(org, &at.issuer).await.map_err(away)?;
    let opened = stored.and_then(|client| app.vault.open(&client.sealed).ok());
    let known: Option<AccountClient> = opened.and_then(|plain| serde_json::from_str(plain.expose()).ok());
    let now = app.now().micros() / 1_000_000;
    let is_good = |client: &AccountClient| {
        client.redirect == redirect && client.until.is_none_or(|until| until > now + AHEAD_SECONDS)
    };
    if let Some(client) = known.filter(is_good) {
        return Ok(client);
    }
    let client = register(app, at, (public, redirect)).await?;
    let plain = serde_json::to_string(&client).map_err(|_| "its registration cannot be kept".to_owned())?;
    let row = McpServerClient { org, issuer: at.issuer.clone(), sealed: app.vault.seal(&plain) };
    app.accounts.keep_server_client(&row, app.now(), MOST_CLIENTS).await.map_err(away)?;
    Ok(client)
}

/// The client that somebody made there. What it proves itself with goes to its own issuer alone.
fn known_at(app: &App, at: &AccountIssuer, known: &McpKnownClient, redirect: String) -> Result<AccountClient, String> {
    if !known.is_of(&at.issuer) {
        return Err("its authorisation server is not the one where the gateway's client was made".to_owned());
    }
    let takes = |proof: &ClientProof| at.methods.is_empty() || at.methods.iter().any(|method| method == proof.name());
    let (secret, method) = match &known.client_secret {
        None => (None, ClientProof::None),
        Some(sealed) => {
            let opened = app.vault.open(sealed).map_err(|_| "the client's secret cannot be read".to_owned())?;
            let method = [ClientProof::ClientSecretBasic, ClientProof::ClientSecretPost].into_iter().find(takes);
            let method = method.ok_or("its authorisation server takes no secret of a client")?;
            (Some(opened.expose().clone()), method)
        }
    };
    Ok(AccountClient { id: known.client_id.clone(), secret, method, until: None, redirect })
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
    #[serde(default)]
    client_secret_expires_at: Option<i64>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

async fn register(app: &App, at: &AccountIssuer, (public, redirect): (&str, String)) -> Result<AccountClient, String> {
    let endpoint = at.registration_endpoint.as_ref();
    let endpoint = endpoint.ok_or("its authorisation server takes no clients that it does not know")?;
    let wanted = ClientProof::of(&at.methods).ok_or("its authorisation server wants a proof that is not known here")?;
    let mut body = registration(public);
    body["token_endpoint_auth_method"] = wanted.name().into();
    if let Some(scope) = &at.scope {
        body["scope"] = scope.as_str().into();
    }
    let json = HeaderValue::from_static("application/json");
    let call = OutsideCall {
        method: Method::POST,
        url: endpoint.clone(),
        headers: vec![(header::CONTENT_TYPE, json.clone()), (header::ACCEPT, json)],
        body: Bytes::from(body.to_string()),
        within: WITHIN,
        most_reply: MOST_REPLY,
        redirects: 0,
    };
    let outside = app.outside.as_ref().ok_or("this process asks no servers")?;
    let reply = outside.call(call).await.map_err(|why| {
        tracing::info!(%why, "an authorisation server of an MCP server cannot be asked to register the gateway");
        "its authorisation server cannot be reached".to_owned()
    })?;
    if !matches!(reply.status, 200 | 201) {
        return Err(format!("its authorisation server did not register the gateway ({})", reply.status));
    }
    let read: Result<Registered, _> = serde_json::from_slice(&reply.body);
    let read = read.map_err(|_| "its authorisation server's registration cannot be read".to_owned())?;
    let plain =
        |text: &str| !text.is_empty() && text.len() <= LONGEST && text.bytes().all(|b| (0x20..0x7f).contains(&b));
    let secret = read.client_secret.filter(|secret| !secret.is_empty());
    let given = read.token_endpoint_auth_method.map(|name| ClientProof::of(&[name]));
    let method = match given {
        Some(Some(method)) => method,
        None => wanted,
        Some(None) => return Err("its authorisation server wants a proof that is not known here".to_owned()),
    };
    let lacks = method != ClientProof::None && secret.is_none();
    if !plain(&read.client_id) || !secret.as_deref().is_none_or(plain) || lacks {
        return Err("its authorisation server's registration cannot be used".to_owned());
    }
    let until = read.client_secret_expires_at.filter(|until| *until > 0 && secret.is_some());
    Ok(AccountClient { id: read.client_id, secret, method, until, redirect })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_proof_that_is_taken_is_given() {
        let of = |methods: &[&str]| ClientProof::of(&methods.iter().map(|m| (*m).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&[]), Some(ClientProof::ClientSecretBasic));
        assert_eq!(of(&["client_secret_post", "none"]), Some(ClientProof::None));
        assert_eq!(of(&["private_key_jwt", "client_secret_post"]), Some(ClientProof::ClientSecretPost));
        assert_eq!(of(&["private_key_jwt"]), None);
    }

    #[test]
    fn the_document_names_its_own_address() {
        let document = client_document("https://ai.example.com/gw");
        assert_eq!(document["client_id"], "https://ai.example.com/gw/oauth/client.json");
        assert_eq!(document["redirect_uris"], json!(["https://ai.example.com/gw/oauth/upstream-callback"]));
        assert_eq!(document["token_endpoint_auth_method"], "none");
    }
}
