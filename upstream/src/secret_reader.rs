//! One read of one secret from the manager that keeps it: signed, bounded in bytes and time, at an address that was
//! checked. Errors name what went wrong and hold nothing that was sent or told. Knows no snapshot and no interval.

mod aws;
mod azure;
mod hashicorp;
mod local_machine;

use crate::credential::Credentials;
use crate::outbound::{Outbound, OutboundAnswer, OutboundError};
use gateway_domain::Fault;
use gateway_domain::egress::Trusted;
use gateway_domain::secret_source::{LONGEST_SECRET, SecretOpenings, SecretSource, SecretText};
use hashicorp::VaultTokens;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The time that all calls of one read may take together, those for tokens included.
const WITHIN: Duration = Duration::from_secs(15);
const LONGEST_CODE: usize = 80;

/// Where the machine has what sources of it need; the operator's word.
#[derive(Clone, Debug)]
pub struct SecretPlaces {
    /// `AWS_ENDPOINT_URL_SECRETS_MANAGER`, in place of the region's.
    pub aws: Option<String>,
    /// The token that a cluster gives this machine.
    pub kubernetes_token: PathBuf,
    /// Reads a variable of the environment.
    pub variable: fn(&str) -> Option<String>,
}

pub struct SecretReader {
    outbound: Outbound,
    credentials: Arc<Credentials>,
    trusted: Arc<Trusted>,
    openings: Arc<SecretOpenings>,
    places: SecretPlaces,
    vault_tokens: VaultTokens,
}

impl std::fmt::Debug for SecretReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretReader").field("openings", &self.openings).finish_non_exhaustive()
    }
}

/// Why a secret could not be read: the rest of a sentence, with no secret in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread(pub String);

impl Unread {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl From<OutboundError> for Unread {
    fn from(e: OutboundError) -> Self {
        Self(format!("could not be asked for: {e}"))
    }
}

impl From<Fault> for Unread {
    fn from(fault: Fault) -> Self {
        Self(format!("needs a token: {}", fault.message()))
    }
}

impl SecretReader {
    pub fn new(
        outbound: Outbound,
        credentials: Arc<Credentials>,
        trusted: Arc<Trusted>,
        openings: Arc<SecretOpenings>,
        places: SecretPlaces,
    ) -> Self {
        Self { outbound, credentials, trusted, openings, places, vault_tokens: VaultTokens::default() }
    }

    /// What the operator opened is asked each time: a row may be older than a start without it.
    pub async fn read(&self, source: &SecretSource) -> Result<SecretText, Unread> {
        let shut = |why: gateway_domain::resource::Invalid| Unread(format!("{} {}", why.field, why.rule));
        self.openings.allow(source, &self.trusted).map_err(shut)?;
        let reading = async {
            match source {
                SecretSource::Aws { grant, region, id } => aws::read(self, grant, region, id).await,
                SecretSource::Azure { grant, vault, name } => azure::read(self, grant, vault, name).await,
                SecretSource::HashiCorp(vault) => hashicorp::read(self, vault).await,
                SecretSource::Environment { name } => local_machine::variable(self, name),
                SecretSource::File { path } => local_machine::file(self, path).await,
            }
        };
        let read = tokio::time::timeout(WITHIN, reading).await;
        let text = read.map_err(|_| Unread(format!("gave no answer within {} s", WITHIN.as_secs())))??;
        SecretText::new(&text).map_err(Unread)
    }
}

/// The JSON of an answer that is one.
fn json(answer: &OutboundAnswer) -> Result<Value, Unread> {
    // A secret of the longest kind, escaped.
    if answer.body.len() > 2 * LONGEST_SECRET {
        return Err(Unread::new("came in an answer that is longer than any secret"));
    }
    serde_json::from_slice(&answer.body).map_err(|_| Unread::new("came in an answer that is no JSON"))
}

/// What a manager answers in place of a secret. Of its own words only a code is told: it may say again what it was
/// sent.
fn refusal(status: u16, code: Option<&str>) -> Unread {
    let code: String = code.unwrap_or_default().chars().filter(char::is_ascii_alphabetic).take(LONGEST_CODE).collect();
    let code = if code.is_empty() { code } else { format!(", {code}") };
    Unread(match status {
        401 | 403 => format!("was refused to whom the reference signs in as (status {status}{code})"),
        404 => format!("is not there (status 404{code})"),
        _ => format!("was not told by its manager (status {status}{code})"),
    })
}
