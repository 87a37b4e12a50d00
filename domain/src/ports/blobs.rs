//! Bytes too large for a row of their own: files, results of batches, exports. Written piece by piece from the front,
//! read from any place, gone by themselves when their time is over. What lies in a backend is sealed, be it rows or
//! objects of a bucket; who reads and writes does not know which.

use super::{Fut, StoreError};
use crate::id::OrgId;
use crate::time::Timestamp;
use uuid::Uuid;

/// Bytes of one piece that is written, and of one that is read.
pub const MOST_BLOB_PIECE: usize = 256 << 10;

/// How much may be kept, each at once. Kinds that are never refused count for what others find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobBounds {
    pub bytes_of_one: u64,
    pub bytes_of_org: u64,
    pub blobs_of_org: u64,
    pub never_refused: &'static [&'static str],
}

impl Default for BlobBounds {
    fn default() -> Self {
        Self { bytes_of_one: 512 << 20, bytes_of_org: 10 << 30, blobs_of_org: 10_000, never_refused: &[] }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBlob {
    pub id: Uuid,
    pub org: OrgId,
    /// What it is, like `file` or `batch_result`.
    pub kind: &'static str,
    pub expires_at: Option<Timestamp>,
}

/// A blob as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlob {
    pub id: Uuid,
    pub org: OrgId,
    pub kind: String,
    pub bytes: u64,
    /// Nothing more is written to it.
    pub is_whole: bool,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
}

#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error("there is no such blob, or it is whole already")]
    Unknown,
    /// Which bound would be exceeded, as the rest of a sentence.
    #[error("{0}")]
    TooMuch(&'static str),
    /// Neither the end of what was written nor the beginning of one of its pieces, or a piece that is empty or too
    /// long.
    #[error("no piece of this length begins there")]
    Misplaced,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is kept, for whoever counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobsKept {
    pub blobs: u64,
    pub bytes: u64,
    /// Bytes of the organisation that keeps most.
    pub most_of_org: u64,
    /// Objects outside the database that nothing names any more, or not yet.
    pub unnamed: u64,
}

pub trait Blobs: Send + Sync {
    /// Begins one that is empty. The same again is the same blob, as long as it is not whole.
    fn begin<'a>(&'a self, blob: &'a NewBlob) -> Fut<'a, Result<(), BlobError>>;
    /// Puts a piece at the end, or in the place of an earlier one: what stood from there on goes. So a writer that
    /// lost its way goes on from the last place that it noted, and nothing is there twice.
    fn write<'a>(&'a self, id: Uuid, at: u64, piece: &'a [u8]) -> Fut<'a, Result<(), BlobError>>;
    /// Ends the writing: from now on the blob can be read, and not be changed.
    fn finish(&self, id: Uuid) -> Fut<'_, Result<StoredBlob, BlobError>>;
    /// Whole or not. Nobody else's is found.
    fn blob(&self, org: OrgId, id: Uuid) -> Fut<'_, Result<Option<StoredBlob>, StoreError>>;
    /// Bytes of a whole blob from a place on, at most [`MOST_BLOB_PIECE`], and perhaps fewer than there are; none at
    /// the end.
    fn read(&self, id: Uuid, from: u64) -> Fut<'_, Result<Vec<u8>, BlobError>>;
    /// Newest first, those behind `after`, at most a thousand.
    fn list<'a>(
        &'a self,
        org: OrgId,
        kind: &'a str,
        after: Option<&'a StoredBlob>,
        most: u32,
    ) -> Fut<'a, Result<Vec<StoredBlob>, StoreError>>;
    /// False: there was none.
    fn delete(&self, org: OrgId, id: Uuid) -> Fut<'_, Result<bool, StoreError>>;
    /// Removes what has expired by now, and what was begun before `abandoned` and never finished; how many. Some at a
    /// time: 0 means that there are no more.
    fn expire(&self, now: Timestamp, abandoned: Timestamp) -> Fut<'_, Result<u64, StoreError>>;
    /// Removes objects outside the database that nothing names: those of blobs that are gone, and what a process left
    /// that died between putting an object and noting it. Some at a time, how many; 0 means that there are no more.
    fn collect(&self, now: Timestamp) -> Fut<'_, Result<u64, StoreError>>;
    fn kept(&self) -> Fut<'_, Result<BlobsKept, StoreError>>;
}
