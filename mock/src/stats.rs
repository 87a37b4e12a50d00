//! What the mock has seen, answered at `GET /__mock/stats`, and its memory of `x-mock-fail-first`.
//! Counts only; knows no bodies.

use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Ids remembered for `x-mock-fail-first`; past it the memory starts anew.
const REMEMBERED: usize = 10_000;

#[derive(Debug, Default)]
pub struct Stats {
    requests: AtomicU64,
    connections: AtomicU64,
    open: AtomicU64,
    aborted: AtomicU64,
    completed: AtomicU64,
    seen: Mutex<HashMap<String, u64>>,
}

/// Counts a connection as open while it lives.
#[derive(Debug)]
pub(super) struct Open<'a>(&'a Stats);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

impl Stats {
    pub(super) fn open(&self) -> Open<'_> {
        self.connections.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed);
        Open(self)
    }

    pub(super) fn requested(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    pub(super) fn completed(&self) {
        self.completed.fetch_add(1, Relaxed);
    }

    /// The peer went away before its answer was complete.
    pub(super) fn aborted(&self) {
        self.aborted.fetch_add(1, Relaxed);
    }

    /// How often `id` was seen before this time.
    pub(super) fn seen(&self, id: &str) -> u64 {
        let mut seen = self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if seen.len() >= REMEMBERED && !seen.contains_key(id) {
            seen.clear();
        }
        let count = seen.entry(id.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    pub(super) fn report(&self) -> Value {
        json!({
            "requests": self.requests.load(Relaxed),
            "completed": self.completed.load(Relaxed),
            "aborted_by_peer": self.aborted.load(Relaxed),
            "connections": self.connections.load(Relaxed),
            "connections_open": self.open.load(Relaxed),
        })
    }
}
