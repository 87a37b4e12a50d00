//! How many connections clients have open, in all and on each worker, and who of them may be asked to leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Connections of clients that may be open at once.
#[derive(Debug)]
pub(crate) struct Seats {
    most: usize,
    open: AtomicUsize,
    shed: AtomicU64,
    failed: AtomicU64,
    /// Somebody left while all were taken.
    pub(super) freed: Notify,
}

/// What the door and one worker know of each other.
#[derive(Debug, Default)]
pub(super) struct Desk {
    open: AtomicUsize,
    /// Connections on which nothing is asked at the moment.
    idle: AtomicUsize,
    /// One of those that are idle leaves, the one that is so for longest; or all of them.
    pub(super) leave: Notify,
    closing: AtomicBool,
}

/// One connection's place, free again when this is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSeat {
    seats: Arc<Seats>,
    desk: Arc<Desk>,
}

/// A connection that is idle until this is dropped.
#[derive(Debug)]
pub(super) struct Idle<'a>(&'a Desk);

impl Seats {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let (open, shed, failed) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { most, open, shed, failed, freed: Notify::new() })
    }

    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed) as u64
    }

    /// Connections closed unheard, for want of a place.
    pub(crate) fn shed(&self) -> u64 {
        self.shed.load(Ordering::Relaxed)
    }

    /// TLS handshakes that came to nothing.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn fail(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn turn_away(&self) {
        self.shed.fetch_add(1, Ordering::Relaxed);
    }

    /// A place at this desk; `None` when all are taken.
    pub(super) fn take(self: &Arc<Self>, desk: &Arc<Desk>) -> Option<ConnectionSeat> {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        desk.open.fetch_add(1, Ordering::Relaxed);
        Some(ConnectionSeat { seats: self.clone(), desk: desk.clone() })
    }
}

impl Drop for ConnectionSeat {
    fn drop(&mut self) {
        self.desk.open.fetch_sub(1, Ordering::Relaxed);
        if self.seats.open.fetch_sub(1, Ordering::Relaxed) >= self.seats.most {
            self.seats.freed.notify_waiters();
        }
    }
}

impl Desk {
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(super) fn idle_count(&self) -> usize {
        self.idle.load(Ordering::Relaxed)
    }

    pub(super) fn idle(&self) -> Idle<'_> {
        self.idle.fetch_add(1, Ordering::Relaxed);
        Idle(self)
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Nothing more is asked here: who is idle leaves.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.leave.notify_waiters();
    }
}

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.idle.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_given_back() {
        let (seats, one, two) = (Seats::new(2), Arc::<Desk>::default(), Arc::<Desk>::default());
        let (a, b) = (seats.take(&one), seats.take(&two));
        assert!(a.is_some() && b.is_some() && seats.take(&one).is_none());
        assert_eq!((seats.open(), one.open(), two.open()), (2, 1, 1));
        drop(a);
        assert_eq!((seats.open(), one.open()), (1, 0));
        assert!(seats.take(&two).is_some_and(|_| two.open() == 2));
    }
}
