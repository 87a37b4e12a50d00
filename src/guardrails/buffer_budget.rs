//! Room for what is held of a request until it was judged, as the guardrails ask for it. Who gives it counts it with
//! all else that is held, for the process and for the key; that is not known here.

use std::fmt::Debug;
use std::sync::Arc;

/// Gives room for one thing that is held.
pub(crate) trait Room: Debug + Send + Sync {
    fn open(&self) -> Box<dyn HeldRoom>;
}

/// What one thing takes, given back when dropped.
pub(crate) trait HeldRoom: Debug + Send {
    /// False: there is no room for so many bytes in all.
    fn grow_to(&mut self, total: usize) -> bool;

    /// Grows to `total` bytes for what may be left out, and does so only while there is plenty of room.
    fn spare(&mut self, total: usize) -> bool;
}

/// Steps in which room is asked for: most texts need one.
const STEP: usize = 16 << 10;

/// Room that grows with what is held, and is asked for seldom.
#[derive(Debug)]
pub(crate) struct GrowingRoom {
    held: Box<dyn HeldRoom>,
    granted: usize,
}

impl GrowingRoom {
    pub(super) fn new(room: &Arc<dyn Room>) -> Self {
        Self { held: room.open(), granted: 0 }
    }

    /// False: there is none for so many bytes in all.
    pub(super) fn holds(&mut self, total: usize) -> bool {
        if total <= self.granted {
            return true;
        }
        let wanted = total.next_multiple_of(STEP);
        let has_room = self.held.grow_to(wanted);
        if has_room {
            self.granted = wanted;
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[derive(Clone, Debug, Default)]
    struct Counted(Arc<Mutex<Vec<usize>>>);

    impl Room for Counted {
        fn open(&self) -> Box<dyn HeldRoom> {
            Box::new(self.clone())
        }
    }

    impl HeldRoom for Counted {
        fn grow_to(&mut self, total: usize) -> bool {
            self.0.lock().push(total);
            total <= 2 * STEP
        }
        fn spare(&mut self, total: usize) -> bool {
            self.grow_to(total)
        }
    }

    #[test]
    fn room_is_asked_for_in_steps_until_there_is_none() {
        let asked = Counted::default();
        let room: Arc<dyn Room> = Arc::new(asked.clone());
        let mut growing = GrowingRoom::new(&room);
        for total in [0, 1, 100, STEP, STEP + 1] {
            assert!(growing.holds(total), "{total}");
        }
        assert!(!growing.holds(2 * STEP + 1));
        assert!(growing.holds(2 * STEP), "what was given stays");
        assert_eq!(*asked.0.lock(), [STEP, 2 * STEP, 3 * STEP]);
    }
}
