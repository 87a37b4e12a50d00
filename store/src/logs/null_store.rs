//! A log store that keeps nothing: for measuring what the rest of the way costs.

use gateway_domain::Timestamp;
use gateway_domain::analytics::{SumQuery, SumsFound};
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{Fut, RecordAppend, RecordQuery, RecordSums, Repricing, Retention, StoreError};
use gateway_domain::record::{Costed, LogQuery, LogRecord, Page, Unpriced};
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

/// Counts what it was given: the logs route tells the number, and no rows.
#[derive(Debug, Default)]
pub struct Nowhere(AtomicU64);

impl RecordAppend for Nowhere {
    fn append<'a>(&'a self, batch: &'a [LogRecord]) -> Fut<'a, Result<(), StoreError>> {
        self.0.fetch_add(batch.len() as u64, Ordering::Relaxed);
        Box::pin(async { Ok(()) })
    }
}

impl RecordQuery for Nowhere {
    fn query<'a>(&'a self, _: &'a LogQuery) -> Fut<'a, Result<Page<LogRecord>, StoreError>> {
        let total = self.0.load(Ordering::Relaxed);
        Box::pin(async move { Ok(Page::of(total)) })
    }

    fn get(&self, _: Uuid, _: Option<WorkspaceId>) -> Fut<'_, Result<Option<LogRecord>, StoreError>> {
        Box::pin(async { Ok(None) })
    }
}

impl RecordSums for Nowhere {
    fn sums<'a>(&'a self, _: &'a SumQuery) -> Fut<'a, Result<SumsFound, StoreError>> {
        Box::pin(async { Ok(SumsFound::default()) })
    }

    fn make_up(&self, _: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(async { Ok(0) })
    }
}

impl Retention for Nowhere {
    fn expire(&self, _: Timestamp, _: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(async { Ok(0) })
    }
}

impl Repricing for Nowhere {
    fn unpriced(&self) -> Fut<'_, Result<Vec<Unpriced>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn unpriced_of<'a>(
        &'a self,
        _: &'a Unpriced,
        _: Option<(Timestamp, Uuid)>,
    ) -> Fut<'a, Result<Vec<LogRecord>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn set_costs<'a>(&'a self, _: &'a [Costed]) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
}
