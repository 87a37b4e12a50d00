//! Opinions of calls: kept, changed, read back.

use super::{Fut, StoreError};
use crate::feedback::{FeedbackQuery, Opinion, TraceFeedback};
use crate::id::{OrgId, WorkspaceId};
use crate::time::Timestamp;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedbackKept {
    Kept,
    /// The trace has as many as it may have.
    Full,
}

/// The workspace that an opinion is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedbackPlace {
    pub org: OrgId,
    pub workspace: WorkspaceId,
}

pub trait Feedbacks: Send + Sync {
    /// Idempotent by id.
    fn keep<'a>(&'a self, feedback: &'a TraceFeedback) -> Fut<'a, Result<FeedbackKept, StoreError>>;
    /// Idempotent by id, all of them or none, however many the traces have: those of guardrails, which an admin set up.
    fn keep_all<'a>(&'a self, feedbacks: &'a [TraceFeedback]) -> Fut<'a, Result<(), StoreError>>;
    /// False: there is none of this id in this workspace.
    fn change<'a>(
        &'a self,
        place: FeedbackPlace,
        id: Uuid,
        opinion: &'a Opinion,
        now: Timestamp,
    ) -> Fut<'a, Result<bool, StoreError>>;
    fn feedbacks<'a>(&'a self, query: &'a FeedbackQuery) -> Fut<'a, Result<Vec<TraceFeedback>, StoreError>>;
    /// Forgets those that were told before this, some thousands at a time; how many.
    fn forget_feedback(&self, before: Timestamp) -> Fut<'_, Result<u64, StoreError>>;
}
