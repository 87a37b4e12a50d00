//! Sticky assignments of load balancing. Kept in the process, bounded in entries: the least used go first, and who was
//! forgotten is drawn again. Where nodes share them, who draws one anew asks whether another node has; choosing itself
//! never waits.

use gateway_domain::config::plan::Sticks;
use gateway_domain::ports::{Assignment, SharedAssignments};
use quick_cache::sync::Cache;
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// About 6 MiB when full.
const MOST: usize = 100_000;

#[derive(Debug)]
pub(crate) struct Assignments {
    kept: Cache<u128, (usize, i64)>,
    shared: OnceLock<Arc<dyn SharedAssignments>>,
}

/// The assignments as one plan sees them; notes those that it draws, which were not known here before.
#[derive(Debug)]
pub(crate) struct View<'a> {
    all: &'a Assignments,
    drawn: RefCell<Vec<Assignment>>,
}

impl Default for Assignments {
    fn default() -> Self {
        Self { kept: Cache::new(MOST), shared: OnceLock::new() }
    }
}

impl Assignments {
    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Sets where the nodes keep assignments that they share: from now on they agree on them.
    pub(crate) fn share(&self, shared: Arc<dyn SharedAssignments>) {
        // The process has one.
        let _ = self.shared.set(shared);
    }

    pub(crate) const fn view(&self) -> View<'_> {
        View { all: self, drawn: RefCell::new(Vec::new()) }
    }

    pub(crate) fn are_shared(&self) -> bool {
        self.shared.get().is_some()
    }

    /// Tells other nodes of assignments, or learns that one of them was first: then its own is true, and the plan is
    /// to be made again. Who cannot be asked in time leaves each node with its own.
    pub(crate) async fn agree(&self, drawn: &[Assignment], now_ms: i64, waited: Duration) -> bool {
        let Some(shared) = self.shared.get() else { return false };
        let mut differ = false;
        for (own, stands) in drawn.iter().zip(shared.agree(drawn, now_ms, waited).await) {
            if let Some(other) = stands.filter(|stands| stands.place != own.place) {
                self.kept.insert(own.key, (other.place, other.until_ms));
                differ = true;
            }
        }
        differ
    }
}

impl View<'_> {
    /// The assignments that were drawn, from the outermost load balancing to the innermost.
    pub(crate) fn drawn(self) -> Vec<Assignment> {
        self.drawn.into_inner()
    }
}

impl Sticks for View<'_> {
    fn find(&self, key: u128, now_ms: i64) -> Option<usize> {
        self.all.kept.get(&key).filter(|(_, until)| *until > now_ms).map(|(place, _)| place)
    }

    fn keep(&self, key: u128, place: usize, until_ms: i64) {
        self.all.kept.insert(key, (place, until_ms));
        self.drawn.borrow_mut().push(Assignment { key, place, until_ms });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::ports::Fut;

    /// Another node was first with the keys below ten; those above a hundred are never answered.
    #[derive(Debug)]
    struct Other;

    impl SharedAssignments for Other {
        fn agree<'a>(&'a self, offered: &'a [Assignment], _: i64, _: Duration) -> Fut<'a, Vec<Option<Assignment>>> {
            let stands = |one: &Assignment| match one.key {
                0..10 => Some(Assignment { place: 7, until_ms: 99, ..*one }),
                10..100 => Some(*one),
                _ => None,
            };
            let told = offered.iter().map(stands).collect();
            Box::pin(async move { told })
        }
    }

    #[tokio::test]
    async fn who_was_first_decides() {
        let own = |key| Assignment { key, place: 1, until_ms: 50 };
        let assignments = Assignments::default();
        assert!(!assignments.agree(&[own(1)], 0, Duration::ZERO).await, "alone there is nobody to agree with");
        assignments.share(Arc::new(Other));
        let view = assignments.view();
        [1, 11, 111].into_iter().for_each(|key| view.keep(key, 1, 50));
        let drawn = view.drawn();
        assert_eq!(drawn, [own(1), own(11), own(111)]);
        assert!(!assignments.agree(&drawn[1..], 0, Duration::ZERO).await);
        assert!(assignments.agree(&drawn, 0, Duration::ZERO).await, "one of them is another node's");
        let found: Vec<_> = [1, 11, 111].map(|key| assignments.view().find(key, 10)).into();
        assert_eq!(found, [Some(7), Some(1), Some(1)]);
    }
}
