//! Servers without sessions that refused to open one for a client of an earlier version: they are not asked again for a
//! while. Servers of both eras do open one, in which they can ask their client for something.

use ahash::AHashMap;
use gateway_domain::snapshot::McpUpstream;
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// How long a refusal holds.
const HOLDS: Duration = Duration::from_secs(300);
/// The most servers that are known to refuse; others are asked each time.
const MOST: usize = 4096;

/// One state of an integration: a saved change begins anew.
type RefusalKey = (Uuid, i64);

#[derive(Debug, Default)]
pub(super) struct SessionlessServers(Mutex<AHashMap<RefusalKey, Instant>>);

fn key(upstream: &McpUpstream) -> RefusalKey {
    (upstream.id.0, upstream.revision)
}

impl SessionlessServers {
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }

    pub(super) fn has(&self, upstream: &McpUpstream, now: Instant) -> bool {
        self.holds(&key(upstream), now)
    }

    pub(super) fn note(&self, upstream: &McpUpstream, now: Instant) {
        self.refused(key(upstream), now);
    }

    fn holds(&self, key: &RefusalKey, now: Instant) -> bool {
        self.0.lock().get(key).is_some_and(|since| now.saturating_duration_since(*since) < HOLDS)
    }

    fn refused(&self, key: RefusalKey, now: Instant) {
        let mut known = self.0.lock();
        if known.len() >= MOST && !known.contains_key(&key) {
            known.retain(|_, since| now.saturating_duration_since(*since) < HOLDS);
        }
        if known.len() < MOST || known.contains_key(&key) {
            known.insert(key, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_holds_for_a_while_and_until_the_server_is_changed() {
        let (servers, start) = (SessionlessServers::default(), Instant::now());
        let of = |n: u128, revision| (Uuid::from_u128(n), revision);
        servers.refused(of(1, 1), start);
        assert!(servers.holds(&of(1, 1), start + HOLDS / 2) && !servers.holds(&of(1, 1), start + HOLDS));
        assert!(!servers.holds(&of(1, 2), start) && !servers.holds(&of(2, 1), start));
    }

    #[test]
    fn what_is_known_is_bounded() {
        let (servers, start) = (SessionlessServers::default(), Instant::now());
        for n in 0..MOST as u128 + 10 {
            servers.refused((Uuid::from_u128(n), 1), start);
        }
        assert_eq!(servers.0.lock().len(), MOST);
        servers.refused((Uuid::from_u128(u128::MAX), 1), start + HOLDS);
        assert_eq!(servers.0.lock().len(), 1, "what is over makes room");
    }
}
