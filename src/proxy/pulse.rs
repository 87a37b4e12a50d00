//! The clocks of a stream that has begun: how long the provider may be silent, when the client hears a comment
//! meanwhile, and when the time for the whole request is over. Knows no connection.

use super::Gateway;
use super::request::Request;
use bytes::Bytes;
use std::time::{Duration, Instant};

/// A line that every reader of event streams skips; only ever sent between two events.
pub(crate) const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// The client has heard nothing for a while.
    Comment,
    /// The provider has said nothing for too long.
    Silent,
    /// The whole request took too long.
    Overdue,
}

#[derive(Debug)]
pub(crate) struct Pulse {
    idle: Duration,
    keepalive: Option<Duration>,
    deadline: Option<Instant>,
    /// Of the provider.
    heard: Instant,
    /// To the client.
    spoke: Instant,
    /// What went down last ended an event.
    between: bool,
}

impl Pulse {
    pub(crate) fn new(gateway: &Gateway, request: &Request) -> Self {
        let settings = &gateway.settings;
        let deadline = settings.total_timeout.and_then(|total| request.started.checked_add(total));
        let (idle, keepalive, now) = (settings.idle_timeout, settings.stream_keepalive, Instant::now());
        Self { idle, keepalive, deadline, heard: now, spoke: now, between: true }
    }

    /// What is due next, and in how long.
    pub(crate) fn next(&self, now: Instant) -> (Duration, Beat) {
        let in_time = |from: Instant, after: Duration| after.saturating_sub(now.saturating_duration_since(from));
        let silent = (in_time(self.heard, self.idle), Beat::Silent);
        let comment = self.keepalive.filter(|_| self.between).map(|after| (in_time(self.spoke, after), Beat::Comment));
        let overdue = self.deadline.map(|at| (at.saturating_duration_since(now), Beat::Overdue));
        [Some(silent), overdue, comment].into_iter().flatten().min_by_key(|(left, _)| *left).unwrap_or(silent)
    }

    pub(crate) fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// `bytes` went down.
    pub(crate) fn spoke(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.spoke = Instant::now();
            self.between = bytes.ends_with(b"\n\n") || bytes.ends_with(b"\r\n\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_that_is_due_first_counts() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let ms = Duration::from_millis;
        let pulse = Pulse {
            idle: ms(100),
            keepalive: Some(ms(30)),
            deadline: Some(after(150)),
            heard: after(20),
            spoke: after(40),
            between: true,
        };
        assert_eq!(pulse.next(after(50)), (ms(20), Beat::Comment));
        assert_eq!(Pulse { between: false, ..pulse }.next(after(50)), (ms(70), Beat::Silent), "never inside an event");
        let pulse = Pulse { keepalive: None, heard: after(120), ..pulse };
        assert_eq!(pulse.next(after(130)), (ms(20), Beat::Overdue));
        assert_eq!(pulse.next(after(900)).0, ms(0), "what is overdue is due at once");
    }

    #[test]
    fn a_comment_stands_between_events_only() {
        let now = Instant::now();
        let (idle, keepalive) = (Duration::from_secs(9), Some(Duration::from_secs(1)));
        let mut pulse = Pulse { idle, keepalive, deadline: None, heard: now, spoke: now, between: true };
        for (bytes, beat) in [
            (&b"data: {\"a\":"[..], Beat::Silent),
            (b"1}\n\n", Beat::Comment),
            (b"data: 2\r\n\r\n", Beat::Comment),
            (b"data: 3\n", Beat::Silent),
            (b"", Beat::Silent),
        ] {
            pulse.spoke(bytes);
            assert_eq!(pulse.next(Instant::now()).1, beat, "{bytes:?}");
        }
    }
}
