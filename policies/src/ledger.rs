//! The counters of one process: exact under any concurrency, bounded, and blind to what they count. Knows no policy and
//! no clock. Survives every change of the snapshot. What must outlive the process is kept by whoever reads the charges
//! of records; the ledger is told what stands on disk ([`Ledger::absorb`]) and what of its own count is in that by now
//! ([`Ledger::saved`]).

mod shard;

use gateway_domain::Timestamp;
use gateway_domain::counters::{
    Cause, Change, CounterKey, CounterOp, Counters, Keep, LimitDecision, Measured, Refusal, Slot, Take,
};
use parking_lot::Mutex;
use shard::Shard;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A power of two, so many that two busy threads seldom meet at one.
const SHARDS: usize = 256;

/// Counters of every workspace. `now` must be the time of the call: one that is a minute behind the end of its
/// window finds that window forgotten.
#[derive(Debug)]
pub struct Ledger {
    shards: Box<[Stripe]>,
    /// Bound of each shard.
    room: usize,
    shed: AtomicU64,
    overshot: [AtomicU64; 3],
}

/// Alone on its cache lines: threads at neighbouring shards do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(Mutex<Shard>);

/// A part of what was used of a counter that outlives the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    pub slot: Slot,
    pub ends: Timestamp,
    pub keep: Keep,
    pub used: i64,
}

/// What a counter stands at, wherever it was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Total {
    pub slot: Slot,
    pub ends: Timestamp,
    pub keep: Keep,
    pub used: u64,
}

impl Default for Ledger {
    /// A million counters: at the very most 150 megabytes.
    fn default() -> Self {
        Self::new(1 << 20)
    }
}

impl Ledger {
    /// Holds at most `capacity` counters, or one in each shard if that is more. Memory is taken as they come.
    pub fn new(capacity: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Stripe::default()).collect();
        let overshot = std::array::from_fn(|_| AtomicU64::new(0));
        Self { shards, room: (capacity / SHARDS).max(1), shed: AtomicU64::new(0), overshot }
    }

    /// Counters in use, those of windows just ended included.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.0.lock().len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most that [`Self::len`] can reach.
    pub fn capacity(&self) -> usize {
        self.room * SHARDS
    }

    /// Memory of the counters, near enough: their tables with all the room in them.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|s| s.0.lock().bytes()).sum()
    }

    /// Calls refused because a new counter found no room.
    pub fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }

    /// What was used beyond limits, because it was more than what had been held for it.
    pub fn overshot(&self, measured: Measured) -> u64 {
        self.overshot[measured as usize].load(Ordering::Relaxed)
    }

    /// Used and held of a counter; `None` when nothing was ever counted there.
    pub fn level(&self, slot: Slot) -> Option<(u64, u64)> {
        self.shards[shard_of(slot.key)].0.lock().level(slot)
    }

    /// Forgets ended windows everywhere, but for those that still hold something. Counting does so too, shard by
    /// shard as new counters come; this is for a quiet process, from time to time.
    pub fn sweep(&self, now: Timestamp) {
        for shard in &self.shards {
            shard.0.lock().sweep(now);
        }
    }

    /// What was used before this process began, and stands in no total yet.
    pub fn credit(&self, deltas: &[Delta]) {
        for delta in deltas {
            self.shards[shard_of(delta.slot.key)].0.lock().credit(delta, self.room);
        }
    }

    /// These parts of what was counted here are on disk by now: totals from there include them.
    pub fn saved(&self, deltas: &[Delta]) {
        for delta in deltas {
            self.shards[shard_of(delta.slot.key)].0.lock().saved(delta);
        }
    }

    /// Counters as they stand on disk, with all that was [`Self::saved`] from here and nothing else from here.
    pub fn absorb(&self, totals: &[Total]) {
        for total in totals {
            self.shards[shard_of(total.slot.key)].0.lock().absorb(total, self.room);
        }
    }

    /// Takes what was granted elsewhere, whatever is left here.
    pub fn mirror(&self, asks: &[CounterOp]) {
        for ask in asks.iter().filter(|a| !only_looks(a)) {
            let mut shard = self.shards[shard_of(ask.slot.key)].0.lock();
            if shard.has_room(ask.slot, self.room) {
                shard.count(&mut ask.clone());
            }
        }
    }

    /// Every counter with what is held of it, shard by shard; `each` must not come back to the ledger.
    pub fn visit(&self, mut each: impl FnMut(Total, u64)) {
        for shard in &self.shards {
            shard.0.lock().visit(&mut each);
        }
    }

    /// Locks the shard of the first ask, looks, and goes on to the next shard with the lock held: at the far end
    /// every counter of this call is locked, and the verdict holds for all of them. All threads lock in the same
    /// order, since asks are sorted. A call of one limit locks one shard and allocates nothing.
    fn take(&self, asks: &mut [CounterOp], start: usize, now: Timestamp, worst: Option<Worst>) -> Result<(), Worst> {
        let Some(first) = asks.first() else { return worst.map_or(Ok(()), Err) };
        let at = shard_of(first.slot.key);
        let (here, rest) = asks.split_at_mut(asks.partition_point(|a| shard_of(a.slot.key) <= at));
        let mut shard = self.shards[at].0.lock();
        let mut worst = worst;
        for (i, ask) in here.iter().enumerate() {
            if let Some((cause, taken)) = shard.refuses(ask, here.len(), self.room, now) {
                let next = Worst { refusal: Refusal { at: start + i, cause, taken }, fits: ask.fits_at(taken) };
                worst = Some(worst.map_or(next, |w| w.or(next)));
            }
        }
        self.take(rest, start + here.len(), now, worst)?;
        here.iter_mut().for_each(|ask| shard.count(ask));
        Ok(())
    }
}

impl Ledger {
    /// [`Counters::reserve`], which nothing here makes wait.
    pub fn admit(&self, asks: &mut [CounterOp], now: Timestamp) -> Result<(), Refusal> {
        debug_assert!(asks.is_sorted_by(|a, b| a.slot < b.slot), "sorted, each slot once");
        let verdict = self.take(asks, 0, now, None).map_err(|worst| worst.refusal);
        if verdict.is_err_and(|r| r.cause == Cause::Full) {
            self.shed.fetch_add(1, Ordering::Relaxed);
        }
        verdict
    }
}

impl Counters for Ledger {
    fn reserve<'a>(&'a self, asks: &'a mut [CounterOp], now: Timestamp, _: Duration) -> LimitDecision<'a> {
        LimitDecision::Now(self.admit(asks, now))
    }

    fn settle(&self, changes: &[Change]) {
        for change in changes {
            let over = self.shards[shard_of(change.slot.key)].0.lock().settle(change, self.room);
            if over > 0 {
                self.overshot[change.measured as usize].fetch_add(over, Ordering::Relaxed);
            }
        }
    }
}

/// The refusal that the caller is told of, so far.
#[derive(Clone, Copy)]
struct Worst {
    refusal: Refusal,
    /// When the call would pass it.
    fits: Timestamp,
}

impl Worst {
    fn or(self, other: Self) -> Self {
        let wait = |w: &Self| (w.refusal.cause == Cause::Limit, w.fits);
        if wait(&other) > wait(&self) { other } else { self }
    }
}

/// The highest bits, so that slots in order are shards in order.
#[expect(clippy::cast_possible_truncation, reason = "eight bits")]
const fn shard_of(key: CounterKey) -> usize {
    (key.0 >> (u64::BITS - SHARDS.trailing_zeros())) as usize
}

/// Nothing of it is taken, so it needs no counter.
const fn only_looks(ask: &CounterOp) -> bool {
    matches!(ask.take, Take::Look)
}
