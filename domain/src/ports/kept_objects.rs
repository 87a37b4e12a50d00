//! Which workspace made an object that a provider keeps, where workspaces share a credential: for each object a row
//! that says no more than that. What an object is called stands there only as a mark, by which it is found and which
//! tells nobody its name.

use super::{Fut, StoreError};
use crate::id::WorkspaceId;
use crate::time::Timestamp;
use uuid::Uuid;

/// Most marks that are asked about at once.
pub const MOST_KEPT_ASKED: usize = 500;

/// A workspace made an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeptObject {
    pub workspace: WorkspaceId,
    /// Made of what keeps the object and of what that calls it, the same on every node.
    pub mark: Uuid,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

pub trait KeptObjects: Send + Sync {
    /// Notes them; one that is noted stays as it is. Of each workspace the newest `most` stay; how many older ones
    /// went.
    fn note_kept<'a>(&'a self, objects: &'a [KeptObject], most: u32) -> Fut<'a, Result<u64, StoreError>>;
    /// Those of the marks, at most [`MOST_KEPT_ASKED`], that are noted for the workspace.
    fn kept_among<'a>(&'a self, workspace: WorkspaceId, marks: &'a [Uuid]) -> Fut<'a, Result<Vec<Uuid>, StoreError>>;
    /// False: there was none.
    fn forget_kept(&self, workspace: WorkspaceId, mark: Uuid) -> Fut<'_, Result<bool, StoreError>>;
    /// Forgets what has expired, some thousands at a time; how many.
    fn expire_kept(&self, now: Timestamp) -> Fut<'_, Result<u64, StoreError>>;
    /// How many there are, of all workspaces.
    fn count_kept(&self) -> Fut<'_, Result<u64, StoreError>>;
}
