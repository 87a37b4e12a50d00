//! The open connections of this process, by the session that each belongs to; one that is shared has a name of its own.
//! Of each kind there are no more than the operator says: for another one the one goes that nobody has used for
//! longest, and where all are in use the caller hears that.

use super::conversation::DuplexConversation;
use crate::upstream::Programs;
use ahash::AHashMap;
use gateway_mcp::RpcError;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// How many connections and programs there may be, and how long one may be without use.
#[derive(Clone, Debug)]
pub(crate) struct DuplexBounds {
    /// The most connections to addresses.
    pub(crate) connections: usize,
    /// The most connections to programs.
    pub(crate) programs: usize,
    pub(crate) idle: Duration,
}

pub(in crate::proxy) struct DuplexTable {
    rows: Mutex<AHashMap<Box<str>, Arc<DuplexRow>>>,
    pub(super) bounds: DuplexBounds,
    pub(in crate::proxy) programs: Arc<Programs>,
}

/// The connection of one session.
struct DuplexRow {
    is_program: bool,
    /// Held by whoever opens it, so that others wait for the same.
    gate: tokio::sync::Mutex<()>,
    open: Mutex<Option<Arc<DuplexConversation>>>,
}

/// Which connection is meant.
pub(super) struct DuplexKey<'k> {
    pub(super) name: &'k str,
    pub(super) is_program: bool,
    /// See [`DuplexConversation::place`].
    pub(super) place: u64,
}

/// A place that was taken for a connection which may never come to be.
struct TakenRow<'t> {
    table: &'t DuplexTable,
    name: &'t str,
    row: Arc<DuplexRow>,
}

impl Drop for TakenRow<'_> {
    fn drop(&mut self) {
        let mut rows = self.table.rows.lock();
        let is_own = rows.get(self.name).is_some_and(|row| Arc::ptr_eq(row, &self.row));
        // Two are the table's and this one: nobody else waits for it.
        if is_own && self.row.open.lock().is_none() && Arc::strong_count(&self.row) == 2 {
            rows.remove(self.name);
        }
    }
}

impl DuplexTable {
    pub(in crate::proxy) fn new(bounds: DuplexBounds, programs: Arc<Programs>) -> Self {
        Self { rows: Mutex::default(), bounds, programs }
    }

    /// Connections to addresses, and programs that run: these with whoever else asks them.
    pub(in crate::proxy) fn len(&self) -> [usize; 2] {
        let connections = self.rows.lock().values().filter(|row| !row.is_program).count();
        [connections, self.programs.running()]
    }

    pub(super) fn find(&self, key: &DuplexKey<'_>) -> Option<Arc<DuplexConversation>> {
        let row = self.rows.lock().get(key.name)?.clone();
        let open = row.open.lock().clone()?;
        if open.is_over() {
            return None;
        }
        if open.place != key.place {
            open.close();
            return None;
        }
        Some(open)
    }

    /// The one that is open, or what `open` makes. Safe to drop.
    pub(super) async fn open(
        &self,
        key: &DuplexKey<'_>,
        open: impl Future<Output = Result<Arc<DuplexConversation>, RpcError>>,
    ) -> Result<Arc<DuplexConversation>, RpcError> {
        let taken = TakenRow { table: self, name: key.name, row: self.take(key)? };
        let _gate = taken.row.gate.lock().await;
        let there = taken.row.open.lock().clone().filter(|open| !open.is_over() && open.place == key.place);
        if let Some(there) = there {
            return Ok(there);
        }
        let made = open.await?;
        *taken.row.open.lock() = Some(made.clone());
        // What it was taken for may have gone meanwhile.
        self.rows.lock().entry(key.name.into()).or_insert_with(|| taken.row.clone());
        Ok(made)
    }

    fn take(&self, key: &DuplexKey<'_>) -> Result<Arc<DuplexRow>, RpcError> {
        let mut rows = self.rows.lock();
        if let Some(row) = rows.get(key.name) {
            return Ok(row.clone());
        }
        let most = if key.is_program { self.bounds.programs } else { self.bounds.connections };
        if rows.values().filter(|row| row.is_program == key.is_program).count() >= most {
            let idle = longest_idle(&rows, key.is_program).ok_or_else(full)?;
            if let Some(open) = rows.remove(&idle).and_then(|row| row.open.lock().clone()) {
                open.close();
            }
        }
        let row = DuplexRow { is_program: key.is_program, gate: tokio::sync::Mutex::new(()), open: Mutex::default() };
        let row = Arc::new(row);
        rows.insert(key.name.into(), row.clone());
        Ok(row)
    }

    /// Ends a session's connection.
    pub(super) fn close(&self, name: &str) {
        let row = self.rows.lock().remove(name);
        if let Some(open) = row.and_then(|row| row.open.lock().clone()) {
            open.close();
        }
    }

    /// One that is over makes room.
    pub(super) fn remove(&self, name: &str, over: &Arc<DuplexConversation>) {
        let mut rows = self.rows.lock();
        let is_own = |row: &Arc<DuplexRow>| row.open.lock().as_ref().is_some_and(|open| Arc::ptr_eq(open, over));
        if rows.get(name).is_some_and(is_own) {
            rows.remove(name);
        }
    }
}

fn longest_idle(rows: &AHashMap<Box<str>, Arc<DuplexRow>>, is_program: bool) -> Option<Box<str>> {
    let idle = rows.iter().filter(|(_, row)| row.is_program == is_program).filter_map(|(name, row)| {
        let since = row.open.lock().as_ref()?.idle_since()?;
        Some((since, name))
    });
    idle.min_by_key(|(since, _)| *since).map(|(_, name)| name.clone())
}

/// It is the gateway that has no room: nothing of that is the server's fault.
pub(super) fn full() -> RpcError {
    let why =
        "As many connections to MCP servers are open and in use as may be; see --mcp-connections and --mcp-programs";
    RpcError::own(503, why)
}
