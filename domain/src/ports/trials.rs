//! A saved guardrail tried on something, without a call to a model: asked by the Admin API, run by whoever runs
//! guardrails.

use super::Fut;
use crate::id::{KeyId, OrgId, WorkspaceId};
use crate::snapshot::SavedGuardrail;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// What a guardrail is to judge.
#[derive(Clone)]
pub enum TrialSubject {
    /// Judged like a request: a text, or the body of one in any dialect.
    InputText(String),
    Request(Map<String, Value>),
    /// Judged like an answer: a text, or the body of one, with the request that it answers where that is known.
    OutputText(String),
    Response {
        response: Map<String, Value>,
        request: Option<Map<String, Value>>,
    },
}

/// What is tried is somebody's text: it is not printed.
impl fmt::Debug for TrialSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InputText(_) => "InputText",
            Self::Request(_) => "Request",
            Self::OutputText(_) => "OutputText",
            Self::Response { .. } => "Response",
        })
    }
}

#[derive(Clone, Debug)]
pub struct GuardrailTrial {
    pub org: OrgId,
    /// The workspace whose credentials, trusted hosts and providers count.
    pub workspace: WorkspaceId,
    /// Who asks: it counts as a request of this key.
    pub key: KeyId,
    pub guardrail: Arc<SavedGuardrail>,
    pub subject: TrialSubject,
    pub metadata: BTreeMap<String, String>,
    /// The trace of the request that asks for the trial.
    pub trace_id: Uuid,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialError {
    /// The guardrail or what it is to judge cannot be read: a rule, as the rest of a sentence.
    Unfit(String),
    /// Too many trials are running to begin another.
    Busy,
    /// A limit on requests is reached: of the key, of its workspace, or a policy's. As a whole sentence.
    Limited(String),
}

pub trait GuardrailTrials: Send + Sync {
    /// One hook result, as answers of the proxy list them. Bounded in time by the timeouts of the checks.
    fn run<'a>(&'a self, trial: &'a GuardrailTrial) -> Fut<'a, Result<Value, TrialError>>;
}
