//! One fetch of a token, whichever way. Answers are small JSON objects; what went wrong is told without secrets.

use super::aws::{self, Platform};
use super::clock::now_secs;
use super::{google, oauth};
use crate::outbound::{Outbound, OutboundAnswer, OutboundError, send};
use gateway_domain::Secret;
use gateway_domain::cloud::{AwsKeys, SignIn};
use gateway_providers::oci::OciSigner;
use http::HeaderValue;
use reqwest::RequestBuilder;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The life of a token that does not say how long it lives.
const UNSAID: Duration = Duration::from_secs(300);
pub(super) const LONGEST_MESSAGE: usize = 300;
/// Whatever it says of itself, a token is asked for anew after a day.
pub(super) const LONGEST_LIFE: Duration = Duration::from_secs(86_400);

/// Where the machine's own identity is found; the operator's word.
#[derive(Clone, Debug)]
pub struct Places {
    pub google_metadata: String,
    pub azure_metadata: String,
    /// The endpoint and its secret that App Service and its kin have in place of the metadata service.
    pub azure_identity: Option<(String, Secret<String>)>,
    pub azure_authority: String,
    pub azure_token_file: Option<PathBuf>,
    pub aws: Platform,
}

pub(super) struct Fetcher {
    pub(super) outbound: Outbound,
    pub(super) places: Places,
}

/// What lets a request in.
#[derive(Clone, Debug)]
pub enum Pass {
    /// `Bearer …`, ready to be sent.
    Header(HeaderValue),
    /// Keys that sign it, and by how many seconds the clock of who checks is ahead of ours.
    Keys(Arc<AwsKeys>, i64),
    /// What signs it for Oracle.
    Oci(Arc<OciSigner>),
}

impl Pass {
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Header(a), Self::Header(b)) => a == b,
            (Self::Keys(a, _), Self::Keys(b, _)) => Arc::ptr_eq(a, b),
            (Self::Oci(a), Self::Oci(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) pass: Pass,
    pub(super) lives: Duration,
}

/// No token. `denied`: the credential itself was refused, so that trying again is no help.
#[derive(Debug)]
pub(super) struct TokenRefusal {
    pub(super) denied: bool,
    pub(super) message: String,
}

impl TokenRefusal {
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self { denied: false, message: message.into() }
    }

    pub(super) fn denied(message: impl Into<String>) -> Self {
        Self { denied: true, message: message.into() }
    }
}

impl From<OutboundError> for TokenRefusal {
    fn from(e: OutboundError) -> Self {
        Self::failed(format!("the token endpoint could not be asked: {e}"))
    }
}

impl Fetcher {
    pub(super) async fn fetch(&self, sign_in: &SignIn) -> Result<Fetched, TokenRefusal> {
        match sign_in {
            SignIn::ServiceAccount(account) => google::service_account(self, account).await,
            SignIn::Federation(federation) => google::federation(self, federation).await,
            SignIn::GoogleHost { scope } => google::host(self, scope).await,
            SignIn::ClientCredentials(client) => oauth::client_credentials(self, client).await,
            SignIn::AzureHost { client_id, resource } => oauth::azure_host(self, client_id.as_deref(), resource).await,
            SignIn::AwsKeys(keys) => Ok(aws::given(keys)),
            SignIn::OciKey(key) => {
                let signer = OciSigner::new(key).map_err(TokenRefusal::denied)?;
                Ok(Fetched { pass: Pass::Oci(Arc::new(signer)), lives: LONGEST_LIFE })
            }
            SignIn::AwsRole(role) => aws::role(self, role).await,
            SignIn::AwsHost { region } => aws::host(self, region).await,
        }
    }
}

pub(super) fn bounded(lives: Duration) -> Duration {
    lives.clamp(Duration::from_secs(1), LONGEST_LIFE)
}

/// Sends, and takes the JSON of a 2xx.
pub(super) async fn ask(request: RequestBuilder) -> Result<Value, TokenRefusal> {
    judge(&send(request).await?)
}

/// Asks an endpoint of somebody's own like [`ask`] does: one that quotes what it was sent must not make us tell it.
pub(super) async fn ask_hiding(request: RequestBuilder, secret: &str) -> Result<Value, TokenRefusal> {
    judge_hiding(&send(request).await?, secret)
}

pub(super) fn judge(answer: &OutboundAnswer) -> Result<Value, TokenRefusal> {
    judge_hiding(answer, "")
}

fn judge_hiding(answer: &OutboundAnswer, secret: &str) -> Result<Value, TokenRefusal> {
    let json: Option<Value> = serde_json::from_slice(&answer.body).ok();
    if (200..300).contains(&answer.status) {
        return json.ok_or_else(|| TokenRefusal::failed("the token endpoint answered with something that is no JSON"));
    }
    let why = json.as_ref().and_then(reason).unwrap_or_else(|| format!("status {}", answer.status));
    // Before the cut, which could leave a part of it. What is shorter would be found in innocent words.
    let why = if secret.len() < 8 { why } else { why.replace(secret, "***") };
    let why: String = why.chars().take(LONGEST_MESSAGE).collect();
    Err(match answer.status {
        400 | 401 | 403 | 404 => TokenRefusal::denied(format!("the token endpoint refused the credential: {why}")),
        _ => TokenRefusal::failed(format!("the token endpoint failed: {why}")),
    })
}

/// OAuth's `error` and `error_description`, or Google's error object.
fn reason(json: &Value) -> Option<String> {
    let error = json.get("error")?;
    if let Some(message) = error.get("message").and_then(Value::as_str) {
        return Some(message.to_owned());
    }
    let name = error.as_str()?;
    Some(match json.get("error_description").and_then(Value::as_str) {
        Some(text) => format!("{name}: {text}"),
        None => name.to_owned(),
    })
}

/// `access_token` and `expires_in`, which Azure's metadata service writes as text; App Service says the second it ends
/// in.
pub(super) fn token(json: &Value) -> Result<Fetched, TokenRefusal> {
    let token = json.get("access_token").and_then(Value::as_str).filter(|t| !t.is_empty());
    let token = token.ok_or_else(|| TokenRefusal::failed("the token endpoint answered without an access_token"))?;
    let number = |name: &str| json.get(name).and_then(|v| v.as_u64().or_else(|| v.as_str()?.parse().ok()));
    let now = u64::try_from(now_secs()).unwrap_or(0);
    let lives = number("expires_in").or_else(|| Some(number("expires_on")?.saturating_sub(now)));
    fetched(token, lives.map_or(UNSAID, Duration::from_secs))
}

pub(super) fn fetched(token: &str, lives: Duration) -> Result<Fetched, TokenRefusal> {
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| TokenRefusal::failed("the token endpoint answered with a token that no header can carry"))?;
    header.set_sensitive(true);
    // A token that ends at once would be asked for without end.
    Ok(Fetched { pass: Pass::Header(header), lives: bounded(lives) })
}
