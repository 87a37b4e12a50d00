//! What the house asks of its backends: two to four methods each, object-safe, async by boxed futures.
//! The floor above decides which backend stands behind each; nothing here names one.

use crate::id::{ClaimId, IntegrationId, KeyId, OrgId, PolicyId, ProviderId, WorkspaceId};
use crate::keys::KeyHash;
use crate::node::{Node, Sighting};
use crate::record::{Costed, LogQuery, LogRecord, Page, Position, Unpriced};
use crate::resource::budget::Budget;
use crate::resource::{Audit, AuditQuery, Kind, Stored, StoredVersion};
use crate::secret::Secret;
use crate::snapshot::{Key, RowProblem, Snapshot};
use crate::time::Timestamp;
use crate::token::TokenError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use uuid::Uuid;

pub type Fut<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Number of the last committed change of the configuration. Starts at 0, grows by one with each write.
pub type Revision = i64;

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

/// Rows with the revision they are complete up to. From `load`, live rows only; from `since`, tombstones too.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub revision: Revision,
    pub rows: Vec<Stored>,
}

/// What one write puts down, decided inside the transaction.
#[derive(Debug, Default)]
pub struct Batch {
    /// Inserted or updated by `(kind, id)`; the store sets `revision`.
    pub rows: Vec<Stored>,
    pub versions: Vec<StoredVersion>,
    pub audit: Vec<Audit>,
}

/// Looks at what others wrote since the writer's snapshot, checks, and says what to write; an `Err` rolls back.
pub type Decide<'a> = Box<dyn FnOnce(&Changes) -> Result<Batch, Rejection> + Send + 'a>;

/// Why a write was refused: opaque to the store, carried back to whoever decided.
pub type Rejection = Box<dyn std::any::Any + Send>;

#[derive(Debug)]
pub enum WriteError {
    Rejected(Rejection),
    Store(StoreError),
}

impl From<StoreError> for WriteError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

pub trait ConfigStore: Send + Sync {
    /// Every live row.
    fn load(&self) -> Fut<'_, Result<Changes, StoreError>>;
    /// Every row changed after `revision`, tombstones included.
    fn since(&self, revision: Revision) -> Fut<'_, Result<Changes, StoreError>>;
    /// One transaction: lock and bump the revision, hand `decide` what changed since `seen`, write what it
    /// says, notify, commit. Returns everything after `seen`, the written rows included.
    fn write<'a>(&'a self, seen: Revision, decide: Decide<'a>) -> Fut<'a, Result<Changes, WriteError>>;
    /// Returns when another node has (perhaps) written; never is fine, the poll is the truth.
    fn wake(&self) -> Fut<'_, ()>;
}

/// Stored rows as the Admin API lists and shows them; the hot path never asks.
pub trait Directory: Send + Sync {
    /// One live row by id or slug. `workspace` `None`: at organisation level or in any workspace of it.
    fn get<'a>(
        &'a self,
        kind: Kind,
        org: OrgId,
        workspace: Option<WorkspaceId>,
        id_or_slug: &'a str,
    ) -> Fut<'a, Result<Option<Stored>, StoreError>>;
    /// Newest first.
    fn list<'a>(&'a self, query: &'a ResourceQuery) -> Fut<'a, Result<Page<Stored>, StoreError>>;
}

/// Absent means any.
#[derive(Clone, Debug)]
pub struct ResourceQuery {
    pub kind: Kind,
    pub org: OrgId,
    /// `Some(None)`: rows at organisation level only.
    pub workspace: Option<Option<WorkspaceId>>,
    pub status: Option<String>,
    pub name: Option<String>,
    pub ids: Vec<Uuid>,
    /// Tombstones alone, instead of what lives.
    pub deleted: bool,
    pub page: u64,
    pub page_size: u64,
}

/// The snapshot that the hot path reads, and the one way to change it.
pub trait Live: Send + Sync {
    fn snapshot(&self) -> Arc<Snapshot>;
    /// Applies what the store has committed and swaps. Cannot fail; rows that cannot be read are told.
    fn publish(&self, changes: &Changes) -> Vec<RowProblem>;
}

/// History of what keeps versions (configs first), and the audit trail: read by admins only.
pub trait History: Send + Sync {
    fn versions(&self, kind: &'static str, id: Uuid) -> Fut<'_, Result<Vec<StoredVersion>, StoreError>>;
    /// Newest first.
    fn audit<'a>(&'a self, query: &'a AuditQuery) -> Fut<'a, Result<Page<Audit>, StoreError>>;
}

/// Whose budget is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// One counter for each combination of the values it groups by.
    Policy(PolicyId),
    Key(KeyId),
    Workspace(WorkspaceId),
    Provider(ProviderId),
    /// For one workspace, or for all of them together.
    Integration(IntegrationId, Option<WorkspaceId>),
    /// Of tokens: stored nowhere but in them.
    Claim(ClaimId),
}

/// As it is written down: `policy:<id>`, `integration:<id>/<workspace>`.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(id) => write!(f, "policy:{id}"),
            Self::Key(id) => write!(f, "key:{id}"),
            Self::Workspace(id) => write!(f, "workspace:{id}"),
            Self::Provider(id) => write!(f, "provider:{id}"),
            Self::Integration(id, None) => write!(f, "integration:{id}"),
            Self::Integration(id, Some(workspace)) => write!(f, "integration:{id}/{workspace}"),
            Self::Claim(id) => write!(f, "claim:{id}"),
        }
    }
}

impl FromStr for Holder {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (kind, id) = text.split_once(':').ok_or(())?;
        let (id, workspace) = id.split_once('/').map_or((id, None), |(id, workspace)| (id, Some(workspace)));
        let id: Uuid = id.parse().map_err(|_| ())?;
        let workspace = workspace.map(str::parse).transpose().map_err(|_| ())?.map(WorkspaceId);
        Ok(match kind {
            "policy" => Self::Policy(PolicyId(id)),
            "key" => Self::Key(KeyId(id)),
            "workspace" => Self::Workspace(WorkspaceId(id)),
            "provider" => Self::Provider(ProviderId(id)),
            "integration" => Self::Integration(IntegrationId(id), workspace),
            "claim" => Self::Claim(ClaimId(id)),
            _ => return Err(()),
        })
    }
}

/// A counter of a budget, in its running period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// Stands in URLs.
    pub id: String,
    /// `metadata._user:alice`; several are joined by commas. Empty where nothing is grouped by.
    pub value_key: String,
    /// Nanodollars of a cost, else the number itself.
    pub used: u64,
    pub exhausted: bool,
    /// When an admin or the calendar last set it to nothing.
    pub last_reset_at: Option<Timestamp>,
}

/// Absent means any. Sorted by `value_key`.
#[derive(Clone, Debug)]
pub struct EntityQuery {
    pub holder: Holder,
    /// What counts as exhausted, as [`Entity::used`].
    pub limit: u64,
    pub exhausted: Option<bool>,
    /// A part of the value key.
    pub search: Option<String>,
    pub page: u64,
    pub page_size: u64,
}

/// Which counters of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    All,
    Id(&'a str),
    ValueKey(&'a str),
}

/// What was used of budgets so far. Filled by whoever counts; read and set back by admins.
pub trait Standings: Send + Sync {
    fn entities<'a>(&'a self, query: &'a EntityQuery) -> Fut<'a, Result<Page<Entity>, StoreError>>;
    /// The one counter of each holder that groups by nothing; `None` where nothing was counted yet.
    fn totals<'a>(&'a self, holders: &'a [(Holder, &'a Budget)]) -> Fut<'a, Result<Vec<Option<Entity>>, StoreError>>;
    /// False when there is no such counter.
    fn reset<'a>(&'a self, holder: Holder, which: Which<'a>) -> Fut<'a, Result<bool, StoreError>>;
}

pub trait LogStore: Send + Sync {
    /// Idempotent by record id.
    fn append<'a>(&'a self, batch: &'a [LogRecord]) -> Fut<'a, Result<(), StoreError>>;
    fn query<'a>(&'a self, query: &'a LogQuery) -> Fut<'a, Result<Page<LogRecord>, StoreError>>;
    /// `workspace`, when given, must own the record.
    fn get(&self, id: Uuid, workspace: Option<WorkspaceId>) -> Fut<'_, Result<Option<LogRecord>, StoreError>>;
    /// Drops whole days (UTC) that ended before these times: what is kept of messages, and the records themselves.
    /// Returns how many files or partitions went.
    fn expire(&self, bodies: Timestamp, records: Timestamp) -> Fut<'_, Result<u64, StoreError>>;
    /// What the records that have usage and no cost have in common.
    fn unpriced(&self) -> Fut<'_, Result<Vec<Unpriced>, StoreError>>;
    /// Those records themselves, oldest first, at most a thousand behind the given one.
    fn unpriced_of<'a>(
        &'a self,
        group: &'a Unpriced,
        after: Option<(Timestamp, Uuid)>,
    ) -> Fut<'a, Result<Vec<LogRecord>, StoreError>>;
    /// Of records that have a cost by now, the first one stands.
    fn set_costs<'a>(&'a self, costs: &'a [Costed]) -> Fut<'a, Result<(), StoreError>>;
}

/// Counts what was recorded, in the journal's order: usage that must survive the process.
pub trait Ledger: Send + Sync {
    /// `after[i]` is where a replay goes on behind `records[i]`. Runs on the record writer's thread, which must
    /// not wait. A record that the journal had no room for comes all the same, with the place of its neighbour.
    fn settle(&self, records: &[LogRecord], after: &[Position]);
    /// No record waits to be settled at this moment; comes again and again.
    fn caught_up(&self) {}
    /// Where a replay would have to start, should the process end now: the place of the last checkpoint that is
    /// safe on disk. Segments before it may go. `None`: no replay is ever asked for.
    fn needs(&self) -> Option<Position>;
}

/// The processes that share a configuration.
pub trait Roster: Send + Sync {
    /// This one is there, and has come so far.
    fn beat<'a>(&'a self, node: &'a Node) -> Fut<'a, Result<(), StoreError>>;
    /// This one will not come again.
    fn leave(&self, id: Uuid) -> Fut<'_, Result<(), StoreError>>;
    /// All that were heard of in the last minutes, oldest first.
    fn nodes(&self) -> Fut<'_, Result<Vec<Sighting>, StoreError>>;
}

/// Tokens of the issuers that organisations trust.
pub trait Tokens: Send + Sync {
    /// The key that a token stands for, by the issuers' keys that are held now. `hash` is of the whole token.
    fn key(&self, snapshot: &Snapshot, token: &str, hash: &KeyHash, now: Timestamp) -> Result<Arc<Key>, TokenError>;
    /// Asks the issuers of an organisation for their keys again, at a bounded rate. Comes back when they have
    /// answered, at once when they were asked too often already, and after a short while in any case.
    fn refresh(&self, org: OrgId) -> Fut<'_, ()>;
}

/// Seals secrets for rest and opens them again.
pub trait Vault: Send + Sync {
    /// Text that may be stored: `sealed:v1:<base64>`.
    fn seal(&self, plain: &str) -> String;
    fn open(&self, sealed: &str) -> Result<Secret<String>, VaultError>;
}

#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    #[error("not a sealed value")]
    Malformed,
    #[error("sealed with another master key")]
    WrongKey,
}
