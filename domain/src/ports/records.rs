//! Records of calls: kept by a log store, a port for each who asks it, and counted by a ledger in the order of the
//! journal.

use super::{Fut, StoreError};
use crate::analytics::{SumQuery, SumsFound};
use crate::id::{OrgId, WorkspaceId};
use crate::record::{Costed, LogQuery, LogRecord, Page, Position, Unpriced};
use crate::time::Timestamp;
use smol_str::SmolStr;
use std::sync::Arc;
use uuid::Uuid;

/// Takes records, and what is kept of messages beside them: for whoever ships them.
pub trait RecordAppend: Send + Sync {
    /// Idempotent by record id.
    fn append<'a>(&'a self, batch: &'a [LogRecord]) -> Fut<'a, Result<(), StoreError>>;

    /// How many records are best handed over at once: few large writes cost a server less than many small ones.
    fn at_once(&self) -> usize {
        4_096
    }
}

/// Shows records: for admins.
pub trait RecordQuery: Send + Sync {
    fn query<'a>(&'a self, query: &'a LogQuery) -> Fut<'a, Result<Page<LogRecord>, StoreError>>;
    /// `workspace`, when given, must own the record.
    fn get(&self, id: Uuid, workspace: Option<WorkspaceId>) -> Fut<'_, Result<Option<LogRecord>, StoreError>>;
}

/// Adds records up: for analytics. The sums of what is stored are kept beside it, in the same write.
pub trait RecordSums: Send + Sync {
    fn sums<'a>(&'a self, query: &'a SumQuery) -> Fut<'a, Result<SumsFound, StoreError>>;
    /// Rows of sums that were begun since the start: how many there are of an hour says what a day of them costs.
    fn sums_begun(&self) -> u64 {
        0
    }
    /// Writes of this process whose sums are set aside and still to be added to those of other writes.
    fn sums_waiting(&self) -> u64 {
        0
    }
    /// Adds up days that a version without rollups wrote, where none writes to them any more: those that ended before
    /// this. Returns how many. Until then their records are read one by one.
    fn make_up(&self, ended_before: Timestamp) -> Fut<'_, Result<u64, StoreError>>;
}

/// Which keys of metadata an organisation wants sums by.
pub trait NamedMetadata: Send + Sync {
    fn named(&self, org: OrgId) -> Arc<[SmolStr]>;
}

/// Gives records their cost when its price came later.
pub trait Repricing: Send + Sync {
    /// What the records that have usage and no cost have in common.
    fn unpriced(&self) -> Fut<'_, Result<Vec<Unpriced>, StoreError>>;
    /// Those records themselves, oldest first, at most a thousand behind the given one.
    fn unpriced_of<'a>(
        &'a self,
        group: &'a Unpriced,
        after: Option<(Timestamp, Uuid)>,
    ) -> Fut<'a, Result<Vec<LogRecord>, StoreError>>;
    /// Gives records their cost; one that has a cost by now keeps it.
    fn set_costs<'a>(&'a self, costs: &'a [Costed]) -> Fut<'a, Result<(), StoreError>>;
}

/// Lets go of records that were kept long enough.
pub trait Retention: Send + Sync {
    /// Drops whole days (UTC) that ended before these times: what is kept of messages, and the records themselves.
    /// Returns how many files or partitions went.
    fn expire(&self, bodies: Timestamp, records: Timestamp) -> Fut<'_, Result<u64, StoreError>>;
}

/// A backend of records: all that is asked of one. Whoever asks takes the part that it needs.
pub trait LogStore: RecordAppend + RecordQuery + RecordSums + Repricing + Retention {}

impl<S: RecordAppend + RecordQuery + RecordSums + Repricing + Retention> LogStore for S {}

/// Counts what was recorded, in the journal's order: usage that must survive the process.
pub trait RecordLedger: Send + Sync {
    /// `after[i]` is where a replay goes on behind `records[i]`. Runs on the record writer's thread, which must
    /// not wait. A record that the journal had no room for comes all the same, with the place of its neighbour.
    fn settle(&self, records: &[LogRecord], after: &[Position]);
    /// No record waits to be settled at this moment; comes again and again.
    fn caught_up(&self) {}
    /// Where a replay would have to start, should the process end now: the place of the last checkpoint that is
    /// safe on disk. Segments before it may go. `None`: no replay is ever asked for.
    fn needs(&self) -> Option<Position>;
}
