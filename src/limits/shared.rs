//! This node's way to the counters in Redis: whether it is open, what goes over it on a request's path, and the queue
//! of what is settled beside it. Not what to do while it is closed.

use super::figures::Counts;
use super::settle_queue::{Flush, SettleQueue};
use crate::clock;
use gateway_domain::Timestamp;
use gateway_domain::counters::{Change, CounterOp};
use gateway_policies::Ledger;
use gateway_store::{CounterVerdict, Redis, RedisCounters, RedisFailure};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};
use uuid::Uuid;

/// Settlements that may wait to be sent.
const MOST_WAITING: usize = 1 << 16;
/// After a call that failed nobody else waits for this long: no request waits at two stages.
const PAUSE_MICROS: i64 = 250_000;
/// The most time for sending the last settlements of a process.
const FAREWELL: Duration = Duration::from_secs(1);

/// What requests and the settler both look at.
#[derive(Debug)]
pub(super) struct SharedLimitsLink {
    pub(super) redis: Redis,
    pub(super) counters: RedisCounters,
    pub(super) counts: Arc<Counts>,
    /// Number of the connection over which this node joined.
    pub(super) joined: AtomicU64,
    pub(super) left: Notify,
    /// What was counted before this process is in the ledger.
    pub(super) ready: Notify,
}

/// Where settlements wait for the settler.
#[derive(Debug)]
struct Outbox {
    queue: mpsc::Sender<Change>,
    counts: Arc<Counts>,
}

impl Outbox {
    /// Never waits; what finds no room is counted as lost.
    fn send(&self, changes: impl Iterator<Item = Change>) {
        for change in changes {
            if self.queue.try_send(change).is_err() {
                self.counts.lost(1);
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct SharedLimits {
    link: Arc<SharedLimitsLink>,
    outbox: Arc<Outbox>,
    flushes: mpsc::Sender<Flush>,
    paused_until: AtomicI64,
    runtime: Handle,
}

impl SharedLimits {
    /// `site` is the same again after a restart on the same data. `ledger` holds what this node has counted; all of
    /// it from [`Self::open`] on.
    pub(crate) fn start(redis: Redis, site: Uuid, ledger: Arc<Ledger>, runtime: &Handle) -> Self {
        let process = crate::ids::next(clock::now());
        let counters = RedisCounters::new(redis.clone(), process, site);
        let (joined, left, ready) = (AtomicU64::new(0), Notify::new(), Notify::new());
        let link = Arc::new(SharedLimitsLink { redis, counters, counts: Arc::default(), joined, left, ready });
        let (queue, waiting) = mpsc::channel(MOST_WAITING);
        let (flushes, flushed) = mpsc::channel(1);
        runtime.spawn(SettleQueue::new(link.clone(), ledger, waiting, flushed).run());
        let outbox = Arc::new(Outbox { queue, counts: link.counts.clone() });
        Self { link, outbox, flushes, paused_until: AtomicI64::new(0), runtime: runtime.clone() }
    }

    pub(super) fn open(&self) {
        self.link.ready.notify_one();
    }

    pub(super) fn counts(&self) -> &Arc<Counts> {
        &self.link.counts
    }

    pub(super) fn is_open(&self, now: Timestamp) -> bool {
        let redis = &self.link.redis;
        self.link.joined.load(Ordering::Acquire) == redis.links()
            && redis.state().connected
            && now.0 >= self.paused_until.load(Ordering::Relaxed)
    }

    pub(super) fn pause(&self, now: Timestamp) {
        self.paused_until.store(now.plus_micros(PAUSE_MICROS).0, Ordering::Relaxed);
    }

    /// Redis knows nothing of this node any more.
    pub(super) fn leave(&self) {
        self.link.joined.store(0, Ordering::Release);
        self.link.left.notify_one();
    }

    pub(super) fn deadline(&self) -> Duration {
        self.link.redis.deadline()
    }

    /// `left`: the time that the call may still wait.
    pub(super) async fn reserve(
        &self,
        asks: &mut [CounterOp],
        now: Timestamp,
        left: Duration,
    ) -> Result<CounterVerdict, RedisFailure> {
        let back: Vec<Change> = asks.iter().filter_map(Change::given_back).collect();
        let outbox = self.outbox.clone();
        let late = move || outbox.send(back.into_iter());
        self.link.counters.reserve(asks, (now, left), late).await
    }

    pub(super) fn send(&self, changes: impl Iterator<Item = Change>) {
        self.outbox.send(changes);
    }

    pub(super) fn flush(&self) {
        let (done, over) = oneshot::channel();
        let asked = self.flushes.try_send(done);
        let waited = async { tokio::time::timeout(FAREWELL, over).await };
        if asked.is_err() || !matches!(self.runtime.block_on(waited), Ok(Ok(()))) {
            tracing::warn!("what was settled last could not be told to Redis");
        }
    }
}
