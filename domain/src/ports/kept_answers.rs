//! Writes that a client may send once more: each leaves a mark, and what it was answered is kept with it for a day, so
//! that whoever sends it again is told what the first was told.

use super::{Fut, StoreError};
use crate::id::OrgId;
use crate::time::Timestamp;

/// How long a mark stands: one day.
pub const ANSWERS_KEPT_MICROS: i64 = 86_400 * 1_000_000;

/// The mark of one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerMark {
    /// A digest of who asked, and of the name that they gave their request.
    pub id: String,
    pub org: OrgId,
    /// A digest of what was asked.
    pub request: String,
    /// Sealed. `None`: not given yet, or lost.
    pub answer: Option<String>,
    pub created_at: Timestamp,
}

pub trait KeptAnswers: Send + Sync {
    /// Leaves a mark by itself; false where one stands already. A mark of a change of the configuration goes with it,
    /// in its [`super::Batch`].
    fn mark<'a>(&'a self, mark: &'a AnswerMark) -> Fut<'a, Result<bool, StoreError>>;
    /// What stands since `since`.
    fn kept_answer<'a>(&'a self, id: &'a str, since: Timestamp) -> Fut<'a, Result<Option<AnswerMark>, StoreError>>;
    /// How many stand. `org` `None`: of everybody.
    fn kept_answers(&self, org: Option<OrgId>) -> Fut<'_, Result<u64, StoreError>>;
    /// `answer` is sealed.
    fn keep_answer<'a>(&'a self, id: &'a str, answer: &'a str) -> Fut<'a, Result<(), StoreError>>;
    /// Takes the mark away, as if nobody had asked.
    fn unmark<'a>(&'a self, id: &'a str) -> Fut<'a, Result<(), StoreError>>;
    /// Some at a time; how many went.
    fn forget_answers(&self, before: Timestamp) -> Fut<'_, Result<u64, StoreError>>;
}
