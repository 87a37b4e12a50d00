//! Outputs of batches, put in the place of those that guardrails are judging.

use super::{Fut, StoreError};
use crate::id::WorkspaceId;
use serde_json::Value;

/// Which batch of whom, and the file that is to be its output, by the ids that clients know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOutput<'a> {
    pub workspace: WorkspaceId,
    pub batch: &'a str,
    pub file: &'a str,
}

/// Why an output stays.
#[derive(Debug)]
pub enum OutputStays {
    /// The workspace has no such batch that the gateway keeps.
    NoBatch,
    /// The workspace has no such file that the gateway keeps.
    NoFile,
    /// Its answers are not being judged: the state that it is in.
    NotJudged(&'static str),
    Store(StoreError),
}

pub trait BatchOutputs: Send + Sync {
    /// Completes a batch with another output; the batch as its client sees it then. The same once more changes nothing.
    fn replace_output<'a>(&'a self, new: NewOutput<'a>) -> Fut<'a, Result<Value, OutputStays>>;
}
