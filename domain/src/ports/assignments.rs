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
    /// What holds now for the key of each offer, in the order of the offers: the offer itself, unless another node was
    /// first. `None` where no answer comes in time; `waited` is time that the request has lost to waiting already.
    fn agree<'a>(
        &'a self,
        offered: &'a [Assignment],
        now_ms: i64,
        waited: Duration,
    ) -> Fut<'a, Vec<Option<Assignment>>>;
}
