//! One request to a token endpoint, and what it brought. What an endpoint says of an error is for the operator's log in
//! its shortest form, and no secret of either side is in it.

use super::client::{AccountClient, ClientProof};
use crate::app::App;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gateway_domain::ports::{OutsideCall, OutsideReply};
use http::{HeaderValue, Method, header};
use serde::Deserialize;
use std::time::Duration;
use url::form_urlencoded;

const WITHIN: Duration = Duration::from_secs(10);
const MOST_REPLY: usize = 64 * 1024;
const LONGEST_TOKEN: usize = 12 * 1024;

/// Tokens as they came.
#[derive(Clone, Deserialize)]
pub(crate) struct Brought {
    pub(crate) access_token: String,
    #[serde(default)]
    token_type: String,
    #[serde(default)]
    pub(crate) expires_in: Option<u64>,
    #[serde(default)]
    pub(crate) refresh_token: Option<String>,
    #[serde(default)]
    pub(crate) scope: Option<String>,
}

#[derive(Deserialize)]
struct EndpointError {
    error: String,
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoTokens {
    /// What was brought is not good, and will not be.
    Denied,
    /// The client is not known there any more.
    UnknownClient,
    /// Another time it may go well. The rest of a sentence.
    Failed(String),
}

pub(crate) async fn exchange(
    app: &App,
    endpoint: &str,
    client: &AccountClient,
    form: &[(&str, &str)],
) -> Result<Brought, NoTokens> {
    let failed = |why: &str| NoTokens::Failed(why.to_owned());
    let reply = post(app, endpoint, client, form).await.map_err(NoTokens::Failed)?;
    if reply.status != 200 {
        let told: Option<EndpointError> = serde_json::from_slice(&reply.body).ok();
        return Err(match told.as_ref().map(|told| told.error.as_str()) {
            Some("invalid_grant" | "access_denied" | "invalid_scope" | "invalid_target") => NoTokens::Denied,
            Some("invalid_client" | "unauthorized_client") => NoTokens::UnknownClient,
            _ => NoTokens::Failed(format!("the token endpoint answered {}", reply.status)),
        });
    }
    let read: Result<Brought, _> = serde_json::from_slice(&reply.body);
    let read = read.map_err(|_| failed("the token endpoint's answer cannot be read"))?;
    let plain = |token: &str| (1..=LONGEST_TOKEN).contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
    let is_good = plain(&read.access_token)
        && read.token_type.eq_ignore_ascii_case("bearer")
        && read.refresh_token.as_deref().is_none_or(plain);
    if is_good { Ok(read) } else { Err(failed("the token endpoint's answer cannot be used")) }
}

/// Gives a token back (RFC 7009); whether the server minds is its own matter.
pub(super) async fn revoke(app: &App, endpoint: &str, client: &AccountClient, token: (&str, &str)) {
    let (kind, token) = token;
    let done = post(app, endpoint, client, &[("token", token), ("token_type_hint", kind)]).await;
    if let Err(why) = done {
        tracing::info!(why, "a token of an MCP server's could not be given back");
    }
}

async fn post(
    app: &App,
    endpoint: &str,
    client: &AccountClient,
    form: &[(&str, &str)],
) -> Result<OutsideReply, String> {
    let mut pairs = form.to_vec();
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    let mut headers =
        vec![(header::CONTENT_TYPE, kind), (header::ACCEPT, HeaderValue::from_static("application/json"))];
    let secret = client.secret.as_deref().unwrap_or_default();
    match client.method {
        ClientProof::None => pairs.push(("client_id", &client.id)),
        ClientProof::ClientSecretPost => pairs.extend([("client_id", client.id.as_str()), ("client_secret", secret)]),
        ClientProof::ClientSecretBasic => {
            let plain = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let pair = STANDARD.encode(format!("{}:{}", plain(&client.id), plain(secret)));
            let value = HeaderValue::from_str(&format!("Basic {pair}"));
            let mut value = value.map_err(|_| "the client's secret cannot be sent".to_owned())?;
            value.set_sensitive(true);
            headers.push((header::AUTHORIZATION, value));
        }
    }
    let call = OutsideCall {
        method: Method::POST,
        url: endpoint.to_owned(),
        headers,
        body: Bytes::from(encoded(&pairs)),
        within: WITHIN,
        most_reply: MOST_REPLY,
        redirects: 0,
    };
    let outside = app.outside.as_ref().ok_or("this process asks no servers")?;
    outside.call(call).await.map_err(|why| {
        tracing::info!(%why, "a token endpoint of an MCP server cannot be asked");
        "the token endpoint cannot be reached".to_owned()
    })
}

fn encoded(pairs: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}
