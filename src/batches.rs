//! Batches that the gateway runs itself, and the files that they read and write. A batch is a job: one node at a time
//! reads its lines and asks each of them as a request of the key that made the batch, through the door that all
//! requests come by. What came of each line is written down before anything is counted, so that no finished line is
//! ever asked again.

mod blob_writer;
mod document;
mod file_references;
mod line_context;
mod lines;
mod log;
mod loopback;
mod native_batch;
mod operations;
mod output_replacement;
mod pinned_config;
mod record;
mod run;
mod runner;
mod spool;
mod upload;

pub(crate) use document::FileDocument;
use document::{BatchDocument, BatchStatus};
pub(crate) use line_context::{AnswerToJudge, BookedAnswer, LineCallers, LineGuest, LineRecord, LineTask};
pub(crate) use lines::MOST_LINE;
pub(crate) use loopback::{LineDoor, LineRoad};
pub(crate) use operations::{FileWriter, KeepError, NewBatch, ObjectOwner, SharedBatches};
pub(crate) use pinned_config::{ConfigOfBatch, PinnedConfig, PinnedConfigs};
pub(crate) use run::LineSetup;
pub(crate) use runner::Runner;
pub(crate) use spool::{BadLine, Spool, SpooledLine};

use crate::downloads::Downloads;
use crate::job_kind;
use gateway_domain::ports::{Blobs, Jobs, OwnedObjects};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use uuid::Uuid;

/// The kind of jobs in which nodes run batches.
const JOB: &str = "batch";
/// The kind of objects that are batches.
const BATCH: &str = "batch";
/// The kind of objects that are files, and of blobs that hold what clients put into files.
const FILE: &str = "file";
/// The kind of blobs that a run writes about a batch's lines: what it does with them, and how they go up to a provider.
const LOG: &str = "batch_log";
/// Blobs of what batches answered: counted, and never refused for want of room.
const RESULT: &str = "batch_result";
const SETUP: &str = "batch_setup";
/// Blobs on their way to a provider.
const SPOOL: &str = "spool";

/// Bytes and lines of a file that a batch reads.
pub(crate) const MOST_FILE: u64 = 200 << 20;
const MOST_LINES: u64 = 50_000;
/// Batches of an organisation that have not ended.
const MOST_OPEN: u32 = 100;
/// Files and ended batches are kept for so long.
pub(crate) const KEPT_SECS: i64 = 30 * 86_400;
/// The window of batches that a provider runs.
pub(crate) const BY_PROVIDER: &str = "24h";
/// A batch that has not ended by then ends.
const LASTS_SECS: i64 = 86_400;

/// What the operator says of batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchSettings {
    /// How long a node that fell silent is waited for.
    pub(crate) lease: Duration,
    /// Lines of one batch that are under way at once.
    pub(crate) parallel: usize,
    /// Times that a line is asked again.
    pub(crate) retries: u32,
    /// The time between two looks at a provider's batch.
    pub(crate) poll: Duration,
    /// Bytes of one answer.
    pub(crate) most_answer: usize,
    /// The kind of the jobs of batches; it names the deployment where there is one, since only its own nodes run them.
    pub(crate) job: &'static str,
}

/// Kinds of blobs that are written when it is too late to refuse them.
pub(crate) const NEVER_REFUSED: &[&str] = &[LOG, RESULT];

/// What jobs of batches are called that nodes of this deployment make and run.
pub(crate) fn job_of(deployment: Option<&str>) -> &'static str {
    job_kind::of_deployment(JOB, deployment)
}

/// Where batches lie, and what they are run by.
pub(crate) struct Batches {
    pub(crate) jobs: Arc<dyn Jobs>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) owned: Arc<dyn OwnedObjects>,
    pub(crate) callers: Arc<LineCallers>,
    pub(crate) configs: PinnedConfigs,
    pub(crate) settings: BatchSettings,
    /// Databases are asked here, never on a thread that serves requests.
    pub(crate) runtime: Handle,
    /// There is a batch to run.
    pub(crate) made: Notify,
    pub(crate) downloads: Arc<Downloads>,
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The id of a file that clients see.
pub(crate) fn file_id(id: Uuid) -> String {
    format!("gw_file_{}", id.simple())
}

pub(crate) fn batch_id(id: Uuid) -> String {
    format!("gw_batch_{}", id.simple())
}

/// `None`: it is none of ours.
pub(crate) fn read_id(kind: &str, text: &str) -> Option<Uuid> {
    let rest = text.strip_prefix("gw_")?.strip_prefix(kind)?.strip_prefix('_')?;
    (rest.len() == 32).then(|| Uuid::try_parse(rest).ok()).flatten()
}
