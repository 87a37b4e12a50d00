//! Sticky assignments of load balancing, kept in the process. Bounded in entries; the least used go first, and
//! who was forgotten is drawn again. A store that nodes share would stand behind this one: read before the plan
//! is made, written after, so that choosing stays without waiting.

use gateway_domain::config::plan::Sticks;
use quick_cache::sync::Cache;

/// About 6 MiB when full.
const MOST: usize = 100_000;

#[derive(Debug)]
pub(crate) struct Assignments(Cache<u128, (usize, i64)>);

impl Default for Assignments {
    fn default() -> Self {
        Self(Cache::new(MOST))
    }
}

impl Assignments {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Sticks for Assignments {
    fn find(&self, key: u128, now_ms: i64) -> Option<usize> {
        self.0.get(&key).filter(|(_, until)| *until > now_ms).map(|(place, _)| place)
    }

    fn keep(&self, key: u128, place: usize, until_ms: i64) {
        self.0.insert(key, (place, until_ms));
    }
}
