//! Idle upstream connections, one pool per thread: no lock, no task. A connection is checked when it is taken:
//! one that the peer closed, or spoke on unasked, is dropped.

use crate::http1::Connection;
use ahash::AHashMap;
use parking_lot::Mutex;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Under the keep-alive of the servers met in practice (60 s and up).
const IDLE: Duration = Duration::from_secs(55);
const SWEEP: Duration = Duration::from_secs(1);

struct IdleConnection {
    connection: Box<Connection>,
    since: Instant,
    _counted: CountedIdle,
}

/// Idle connections of each thread: a count of its own for each, so that no two write to one place.
static COUNTS: Mutex<Vec<Arc<AtomicUsize>>> = Mutex::new(Vec::new());

thread_local! {
    static COUNT: Arc<AtomicUsize> = {
        let count = Arc::<AtomicUsize>::default();
        COUNTS.lock().push(count.clone());
        count
    };
}

/// Counts one connection as idle until dropped, on whatever thread that happens.
struct CountedIdle(Arc<AtomicUsize>);

impl CountedIdle {
    fn new() -> Self {
        let count = COUNT.with(Arc::clone);
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for CountedIdle {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Idle upstream connections of all threads.
pub fn idle() -> u64 {
    COUNTS.lock().iter().map(|c| c.load(Ordering::Relaxed) as u64).sum()
}

struct Pool {
    by_key: AHashMap<u64, Vec<IdleConnection>>,
    swept: Instant,
}

impl Pool {
    fn sweep(&mut self, now: Instant) {
        self.swept = now;
        self.by_key.retain(|_, list| {
            list.retain(|idle| now.duration_since(idle.since) < IDLE);
            !list.is_empty()
        });
    }
}

/// Closes what this thread has kept for too long: for threads that no request wakes.
pub fn sweep() {
    POOL.with_borrow_mut(|pool| pool.sweep(Instant::now()));
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::new(Pool { by_key: AHashMap::new(), swept: Instant::now() });
}

/// A connection to `key` that is still usable, if this thread has one. The newest is taken: the older ones age out.
pub(crate) fn take(key: u64, now: Instant) -> Option<Box<Connection>> {
    loop {
        let idle = POOL.with_borrow_mut(|p| p.by_key.get_mut(&key)?.pop())?;
        if now.saturating_duration_since(idle.since) >= IDLE {
            // Everything below is older still.
            POOL.with_borrow_mut(|p| p.by_key.remove(&key));
            return None;
        }
        let mut connection = idle.connection;
        if connection.is_quiet() {
            return Some(connection);
        }
    }
}

/// Keeps `connection` for the next request to its key, up to `most` of them.
pub(crate) fn keep(connection: Box<Connection>, now: Instant, most: usize) {
    POOL.with_borrow_mut(|pool| {
        if now.duration_since(pool.swept) >= SWEEP {
            pool.sweep(now);
        }
        let list = pool.by_key.entry(connection.key()).or_default();
        if list.len() < most {
            list.push(IdleConnection { connection, since: now, _counted: CountedIdle::new() });
        }
    });
}
