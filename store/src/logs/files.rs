//! Log records in SQLite, a file for each day: one writer at a time costs nobody else, and an old day is dropped by
//! removing its file. What is kept of messages lies in files of its own, which go sooner.

use super::append;
use super::columns::decode;
use super::day::{Day, by_day};
use super::paging::{ByDay, RecordSlice, RowsFound, page};
use super::query::{RecordLookup, UNPRICED_GROUPS, UNPRICED_OF, filter, found_in, group, one};
use super::readers::DayReaders;
use super::rollup::{Rollups, is_counted};
use super::shape::{Table, ensure_sums};
use super::sums::settle_written;
use crate::database::{Database, DatabaseOptions, Side, open_later};
use crate::session::{Lease, failure};
use crate::url::DatabaseUrl;
use gateway_domain::Timestamp;
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{Fut, NamedMetadata, RecordAppend, RecordQuery, Repricing, Retention, StoreError};
use gateway_domain::record::{Costed, LogQuery, LogRecord, Page, Unpriced};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;
use uuid::Uuid;

/// Files kept open: today's, yesterday's, and a few that an admin looks at.
const OPEN: usize = 6;

type OpenDays = VecDeque<(PathBuf, Database)>;

#[derive(Debug)]
pub struct DayFiles {
    pub(super) dir: PathBuf,
    options: DatabaseOptions,
    /// Last used at the end.
    open: Mutex<OpenDays>,
    pub(super) rollups: Rollups,
    /// Days in which every record has its cost: not to be opened for those that have none.
    priced: parking_lot::Mutex<HashSet<Day>>,
    /// Days that are over and whose sums are all there: not to be opened to see to them.
    pub(super) made_up: parking_lot::Mutex<HashSet<Day>>,
    /// Days whose files have all tables of sums as this version knows them: not to be looked at again for that.
    pub(super) as_now: parking_lot::Mutex<HashSet<Day>>,
    pub(super) readers: DayReaders,
}

impl DayFiles {
    /// Makes the folder if need be.
    pub fn open(dir: &Path, options: &DatabaseOptions, names: Option<Arc<dyn NamedMetadata>>) -> io::Result<Self> {
        std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700).create(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
            options: options.clone(),
            open: Mutex::default(),
            rollups: Rollups::new(names),
            priced: parking_lot::Mutex::default(),
            made_up: parking_lot::Mutex::default(),
            as_now: parking_lot::Mutex::default(),
            readers: DayReaders::default(),
        })
    }

    pub(super) fn path(&self, day: Day, table: Table) -> PathBuf {
        self.dir.join(match table {
            Table::Records | Table::Rollups | Table::Margins | Table::Waiting => format!("{}.db", day.name()),
            Table::Bodies => format!("{}.bodies.db", day.name()),
        })
    }

    /// Days that there are files of, newest first.
    pub(super) fn days(&self, table: Table) -> Result<Vec<Day>, StoreError> {
        let suffix = match table {
            Table::Records | Table::Rollups | Table::Margins | Table::Waiting => ".db",
            Table::Bodies => ".bodies.db",
        };
        let listed = std::fs::read_dir(&self.dir).map_err(|e| StoreError::Unavailable(e.to_string()))?;
        let names = listed.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut days: Vec<Day> = names.filter_map(|name| Day::parse(name.strip_suffix(suffix)?)).collect();
        days.sort_unstable_by(|a, b| b.cmp(a));
        Ok(days)
    }

    /// `None` when the day was dropped since it was listed: looking must not make its file anew.
    pub(super) async fn present(&self, day: Day, table: Table) -> Result<Option<Database>, StoreError> {
        let open = self.open.lock().await;
        if self.path(day, table).exists() { self.opened(open, day, table).await.map(Some) } else { Ok(None) }
    }

    /// Makes it if need be.
    async fn file(&self, day: Day, table: Table) -> Result<Database, StoreError> {
        self.opened(self.open.lock().await, day, table).await
    }

    /// What a look at a day gave: nothing when the day was dropped while it was looked at.
    pub(super) fn unless_gone<T: Default>(
        &self,
        day: Day,
        table: Table,
        found: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if found.is_err() && !self.path(day, table).exists() { Ok(T::default()) } else { found }
    }

    async fn opened(&self, mut open: MutexGuard<'_, OpenDays>, day: Day, table: Table) -> Result<Database, StoreError> {
        let path = self.path(day, table);
        if let Some(at) = open.iter().position(|(p, _)| *p == path)
            && let Some(found) = open.remove(at)
        {
            let database = found.1.clone();
            open.push_back(found);
            return Ok(database);
        }
        let opened = open_later(&DatabaseUrl::sqlite_file(&path), &self.options).await;
        let database = opened.map_err(|e| StoreError::Unavailable(e.to_string()))?;
        let mut lease = database.lease(Side::Write).await?;
        let made = async {
            let mut session = lease.session();
            let mut transaction = session.begin().await?;
            let mut inside = transaction.session();
            // A new file has all tables from the first moment on: nobody stores a record in it that is not summed.
            let is_new = table.ensure(&mut inside).await?;
            if table == Table::Records && (is_new || is_counted(&mut inside).await?) {
                ensure_sums(&mut inside).await?;
            }
            transaction.commit().await
        };
        let made = async { made.await.map_err(|e| failure(&e)) };
        let made = timeout(database.call_timeout(), made).await;
        lease.finish(made)?;
        if open.len() >= OPEN {
            open.pop_front();
        }
        open.push_back((path, database.clone()));
        Ok(database)
    }

    async fn put(&self, day: Day, table: Table, records: &[&LogRecord]) -> Result<(), StoreError> {
        let database = self.file(day, table).await?;
        let mut lease = database.lease(Side::Write).await?;
        let work = async {
            match (&mut lease, table) {
                (Lease::Sqlite(connection), Table::Records) => {
                    append::to_sqlite(connection, records, &self.rollups).await
                }
                (lease, _) => append::bodies(lease.session(), records).await,
            }
        };
        let outcome = timeout(database.call_timeout(), work).await.map(|done| done.map_err(|e| failure(&e)));
        lease.finish(outcome)?;
        settle_written(&database, &self.rollups, day).await;
        Ok(())
    }

    async fn find(&self, id: Uuid, workspace: Option<WorkspaceId>) -> Result<Option<LogRecord>, StoreError> {
        let mut days = self.days(Table::Records)?;
        if let Some(made) = Day::of_id(id) {
            // A record is made when its call ends: on the day of its id or, seldom, on the next.
            days.sort_by_key(|day| *day != made && *day != made.next());
        }
        let mut unread = None;
        for day in days {
            match self.find_in(day, id, workspace).await {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                // It may lie in another day.
                Err(error) => unread = Some(error),
            }
        }
        unread.map_or(Ok(None), Err)
    }

    async fn find_in(
        &self,
        day: Day,
        id: Uuid,
        workspace: Option<WorkspaceId>,
    ) -> Result<Option<LogRecord>, StoreError> {
        let (sql, values) = one(id, workspace);
        let Some(database) = self.present(day, Table::Records).await? else { return Ok(None) };
        let rows = database.rows(sql, values, decode).await;
        let Some(mut record) = self.unless_gone(day, Table::Records, rows)?.into_iter().next() else {
            return Ok(None);
        };
        if let Some(bodies) = self.present(day, Table::Bodies).await? {
            record.bodies = self.unless_gone(day, Table::Bodies, append::bodies_of(&bodies, id).await)?;
        }
        Ok(Some(record))
    }

    async fn drop_before(&self, table: Table, before: Timestamp) -> Result<u64, StoreError> {
        let mut dropped = 0;
        for day in self.days(table)?.into_iter().filter(|day| day.is_over_at(before)) {
            let path = self.path(day, table);
            let mut open = self.open.lock().await;
            open.retain(|(p, _)| *p != path);
            for tail in ["", "-wal", "-shm"] {
                let mut file = path.clone().into_os_string();
                file.push(tail);
                match std::fs::remove_file(&file) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => {
                        return Err(StoreError::Unavailable(format!("{}: {e}", file.display())));
                    }
                    _ => {}
                }
            }
            drop(open);
            self.as_now.lock().remove(&day);
            self.readers.forget(day);
            dropped += 1;
        }
        Ok(dropped)
    }
}

impl ByDay for DayFiles {
    async fn count(&self, day: Day, query: &LogQuery) -> Result<u64, StoreError> {
        let counted = self.count_day(day, query).await;
        self.unless_gone(day, Table::Records, counted)
    }

    async fn slice(&self, day: Day, query: &LogQuery, slice: RecordSlice) -> Result<RowsFound, StoreError> {
        let found = match self.reader(day, Vec::new()).await? {
            Some((mut reader, _)) => {
                let look = RecordLookup::of(query);
                let found = found_in(&mut reader.session(), (look.select, look.weight), query, slice).await;
                self.keep_reader(day, reader, found.is_ok());
                found
            }
            None => return Ok(RowsFound::default()),
        };
        self.unless_gone(day, Table::Records, found.map_err(|e| failure(&e)))
    }
}

impl RecordAppend for DayFiles {
    fn append<'a>(&'a self, batch: &'a [LogRecord]) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.readers.close_idle();
            for (day, records) in by_day(batch) {
                let with_bodies: Vec<&LogRecord> = records.iter().copied().filter(|r| r.bodies.is_some()).collect();
                if !with_bodies.is_empty() {
                    self.put(day, Table::Bodies, &with_bodies).await?;
                }
                self.put(day, Table::Records, &records).await?;
                self.priced.lock().remove(&day);
                self.made_up.lock().remove(&day);
            }
            Ok(())
        })
    }

    /// Few enough to stay in a processor's second cache while they become rows: this is done beside the requests, and
    /// what it evicts they wait for.
    fn at_once(&self) -> usize {
        1_024
    }
}

impl RecordQuery for DayFiles {
    fn query<'a>(&'a self, query: &'a LogQuery) -> Fut<'a, Result<Page<LogRecord>, StoreError>> {
        Box::pin(async move {
            filter(query).check()?;
            page(self, self.days(Table::Records)?, query).await
        })
    }

    fn get(&self, id: Uuid, workspace: Option<WorkspaceId>) -> Fut<'_, Result<Option<LogRecord>, StoreError>> {
        Box::pin(self.find(id, workspace))
    }
}

impl Retention for DayFiles {
    fn expire(&self, bodies: Timestamp, records: Timestamp) -> Fut<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            let bodies = self.drop_before(Table::Bodies, bodies).await?;
            Ok(bodies + self.drop_before(Table::Records, records).await?)
        })
    }
}

impl Repricing for DayFiles {
    fn unpriced(&self) -> Fut<'_, Result<Vec<Unpriced>, StoreError>> {
        Box::pin(async move {
            let mut groups = HashSet::new();
            for day in self.days(Table::Records)? {
                if self.priced.lock().contains(&day) {
                    continue;
                }
                // Before the look, so that a record that comes meanwhile takes the day out again.
                self.priced.lock().insert(day);
                let found = match self.present(day, Table::Records).await {
                    Ok(None) => continue,
                    Ok(Some(database)) => database.rows(UNPRICED_GROUPS, vec![], group).await,
                    Err(error) => Err(error),
                };
                let found = self.unless_gone(day, Table::Records, found);
                if !matches!(&found, Ok(none) if none.is_empty()) {
                    self.priced.lock().remove(&day);
                }
                match found {
                    Ok(found) => groups.extend(found),
                    // The other days get their costs.
                    Err(error) => tracing::warn!(day = day.name(), %error, "costs of a day cannot be looked for"),
                }
            }
            Ok(groups.into_iter().collect())
        })
    }

    fn unpriced_of<'a>(
        &'a self,
        group: &'a Unpriced,
        after: Option<(Timestamp, Uuid)>,
    ) -> Fut<'a, Result<Vec<LogRecord>, StoreError>> {
        Box::pin(async move {
            let mut days = self.days(Table::Records)?;
            days.reverse();
            for day in days.into_iter().filter(|day| after.is_none_or(|(time, _)| *day >= Day::of(time))) {
                let values = super::query::unpriced_values(group, after);
                // A day that cannot be read was told of when it was looked for.
                let Ok(Some(database)) = self.present(day, Table::Records).await else { continue };
                let Ok(found) = database.rows(&**UNPRICED_OF, values, decode).await else { continue };
                if !found.is_empty() {
                    return Ok(found);
                }
            }
            Ok(Vec::new())
        })
    }

    fn set_costs<'a>(&'a self, costs: &'a [Costed]) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let days: HashSet<Day> = costs.iter().map(|c| Day::of(c.created_at)).collect();
            for day in days {
                let of_day: Vec<Costed> = costs.iter().filter(|c| Day::of(c.created_at) == day).copied().collect();
                if let Some(database) = self.present(day, Table::Records).await? {
                    let set = super::query::set_costs(&database, &of_day, &self.rollups).await;
                    self.unless_gone(day, Table::Records, set)?;
                    self.made_up.lock().remove(&day);
                }
            }
            Ok(())
        })
    }
}
