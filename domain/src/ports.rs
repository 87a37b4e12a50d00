//! What the house asks of its backends: object-safe, async by boxed futures, a file for each who asks. The floor above
//! decides which backend stands behind each; nothing here names one.

mod alerts;
mod assignments;
mod batch_outputs;
mod blobs;
mod config;
mod credential_trials;
mod denied_callers;
mod explanations;
mod exports;
mod external_http;
mod feedbacks;
mod id_seal;
mod intake;
mod jobs;
mod kept_answers;
mod kept_objects;
mod key_limits;
mod key_uses;
mod mail;
mod mcp_accounts;
mod mcp_line;
mod nodes;
mod oauth;
mod owned_objects;
mod records;
mod secret_standings;
mod standings;
mod token_counts;
mod tokens;
mod trials;

pub use crate::future::Fut;
pub use crate::holder::Holder;
pub use crate::revision::{Changes, Revision};
pub use crate::vault::{Vault, VaultError};
pub use alerts::AlertStandings;
pub use assignments::{Assignment, SharedAssignments};
pub use batch_outputs::{BatchOutputs, NewOutput, OutputStays};
pub use blobs::{BlobBounds, BlobError, Blobs, BlobsKept, MOST_BLOB_PIECE, NewBlob, StoredBlob};
pub use config::{
    Batch, Compare, ConfigStore, Decide, Directory, History, HistoryStep, KeepHistory, Live, MOST_VERSIONS, Rejection,
    ResourceQuery, WriteError,
};
pub use credential_trials::{CredentialTrial, CredentialTrials, CredentialUntried, CredentialVerdict};
pub use denied_callers::Doorkeeper;
pub use explanations::{Explanations, SupposedRequest, Unexplained};
pub use exports::{ExportPlace, Exports};
pub use external_http::{Outside, OutsideCall, OutsideError, OutsideReply};
pub use feedbacks::{FeedbackKept, FeedbackPlace, Feedbacks};
pub use id_seal::IdSeal;
pub use intake::{RecordClaims, RecordIntake, ToldUsage};
pub use jobs::{
    Enqueued, Hastened, Job, JobBacklog, JobBounds, JobEnd, JobLease, JobStanding, JobState, Jobs, LeasedJob,
    MOST_JOB_BYTES, NewJob, PartBound,
};
pub use kept_answers::{ANSWERS_KEPT_MICROS, AnswerMark, KeptAnswers};
pub use kept_objects::{KeptObject, KeptObjects, MOST_KEPT_ASKED};
pub use key_limits::{KeyLimit, KeyLimits, LimitCount};
pub use key_uses::KeyUses;
pub use mail::{Mail, MailError, Mailer};
pub use mcp_accounts::{
    AccountPage, AccountsAsked, McpAccount, McpAccountId, McpAccountRows, McpAccounts, McpServerClient, SealedTokens,
};
pub use mcp_line::{McpLine, McpLineTo, McpLines};
pub use nodes::NodeRegistry;
pub use oauth::{EndedGrant, OauthClient, OauthCode, OauthRows, OauthStore, RefreshTurn, SpentCode};
pub use owned_objects::{MOST_OWNED_LISTED, OwnedObject, OwnedObjects, OwnedPlace};
pub use records::{LogStore, NamedMetadata, RecordAppend, RecordLedger, RecordQuery, RecordSums, Repricing, Retention};
pub use secret_standings::{SecretStanding, SecretStandings};
pub use standings::{Entity, EntityQuery, Standings, Which};
pub use token_counts::{TokenCount, TokenCounts, TokenSubject, TooBusyToCount};
pub use tokens::Tokens;
pub use trials::{GuardrailTrial, GuardrailTrials, TrialError, TrialSubject};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The backend cannot be reached or is too slow; the same call may succeed later.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// A unique slug or id is taken.
    #[error("already exists: {0}")]
    Conflict(String),
    /// Data that this version cannot read, or a statement that failed.
    #[error("store failure: {0}")]
    Broken(String),
}
