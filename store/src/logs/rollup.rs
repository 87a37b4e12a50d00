//! Rollups: the sums of records by hour and day, kept in the write that stores the records, so that no crash, no second
//! shipment and no second node makes the two differ. They lie with the records of their day and go with them. The write
//! sets its sums aside; they are added to the rows of their combinations many writes at a time, and before they are
//! read. Days that an older version wrote have none until they are made up for; their records are read instead.

mod distinct_values;
pub(super) mod margins;
pub(super) mod pending_sums;
mod rows;

use super::columns::decode;
use super::day::Day;
use super::query::light_select;
use super::shape::Table;
use crate::session::Session;
use distinct_values::KnownValues;
use gateway_domain::Timestamp;
use gateway_domain::analytics::{Combination, Fact, Grain, Sums};
use gateway_domain::id::OrgId;
use gateway_domain::ports::NamedMetadata;
use gateway_domain::record::LogRecord;
use parking_lot::Mutex;
use pending_sums::SetAsideCounts;
use rows::RowKey;
pub(super) use rows::read_parts as read_sums;
use smol_str::SmolStr;
use sqlx::Error;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// Held on Postgres by whoever changes rows: "gatewayr" read as bytes.
const LOCK: i64 = i64::from_be_bytes(*b"gatewayr");

/// Records that are read at once when a day is made up for.
const PAGE: i64 = 4_000;

/// What is to be added to rows, by hour.
type HourSums = ahash::HashMap<(i64, Combination), Sums>;

pub(super) struct Rollups {
    names: Option<Arc<dyn NamedMetadata>>,
    known: Mutex<KnownValues>,
    /// Days of Postgres that have a partition of rollups.
    counted: Mutex<HashSet<Day>>,
    set_aside: SetAsideCounts,
    begun: AtomicU64,
}

impl fmt::Debug for Rollups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rollups").finish_non_exhaustive()
    }
}

struct Deltas<'n> {
    names: Option<&'n dyn NamedMetadata>,
    named: ahash::HashMap<OrgId, Arc<[SmolStr]>>,
    sums: HourSums,
}

impl Deltas<'_> {
    fn of(&mut self, record: &LogRecord) -> &mut Sums {
        let named = self.named.entry(record.org).or_insert_with(|| {
            let names = self.names.map(|names| names.named(record.org));
            names.unwrap_or_else(|| Arc::from([]))
        });
        let hour = Grain::Hour.floor(record.created_at).micros();
        self.sums.entry((hour, Combination::of(record, named))).or_default()
    }
}

impl Rollups {
    pub(super) fn new(names: Option<Arc<dyn NamedMetadata>>) -> Self {
        Self {
            names,
            known: Mutex::default(),
            counted: Mutex::default(),
            set_aside: SetAsideCounts::default(),
            begun: AtomicU64::new(0),
        }
    }

    /// Rows that were begun by this process, those of writes that failed included.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Writes of this process whose sums wait.
    pub(super) fn waiting(&self) -> u64 {
        self.set_aside.all()
    }

    pub(super) fn named(&self, org: OrgId) -> Arc<[SmolStr]> {
        self.names.as_ref().map_or_else(|| Arc::from([]), |names| names.named(org))
    }

    /// Days were dropped, here or by another node.
    pub(super) fn forget_days(&self) {
        self.counted.lock().clear();
    }

    /// Records that were stored just now, in the same transaction.
    pub(super) async fn count(&self, session: &mut Session<'_>, fresh: &[&LogRecord]) -> Result<(), Error> {
        let mut deltas = self.deltas();
        for record in self.of_counted_days(session, fresh).await? {
            deltas.of(record).add(&Fact::of(record));
        }
        pending_sums::set_aside(session, &self.set_aside, &deltas.sums).await
    }

    /// Records that were given their cost just now, in the same transaction.
    pub(super) async fn reprice(&self, session: &mut Session<'_>, changed: &[&LogRecord]) -> Result<(), Error> {
        let mut deltas = self.deltas();
        for record in self.of_counted_days(session, changed).await? {
            deltas.of(record).merge(&Sums::priced(&Fact::of(record)));
        }
        pending_sums::set_aside(session, &self.set_aside, &deltas.sums).await
    }

    /// Whether so much of a day waits that whoever wrote it should add it to the rows.
    pub(super) fn has_much_waiting(&self, day: Day) -> bool {
        self.set_aside.is_much(day)
    }

    /// Adds to their rows what waits of these times, or as much of it as one transaction should hold. Whether there may
    /// be more: to be called, in a transaction each, until there is none.
    pub(super) async fn settle(&self, session: &mut Session<'_>, times: &Range<i64>) -> Result<bool, Error> {
        alone(session).await?;
        let mut taken = pending_sums::take(session, times).await?;
        let days: HashSet<Day> = taken.sums.keys().map(|(hour, _)| Day::of(Timestamp(*hour))).collect();
        for day in days {
            // All records of a day without rollups are summed when those are made.
            if !is_counted_day(session, day).await? {
                taken.sums.retain(|(hour, _), _| Day::of(Timestamp(*hour)) != day);
            }
        }
        self.fold(session, taken.sums).await?;
        if !taken.is_cut {
            self.set_aside.forget(times);
        }
        Ok(taken.is_cut)
    }

    /// All records of a day that has had no rollups, whose table is there and empty. Nobody else may write to it.
    pub(super) async fn recount(&self, session: &mut Session<'_>, day: Day) -> Result<(), Error> {
        static SELECT: LazyLock<String> = LazyLock::new(|| {
            format!(
                "{} WHERE created_at >= $1 AND created_at < $2 AND (created_at, id) > ($3, $4) \
                 ORDER BY created_at, id LIMIT $5",
                light_select()
            )
        });
        let times = day.times();
        let (sql, values) = pending_sums::within(&times).delete(Table::Waiting.name());
        session.run(sql, values).await?;
        let mut after = (i64::MIN, String::new());
        loop {
            let values =
                vec![times.start.into(), times.end.into(), after.0.into(), after.1.as_str().into(), PAGE.into()];
            let page = session.fetch(SELECT.as_str(), values, decode).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = (last.created_at.micros(), last.id.to_string());
            let mut deltas = self.deltas();
            page.iter().for_each(|record| deltas.of(record).add(&Fact::of(record)));
            self.fold(session, deltas.sums).await?;
        }
    }

    fn deltas(&self) -> Deltas<'_> {
        Deltas { names: self.names.as_deref(), named: ahash::HashMap::default(), sums: HourSums::default() }
    }

    async fn of_counted_days<'r>(
        &self,
        session: &mut Session<'_>,
        records: &[&'r LogRecord],
    ) -> Result<Vec<&'r LogRecord>, Error> {
        if let Session::Sqlite(_) = session {
            // A file is of one day.
            return Ok(if is_counted(session).await? { records.to_vec() } else { Vec::new() });
        }
        let days: HashSet<Day> = records.iter().map(|r| Day::of(r.created_at)).collect();
        let mut counted = HashSet::new();
        for day in days {
            let is_known = self.counted.lock().contains(&day);
            if is_known || is_counted_day(session, day).await? {
                counted.insert(day);
            }
        }
        self.counted.lock().extend(&counted);
        Ok(records.iter().copied().filter(|r| counted.contains(&Day::of(r.created_at))).collect())
    }

    async fn fold(&self, session: &mut Session<'_>, added: HourSums) -> Result<(), Error> {
        if added.is_empty() {
            return Ok(());
        }
        alone(session).await?;
        margins::forget(session, added.keys().map(|(hour, _)| *hour)).await?;
        let mut rows: BTreeMap<RowKey, Sums> = BTreeMap::new();
        for ((hour, mut of), sums) in added {
            self.admit(session, hour, &mut of).await?;
            for grain in Grain::ALL {
                let start = grain.floor(Timestamp(hour)).micros();
                rows.entry(RowKey { grain, start, of: of.clone() }).or_default().merge(&sums);
            }
        }
        let begun = rows::add(session, rows).await?;
        self.begun.fetch_add(begun, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps the values apart that clients choose, as long as there are not too many in an hour.
    async fn admit(&self, session: &mut Session<'_>, hour: i64, of: &mut Combination) -> Result<(), Error> {
        let is_known = self.known.lock().has(of.org, hour);
        if !is_known {
            let found = distinct_values::load(session, of.org, hour).await?;
            self.known.lock().put(of.org, hour, found);
        }
        self.known.lock().admit(hour, of);
        Ok(())
    }
}

/// What another node is adding to the same rows has to be seen: one node at a time, until it commits.
pub(super) async fn alone(session: &mut Session<'_>) -> Result<(), Error> {
    if let Session::Postgres(_) = session {
        session.fetch("SELECT pg_advisory_xact_lock($1)", vec![LOCK.into()], |_| Ok(())).await?;
    }
    Ok(())
}

/// Whether a day's file has rollups.
pub(super) async fn is_counted(session: &mut Session<'_>) -> Result<bool, Error> {
    let found = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = $1";
    Ok(session.fetch_int(found, vec![Table::Rollups.name().into()]).await? == 1)
}

async fn is_counted_day(session: &mut Session<'_>, day: Day) -> Result<bool, Error> {
    if let Session::Sqlite(_) = session {
        return is_counted(session).await;
    }
    let found = "SELECT COUNT(*) FROM pg_class WHERE oid = to_regclass($1)";
    let name = super::partitions::partition_name(Table::Rollups, day);
    Ok(session.fetch_int(found, vec![name.into()]).await? == 1)
}
