//! Ids of requests and records: version 7, so that they sort by time. Their random part comes from a fast
//! generator per thread; they name things and prove nothing, so the system need not be asked for each.

use gateway_domain::Timestamp;
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use std::cell::RefCell;
use uuid::Uuid;

thread_local! {
    static RANDOM: RefCell<SmallRng> = RefCell::new(SmallRng::from_os_rng());
}

pub(crate) fn next(now: Timestamp) -> Uuid {
    let mut bytes = [0; 10];
    RANDOM.with_borrow_mut(|r| r.fill_bytes(&mut bytes));
    of(now, bytes)
}

/// The one of that time with these bytes behind it, for what is to be found again by its id.
pub(crate) fn of(at: Timestamp, bytes: [u8; 10]) -> Uuid {
    let millis = u64::try_from(at.micros() / 1000).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
}

/// A new id for a span; never zero.
pub(crate) fn span() -> u64 {
    RANDOM.with_borrow_mut(rand::Rng::random::<u64>).max(1)
}

/// A number in 0..1 for weighted choices.
pub(crate) fn dice() -> f64 {
    RANDOM.with_borrow_mut(rand::Rng::random::<f64>)
}
