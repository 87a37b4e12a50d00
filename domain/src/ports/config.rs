//! Stored resources: written by admins one batch at a time, read whole into the snapshot that requests go by, and
//! listed for admins with what they were before.

use super::{AnswerMark, Fut, StoreError};
use crate::id::{OrgId, WorkspaceId};
use crate::record::Page;
use crate::resource::{Audit, AuditQuery, Kind, Stored, StoredVersion};
use crate::revision::{Changes, Revision};
use crate::snapshot::{RowProblem, Snapshot};
use std::sync::Arc;
use uuid::Uuid;

/// What one write puts down, decided inside the transaction.
#[derive(Debug, Default)]
pub struct Batch {
    /// Inserted or updated by `(kind, id)`; the store sets `revision`.
    pub rows: Vec<Stored>,
    pub versions: Vec<StoredVersion>,
    pub audit: Vec<Audit>,
    /// Tells in a row of the audit trail what a row was before.
    pub compare: Option<Compare>,
    /// Keeps what a row was, for kinds whose versions nobody numbers.
    pub history: Option<KeepHistory>,
    /// The mark of the request that asks for the write, where a client may send that request again.
    pub mark: Option<AnswerMark>,
}

/// What stood in the store, what stands there now, and the audit row that tells of it.
pub type Compare = fn(before: &Stored, after: &Stored, told: &mut Audit);

/// What stood in the store, what stands there now, and who changed it; `None`: nothing that is worth keeping.
pub type KeepHistory = fn(before: &Stored, after: &Stored, told: &Audit) -> Option<HistoryStep>;

/// A change of a row in its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryStep {
    /// What it was; kept where nothing is kept of it yet.
    pub first: StoredVersion,
    pub next: StoredVersion,
}

/// Versions of one row that a history of such steps keeps; older ones go.
pub const MOST_VERSIONS: usize = 50;

/// Looks at what others wrote since the writer's snapshot, checks, and says what to write; an `Err` rolls back.
pub type Decide<'a> = Box<dyn FnOnce(&Changes) -> Result<Batch, Rejection> + Send + 'a>;

/// Why a write was refused: opaque to the store, carried back to whoever decided.
pub type Rejection = Box<dyn std::any::Any + Send>;

#[derive(Debug)]
pub enum WriteError {
    Rejected(Rejection),
    /// The mark stands already: somebody else has carried out this very request.
    Repeated,
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
    /// A part of the name or the slug, whatever the case of its letters.
    pub search: Option<String>,
    pub ids: Vec<Uuid>,
    /// Tombstones alone, instead of what lives.
    pub deleted: bool,
    pub page: u64,
    pub page_size: u64,
}

impl ResourceQuery {
    /// Every living row of a kind, in the largest pages there are.
    pub const fn all(kind: Kind, org: OrgId) -> Self {
        Self {
            kind,
            org,
            workspace: None,
            status: None,
            name: None,
            search: None,
            ids: Vec::new(),
            deleted: false,
            page: 0,
            page_size: 1000,
        }
    }
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
