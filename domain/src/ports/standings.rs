//! What was used of budgets: filled by whoever counts, read and set back by admins.

use super::{Fut, StoreError};
use crate::holder::Holder;
use crate::record::Page;
use crate::resource::budget::Budget;
use crate::time::Timestamp;

/// A counter of a budget, in its running period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    /// Stands in URLs.
    pub id: String,
    /// `metadata._user:alice`; several are joined by commas. Empty where nothing is grouped by.
    pub value_key: String,
    /// Nanodollars of a cost, else the number itself.
    pub used: u64,
    pub exhausted: bool,
    /// When an admin or the calendar last set it to nothing.
    pub last_reset_at: Option<Timestamp>,
}

/// Absent means any. Sorted by `value_key`.
#[derive(Clone, Debug)]
pub struct EntityQuery {
    pub holder: Holder,
    /// What counts as exhausted, as [`Entity::used`].
    pub limit: u64,
    pub exhausted: Option<bool>,
    /// A part of the value key.
    pub search: Option<String>,
    pub page: u64,
    pub page_size: u64,
}

/// Which counters of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    All,
    Id(&'a str),
    ValueKey(&'a str),
}

/// What was used of budgets so far. Filled by whoever counts; read and set back by admins.
pub trait Standings: Send + Sync {
    fn entities<'a>(&'a self, query: &'a EntityQuery) -> Fut<'a, Result<Page<Entity>, StoreError>>;
    /// The one counter of each holder that groups by nothing; `None` where nothing was counted yet.
    fn totals<'a>(&'a self, holders: &'a [(Holder, &'a Budget)]) -> Fut<'a, Result<Vec<Option<Entity>>, StoreError>>;
    /// False when there is no such counter.
    fn reset<'a>(&'a self, holder: Holder, which: Which<'a>) -> Fut<'a, Result<bool, StoreError>>;
}
