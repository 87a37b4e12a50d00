//! A credential tried against its provider with one cheap call: asked by the Admin API, made by whoever calls
//! providers.

use super::Fut;
use crate::cloud::Grant;
use crate::snapshot::Upstream;
use http::HeaderValue;
use std::sync::Arc;

/// What is to be tried; it need not be saved.
#[derive(Clone, Debug)]
pub struct CredentialTrial {
    pub upstream: Arc<Upstream>,
    /// Asked for a few tokens of chat; without it the provider is asked for its list of models.
    pub model: Option<String>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialVerdict {
    /// `models` or `chat`.
    pub asked: &'static str,
    /// What the provider answered with; `None`: it was not reached.
    pub status: Option<u16>,
    pub millis: u64,
    /// How many models its list has.
    pub models: Option<usize>,
    /// Why the credential cannot be used: in the provider's words, without any secret.
    pub error: Option<String>,
}

/// Why nothing was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialUntried {
    /// Too many trials are running to begin another.
    Busy,
    /// There is nothing to ask this provider for: the rest of a sentence about the model.
    Unfit(String),
}

pub trait CredentialTrials: Send + Sync {
    /// Bounded in bytes and time.
    fn run<'a>(&'a self, trial: &'a CredentialTrial) -> Fut<'a, Result<CredentialVerdict, CredentialUntried>>;
    /// What goes with a request to whoever takes the tokens that a way leads to. `Err`: why there is none, without any
    /// secret.
    fn header<'a>(&'a self, grant: &'a Arc<Grant>) -> Fut<'a, Result<HeaderValue, String>>;
}
