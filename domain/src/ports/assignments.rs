//! Sticky assignments that several nodes keep to. Whoever draws one offers it, and learns which node was first.

use super::Fut;
use std::fmt;
use std::time::Duration;

/// Requests of one key go to the target at this place, until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub key: u128,
    pub place: usize,
    pub until_ms: i64,
}

pub trait SharedAssignments: Send + Sync + fmt::Debug {
    /// For each that is offered: what holds for its key now, which is the offer where no other node was first. `None`
    /// where nobody can say in time, for one who has waited so long already.
    fn agree<'a>(
        &'a self,
        offered: &'a [Assignment],
        now_ms: i64,
        waited: Duration,
    ) -> Fut<'a, Vec<Option<Assignment>>>;
}
