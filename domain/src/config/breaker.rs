//! The circuit breaker of one target: open or closed, no half-open.
//! A window opens with the first answer and is as long as the cooldown; enough failures within it open the
//! breaker for one cooldown, after which it starts afresh. No lock: three atomics, and time is an argument.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// `cb_config`, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct BreakerRules {
    /// Failures in a window.
    pub threshold: Option<u32>,
    /// Share of failures in a window, 0..100, once it has seen `minimum` answers.
    pub percentage: Option<f64>,
    pub minimum: u32,
    pub cooldown_ms: i64,
    /// What counts as a failure; `None`: every status above 500.
    pub statuses: Option<Arc<[u16]>>,
}

#[derive(Debug)]
pub struct Breaker {
    rules: Arc<BreakerRules>,
    /// When the window began (seconds, 32 bits), answers in it (16), failures among them (16).
    window: AtomicU64,
    /// Epoch milliseconds; in the past when closed.
    open_until: AtomicI64,
    opened: AtomicU64,
}

/// What a breaker shows of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakerStatus {
    /// When it closes again, in epoch milliseconds; `None` when it is closed.
    pub open_until_ms: Option<i64>,
    /// Answers and failures in the current window.
    pub seen: u32,
    pub failed: u32,
    /// How often it has opened.
    pub opened: u64,
}

struct BreakerWindow {
    began_s: u32,
    seen: u16,
    failed: u16,
}

impl BreakerWindow {
    const fn unpack(packed: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = packed.to_be_bytes();
        Self {
            began_s: u32::from_be_bytes([a, b, c, d]),
            seen: u16::from_be_bytes([e, f]),
            failed: u16::from_be_bytes([g, h]),
        }
    }

    fn pack(&self) -> u64 {
        u64::from(self.began_s) << 32 | u64::from(self.seen) << 16 | u64::from(self.failed)
    }
}

fn seconds(ms: i64) -> u32 {
    u32::try_from(ms.div_euclid(1000)).unwrap_or(0)
}

impl Breaker {
    pub const fn new(rules: Arc<BreakerRules>) -> Self {
        Self { rules, window: AtomicU64::new(0), open_until: AtomicI64::new(0), opened: AtomicU64::new(0) }
    }

    pub fn is_open(&self, now_ms: i64) -> bool {
        self.open_until.load(Relaxed) > now_ms
    }

    /// Books an answer. What comes in while open (all targets were, so all are used) does not count.
    pub fn record(&self, status: u16, now_ms: i64) {
        if self.is_open(now_ms) {
            return;
        }
        let failed = self.rules.statuses.as_ref().map_or(status > 500, |list| list.contains(&status));
        let mut opens = false;
        let booked = self.window.fetch_update(Relaxed, Relaxed, |packed| {
            let mut window = self.current(packed, now_ms);
            if window.seen == u16::MAX {
                // Halved, which keeps the share and makes room.
                (window.seen, window.failed) = (window.seen / 2, window.failed / 2);
            }
            window.seen += 1;
            window.failed += u16::from(failed);
            opens = failed && self.is_too_much(&window);
            Some(if opens { 0 } else { window.pack() })
        });
        if booked.is_ok() && opens {
            self.open_until.store(now_ms.saturating_add(self.rules.cooldown_ms), Relaxed);
            self.opened.fetch_add(1, Relaxed);
        }
    }

    fn current(&self, packed: u64, now_ms: i64) -> BreakerWindow {
        let window = BreakerWindow::unpack(packed);
        let (now, length) = (seconds(now_ms), seconds(self.rules.cooldown_ms).max(1));
        // A clock that was set back starts anew, too.
        let over = now < window.began_s || now - window.began_s >= length;
        if window.seen == 0 || over { BreakerWindow { began_s: now, seen: 0, failed: 0 } } else { window }
    }

    fn is_too_much(&self, window: &BreakerWindow) -> bool {
        let (seen, failed) = (u32::from(window.seen), u32::from(window.failed));
        let by_count = self.rules.threshold.is_some_and(|most| failed >= most);
        let share = f64::from(failed) * 100.0 / f64::from(seen.max(1));
        by_count || (seen >= self.rules.minimum && self.rules.percentage.is_some_and(|most| share >= most))
    }

    pub fn state(&self, now_ms: i64) -> BreakerStatus {
        let until = self.open_until.load(Relaxed);
        let window = self.current(self.window.load(Relaxed), now_ms);
        BreakerStatus {
            open_until_ms: (until > now_ms).then_some(until),
            seen: window.seen.into(),
            failed: window.failed.into(),
            opened: self.opened.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOLDOWN: i64 = 30_000;
    const START: i64 = 1_700_000_000_000;

    fn breaker(threshold: Option<u32>, percentage: Option<f64>, minimum: u32, statuses: Option<&[u16]>) -> Breaker {
        let statuses = statuses.map(Arc::from);
        Breaker::new(Arc::new(BreakerRules { threshold, percentage, minimum, cooldown_ms: COOLDOWN, statuses }))
    }

    #[test]
    fn failures_within_a_window_open_it_for_one_cooldown() {
        let b = breaker(Some(3), None, 1, None);
        for (i, status) in [503, 200, 502, 200].into_iter().enumerate() {
            b.record(status, START + i64::try_from(i).unwrap_or(0));
        }
        assert!(!b.is_open(START + 4));
        assert_eq!(b.state(START + 4), BreakerStatus { open_until_ms: None, seen: 4, failed: 2, opened: 0 });
        b.record(504, START + 10);
        assert!(b.is_open(START + 10) && b.is_open(START + 10 + COOLDOWN - 1));
        assert_eq!(b.state(START + 11).open_until_ms, Some(START + 10 + COOLDOWN));
        assert!(!b.is_open(START + 10 + COOLDOWN), "closed again after the cooldown");
        b.record(503, START + 10 + COOLDOWN);
        let after = b.state(START + 10 + COOLDOWN);
        assert_eq!((after.open_until_ms, after.failed, after.opened), (None, 1, 1), "and it starts afresh");
    }

    #[test]
    fn old_failures_are_forgotten() {
        let b = breaker(Some(2), None, 1, None);
        b.record(503, START);
        b.record(503, START + COOLDOWN);
        assert!(!b.is_open(START + COOLDOWN), "the window of the first was over");
        b.record(503, START + COOLDOWN + 1000);
        assert!(b.is_open(START + COOLDOWN + 1000));
    }

    #[test]
    fn only_what_is_above_500_is_a_failure_unless_listed() {
        for (status, listed, fails) in [
            (500, None, false),
            (501, None, true),
            (429, None, false),
            (404, None, false),
            (599, None, true),
            (429, Some(&[429][..]), true),
            (503, Some(&[429]), false),
            (200, Some(&[200]), true),
        ] {
            let b = breaker(Some(1), None, 1, listed);
            b.record(status, START);
            assert_eq!(b.is_open(START), fails, "{status} with {listed:?}");
        }
    }

    #[test]
    fn a_share_counts_once_enough_was_seen() {
        let b = breaker(None, Some(50.0), 4, None);
        b.record(503, START);
        b.record(503, START);
        b.record(200, START);
        assert!(!b.is_open(START), "three is below the minimum");
        b.record(200, START);
        assert!(!b.is_open(START), "a success never opens");
        b.record(503, START);
        assert!(b.is_open(START), "three of five");
        let b = breaker(None, Some(50.0), 4, None);
        for status in [200, 200, 200, 503, 503] {
            b.record(status, START);
        }
        assert!(!b.is_open(START), "two of five");
    }

    #[test]
    fn a_busy_window_keeps_its_share() {
        let b = breaker(Some(40_000), Some(60.0), 10, None);
        for i in 0..200_000 {
            b.record(if i % 2 == 0 { 200 } else { 503 }, START);
        }
        assert!(!b.is_open(START));
        let state = b.state(START);
        assert!(state.failed.abs_diff(state.seen / 2) < 10, "{state:?}");
    }
}
