//! When a secret is asked for again: after its interval, each node and reference at a moment of its own; after a
//! failure sooner, and then less and less often.

use std::time::{Duration, Instant};

const SOONEST: Duration = Duration::from_secs(2);
/// More failures than this change nothing more.
const MOST_DOUBLINGS: u32 = 8;

/// `dice`: 0 to 1.
pub(super) fn next(now: Instant, every: Duration, failures: u32, dice: f64) -> Instant {
    let span = match failures {
        0 => every,
        failures => (SOONEST * 2_u32.pow((failures - 1).min(MOST_DOUBLINGS))).min(every),
    };
    now + span.mul_f64(0.9 + 0.2 * dice.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_do_not_ask_at_the_same_moment_and_failures_are_tried_soon() {
        let (now, every) = (Instant::now(), Duration::from_secs(300));
        let after = |failures, dice| next(now, every, failures, dice).duration_since(now).as_secs_f64();
        assert!((after(0, 0.0) - 270.0).abs() < 0.01 && (after(0, 1.0) - 330.0).abs() < 0.01);
        assert!((after(1, 0.5) - 2.0).abs() < 0.01 && (after(3, 0.5) - 8.0).abs() < 0.01);
        assert!((after(40, 0.5) - 300.0).abs() < 0.01, "never rarer than without a failure");
    }
}
