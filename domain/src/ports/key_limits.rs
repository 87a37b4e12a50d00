//! What an API key is held to at this moment: filled by whoever counts, told to admins and to the key itself.

use super::{Fut, Holder};
use crate::counters::Measured;
use crate::resource::policy::{Target, Unit};
use crate::snapshot::Key;
use crate::time::Timestamp;
use std::sync::Arc;

/// How a limit stands that is the same for every call of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitCount {
    /// Used and held.
    pub used: u64,
    pub left: u64,
    pub began_at: Timestamp,
    /// `None`: it never starts anew by itself.
    pub ends_at: Option<Timestamp>,
}

/// A limit that holds for calls of a key, or may hold for some.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyLimit {
    pub holder: Holder,
    pub name: Arc<str>,
    pub slug: Arc<str>,
    pub target: Target,
    pub measured: Measured,
    /// `None`: a budget.
    pub unit: Option<Unit>,
    /// Nanodollars of a cost, else the number itself.
    pub limit: u64,
    /// The group that it counts for, where it groups and the group is known.
    pub value_key: String,
    /// What only a request tells, and what decides whether it holds or for which group it counts: `model`. Empty: it
    /// holds for every call.
    pub depends_on: Vec<String>,
    /// `None`: which count it is depends on the request, or the counts cannot be read at the moment.
    pub count: Option<LimitCount>,
}

pub trait KeyLimits: Send + Sync {
    fn limits_of<'a>(&'a self, key: &'a Key) -> Fut<'a, Vec<KeyLimit>>;
}
