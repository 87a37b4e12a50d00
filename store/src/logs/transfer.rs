//! Records from one log store to another, a day at a time, the newest day first, and within a day the newest record.
//! What is there already is passed over, so a transfer that was cut goes on where it was by being asked for again, and
//! keeps no place of its own. A day is done when both stores tell the same sums of it, or when no record of it is
//! missing.

mod bodies;
mod cursor;

use bodies::KeptBodies;

use super::day::Day;
use super::{ColumnStore, DayFiles, LogsUrl, Partitions};
use crate::database::{DatabaseOptions, OpenError, open_later};
use cursor::Walk;
use gateway_domain::Timestamp;
use gateway_domain::analytics::{SumParts, SumQuery, Sums};
use gateway_domain::ports::{LogStore, StoreError};
use gateway_domain::record::{Costed, LogCursor, LogQuery, LogRecord};
use std::sync::Arc;
use std::time::Duration;

/// Records that are written at once, unless they are large.
const BATCH: usize = 4_000;
/// What is kept of messages in a batch, in bytes.
const BATCH_BYTES: usize = 16 << 20;
/// Records whose messages are read at once.
const AT_ONCE: usize = 200;
/// Times that a day is gone through before it is told to be missing records.
const PASSES: u32 = 3;
/// How long the sums of a day may take.
const SUMMING: Duration = Duration::from_secs(600);

/// A log store that records are taken from.
#[derive(Clone)]
pub struct LogSource {
    pub records: Arc<dyn LogStore>,
    bodies: Arc<dyn KeptBodies>,
}

impl std::fmt::Debug for LogSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogSource").finish_non_exhaustive()
    }
}

/// What was done, and what both stores hold of the days of the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    pub days: u64,
    /// Records that were not there before.
    pub written: u64,
    pub source: Sums,
    pub target: Sums,
}

#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("the log store that records come from: {0}")]
    Source(StoreError),
    #[error("the log store that records go to: {0}")]
    Target(StoreError),
    #[error("{day}: {missing} records do not stay in the log store that they go to")]
    Missing { day: String, missing: u64 },
    #[error(
        "the first store has {source_records} records and the second {target_records}: one that still takes records has to be gone through again"
    )]
    Differs { source_records: i64, target_records: i64 },
}

impl LogSource {
    /// Opens a place that keeps records; `None` for one that keeps nothing.
    pub async fn open(url: &LogsUrl, options: &DatabaseOptions) -> Result<Option<Self>, OpenError> {
        fn both<S: LogStore + KeptBodies + 'static>(store: S) -> LogSource {
            let store = Arc::new(store);
            LogSource { records: store.clone(), bodies: store }
        }
        Ok(Some(match url {
            LogsUrl::Files(folder) => both(
                DayFiles::open(folder, options, None)
                    .map_err(|source| OpenError::Create { path: folder.clone(), source })?,
            ),
            LogsUrl::Postgres(url) => both(Partitions::over(open_later(url, options).await?, None)),
            LogsUrl::ClickHouse(url) => both(
                ColumnStore::open(url, options).map_err(|why| OpenError::Columns { place: url.to_string(), why })?,
            ),
            LogsUrl::Nowhere => return Ok(None),
        }))
    }

    /// Brings all records to a store that may hold some of them already. `told` hears of each day.
    pub async fn transfer(
        &self,
        to: &dyn LogStore,
        told: &mut (dyn FnMut(&str, u64) + Send),
    ) -> Result<Transferred, TransferError> {
        let mut done = Transferred::default();
        let mut until = None;
        while let Some(day) = self.next_day(until).await? {
            let written = Box::pin(self.day(to, day)).await?;
            told(&day.name(), written);
            done.days += 1;
            done.written += written;
            let [source, target] = [
                sums(&*self.records, day).await.map_err(TransferError::Source)?,
                sums(to, day).await.map_err(TransferError::Target)?,
            ];
            done.source.merge(&source.unwrap_or_default());
            done.target.merge(&target.unwrap_or_default());
            let Some(start) = day.start() else { break };
            until = Some(Timestamp(start - 1));
        }
        if done.target.records < done.source.records {
            let [source_records, target_records] = [done.source.records, done.target.records];
            return Err(TransferError::Differs { source_records, target_records });
        }
        Ok(done)
    }

    /// The newest day that ended before.
    async fn next_day(&self, until: Option<Timestamp>) -> Result<Option<Day>, TransferError> {
        let newest = LogQuery { to: until, cursor: Some(LogCursor::START), page_size: 1, ..LogQuery::default() };
        let page = self.records.query(&newest).await.map_err(TransferError::Source)?;
        if !page.missing.is_empty() {
            let why = format!("days that cannot be read: {}", page.missing.join(", "));
            return Err(TransferError::Source(StoreError::Broken(why)));
        }
        Ok(page.rows.first().map(|record| Day::of(record.created_at)))
    }

    /// How many of its records were written.
    async fn day(&self, to: &dyn LogStore, day: Day) -> Result<u64, TransferError> {
        let mut written = 0;
        for _ in 0..PASSES {
            let [source, target] = [
                sums(&*self.records, day).await.map_err(TransferError::Source)?,
                sums(to, day).await.map_err(TransferError::Target)?,
            ];
            if source.is_some() && source == target {
                return Ok(written);
            }
            let missing = Box::pin(self.pass(to, day)).await?;
            if missing == 0 {
                return Ok(written);
            }
            written += missing;
        }
        let missing = Box::pin(self.pass(to, day)).await?;
        if missing == 0 { Ok(written) } else { Err(TransferError::Missing { day: day.name(), missing }) }
    }

    /// Goes through both stores side by side, and writes what the second lacks.
    async fn pass(&self, to: &dyn LogStore, day: Day) -> Result<u64, TransferError> {
        let (mut source, mut target) = (Walk::of(&*self.records, day), Walk::of(to, day));
        let mut batch = Vec::new();
        let mut costs = Vec::new();
        let mut missing = 0;
        while let Some(record) = source.next().await.map_err(TransferError::Source)? {
            let there = target.at(&record).await.map_err(TransferError::Target)?;
            match there {
                None => {
                    missing += 1;
                    batch.push(record);
                }
                Some(there) => {
                    // It was priced since it was written.
                    costs.extend(there.cost.is_none().then_some(()).and(record.cost).map(|cost| Costed {
                        id: record.id,
                        created_at: record.created_at,
                        cost,
                    }));
                }
            }
            if batch.len() >= BATCH {
                self.write(to, std::mem::take(&mut batch)).await?;
            }
            if costs.len() >= BATCH {
                to.set_costs(&std::mem::take(&mut costs)).await.map_err(TransferError::Target)?;
            }
        }
        self.write(to, batch).await?;
        if !costs.is_empty() {
            to.set_costs(&costs).await.map_err(TransferError::Target)?;
        }
        Ok(missing)
    }

    /// Writes records with what was kept of their messages.
    async fn write(&self, to: &dyn LogStore, batch: Vec<LogRecord>) -> Result<(), TransferError> {
        let (mut full, mut bytes) = (Vec::with_capacity(batch.len()), 0);
        let mut rest = batch.into_iter().peekable();
        while rest.peek().is_some() {
            let mut some: Vec<LogRecord> = rest.by_ref().take(AT_ONCE).collect();
            let mut kept = self.bodies.bodies_of(&some).await.map_err(TransferError::Source)?;
            for record in &mut some {
                if let Some(found) = kept.remove(&record.id) {
                    bytes += found.bytes;
                    record.bodies = Some(found.bodies);
                }
            }
            full.append(&mut some);
            if bytes >= BATCH_BYTES {
                to.append(&full).await.map_err(TransferError::Target)?;
                (full, bytes) = (Vec::new(), 0);
            }
        }
        if full.is_empty() { Ok(()) } else { to.append(&full).await.map_err(TransferError::Target) }
    }
}

/// The sums of all records of a day; `None` where they could not all be read.
async fn sums(store: &dyn LogStore, day: Day) -> Result<Option<Sums>, StoreError> {
    // The first and the last day have no such end: their records are compared one by one.
    let (Some(start), Some(end)) = (day.start(), day.end()) else { return Ok(None) };
    let query = SumQuery {
        of: LogQuery::default(),
        edges: vec![Timestamp(start), Timestamp(end)],
        by: Vec::new(),
        parts: SumParts::ALL,
        most_records: u64::MAX,
        time: SUMMING,
    };
    let found = store.sums(&query).await?;
    Ok((!found.is_partial).then(|| {
        let mut all = Sums::default();
        found.cells.iter().for_each(|cell| all.merge(&cell.sums));
        all
    }))
}
