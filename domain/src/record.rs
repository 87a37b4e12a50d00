//! What is kept of a call: one [`LogRecord`] per target tried (plain retries merged), sharing the trace id. Plain
//! fields, filled on the way and moved out at the end; what only calls of models, of tools or batches have lies in the
//! [`Detail`] of its operation.

mod blank;
mod bodies;
pub mod client_record;
mod cursor;
mod detail;
pub mod mask;
mod realtime;
mod trace;

pub use bodies::{Bodies, BodiesPlace, BodyLease, RecordedBody, RecordedMessage};
pub use cursor::LogCursor;
pub use detail::{BatchDetail, Detail, LlmDetail, RecordKind, RecordedOperation, ToolDetail};
pub use realtime::{RealtimeNote, RealtimeTotals};
pub use trace::{Parent, Trace};

use crate::counters::Charge;
use crate::id::{ConfigId, KeyId, OrgId, WorkspaceId};
use crate::money::NanoUsd;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timings {
    /// Microseconds from the first byte of the request to the last byte of the answer.
    pub total_us: u64,
    /// Microseconds spent waiting for the upstream, of all tries.
    pub upstream_us: u64,
    /// Microseconds to the first content byte towards the client; 0 when nothing was sent.
    pub first_byte_us: u64,
    /// Microseconds of the gateway's own work.
    pub gateway_us: u64,
}

/// Parts of the gateway's own work, in microseconds. The first two are for metrics alone, the others are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    /// Time until the key was known.
    pub auth_us: u64,
    /// Counting against the caller's limits.
    pub limits_us: u64,
    /// Time until the request was understood, without the wait for its body.
    pub parse_us: u64,
    /// Time until the first target was called.
    pub before_us: u64,
    /// Looking into the response cache, the wait for an equal call under way included.
    pub cache_us: u64,
    /// What was left after the answer came.
    pub after_us: u64,
    /// Waiting for the client's body: no work of the gateway's.
    pub body_us: u64,
}

/// What the response cache did for a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CacheStatus {
    /// Not asked for, or not for this kind of call.
    #[default]
    Disabled,
    /// Answered without a call of its own.
    Hit,
    Miss,
    /// A fresh call was asked for; its answer replaces what was stored.
    Refresh,
}

impl CacheStatus {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disabled => "DISABLED",
            Self::Hit => "HIT",
            Self::Miss => "MISS",
            Self::Refresh => "REFRESH",
        }
    }

    /// `None` for words of other versions.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Disabled, Self::Hit, Self::Miss, Self::Refresh].into_iter().find(|s| s.name() == name)
    }

    /// The word for it in labels of metrics and in filters of logs.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Refresh => "refreshed",
        }
    }
}

/// What guardrails said of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hooked {
    /// `hook_results`, those of checks among them that clients are not shown.
    pub json: String,
    /// The verdicts, as the answer's header told them; not stored.
    pub verdicts: String,
    /// The checks that were run, for metrics; not stored.
    pub checks: Vec<HookCheck>,
}

/// One check that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCheck {
    pub check: SmolStr,
    /// `input` or `output`.
    pub side: &'static str,
    /// `pass`, `fail` or `error`.
    pub result: &'static str,
    pub millis: i64,
}

/// The saved prompt that a request came from, in the version that it was rendered from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedPrompt {
    pub id: Uuid,
    pub slug: SmolStr,
    pub version_id: Uuid,
    pub version: u32,
}

/// What a client's library tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientLibrary {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_version: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sdk_version: Option<Arc<str>>,
}

/// What every record has, around what only its kind has. Short texts lie in the record itself. It is made on one thread
/// and freed on another, and what is freed there comes back to the first one cold: a record should be one piece of
/// memory.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRecord {
    pub id: Uuid,
    pub created_at: Timestamp,
    pub trace_id: Arc<str>,
    /// 1 for the first target tried.
    pub attempt: u32,
    /// The one whose answer the client got.
    pub last: bool,
    pub org: OrgId,
    pub workspace: WorkspaceId,
    pub workspace_slug: SmolStr,
    pub key: Option<KeyId>,
    /// The key's name, for metrics; not stored.
    pub key_name: SmolStr,
    pub owner: Option<Uuid>,
    /// Slug of the saved config, `inline`, or empty.
    pub config: SmolStr,
    /// The id of the saved config that was used, and the id of its version in force.
    pub config_id: Option<ConfigId>,
    pub config_version: Option<Uuid>,
    /// Slug of the managed provider, or empty.
    pub virtual_key: SmolStr,
    /// Provider family, `openai`; empty when refused before one was chosen.
    pub provider: SmolStr,
    pub model: SmolStr,
    /// Its name, with what is not the same for all records.
    pub operation: RecordedOperation,
    pub method: SmolStr,
    pub path: SmolStr,
    pub status: u16,
    /// Label of the fault, when the gateway made the answer.
    pub fault: Option<&'static str>,
    pub stream: bool,
    pub option_index: SmolStr,
    pub strategy: &'static str,
    /// What the call cost, whatever was paid for. The writer fills in what a model's price makes of the usage.
    pub cost: Option<NanoUsd>,
    pub timings: Timings,
    pub steps: Steps,
    pub request_bytes: u64,
    pub response_bytes: u64,
    pub client_ip: Option<IpAddr>,
    /// JSON object of strings.
    pub metadata: SmolStr,
    /// `None` when the call belongs to no trace but its own.
    pub trace: Option<Arc<Trace>>,
    /// `None` when the client tells nothing.
    pub client: Option<Arc<ClientLibrary>>,
    /// What the call was charged by each limit that outlives the process; most calls are charged by none.
    pub charges: Vec<Charge>,
    /// `None` when the settings keep none of this call.
    pub bodies: Option<Box<Bodies>>,
    /// `None` where no guardrail had a word.
    pub hooks: Option<Box<Hooked>>,
}

impl LogRecord {
    /// Empty where nobody knows it.
    pub fn client_text(&self) -> String {
        self.client_ip.map_or_else(String::new, |ip| ip.to_string())
    }
}

/// A place in the journal of this node: between two records. Replaying from it gives what was written after.
/// Places compare in the order of writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    pub segment: u64,
    /// Bytes from the start of the segment's file.
    pub offset: u64,
}

/// Records with usage and without a cost have these in common, which is what their price depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unpriced {
    pub org: OrgId,
    pub workspace: WorkspaceId,
    /// Slug of the managed provider, or empty.
    pub virtual_key: String,
    pub provider: String,
    pub model: String,
}

/// What a stored record turned out to cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costed {
    pub id: Uuid,
    pub created_at: Timestamp,
    pub cost: NanoUsd,
}

/// Filters of `GET /v1/logs`; absent means any. Newest first. What is kept of it for later are the filters, without
/// range and page.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LogQuery {
    pub org: Option<OrgId>,
    pub workspaces: Vec<WorkspaceId>,
    #[serde(skip)]
    pub from: Option<Timestamp>,
    #[serde(skip)]
    pub to: Option<Timestamp>,
    pub trace_id: Option<String>,
    /// Any of these traces: they were found by what is not in the records.
    pub trace_ids: Vec<String>,
    /// Ids of spans as the record shows them: named by the client or made here.
    pub span_ids: Vec<String>,
    pub statuses: Vec<u16>,
    pub providers: Vec<String>,
    pub virtual_keys: Vec<String>,
    pub models: Vec<String>,
    pub configs: Vec<String>,
    /// Slugs.
    pub prompts: Vec<String>,
    pub cache_statuses: Vec<CacheStatus>,
    pub keys: Vec<KeyId>,
    pub operations: Vec<String>,
    pub min_tokens: Option<u64>,
    pub max_tokens: Option<u64>,
    pub min_prompt_tokens: Option<u64>,
    pub max_prompt_tokens: Option<u64>,
    pub min_completion_tokens: Option<u64>,
    pub max_completion_tokens: Option<u64>,
    pub min_cost: Option<NanoUsd>,
    pub max_cost: Option<NanoUsd>,
    /// Each pair must stand in the record's metadata.
    pub metadata: Vec<(String, String)>,
    /// Zero-based page and its size, at most 1,000.
    #[serde(skip)]
    pub page: u64,
    #[serde(skip)]
    pub page_size: u64,
    /// Those behind this place, of which there are as many pages as one likes: none is counted, and `page` is of no
    /// account.
    #[serde(skip)]
    pub cursor: Option<LogCursor>,
    /// The most bytes that the records of a page may have of what clients decide the length of: a page that has more is
    /// not read.
    #[serde(skip)]
    pub most_bytes: Option<u64>,
    /// How long may be looked for what no index knows.
    #[serde(skip)]
    pub time: Option<Duration>,
}

/// `total` counts every match, not only this page; behind a cursor it counts none.
#[derive(Clone, Debug)]
pub struct Page<T> {
    pub total: u64,
    pub rows: Vec<T>,
    /// Parts of the store that could not be read, by their names: what is told is not all there is.
    pub missing: Vec<String>,
    /// Its rows were left where they are, since they are more than was asked for.
    pub is_too_large: bool,
    /// The time was up before everything was looked at: more may match, and were not counted.
    pub is_partial: bool,
    /// Where to go on from then.
    pub resume: Option<LogCursor>,
}

impl<T> Page<T> {
    /// So many match; none is shown yet, and nothing is missing.
    pub const fn of(total: u64) -> Self {
        Self { total, rows: Vec::new(), missing: Vec::new(), is_too_large: false, is_partial: false, resume: None }
    }
}
