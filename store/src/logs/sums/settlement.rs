//! Sums that were set aside are added to their rows before anybody reads those, and when many wait. Whoever asks first
//! pays for it, in transactions that are short enough for the writer of records to get in between.

use crate::database::{Database, Side};
use crate::logs::day::Day;
use crate::logs::files::DayFiles;
use crate::logs::partitions::Partitions;
use crate::logs::rollup::{Rollups, pending_sums};
use crate::logs::shape::Table;
use crate::session::{Session, failure};
use gateway_domain::analytics::SumQuery;
use gateway_domain::ports::StoreError;
use sqlx::Error;
use std::ops::Range;
use tokio::time::timeout;

async fn settle(database: &Database, rollups: &Rollups, times: &Range<i64>) -> Result<(), StoreError> {
    loop {
        let mut lease = database.lease(Side::Write).await?;
        let work = async {
            let mut session = lease.session();
            let mut transaction = session.begin().await?;
            let more = rollups.settle(&mut transaction.session(), times).await?;
            transaction.commit().await?;
            Ok(more)
        };
        let outcome = timeout(database.call_timeout(), work).await.map(|done| done.map_err(|e: Error| failure(&e)));
        if !lease.finish(outcome)? {
            return Ok(());
        }
    }
}

/// After a write to this day: what was not added waits on, and is added by whoever asks.
pub(in crate::logs) async fn settle_written(database: &Database, rollups: &Rollups, day: Day) {
    if rollups.has_much_waiting(day)
        && let Err(error) = settle(database, rollups, &day.times()).await
    {
        tracing::warn!(day = day.name(), %error, "sums of records wait on");
    }
}

impl DayFiles {
    /// Where a session of the day's file finds that something waits.
    pub(super) async fn settle(&self, day: Day, session: &mut Session<'_>) -> Result<(), StoreError> {
        if !pending_sums::is_any(session, &day.times()).await.map_err(|e| failure(&e))? {
            return Ok(());
        }
        match self.present(day, Table::Records).await? {
            Some(database) => settle(&database, &self.rollups, &day.times()).await,
            None => Ok(()),
        }
    }
}

impl Partitions {
    /// All that is asked for.
    pub(super) async fn settle(&self, query: &SumQuery) -> Result<(), StoreError> {
        let [Some(first), Some(last)] = [query.edges.first(), query.edges.last()] else { return Ok(()) };
        // What a write set aside lies at the first of its hours, which may be before all that is asked for.
        let times = Day::of(*first).times().start..Day::of(*last).times().end;
        let mut lease = self.database.lease_soon(Side::Read).await?;
        let any = async { pending_sums::is_any(&mut lease.session(), &times).await.map_err(|e| failure(&e)) };
        let any = timeout(self.database.call_timeout(), any).await;
        if lease.finish(any)? { settle(&self.database, &self.rollups, &times).await } else { Ok(()) }
    }
}
