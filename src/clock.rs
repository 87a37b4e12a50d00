//! The wall clock of this process: records, limits, budgets and expiry are dated by it and by nothing else, so a test
//! that moves it moves all of them. Knows nothing of the clocks of others (`upstream/src/credential/clock.rs`), nor
//! of durations, which are measured by the monotonic clock.

use gateway_domain::Timestamp;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Written once, before anything is dated.
static AHEAD_SECS: AtomicI64 = AtomicI64::new(0);

/// Sets how many seconds this process lives ahead of the machine's clock, or behind it if negative.
pub(crate) fn set_ahead(secs: i64) {
    AHEAD_SECS.store(secs, Ordering::Relaxed);
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    Timestamp(micros).plus_micros(AHEAD_SECS.load(Ordering::Relaxed).saturating_mul(1_000_000))
}
