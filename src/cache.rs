//! Answers kept for calls that ask the same again, and one upstream
//! call for all who ask it at once. Bounded in bytes; a second shelf shared by nodes may stand behind it.
//! Knows nothing of configs, sessions or providers: a key says what is the same, an entry what was answered.

mod entry;
mod figures;

mod key;
mod redis;
mod single_flight;

pub(crate) use entry::CacheEntry;
pub(crate) use figures::CacheFigures;
pub(crate) use key::{CacheKey, KeyBuilder};
pub(crate) use single_flight::{AnswerHead, FailedAnswer, Follower, FollowerEvent, Leader};

use ahash::AHashMap;
use gateway_domain::Timestamp;
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use single_flight::SingleFlight;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Flights are found under their key's first byte, so that keys seldom share a lock.
const SHARDS: usize = 64;
/// An answer larger than this share of the shelf would push out too many others.
const LARGEST_SHARE: usize = 8;

/// A shelf that several nodes share. Each call has a deadline of its own; failing is a miss.
#[async_trait::async_trait]
pub(crate) trait SharedCache: Send + Sync + std::fmt::Debug {
    async fn get(&self, key: &CacheKey) -> Option<Vec<u8>>;
    async fn put(&self, key: &CacheKey, value: Vec<u8>, keep: Duration);
}

#[derive(Clone, Debug)]
struct EntryWeight;

impl Weighter<CacheKey, Arc<CacheEntry>> for EntryWeight {
    fn weight(&self, _: &CacheKey, entry: &Arc<CacheEntry>) -> u64 {
        entry.weight() as u64
    }
}

/// What was found for a call.
pub(crate) enum CacheOutcome {
    Hit(Arc<CacheEntry>),
    /// Nobody asked this yet: the caller goes upstream, and others wait for what it brings.
    Leader(Leader),
    /// Somebody is asking upstream just now.
    Follower(Follower),
}

impl std::fmt::Debug for CacheOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Hit(_) => "Hit",
            Self::Leader(_) => "Leader",
            Self::Follower(_) => "Follower",
        })
    }
}

/// The process's one cache of answers.
#[derive(Debug)]
pub(crate) struct AnswerCache {
    shelf: Cache<CacheKey, Arc<CacheEntry>, EntryWeight>,
    shared: Option<Arc<dyn SharedCache>>,
    flights: Vec<Mutex<AHashMap<CacheKey, Arc<SingleFlight>>>>,
    largest: usize,
    most: u64,
    collapsed: AtomicU64,
}

impl AnswerCache {
    /// `most` in bytes; 0 keeps nothing, yet still joins equal calls.
    pub(crate) fn new(most: usize, shared: Option<Arc<dyn SharedCache>>) -> Arc<Self> {
        let guess = (most / 4096).clamp(16, 1 << 20);
        Arc::new(Self {
            shelf: Cache::with_weighter(guess, most as u64, EntryWeight),
            shared,
            flights: (0..SHARDS).map(|_| Mutex::default()).collect(),
            largest: most / LARGEST_SHARE,
            most: most as u64,
            collapsed: AtomicU64::new(0),
        })
    }

    /// `fresh`: the caller wants an upstream call of its own, and its answer to be kept.
    pub(crate) async fn find(
        self: &Arc<Self>,
        key: CacheKey,
        keep: Duration,
        fresh: bool,
        now: Timestamp,
    ) -> CacheOutcome {
        if fresh {
            return CacheOutcome::Leader(Leader::new(self.clone(), key, keep, None));
        }
        if let Some(entry) = self.kept(&key, now) {
            return CacheOutcome::Hit(entry);
        }
        if let Some(entry) = self.fetch(&key, now).await {
            return CacheOutcome::Hit(entry);
        }
        let mut flights = self.flights[usize::from(key.0[0]) % SHARDS].lock();
        if let Some(flight) = flights.get(&key) {
            self.collapsed.fetch_add(1, Ordering::Relaxed);
            return CacheOutcome::Follower(Follower::new(flight.clone()));
        }
        // What was being asked when we looked may have been kept since.
        if let Some(entry) = self.kept(&key, now) {
            return CacheOutcome::Hit(entry);
        }
        let flight = Arc::new(SingleFlight::default());
        flights.insert(key, flight.clone());
        CacheOutcome::Leader(Leader::new(self.clone(), key, keep, Some(flight)))
    }

    /// Makes a leader that nobody follows, for a caller whose followed call brought nothing.
    pub(crate) fn lead_alone(self: &Arc<Self>, key: CacheKey, keep: Duration) -> Leader {
        Leader::new(self.clone(), key, keep, None)
    }

    fn kept(&self, key: &CacheKey, now: Timestamp) -> Option<Arc<CacheEntry>> {
        let entry = self.shelf.get(key)?;
        if entry.expires > now {
            return Some(entry);
        }
        self.shelf.remove(key);
        None
    }

    async fn fetch(&self, key: &CacheKey, now: Timestamp) -> Option<Arc<CacheEntry>> {
        let bytes = self.shared.as_ref()?.get(key).await?;
        let entry = Arc::new(CacheEntry::decode(bytes)?);
        if entry.expires <= now {
            return None;
        }
        self.keep(*key, &entry);
        Some(entry)
    }

    fn keep(&self, key: CacheKey, entry: &Arc<CacheEntry>) -> bool {
        let fits = entry.weight() <= self.largest;
        if fits {
            self.shelf.insert(key, entry.clone());
        }
        fits
    }

    /// Others find the entry from now on; the shared shelf is told by the caller, after its client has its answer.
    fn land(&self, key: &CacheKey, flight: Option<&Arc<SingleFlight>>) {
        let Some(flight) = flight else { return };
        let mut flights = self.flights[usize::from(key.0[0]) % SHARDS].lock();
        if flights.get(key).is_some_and(|f| Arc::ptr_eq(f, flight)) {
            flights.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
