//! Idle upstream connections, one pool per thread: no lock, no task. A connection is checked when it is taken:
//! one that the peer closed, or spoke on unasked, is dropped.

use ahash::AHashMap;
use parking_lot::Mutex;
use pingora::protocols::Stream;
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;

/// Under the keep-alive of the servers met in practice (60 s and up).
const IDLE: Duration = Duration::from_secs(55);
const SWEEP: Duration = Duration::from_secs(1);

struct Idle {
    stream: Stream,
    since: Instant,
    _counted: Counted,
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
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new() -> Self {
        let count = COUNT.with(Arc::clone);
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Idle upstream connections of all threads.
pub fn idle() -> u64 {
    COUNTS.lock().iter().map(|c| c.load(Ordering::Relaxed) as u64).sum()
}

struct Pool {
    by_key: AHashMap<u64, Vec<Idle>>,
    swept: Instant,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::new(Pool { by_key: AHashMap::new(), swept: Instant::now() });
}

/// A connection to `key` that is still usable, if this thread has one. The newest is taken: the older ones age out.
pub fn check_out(key: u64) -> Option<Stream> {
    loop {
        let idle = POOL.with_borrow_mut(|p| p.by_key.get_mut(&key)?.pop())?;
        if idle.since.elapsed() >= IDLE {
            // Everything below is older still.
            POOL.with_borrow_mut(|p| p.by_key.remove(&key));
            return None;
        }
        let mut stream = idle.stream;
        if is_quiet(&mut stream) {
            return Some(stream);
        }
    }
}

/// True when a read would wait: nothing came and the peer has not closed.
fn is_quiet(stream: &mut Stream) -> bool {
    let mut byte = [0; 1];
    let read = tokio::task::coop::unconstrained(stream.read(&mut byte));
    matches!(pin!(read).poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
}

/// Keeps `stream` for the next request to `key`, up to `most` of them.
pub fn check_in(key: u64, stream: Stream, most: usize) {
    let now = Instant::now();
    POOL.with_borrow_mut(|pool| {
        if now.duration_since(pool.swept) >= SWEEP {
            pool.swept = now;
            pool.by_key.retain(|_, list| {
                list.retain(|idle| now.duration_since(idle.since) < IDLE);
                !list.is_empty()
            });
        }
        let list = pool.by_key.entry(key).or_default();
        if list.len() < most {
            list.push(Idle { stream, since: now, _counted: Counted::new() });
        }
    });
}
