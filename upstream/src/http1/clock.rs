//! The one clock of a connection: how long it may be silent, measured from when the waiting began.

use crate::lazy_timer::LazyTimer;
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

pub(super) struct Clock {
    wait: Wait,
    /// When the wait began.
    since: Option<Instant>,
    timer: LazyTimer,
}

impl Clock {
    pub(super) fn new() -> Self {
        Self { wait: Wait::Source, since: None, timer: LazyTimer::default() }
    }

    /// A request goes out now, whose answer is waited for from here on.
    pub(super) const fn begin(&mut self, now: Instant) {
        (self.wait, self.since) = (Wait::Head, Some(now));
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
        self.timer.poll(cx, since, limit)
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clock").field("wait", &self.wait).field("since", &self.since).finish_non_exhaustive()
    }
}
