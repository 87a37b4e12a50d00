//! When keys were last used, as rows that stand beside the keys: a use is no change of its key. What the process noted
//! is kept in memory until [`KeyUseLog::flush`], in a bounded number; a key is noted once a minute at most.

use crate::database::{Database, Side};
use crate::filter::Filter;
use crate::session::{DatabaseRow, Session, Value};
use gateway_domain::Timestamp;
use gateway_domain::id::KeyId;
use gateway_domain::ports::{Fut, KeyUses, StoreError};
use gateway_domain::snapshot::Key;
use parking_lot::Mutex;
use sqlx::Error;
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// A node that hears of an earlier use later changes nothing.
const PUT: &str = "INSERT INTO key_use (id, used_at) VALUES {rows} ON CONFLICT (id) \
    DO UPDATE SET used_at = excluded.used_at WHERE key_use.used_at < excluded.used_at";
const SELECT: &str = "SELECT id, used_at FROM key_use";
/// Far below what either engine takes of values.
const ROWS: usize = 500;

#[derive(Debug)]
pub struct KeyUseLog {
    database: Database,
    pending: Mutex<HashMap<KeyId, Timestamp>>,
    most: usize,
    dropped: AtomicU64,
}

impl KeyUseLog {
    /// `most`: keys that may wait to be stored.
    pub fn new(database: Database, most: usize) -> Self {
        Self { database, pending: Mutex::default(), most, dropped: AtomicU64::new(0) }
    }

    /// Keys whose use waits to be stored.
    pub fn waiting(&self) -> u64 {
        self.pending.lock().len() as u64
    }

    /// Uses that were not noted, as too many waited.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Stores what was noted; what cannot be stored waits on.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let noted: HashMap<KeyId, Timestamp> = std::mem::take(&mut *self.pending.lock());
        if noted.is_empty() {
            return Ok(());
        }
        let mut rows: Vec<(KeyId, Timestamp)> = noted.into_iter().collect();
        // The order is the same everywhere, so that two nodes never wait for each other.
        rows.sort_unstable();
        for (at, chunk) in rows.chunks(ROWS).enumerate() {
            if let Err(e) = self.put(chunk).await {
                rows[at * ROWS..].iter().for_each(|(key, at)| self.keep(*key, *at));
                return Err(e);
            }
        }
        Ok(())
    }

    async fn put(&self, chunk: &[(KeyId, Timestamp)]) -> Result<(), StoreError> {
        let mut rows = String::new();
        let mut values: Vec<Value<'_>> = Vec::with_capacity(chunk.len() * 2);
        for (key, at) in chunk {
            let comma = if rows.is_empty() { "" } else { ", " };
            let _ = write!(rows, "{comma}(${}, ${})", values.len() + 1, values.len() + 2);
            values.push(key.0.into());
            values.push((*at).into());
        }
        let sql = PUT.replace("{rows}", &rows);
        let work = async move |mut session: Session<'_>| session.run(sql, values).await;
        self.database.on(Side::Write, work).await
    }

    /// Notes a use of the key whether or not it is the first in its minute.
    pub fn keep(&self, key: KeyId, at: Timestamp) {
        let mut pending = self.pending.lock();
        let is_full = pending.len() >= self.most;
        match pending.get_mut(&key) {
            Some(noted) => *noted = at.max(*noted),
            None if is_full => drop(self.dropped.fetch_add(1, Ordering::Relaxed)),
            None => drop(pending.insert(key, at)),
        }
    }

    fn noted(&self, keys: &[KeyId]) -> HashMap<KeyId, Timestamp> {
        let pending = self.pending.lock();
        keys.iter().filter_map(|key| Some((*key, *pending.get(key)?))).collect()
    }
}

impl KeyUses for KeyUseLog {
    fn note(&self, key: &Key, now: Timestamp) {
        // A token is no key of ours.
        if key.token.is_none() && key.used.is_first(now) {
            self.keep(key.id, now);
        }
    }

    fn last_uses<'a>(&'a self, keys: &'a [KeyId]) -> Fut<'a, Result<HashMap<KeyId, Timestamp>, StoreError>> {
        Box::pin(async move {
            let mut found = HashMap::with_capacity(keys.len());
            for chunk in keys.chunks(ROWS) {
                let mut filter = Filter::default();
                filter.and_in("id", chunk.iter().map(|key| key.0));
                let (sql, values) = filter.page(SELECT, "id", 0, ROWS as u64);
                found.extend(self.database.rows(sql, values, read).await?);
            }
            // What this process knows already.
            for (key, at) in self.noted(keys) {
                found.entry(key).and_modify(|stored: &mut Timestamp| *stored = at.max(*stored)).or_insert(at);
            }
            Ok(found)
        })
    }
}

fn read(row: &DatabaseRow) -> Result<(KeyId, Timestamp), Error> {
    let mut c = row.columns();
    Ok((KeyId(c.uuid()?), c.time()?))
}
