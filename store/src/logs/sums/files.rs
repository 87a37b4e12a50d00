//! Sums over files of days. Rollups of months are read from as many files, by connections of their own: those of what
//! is written to are not pushed out.

use super::{Gather, Stretch, SumSource, all_of, count, read, stretches};
use crate::database::Side;
use crate::logs::day::Day;
use crate::logs::files::DayFiles;
use crate::logs::query::RecordLookup;
use crate::logs::rollup::{is_counted, margins};
use crate::logs::shape::{Table, ensure_sums, has_all_sums};
use crate::session::{Lease, Session, failure};
use futures_util::StreamExt;
use futures_util::stream;
use gateway_domain::Timestamp;
use gateway_domain::analytics::{SumQuery, SumsFound};
use gateway_domain::ports::{Fut, RecordSums, StoreError};
use gateway_domain::record::LogQuery;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Error};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// A day of an older version with many millions of records takes minutes.
const MAKING_UP: Duration = Duration::from_secs(1_800);

/// Kibibytes that a kept connection may take for pages, by SQLite's sign for that: the system has them in memory as
/// well.
const CACHE: &str = "-128";

/// Statements that it keeps prepared: a question that comes again, as those of a page of graphs do, finds its own.
const STATEMENTS: usize = 6;

/// Days whose kept sums are read at the same time.
const AT_ONCE: usize = 4;

/// A way to a day's file.
pub(in crate::logs) enum DayReader {
    /// Its tables are as this version knows them: nothing has to be looked at or added.
    Light(Box<SqliteConnection>),
    Pooled(Lease),
}

impl DayReader {
    pub(in crate::logs) fn session(&mut self) -> Session<'_> {
        match self {
            Self::Light(connection) => Session::Sqlite(connection),
            Self::Pooled(lease) => lease.session(),
        }
    }
}

impl DayFiles {
    /// Opens the day to be read, with these parts of it as they have to be read: from records where there are no sums.
    pub(in crate::logs) async fn reader(
        &self,
        day: Day,
        parts: Vec<Stretch>,
    ) -> Result<Option<(DayReader, Vec<Stretch>)>, StoreError> {
        let path = self.path(day, Table::Records);
        if !path.exists() {
            self.readers.forget(day);
            return Ok(None);
        }
        if let Some(connection) = self.readers.take(day) {
            return Ok(Some((DayReader::Light(connection), parts)));
        }
        let options = SqliteConnectOptions::new().filename(&path).create_if_missing(false);
        let options = options.busy_timeout(Duration::from_secs(2)).disable_statement_logging();
        let options = options.pragma("cache_size", CACHE).statement_cache_capacity(STATEMENTS);
        let light = options.connect().await;
        if let Ok(mut connection) = light
            && (self.as_now.lock().contains(&day) || has_all_sums(&mut Session::Sqlite(&mut connection)).await)
        {
            self.as_now.lock().insert(day);
            return Ok(Some((DayReader::Light(Box::new(connection)), parts)));
        }
        let Some(database) = self.present(day, Table::Records).await? else { return Ok(None) };
        let mut reader = DayReader::Pooled(database.lease(Side::Read).await?);
        let counted = is_counted(&mut reader.session()).await.map_err(|e| failure(&e))?;
        let as_records = |part: Stretch| Stretch { source: SumSource::Records, ..part };
        let parts = if counted { parts } else { parts.into_iter().map(as_records).collect() };
        Ok(Some((reader, parts)))
    }

    /// Opens the day like [`Self::reader`]. Where kept sums are to be read, what still waits is added to them first.
    async fn settled(&self, day: Day, parts: Vec<Stretch>) -> Result<Option<(DayReader, Vec<Stretch>)>, StoreError> {
        let Some((mut reader, parts)) = self.reader(day, parts).await? else { return Ok(None) };
        if parts.iter().any(|part| part.source != SumSource::Records) {
            self.settle(day, &mut reader.session()).await?;
        }
        Ok(Some((reader, parts)))
    }

    async fn sum_day(&self, day: Day, parts: Vec<Stretch>, gather: &mut Gather<'_>) -> Result<(), StoreError> {
        let table = RecordLookup::of(&gather.query.of).table;
        let Some((mut reader, parts)) = self.settled(day, parts).await? else { return Ok(()) };
        let summed = sum(&mut reader.session(), (parts, table), gather).await;
        self.keep_reader(day, reader, summed.is_ok());
        summed.map_err(|e| failure(&e))
    }

    /// Keeps the reader for the next question, if this one was answered.
    pub(in crate::logs) fn keep_reader(&self, day: Day, reader: DayReader, is_good: bool) {
        if let (DayReader::Light(connection), true) = (reader, is_good) {
            self.readers.keep(day, connection);
        }
    }

    /// The sums of a day, where rows that were kept are all that has to be read.
    async fn kept_of<'q>(&self, day: Day, parts: &[Stretch], query: &'q SumQuery) -> Option<Gather<'q>> {
        if parts.iter().any(|part| part.source == SumSource::Records) {
            return None;
        }
        let mut gather = Gather::of(query);
        self.sum_day(day, parts.to_vec(), &mut gather).await.ok()?;
        gather.is_whole().then_some(gather)
    }

    /// How many records of a day match.
    pub(in crate::logs) async fn count_day(&self, day: Day, query: &LogQuery) -> Result<u64, StoreError> {
        let named = query.org.map_or_else(|| [].into(), |org| self.rollups.named(org));
        let parts = stretches(&all_of(query), &named).into_iter().filter_map(|s| s.in_day(day)).collect();
        let Some((mut reader, parts)) = self.settled(day, parts).await? else { return Ok(0) };
        let counted = count(&mut reader.session(), &parts, RecordLookup::of(query).table, query).await;
        self.keep_reader(day, reader, counted.is_ok());
        counted.map_err(|e| failure(&e))
    }

    /// Its rollups, where it has none, and its margins. Whether the rollups were made.
    async fn make_up_day(&self, day: Day) -> Result<bool, StoreError> {
        let Some(database) = self.present(day, Table::Records).await? else { return Ok(false) };
        let mut lease = database.lease(Side::Write).await?;
        let work = async {
            let mut session = lease.session();
            let mut transaction = session.begin().await?;
            let mut inside = transaction.session();
            let was_counted = is_counted(&mut inside).await?;
            ensure_sums(&mut inside).await?;
            if !was_counted {
                self.rollups.recount(&mut inside, day).await?;
            }
            while self.rollups.settle(&mut inside, &day.times()).await? {}
            margins::ensure(&mut inside, day).await?;
            transaction.commit().await?;
            self.as_now.lock().insert(day);
            Ok(!was_counted)
        };
        let outcome = timeout(MAKING_UP, work).await.map(|done| done.map_err(|e: Error| failure(&e)));
        lease.finish(outcome)
    }
}

async fn sum(
    session: &mut Session<'_>,
    (parts, table): (Vec<Stretch>, &'static str),
    gather: &mut Gather<'_>,
) -> Result<(), Error> {
    for part in parts.iter().rev() {
        read(session, part, table, gather).await?;
    }
    Ok(())
}

impl RecordSums for DayFiles {
    fn sums_begun(&self) -> u64 {
        self.rollups.begun()
    }

    fn sums_waiting(&self) -> u64 {
        self.rollups.waiting()
    }

    fn sums<'a>(&'a self, query: &'a SumQuery) -> Fut<'a, Result<SumsFound, StoreError>> {
        Box::pin(async move {
            let named = query.of.org.map_or_else(|| [].into(), |org| self.rollups.named(org));
            let stretches = stretches(query, &named);
            let of_day = |day: Day| (day, stretches.iter().filter_map(|s| s.in_day(day)).collect::<Vec<Stretch>>());
            let days = self.days(Table::Records)?.into_iter().map(of_day).filter(|(_, parts)| !parts.is_empty());
            let (until, mut gather) = (Instant::now() + query.time, Gather::of(query));
            let own = SumQuery { most_records: 0, ..query.clone() };
            let mut ahead = stream::iter(days)
                .map(async |(day, parts)| {
                    let kept = self.kept_of(day, &parts, &own).await;
                    (day, parts, kept)
                })
                .buffered(AT_ONCE);
            // Days that need their records wait until all others are read: what is under way there may hold what they
            // need.
            let mut rest = Vec::new();
            while let Ok(Some((day, parts, kept))) = timeout_at(until, ahead.next()).await {
                match kept {
                    Some(kept) => gather.merge(kept),
                    None => rest.push((day, parts)),
                }
            }
            drop(ahead);
            for (day, parts) in rest {
                if Instant::now() >= until {
                    break;
                }
                let Ok(read) = timeout_at(until, self.sum_day(day, parts, &mut gather)).await else { break };
                if let Err(error) = self.unless_gone(day, Table::Records, read) {
                    tracing::warn!(day = day.name(), %error, "records of a day cannot be summed");
                    gather.miss();
                }
            }
            if Instant::now() >= until {
                gather.miss();
            }
            Ok(gather.found())
        })
    }

    /// Even here another process may write, of the version before, while this one takes over from it.
    fn make_up(&self, ended_before: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            let mut made = 0;
            self.readers.close_idle();
            for day in self.days(Table::Records)?.into_iter().filter(|day| day.is_over_at(ended_before)) {
                if !self.made_up.lock().insert(day) {
                    continue;
                }
                match self.make_up_day(day).await {
                    Ok(counted) => made += u64::from(counted),
                    // The other days get their sums.
                    Err(error) => {
                        self.made_up.lock().remove(&day);
                        tracing::warn!(day = day.name(), %error, "records of a day cannot be summed");
                    }
                }
            }
            Ok(made)
        })
    }
}
