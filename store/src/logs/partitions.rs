//! Log records in Postgres: tables partitioned by day, filled by COPY, old days dropped as a whole. Several nodes
//! write at once; the first that needs a day makes it.

use super::append;
use super::columns::decode;
use super::day::{Day, by_day};
use super::paging::{ByDay, RecordSlice, RowsFound, page};
use super::query::{
    UNPRICED_GROUPS, UNPRICED_OF, WEIGHT, filter, found_in, group, light_select, one, slice, unpriced_values,
};
use super::rollup::{Rollups, alone};
use super::shape::Table;
use super::sums::{all_of, is_in_rollups, settle_written};
use crate::database::{Database, Side};
use crate::session::{Lease, Session, failure};
use gateway_domain::Timestamp;
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{Fut, NamedMetadata, RecordAppend, RecordQuery, Repricing, Retention, StoreError};
use gateway_domain::record::{Costed, LogQuery, LogRecord, Page, Unpriced};
use parking_lot::Mutex;
use sqlx::Error;
use std::collections::HashSet;
use std::sync::Arc;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use uuid::Uuid;

/// Held by whoever makes or drops a table: "gatewayl" read as bytes.
const LOCK: i64 = i64::from_be_bytes(*b"gatewayl");

#[derive(Debug)]
pub struct Partitions {
    pub(super) database: Database,
    pub(super) rollups: Rollups,
    /// The tables are known to be there.
    shaped: OnceCell<()>,
    /// Sums of days that are over were read since the start.
    pub(super) margins_read: OnceCell<()>,
    /// Days that are known to have their partitions.
    days: Mutex<HashSet<Day>>,
}

impl Partitions {
    /// The server may be away: tables are looked at when it is first needed.
    pub fn over(database: Database, names: Option<Arc<dyn NamedMetadata>>) -> Self {
        Self {
            database,
            rollups: Rollups::new(names),
            shaped: OnceCell::new(),
            margins_read: OnceCell::new(),
            days: Mutex::default(),
        }
    }

    pub(super) async fn shape(&self) -> Result<(), StoreError> {
        let make = || {
            self.change(async |session| {
                for table in Table::ALL {
                    table.ensure(session).await?;
                }
                Ok(())
            })
        };
        self.shaped.get_or_try_init(make).await.copied()
    }

    /// One transaction that changes tables, under the lock.
    pub(super) async fn change(
        &self,
        work: impl AsyncFnOnce(&mut Session<'_>) -> Result<(), Error>,
    ) -> Result<(), StoreError> {
        let mut lease = self.database.lease(Side::Write).await?;
        let whole = async {
            let mut session = lease.session();
            let mut transaction = session.begin().await?;
            let mut inside = transaction.session();
            // A reader that holds on to a table must not hold up all that come after.
            inside.run("SET LOCAL lock_timeout = '10s'", vec![]).await?;
            inside.fetch("SELECT pg_advisory_xact_lock($1)", vec![LOCK.into()], |_| Ok(())).await?;
            work(&mut inside).await?;
            transaction.commit().await
        };
        let outcome = timeout(self.database.call_timeout(), whole).await.map(|done| done.map_err(|e| failure(&e)));
        lease.finish(outcome)
    }

    async fn make_days(&self, days: &[Day]) -> Result<(), StoreError> {
        let missing: Vec<Day> = days.iter().copied().filter(|day| !self.days.lock().contains(day)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let make = async |session: &mut Session<'_>| {
            for day in &missing {
                // Where records are already, an older version wrote them, and their sums are made up for in one piece.
                // That version may have kept sums and not known that some can wait.
                let there = "SELECT COUNT(*) FROM pg_class WHERE oid = to_regclass($1)";
                let name = partition_name(Table::Records, *day);
                let is_new = session.fetch_int(there, vec![name.into()]).await? == 0;
                let is_made = |table: &Table| is_new || *table == Table::Waiting || !Table::SUMS.contains(table);
                for table in Table::ALL.into_iter().filter(is_made) {
                    session.run(partition(table, *day), vec![]).await?;
                }
            }
            Ok(())
        };
        self.change(make).await?;
        self.days.lock().extend(missing);
        Ok(())
    }

    async fn put(&self, batch: &[LogRecord]) -> Result<(), StoreError> {
        self.shape().await?;
        let days: Vec<Day> = by_day(batch).into_keys().collect();
        self.make_days(&days).await?;
        let with_bodies: Vec<&LogRecord> = batch.iter().filter(|r| r.bodies.is_some()).collect();
        let mut lease = self.database.lease(Side::Write).await?;
        let work = async {
            if !with_bodies.is_empty() {
                append::bodies(lease.session(), &with_bodies).await?;
            }
            match &mut lease {
                Lease::Postgres(connection) => append::to_postgres(connection, batch, &self.rollups).await,
                Lease::Sqlite(_) => Err(Error::Protocol("partitions are of Postgres".to_owned())),
            }
        };
        let outcome = timeout(self.database.call_timeout(), work).await.map(|done| done.map_err(|e| failure(&e)));
        lease.finish(outcome)?;
        for day in days {
            settle_written(&self.database, &self.rollups, day).await;
        }
        Ok(())
    }

    async fn page(&self, query: &LogQuery) -> Result<Page<LogRecord>, StoreError> {
        self.shape().await?;
        filter(query).check()?;
        if query.time.is_some() && self.is_searched(query) {
            let mut days: Vec<Day> = self.days_of(Table::Records).await?.into_iter().collect();
            days.sort_unstable_by(|a, b| b.cmp(a));
            return page(self, days, query).await;
        }
        let found = self.found(query, RecordSlice { place: slice(query), most_bytes: query.most_bytes }).await?;
        if query.most_bytes.is_some_and(|most| found.bytes > most) {
            return Ok(Page { is_too_large: true, ..Page::of(0) });
        }
        let total = if query.cursor.is_some() { 0 } else { self.count_all(query).await? };
        Ok(Page { rows: found.rows, ..Page::of(total) })
    }

    async fn found(&self, query: &LogQuery, slice: RecordSlice) -> Result<RowsFound, StoreError> {
        let mut lease = self.database.lease_soon(Side::Read).await?;
        let found = async {
            let found = found_in(&mut lease.session(), (light_select(), &WEIGHT), query, slice).await;
            found.map_err(|e| failure(&e))
        };
        let found = timeout(self.database.call_timeout(), found).await;
        lease.finish(found)
    }

    /// Whether neither an index nor sums know what is asked for, so that a look at all of it may be needed.
    fn is_searched(&self, query: &LogQuery) -> bool {
        let named = query.org.map_or_else(|| [].into(), |org| self.rollups.named(org));
        query.trace_id.is_none() && query.trace_ids.is_empty() && !is_in_rollups(&all_of(query), &named)
    }

    async fn find(&self, id: Uuid, workspace: Option<WorkspaceId>) -> Result<Option<LogRecord>, StoreError> {
        self.shape().await?;
        let (sql, values) = one(id, workspace);
        let Some(mut record) = self.database.rows(sql, values, decode).await?.pop() else { return Ok(None) };
        record.bodies = append::bodies_of(&self.database, id).await?;
        Ok(Some(record))
    }

    pub(super) async fn days_of(&self, table: Table) -> Result<HashSet<Day>, StoreError> {
        let found = "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
                     WHERE i.inhparent = to_regclass($1)";
        let found = self.database.rows(found, vec![table.name().into()], |r| r.columns().text().map(str::to_owned));
        Ok(found.await?.iter().filter_map(|name| day_of_partition(table, name)).collect())
    }

    /// Sums go with their records, in one step.
    async fn drop_before(&self, table: Table, before: Timestamp) -> Result<u64, StoreError> {
        let mut dropped = 0;
        for day in self.days_of(table).await?.into_iter().filter(|day| day.is_over_at(before)) {
            let of = |table| format!("DROP TABLE IF EXISTS {}", partition_name(table, day));
            let sums = if table == Table::Records { &Table::SUMS[..] } else { &[] };
            // One day at a time: a short lock each.
            self.change(async |session| {
                // Whoever adds to sums holds rows of several of these tables, and takes them in another order.
                alone(session).await?;
                for table in [table].iter().chain(sums) {
                    session.run(of(*table), vec![]).await?;
                }
                Ok(())
            })
            .await?;
            dropped += 1;
        }
        self.rollups.forget_days();
        self.days.lock().retain(|day| !day.is_over_at(before));
        Ok(dropped)
    }
}

pub(super) fn partition_name(table: Table, day: Day) -> String {
    format!("{}_{}", table.name(), day.name().replace('-', ""))
}

fn day_of_partition(table: Table, name: &str) -> Option<Day> {
    let digits = name.strip_prefix(table.name())?.strip_prefix('_')?;
    let (year, month, day) = (digits.get(..4)?, digits.get(4..6)?, digits.get(6..)?);
    Day::parse(&format!("{year}-{month}-{day}"))
}

pub(super) fn partition(table: Table, day: Day) -> String {
    let bound = |at: Option<i64>, none: &str| at.map_or_else(|| none.to_owned(), |at| at.to_string());
    format!(
        "CREATE TABLE IF NOT EXISTS {} PARTITION OF {} FOR VALUES FROM ({}) TO ({})",
        partition_name(table, day),
        table.name(),
        bound(day.start(), "MINVALUE"),
        bound(day.end(), "MAXVALUE")
    )
}

/// A day's part of what is asked for.
fn in_day(query: &LogQuery, day: Day) -> LogQuery {
    let start = day.start().map(Timestamp);
    let last = day.end().map(|end| Timestamp(end - 1));
    LogQuery { from: query.from.max(start), to: query.to.into_iter().chain(last).min(), ..query.clone() }
}

impl ByDay for Partitions {
    async fn count(&self, day: Day, query: &LogQuery) -> Result<u64, StoreError> {
        let of = in_day(query, day);
        let (sql, values) = filter(&of).count(Table::Records.name());
        let found = self.database.rows(sql, values, |row| row.columns().int()).await?;
        Ok(found.first().and_then(|n| u64::try_from(*n).ok()).unwrap_or_default())
    }

    async fn slice(&self, day: Day, query: &LogQuery, slice: RecordSlice) -> Result<RowsFound, StoreError> {
        self.found(&in_day(query, day), slice).await
    }
}

impl RecordAppend for Partitions {
    fn append<'a>(&'a self, batch: &'a [LogRecord]) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let stored = self.put(batch).await;
            if !matches!(stored, Err(StoreError::Broken(_))) {
                return stored;
            }
            // Another node may have dropped a day that this one knew.
            self.days.lock().clear();
            self.rollups.forget_days();
            self.put(batch).await
        })
    }
}

impl RecordQuery for Partitions {
    fn query<'a>(&'a self, query: &'a LogQuery) -> Fut<'a, Result<Page<LogRecord>, StoreError>> {
        Box::pin(self.page(query))
    }

    fn get(&self, id: Uuid, workspace: Option<WorkspaceId>) -> Fut<'_, Result<Option<LogRecord>, StoreError>> {
        Box::pin(self.find(id, workspace))
    }
}

impl Retention for Partitions {
    fn expire(&self, bodies: Timestamp, records: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            self.shape().await?;
            let bodies = self.drop_before(Table::Bodies, bodies).await?;
            Ok(bodies + self.drop_before(Table::Records, records).await?)
        })
    }
}

impl Repricing for Partitions {
    fn unpriced(&self) -> Fut<'_, Result<Vec<Unpriced>, StoreError>> {
        Box::pin(async move {
            self.shape().await?;
            self.database.rows(UNPRICED_GROUPS, vec![], group).await
        })
    }

    fn unpriced_of<'a>(
        &'a self,
        group: &'a Unpriced,
        after: Option<(Timestamp, Uuid)>,
    ) -> Fut<'a, Result<Vec<LogRecord>, StoreError>> {
        Box::pin(self.database.rows(&**UNPRICED_OF, unpriced_values(group, after), decode))
    }

    fn set_costs<'a>(&'a self, costs: &'a [Costed]) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(super::query::set_costs(&self.database, costs, &self.rollups))
    }
}
