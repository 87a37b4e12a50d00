//! Objects that the gateway itself keeps for a workspace: files, batches. What they hold are blobs; here is what is
//! told of them, as text that the backend does not read. What is secret does not belong there.

use super::{Fut, StoreError};
use crate::id::{OrgId, WorkspaceId};
use crate::time::Timestamp;
use uuid::Uuid;

/// Most that one list gives.
pub const MOST_OWNED_LISTED: u32 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedObject {
    /// Made of the time, so that ids sort by it.
    pub id: Uuid,
    pub org: OrgId,
    pub workspace: WorkspaceId,
    pub kind: String,
    pub document: String,
    /// 1 for a new one.
    pub version: i64,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
}

/// Where an object lies: the workspace that owns it, and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedPlace<'a> {
    pub workspace: WorkspaceId,
    pub kind: &'a str,
}

pub trait OwnedObjects: Send + Sync {
    /// False: one of this id is there, and stays as it is.
    fn add<'a>(&'a self, object: &'a OwnedObject) -> Fut<'a, Result<bool, StoreError>>;
    /// False: it is not in this version any more, or gone. The next version is one more.
    fn change<'a>(&'a self, id: Uuid, version: i64, document: &'a str) -> Fut<'a, Result<bool, StoreError>>;
    fn owned<'a>(&'a self, place: OwnedPlace<'a>, id: Uuid) -> Fut<'a, Result<Option<OwnedObject>, StoreError>>;
    /// Newest first, those before `after`, at most [`MOST_OWNED_LISTED`].
    fn list_owned<'a>(
        &'a self,
        place: OwnedPlace<'a>,
        after: Option<Uuid>,
        most: u32,
    ) -> Fut<'a, Result<Vec<OwnedObject>, StoreError>>;
    /// False: there was none.
    fn remove<'a>(&'a self, place: OwnedPlace<'a>, id: Uuid) -> Fut<'a, Result<bool, StoreError>>;
    /// Forgets what has expired, some thousands at a time; how many.
    fn expire_owned(&self, now: Timestamp) -> Fut<'_, Result<u64, StoreError>>;
}
