//! The one clock of a connection: how long it may be silent, measured from when the waiting began. One timer serves many
//! waits, requests even: it is armed anew when it rings early or would ring late, not for each wait.

use pingora_timeout::Timeout;
use pingora_timeout::fast_timeout::FastOrTokioTimeout;
use std::future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// That the peer takes what is written.
    Taken,
    /// The head of its answer.
    Head,
    /// The next piece of its body.
    Piece,
    /// The other side, which is not the peer's fault.
    Source,
}

struct Timer {
    sleep: Timeout<future::Pending<()>, FastOrTokioTimeout>,
    rings: Instant,
}

pub(super) struct Clock {
    wait: Wait,
    /// When the wait began.
    since: Option<Instant>,
    timer: Option<Timer>,
}

impl Clock {
    pub(super) const fn new() -> Self {
        Self { wait: Wait::Source, since: None, timer: None }
    }

    /// What was waited for has come.
    pub(super) const fn stop(&mut self) {
        self.since = None;
    }

    /// Ready when `limit` has passed in this wait. No limit: never.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, wait: Wait, limit: Option<Duration>) -> Poll<()> {
        if self.wait != wait {
            (self.wait, self.since) = (wait, None);
        }
        let Some(limit) = limit else { return Poll::Pending };
        let since = *self.since.get_or_insert_with(Instant::now);
        let Some(end) = since.checked_add(limit) else { return Poll::Pending };
        if self.timer.as_ref().is_none_or(|timer| timer.rings > end) {
            self.arm(limit.saturating_sub(since.elapsed()), end);
        }
        while let Some(timer) = &mut self.timer {
            if Pin::new(&mut timer.sleep).poll(cx).is_pending() {
                return Poll::Pending;
            }
            let left = limit.saturating_sub(since.elapsed());
            if left.is_zero() {
                self.timer = None;
                return Poll::Ready(());
            }
            self.arm(left, end);
        }
        Poll::Pending
    }

    fn arm(&mut self, left: Duration, rings: Instant) {
        // Of no length at all it would ring in the tick that has just passed.
        let sleep = pingora_timeout::timeout(left.max(Duration::from_millis(1)), future::pending());
        self.timer = Some(Timer { sleep, rings });
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("wait", &self.wait).field("since", &self.since).finish_non_exhaustive()
    }
}
