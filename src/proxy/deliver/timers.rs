//! The clocks of an answer that has begun: how long the provider may be silent, when the client gets a comment
//! meanwhile, and when the time for it is over. Knows no connection; the time is an
//! argument.

use std::time::{Duration, Instant};

/// Which time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The client has read nothing for a while.
    Comment,
    /// The provider has said nothing for too long.
    Silent,
    /// The whole took too long: longer than this.
    Overdue(Duration),
}

/// When an answer has to be over, and the time that its error names then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    pub(crate) told: Duration,
}

impl Deadline {
    pub(crate) fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }
}

#[derive(Debug)]
pub(crate) struct StreamTimers {
    idle: Option<Duration>,
    keepalive: Option<Duration>,
    deadline: Option<Deadline>,
    /// When something was last read from the provider.
    read: Instant,
    /// When something was last written to the client.
    wrote: Instant,
    /// What went down last ended an event.
    between: bool,
}

impl StreamTimers {
    /// `idle`: of the provider. `keepalive`: comments go down when nothing did for so long.
    pub(crate) fn new(now: Instant, idle: Duration, keepalive: Option<Duration>, deadline: Option<Deadline>) -> Self {
        Self { idle: Some(idle), keepalive, deadline, read: now, wrote: now, between: true }
    }

    /// Nothing but the end of the whole is watched.
    pub(crate) fn until(now: Instant, deadline: Option<Deadline>) -> Self {
        Self { idle: None, keepalive: None, deadline, read: now, wrote: now, between: true }
    }

    /// What is due next, and in how long; `None`: never anything.
    pub(crate) fn next(&self, now: Instant) -> Option<(Duration, Due)> {
        let in_time = |from: Instant, after: Duration| after.saturating_sub(now.saturating_duration_since(from));
        let silent = self.idle.map(|idle| (in_time(self.read, idle), Due::Silent));
        let comment = self.keepalive.filter(|_| self.between).map(|after| (in_time(self.wrote, after), Due::Comment));
        let overdue = self.deadline.map(|end| (end.at.saturating_duration_since(now), Due::Overdue(end.told)));
        [silent, overdue, comment].into_iter().flatten().min_by_key(|(left, _)| *left)
    }

    /// What is left of the time for the whole, and the time that its error names.
    pub(crate) fn left(&self) -> Option<(Duration, Duration)> {
        self.deadline.map(|end| (end.left(), end.told))
    }

    /// The provider said something.
    pub(crate) fn read(&mut self, now: Instant) {
        self.read = now;
    }

    /// `bytes` went down.
    pub(crate) fn wrote(&mut self, now: Instant, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.wrote = now;
            self.between = bytes.ends_with(b"\n\n") || bytes.ends_with(b"\r\n\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_clock_that_is_due_first_counts() {
        let start = Instant::now();
        let deadline = Deadline { at: start + ms(150), told: ms(9) };
        let mut timers = StreamTimers::new(start, ms(100), Some(ms(30)), Some(deadline));
        timers.read(start + ms(20));
        timers.wrote(start + ms(40), b"\n\n");
        assert_eq!(timers.next(start + ms(50)), Some((ms(20), Due::Comment)));
        timers.wrote(start + ms(40), b"half");
        assert_eq!(timers.next(start + ms(50)), Some((ms(70), Due::Silent)), "never inside an event");
        timers.read(start + ms(120));
        assert_eq!(timers.next(start + ms(130)), Some((ms(20), Due::Overdue(ms(9)))));
        assert_eq!(timers.next(start + ms(900)).map(|(left, _)| left), Some(ms(0)), "what is overdue is due at once");
    }

    #[test]
    fn what_passes_through_has_one_clock_or_none() {
        let start = Instant::now();
        assert_eq!(StreamTimers::until(start, None).next(start + ms(900)), None);
        let timers = StreamTimers::until(start, Some(Deadline { at: start + ms(5), told: ms(5) }));
        assert_eq!(timers.next(start), Some((ms(5), Due::Overdue(ms(5)))));
    }

    #[test]
    fn a_comment_stands_between_events_only() {
        let now = Instant::now();
        let mut timers = StreamTimers::new(now, ms(9000), Some(ms(1000)), None);
        for (bytes, due) in [
            (&b"data: {\"a\":"[..], Due::Silent),
            (b"1}\n\n", Due::Comment),
            (b"data: 2\r\n\r\n", Due::Comment),
            (b"data: 3\n", Due::Silent),
            (b"", Due::Silent),
        ] {
            timers.wrote(now, bytes);
            assert_eq!(timers.next(now).map(|(_, due)| due), Some(due), "{bytes:?}");
        }
    }
}
