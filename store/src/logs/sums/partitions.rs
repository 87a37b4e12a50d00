//! Sums over partitions of Postgres.

use super::{Gather, Stretch, all_of, count, read, stretches};
use crate::database::Side;
use crate::logs::day::Day;
use crate::logs::partitions::{Partitions, partition, partition_name};
use crate::logs::rollup::{alone, margins};
use crate::logs::shape::Table;
use crate::session::{Lease, failure};
use gateway_domain::Timestamp;
use gateway_domain::analytics::{Margin, SumQuery, SumsFound};
use gateway_domain::ports::{Fut, RecordSums, StoreError};
use gateway_domain::record::LogQuery;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// A day of an older version with many millions of records takes minutes.
const MAKING_UP: Duration = Duration::from_secs(1_800);

impl Partitions {
    /// Days with records that have no rollups.
    async fn uncounted(&self) -> Result<BTreeSet<Day>, StoreError> {
        let counted = self.days_of(Table::Rollups).await?;
        Ok(self.days_of(Table::Records).await?.into_iter().filter(|day| !counted.contains(day)).collect())
    }

    async fn sum(
        lease: &mut Lease,
        (parts, until): (&[Stretch], Instant),
        gather: &mut Gather<'_>,
    ) -> Result<(), StoreError> {
        let mut session = lease.session();
        for part in parts.iter().rev() {
            if Instant::now() >= until {
                gather.miss();
                break;
            }
            read(&mut session, part, Table::Records.name(), gather).await.map_err(|e| failure(&e))?;
        }
        Ok(())
    }

    /// How many records match.
    pub(in crate::logs) async fn count_all(&self, query: &LogQuery) -> Result<u64, StoreError> {
        let named = query.org.map_or_else(|| [].into(), |org| self.rollups.named(org));
        let asked = all_of(query);
        self.settle(&asked).await?;
        let uncounted = self.uncounted().await?;
        let parts: Vec<Stretch> = stretches(&asked, &named).into_iter().flat_map(|s| s.without(&uncounted)).collect();
        let mut lease = self.database.lease_soon(Side::Read).await?;
        let counted = async {
            let mut session = lease.session();
            count(&mut session, &parts, Table::Records.name(), query).await.map_err(|e| failure(&e))
        };
        let counted = timeout(self.database.call_timeout(), counted).await;
        lease.finish(counted)
    }

    /// Makes the rollups of a day in one transaction that keeps everybody else from writing to the day.
    async fn make_up_day(&self, day: Day) -> Result<(), StoreError> {
        let mut lease = self.database.lease(Side::Write).await?;
        let work = async {
            let mut session = lease.session();
            let mut transaction = session.begin().await?;
            let mut inside = transaction.session();
            inside.run("SET LOCAL lock_timeout = '10s'", vec![]).await?;
            alone(&mut inside).await?;
            let lock = format!("LOCK TABLE {} IN SHARE MODE", partition_name(Table::Records, day));
            inside.run(lock, vec![]).await?;
            inside.run(partition(Table::Rollups, day).replacen("IF NOT EXISTS ", "", 1), vec![]).await?;
            self.rollups.recount(&mut inside, day).await?;
            transaction.commit().await
        };
        let outcome = timeout(MAKING_UP, work).await.map(|done| done.map_err(|e| failure(&e)));
        lease.finish(outcome)
    }
}

impl Partitions {
    /// Days that have rollups and no margins.
    async fn without_margins(&self) -> Result<Vec<Day>, StoreError> {
        let counted = self.days_of(Table::Rollups).await?;
        let mut lease = self.database.lease_soon(Side::Read).await?;
        let there = margins::days(&mut lease.session(), Margin::Nothing, (0, i64::MAX)).await;
        let there = lease.finish(Ok(there.map_err(|e| failure(&e))))?;
        Ok(counted.into_iter().filter(|day| !there.contains(day)).collect())
    }

    /// The sums of days that are over, once after a start: the first question about months then finds them in memory,
    /// and not on a disk.
    async fn read_margins(&self) -> Result<(), StoreError> {
        let mut lease = self.database.lease_soon(Side::Read).await?;
        let read = async {
            margins::has_any(&mut lease.session(), &(0..i64::MAX)).await.map_err(|e| failure(&e))?;
            Ok(())
        };
        let read = timeout(self.database.call_timeout(), read).await;
        lease.finish(read)
    }

    /// While nobody else changes sums.
    async fn make_margins(&self, day: Day) -> Result<(), StoreError> {
        let mut lease = self.database.lease(Side::Write).await?;
        let work = async {
            let mut session = lease.session();
            let mut transaction = session.begin().await?;
            let mut inside = transaction.session();
            alone(&mut inside).await?;
            inside.run(partition(Table::Margins, day), vec![]).await?;
            while self.rollups.settle(&mut inside, &day.times()).await? {}
            // Another node may have made them meanwhile.
            margins::ensure(&mut inside, day).await?;
            transaction.commit().await
        };
        let outcome = timeout(MAKING_UP, work).await.map(|done| done.map_err(|e| failure(&e)));
        lease.finish(outcome)
    }
}

impl RecordSums for Partitions {
    fn sums_begun(&self) -> u64 {
        self.rollups.begun()
    }

    fn sums_waiting(&self) -> u64 {
        self.rollups.waiting()
    }

    fn sums<'a>(&'a self, query: &'a SumQuery) -> Fut<'a, Result<SumsFound, StoreError>> {
        Box::pin(async move {
            self.shape().await?;
            let named = query.of.org.map_or_else(|| [].into(), |org| self.rollups.named(org));
            let uncounted = self.uncounted().await?;
            let parts: Vec<Stretch> =
                stretches(query, &named).into_iter().flat_map(|s| s.without(&uncounted)).collect();
            let (until, mut gather) = (Instant::now() + query.time, Gather::of(query));
            match timeout_at(until, self.settle(query)).await {
                Ok(settled) => settled?,
                Err(_) => gather.miss(),
            }
            let mut lease = self.database.lease_soon(Side::Read).await?;
            match timeout_at(until, Self::sum(&mut lease, (&parts, until), &mut gather)).await {
                Ok(done) => lease.finish(Ok(done))?,
                Err(over) => {
                    // The connection is busy with what nobody waits for any more.
                    let _: Result<(), StoreError> = lease.finish(Err(over));
                    gather.miss();
                }
            }
            Ok(gather.found())
        })
    }

    fn make_up(&self, ended_before: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            self.shape().await?;
            let mut made = 0;
            for day in self.uncounted().await?.into_iter().filter(|day| day.is_over_at(ended_before)) {
                match self.make_up_day(day).await {
                    Ok(()) => made += 1,
                    // Another node is at it, or somebody still writes to it.
                    Err(error) => tracing::info!(day = %day.name(), %error, "a day's sums have to wait"),
                }
            }
            for day in self.without_margins().await?.into_iter().filter(|day| day.is_over_at(ended_before)) {
                if let Err(error) = self.make_margins(day).await {
                    tracing::info!(day = %day.name(), %error, "a day's sums have to wait");
                }
            }
            let read = || self.read_margins();
            if let Err(error) = self.margins_read.get_or_try_init(read).await {
                tracing::info!(%error, "sums of days that are over are read when they are asked for");
            }
            Ok(made)
        })
    }
}
