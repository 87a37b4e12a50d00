//! The counters of one process: exact under any concurrency, bounded, and blind to what they count.
//! Knows no policy's conditions; those are the index's. Survives every change of the snapshot.

use crate::hold::{Cause, Denied, Hold, Standing};
use crate::index::{Ask, Index};
use crate::rule::{Slot, Stage};
use crate::subject::Subject;
use gateway_domain::Timestamp;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A power of two, so many that two busy threads seldom meet at one.
const SHARDS: usize = 256;

/// How long an ended window is kept for those who read the clock before it ended and come late.
const GRACE_MICROS: i64 = 60 * 1_000_000;

/// What a caller is told to wait when the engine is full: room appears whenever any window ends.
const FULL_RETRY_MICROS: i64 = 1_000_000;

/// Counters of every workspace. `now` must be the time of the call: one that is a minute behind the end of its
/// window finds that window forgotten.
#[derive(Debug)]
pub struct Engine {
    shards: Box<[Stripe]>,
    /// Bound of each shard.
    room: usize,
    shed: AtomicU64,
}

/// Alone on its cache lines: threads at neighbouring shards do not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(Mutex<Shard>);

#[derive(Debug)]
struct Shard {
    used: HashMap<Slot, u64, ahash::RandomState>,
    /// No window here ends before this.
    earliest: Timestamp,
}

impl Default for Shard {
    fn default() -> Self {
        Self { used: HashMap::default(), earliest: Timestamp(i64::MAX) }
    }
}

/// The refusal that the caller is told of, so far.
#[derive(Clone, Copy)]
struct Refusal {
    ask: Ask,
    cause: Cause,
}

impl Default for Engine {
    /// A million counters: at the very most a hundred megabytes.
    fn default() -> Self {
        Self::new(1 << 20)
    }
}

impl Engine {
    /// Holds at most `capacity` counters, or one in each shard if that is more. Memory is taken as they come.
    pub fn new(capacity: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Stripe::default()).collect();
        Self { shards, room: (capacity / SHARDS).max(1), shed: AtomicU64::new(0) }
    }

    /// Takes one request from every policy of this stage that matches, or nothing at all.
    pub fn admit(&self, index: &Index, stage: Stage, subject: &Subject<'_>, now: Timestamp) -> Result<Hold, Denied> {
        let taken = index.asks(stage, subject, now);
        if taken.is_empty() {
            return Ok(Hold::default());
        }
        match self.take(&taken, now, None) {
            Ok(standing) => Ok(Hold { taken, standing }),
            Err(refusal) => Err(self.deny(index, refusal, now)),
        }
    }

    /// Counters in use, those of windows just ended included.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|s| s.0.lock().used.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most that [`Self::len`] can reach.
    pub fn capacity(&self) -> usize {
        self.room * SHARDS
    }

    /// Calls refused because a new counter found no room.
    pub fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }

    /// Forgets ended windows everywhere. Counting does so too, shard by shard as new counters come; this is for
    /// a quiet process, from time to time.
    pub fn sweep(&self, now: Timestamp) {
        for shard in &self.shards {
            shard.0.lock().sweep(now);
        }
    }

    /// Locks the shard of the first ask, looks, and goes on to the next shard with the lock held: at the far end
    /// every counter of this call is locked, and the verdict holds for all of them. `asks` are sorted by slot,
    /// so that all threads lock in the same order. A call of one policy locks one shard and allocates nothing.
    fn take(&self, asks: &[Ask], now: Timestamp, worst: Option<Refusal>) -> Result<Option<Standing>, Refusal> {
        let Some(first) = asks.first() else { return worst.map_or(Ok(None), Err) };
        let at = shard_of(first.slot);
        let (here, rest) = asks.split_at(asks.partition_point(|a| shard_of(a.slot) <= at));
        let mut shard = self.shards[at].0.lock();
        let refused = here.iter().filter_map(|ask| shard.refuses(ask, here.len(), self.room, now));
        let worst = refused.fold(worst, |worst, next| Some(worst.map_or(next, |w| w.or(next))));
        let mut standing = self.take(rest, now, worst)?;
        for ask in here {
            let left = shard.count(ask);
            standing = Some(standing.map_or(left, |s| s.tighter(left)));
        }
        Ok(standing)
    }

    fn deny(&self, index: &Index, refusal: Refusal, now: Timestamp) -> Denied {
        let Refusal { ask, cause } = refusal;
        let reset_at = match cause {
            Cause::Limit => ask.slot.ends,
            Cause::Full => {
                self.shed.fetch_add(1, Ordering::Relaxed);
                ask.slot.ends.min(now.plus_micros(FULL_RETRY_MICROS))
            }
        };
        let wait = reset_at.0.saturating_sub(now.0).max(1).unsigned_abs();
        Denied {
            policy: index.policy(&ask).clone(),
            cause,
            limit: ask.limit,
            reset_at,
            retry_after_ms: wait.div_ceil(1_000),
        }
    }

    pub(crate) fn give_back(&self, taken: &[Ask], now: Timestamp) {
        for ask in taken.iter().filter(|a| a.slot.ends > now) {
            if let Some(used) = self.shards[shard_of(ask.slot)].0.lock().used.get_mut(&ask.slot) {
                *used = used.saturating_sub(1);
            }
        }
    }
}

/// The highest bits, so that slots in order are shards in order.
fn shard_of(slot: Slot) -> usize {
    (slot.key >> (u128::BITS - SHARDS.trailing_zeros())) as usize
}

impl Refusal {
    fn or(self, other: Self) -> Self {
        let wait = |r: &Self| (r.cause == Cause::Limit, r.ask.slot.ends);
        if wait(&other) > wait(&self) { other } else { self }
    }
}

impl Shard {
    /// `coming`: how many of this call may begin a counter here.
    fn refuses(&mut self, ask: &Ask, coming: usize, room: usize, now: Timestamp) -> Option<Refusal> {
        let used = match self.used.get(&ask.slot) {
            Some(used) => *used,
            None => {
                self.sweep(now);
                if self.used.len() + coming > room {
                    return Some(Refusal { ask: *ask, cause: Cause::Full });
                }
                0
            }
        };
        (used >= ask.limit).then_some(Refusal { ask: *ask, cause: Cause::Limit })
    }

    fn count(&mut self, ask: &Ask) -> Standing {
        let used = self.used.entry(ask.slot).or_insert(0);
        *used += 1;
        self.earliest = self.earliest.min(ask.slot.ends);
        Standing { limit: ask.limit, remaining: ask.limit.saturating_sub(*used), reset_at: ask.slot.ends }
    }

    /// Only when something has ended for good; and since windows end together, seldom more than once a minute.
    fn sweep(&mut self, now: Timestamp) {
        let over = |ends: Timestamp| ends.plus_micros(GRACE_MICROS) <= now;
        if !over(self.earliest) {
            return;
        }
        self.used.retain(|slot, _| !over(slot.ends));
        self.earliest = self.used.keys().map(|s| s.ends).min().unwrap_or(Timestamp(i64::MAX));
        if self.used.capacity() > 64 && self.used.capacity() / 4 > self.used.len() {
            self.used.shrink_to(self.used.len() * 2);
        }
    }
}
