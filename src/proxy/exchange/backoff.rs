//! How long to wait before a target is tried again, and when to stop. Knows neither answers nor connections.

use crate::ids;
use gateway_domain::config::Retry;
use std::time::Duration;

/// A single wait this long, or waits that add up to more, end the retries at once.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What was spent on one target so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// Tries after the first.
    pub(crate) tries: u32,
    waited: Duration,
}

/// What comes of an answer that the rules would have tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another try, after this.
    Wait(Duration),
    /// The answer stands; `used_up`: there were retries, and none is left.
    Stop { used_up: bool },
}

impl Backoff {
    /// `retry_after`: what the provider of a 429 asks for. `left`: of the time for the whole request; `None` is
    /// unlimited.
    pub(crate) fn next(&mut self, retry: &Retry, retry_after: Option<Duration>, left: Option<Duration>) -> Next {
        if self.tries >= retry.attempts {
            return Next::Stop { used_up: retry.attempts > 0 };
        }
        let wait =
            retry_after.filter(|_| retry.use_retry_after).unwrap_or_else(|| delay(retry, self.tries, ids::dice()));
        if wait >= LONGEST_WAIT || self.waited + wait > LONGEST_WAIT || left.is_some_and(|left| wait >= left) {
            return Next::Stop { used_up: true };
        }
        self.tries += 1;
        self.waited += wait;
        Next::Wait(wait)
    }
}

/// 1, 2, 4, 8, 16 s, with jitter somewhere in the upper half of that.
fn delay(retry: &Retry, tries: u32, dice: f64) -> Duration {
    let whole = Duration::from_secs(1 << tries.min(6));
    if retry.jitter { whole.mul_f64(0.5 + dice / 2.0) } else { whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(retry: &Retry, retry_after: Option<u64>, left: Option<u64>) -> (Vec<u64>, bool) {
        let (mut backoff, mut waits) = (Backoff::default(), Vec::new());
        loop {
            match backoff.next(retry, retry_after.map(Duration::from_millis), left.map(Duration::from_millis)) {
                Next::Wait(wait) => waits.push(u64::try_from(wait.as_millis()).expect("short")),
                Next::Stop { used_up } => return (waits, used_up),
            }
        }
    }

    #[test]
    fn every_rule_of_waiting() {
        let retry = |attempts, use_retry_after| Retry { attempts, use_retry_after, ..Retry::default() };
        for (retry, retry_after, left, expected) in [
            (retry(0, true), Some(1), None, (vec![], false)),
            (retry(5, false), None, None, (vec![1000, 2000, 4000, 8000, 16000], true)),
            (retry(2, false), Some(5), None, (vec![1000, 2000], true)),
            (retry(3, true), Some(5), None, (vec![5, 5, 5], true)),
            (retry(2, true), None, None, (vec![1000, 2000], true)),
            (retry(2, true), Some(59_999), None, (vec![59_999], true)),
            (retry(2, true), Some(30_000), None, (vec![30_000, 30_000], true)),
            (retry(3, true), Some(30_000), None, (vec![30_000, 30_000], true)),
            (retry(2, true), Some(60_000), None, (vec![], true)),
            (retry(3, false), None, Some(2000), (vec![1000], true)),
            (retry(3, true), Some(5), Some(5), (vec![], true)),
        ] {
            assert_eq!(waits(&retry, retry_after, left), expected, "{retry:?} {retry_after:?} {left:?}");
        }
    }

    #[test]
    fn jitter_shortens_by_at_most_half() {
        let retry = Retry { attempts: 5, jitter: true, ..Retry::default() };
        for (tries, dice, ms) in [(0, 0.0, 500), (0, 0.5, 750), (3, 0.0, 4000), (3, 1.0, 8000)] {
            assert_eq!(delay(&retry, tries, dice), Duration::from_millis(ms));
        }
    }
}
