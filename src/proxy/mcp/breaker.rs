//! Servers that failed several times in a row are left alone for a while, so that nobody waits for what is away. What a
//! server says of itself in JSON-RPC is no failure, nor is a call that takes long.

use ahash::AHashMap;
use gateway_domain::snapshot::OutboundUpstream;
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Failures in a row after which a server is left alone for `REST`.
const FAILURES: u32 = 5;
const REST: Duration = Duration::from_secs(30);
/// The most servers that are known to fail; more are not left alone.
const MOST: usize = 4096;

/// One state of an integration: a saved change begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BrokenKey {
    integration: Uuid,
    revision: i64,
}

#[derive(Clone, Copy, Debug)]
struct BrokenRow {
    failures: u32,
    last: Instant,
}

#[derive(Debug, Default)]
pub(in crate::proxy) struct McpBreakers(Mutex<AHashMap<BrokenKey, BrokenRow>>);

fn key(upstream: &OutboundUpstream) -> BrokenKey {
    BrokenKey { integration: upstream.row, revision: upstream.revision }
}

impl McpBreakers {
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// How long the server is still left alone; `None`: it may be asked.
    pub(in crate::proxy) fn rests(&self, upstream: &OutboundUpstream, now: Instant) -> Option<Duration> {
        self.left(key(upstream), now)
    }

    pub(in crate::proxy) fn note(&self, upstream: &OutboundUpstream, failed: bool, now: Instant) {
        self.record(key(upstream), failed, now);
    }

    fn left(&self, key: BrokenKey, now: Instant) -> Option<Duration> {
        let row = *self.0.lock().get(&key)?;
        let left = REST.saturating_sub(now.saturating_duration_since(row.last));
        (row.failures >= FAILURES && !left.is_zero()).then_some(left)
    }

    /// After its rest one more failure is enough for another.
    fn record(&self, key: BrokenKey, failed: bool, now: Instant) {
        let mut rows = self.0.lock();
        if !failed {
            rows.remove(&key);
            return;
        }
        if rows.len() >= MOST && !rows.contains_key(&key) {
            rows.retain(|_, row| now.saturating_duration_since(row.last) < REST);
            if rows.len() >= MOST {
                return;
            }
        }
        let row = rows.entry(key).or_insert(BrokenRow { failures: 0, last: now });
        *row = BrokenRow { failures: row.failures.saturating_add(1), last: now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u128) -> BrokenKey {
        BrokenKey { integration: Uuid::from_u128(n), revision: 1 }
    }

    #[test]
    fn five_failures_in_a_row_are_a_rest_of_half_a_minute() {
        let (breakers, start) = (McpBreakers::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        for _ in 0..4 {
            breakers.record(key(1), true, at(0));
        }
        breakers.record(key(1), false, at(0));
        for _ in 0..4 {
            breakers.record(key(1), true, at(1));
        }
        assert_eq!(breakers.left(key(1), at(1)), None, "a success between them begins the count anew");
        breakers.record(key(1), true, at(1));
        assert_eq!(breakers.left(key(1), at(1)), Some(REST));
        assert_eq!(breakers.left(key(1), at(30)), Some(Duration::from_secs(1)));
        assert_eq!(breakers.left(BrokenKey { revision: 2, ..key(1) }, at(2)), None, "one that was changed is asked");
        assert_eq!((breakers.left(key(2), at(2)), breakers.left(key(1), at(31))), (None, None));
        breakers.record(key(1), true, at(31));
        assert_eq!(breakers.left(key(1), at(31)), Some(REST), "asked in vain once more");
        breakers.record(key(1), false, at(70));
        assert!(breakers.0.lock().is_empty(), "nothing is kept of who does well");
    }

    #[test]
    fn what_is_kept_of_failures_is_bounded() {
        let (breakers, start) = (McpBreakers::default(), Instant::now());
        for n in 0..MOST as u128 + 10 {
            breakers.record(key(n), true, start);
        }
        assert_eq!(breakers.0.lock().len(), MOST);
        breakers.record(key(u128::MAX), true, start + REST);
        assert_eq!(breakers.0.lock().len(), 1, "what is over makes room");
    }
}
