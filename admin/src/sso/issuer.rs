//! What a provider says of itself (OpenID Connect Discovery 1.0) and the keys that it signs with, fetched by the
//! checked dialler when somebody signs in, and kept. What was good last stays good while the provider cannot be
//! reached.

use crate::app::App;
use crate::problem::{Problem, busy, internal};
use bytes::Bytes;
use gateway_domain::egress::{Trusted, check_custom_host};
use gateway_domain::ports::OutsideCall;
use gateway_domain::time::Timestamp;
use gateway_domain::token::KeySet;
use http::{HeaderName, HeaderValue, Method};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

const WITHIN: Duration = Duration::from_secs(10);
const MOST_REPLY: usize = 1 << 20;
const FRESH_MICROS: i64 = 600 * 1_000_000;
const KEPT_MICROS: i64 = 86_400 * 1_000_000;
/// The least time between two fetches for tokens with an unknown key, and after a fetch that failed.
const AGAIN_MICROS: i64 = 5 * 1_000_000;
const MOST_KNOWN: usize = 256;

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ProviderMetadata {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: String,
    pub(super) token_endpoint: String,
    jwks_uri: String,
    #[serde(default)]
    pub(super) token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

#[derive(Debug)]
pub(super) struct KnownIssuer {
    pub(super) metadata: ProviderMetadata,
    pub(super) keys: KeySet,
    at: Timestamp,
}

/// One provider. Whoever holds it asks, for the others too, who wait meanwhile.
#[derive(Debug, Default)]
struct IssuerState {
    good: Option<Arc<KnownIssuer>>,
    /// When it could not be asked.
    failed: Option<Timestamp>,
}

type IssuerSlot = Arc<futures_util::lock::Mutex<IssuerState>>;

static KNOWN: LazyLock<Mutex<HashMap<String, IssuerSlot>>> = LazyLock::new(Mutex::default);

fn slot(issuer: &str) -> IssuerSlot {
    let mut all = KNOWN.lock();
    if all.len() >= MOST_KNOWN && !all.contains_key(issuer) {
        all.clear();
    }
    all.entry(issuer.to_owned()).or_default().clone()
}

/// What is known of the provider, or is fetched now. `unknown_key`: a token names a key that is not among those known.
pub(super) async fn known(app: &App, issuer: &str, unknown_key: bool) -> Result<Arc<KnownIssuer>, Problem> {
    let slot = slot(issuer);
    let mut state = slot.lock().await;
    let now = app.now();
    let is_within = |at: Timestamp, micros: i64| (0..micros).contains(&now.micros().saturating_sub(at.micros()));
    let enough = if unknown_key { AGAIN_MICROS } else { FRESH_MICROS };
    if let Some(good) = state.good.as_ref().filter(|good| is_within(good.at, enough)) {
        return Ok(good.clone());
    }
    // Anybody may ask for a sign-in: a provider that is away is not asked by each of them.
    if !state.failed.is_some_and(|at| is_within(at, AGAIN_MICROS)) {
        match fetch(app, issuer, now).await {
            Ok(fresh) => {
                let fresh = Arc::new(fresh);
                *state = IssuerState { good: Some(fresh.clone()), failed: None };
                return Ok(fresh);
            }
            Err(why) => {
                tracing::warn!(issuer, why, "the provider of a sign-on cannot be asked");
                state.failed = Some(app.now());
            }
        }
    }
    let held = state.good.clone().filter(|good| is_within(good.at, KEPT_MICROS));
    held.ok_or_else(|| busy("the provider of this sign-on cannot be reached, try again"))
}

/// An address of a provider, as a custom host may be, and over TLS: people and the client's secret are sent there.
/// Hosts that the operator trusts may be without.
pub(crate) fn check_address(url: &str, trusted: &Trusted) -> Result<(), &'static str> {
    let base = check_custom_host(url, trusted)?;
    if base.tls || trusted.name(&base.host) { Ok(()) } else { Err("must start with https://") }
}

async fn fetch(app: &App, issuer: &str, at: Timestamp) -> Result<KnownIssuer, String> {
    let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
    let metadata: ProviderMetadata = get(app, &url).await?;
    // Else one provider could speak for another (OpenID Connect Discovery 1.0, 4.3).
    if metadata.issuer != issuer {
        return Err("it calls itself otherwise than the settings do".to_owned());
    }
    // Nothing can be added behind a fragment, so one is refused.
    let bare = |url: &str| url.split('?').next().filter(|_| !url.contains('#')).unwrap_or(url).to_owned();
    for url in [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.jwks_uri] {
        check_address(&bare(url), &app.trusted).map_err(|why| format!("it names an address that {why}"))?;
    }
    let keys: Value = get(app, &metadata.jwks_uri).await?;
    let keys = KeySet::parse(&keys).map_err(|why| why.to_string())?;
    Ok(KnownIssuer { metadata, keys, at })
}

async fn get<T: DeserializeOwned>(app: &App, url: &str) -> Result<T, String> {
    let accept = (http::header::ACCEPT, HeaderValue::from_static("application/json"));
    let call = OutsideCall {
        method: Method::GET,
        url: url.to_owned(),
        headers: vec![accept],
        body: Bytes::new(),
        within: WITHIN,
        most_reply: MOST_REPLY,
        redirects: 0,
    };
    let outside = app.outside.as_ref().ok_or("nothing here calls outside")?;
    let reply = outside.call(call).await.map_err(|why| why.to_string())?;
    if reply.status != 200 {
        return Err(format!("it answered {}", reply.status));
    }
    serde_json::from_slice(&reply.body).map_err(|_| "its answer cannot be read".to_owned())
}

/// The token endpoint, asked with a form.
pub(super) async fn post(
    app: &App,
    url: &str,
    form: String,
    basic: Option<HeaderValue>,
) -> Result<(u16, Bytes), Problem> {
    let mut headers: Vec<(HeaderName, HeaderValue)> = vec![
        (http::header::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded")),
        (http::header::ACCEPT, HeaderValue::from_static("application/json")),
    ];
    headers.extend(basic.map(|value| (http::header::AUTHORIZATION, value)));
    let call = OutsideCall {
        method: Method::POST,
        url: url.to_owned(),
        headers,
        body: form.into(),
        within: WITHIN,
        most_reply: MOST_REPLY,
        redirects: 0,
    };
    let outside = app.outside.as_ref().ok_or_else(|| internal("nothing here calls outside"))?;
    match outside.call(call).await {
        Ok(reply) => Ok((reply.status, reply.body)),
        Err(why) => {
            tracing::warn!(%why, "the token endpoint of a sign-on cannot be asked");
            Err(busy("the provider of this sign-on cannot be reached, try again"))
        }
    }
}
