//! What a provider did long after it was asked for, and tells of every time that it is looked at: counted once, whoever
//! looks and at whichever node. A row beside the configuration says that it was, and of results with many lines how
//! far: one node counts at a time, and what is about to be counted is noted before. Knows neither prices nor limits.

mod claims;
mod client_batches;
mod counting_lease;
mod deferred_records;
mod line_names;
mod schedule;
mod watches;

pub(crate) use claims::{ClaimedBy, RecordClaim};
pub(crate) use client_batches::NativeMade;
pub(crate) use counting_lease::{CountingTurn, LineStamp, UnsureLines};
pub(crate) use deferred_records::{BookedRecords, Knowledge};
pub(crate) use line_names::{LineKey, LineNames};
pub(crate) use schedule::{BatchLook, WatchEnd, WatchTimes};
pub(crate) use watches::{BatchWatches, HeldWatch, WatchRows, WatchSettings, WatchedWork};

use crate::batches::ObjectOwner;
use crate::clock;
use gateway_domain::Timestamp;
use gateway_domain::ports::{OwnedObject, OwnedObjects, OwnedPlace, StoreError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use uuid::Uuid;

/// The kind of objects that hold notes of what was counted.
const KIND: &str = "booking";
/// What ended longer ago is not counted any more, so that rows need not be kept for good.
const RECENT_SECS: i64 = 30 * 86_400;
const KEPT_SECS: i64 = 2 * RECENT_SECS;
/// Longer than any provider keeps the results of a batch.
const KEPT_WITH_RESULTS_SECS: i64 = 400 * 86_400;
/// Whoever counts and notes nothing for so long is waited for no more.
const TURN_SECS: i64 = 120;
/// Results that are read at once by a node, each of them in its own little memory.
const COUNTS_AT_ONCE: usize = 4;

/// Where it is known what was counted.
pub(crate) struct Bookings {
    owned: Arc<dyn OwnedObjects>,
    /// Databases are asked here, never on a thread that serves requests.
    runtime: Handle,
    seats: Semaphore,
    /// When this process began, in microseconds.
    since: i64,
}

impl std::fmt::Debug for Bookings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bookings").finish_non_exhaustive()
    }
}

/// What is counted, by names that are the same on every node: what kind of thing, who keeps it, and what that calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BookingId(pub(crate) Uuid);

impl BookingId {
    pub(crate) fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let digest: [u8; 32] = hash.finalize().into();
        Self(uuid::Builder::from_custom_bytes(std::array::from_fn(|place| digest[place])).into_uuid())
    }

    /// A batch that `keeper` calls `native`.
    pub(crate) fn of_batch(keeper: &[u8], native: &str) -> Self {
        Self::of(&[b"batch", keeper, native.as_bytes()])
    }
}

/// What of something was counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct CountNote {
    /// Lines from the first on, in notes that tell them by their places.
    #[serde(skip_serializing_if = "is_blank")]
    lines: u64,
    /// Rows of their own that say which lines were.
    #[serde(skip_serializing_if = "is_blank")]
    parts: u32,
    is_done: bool,
    /// Who counts does so until then.
    until: i64,
    /// Lines that were counted, or were about to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    unsure: Option<UnsureLines>,
}

/// The row of something that is to be counted.
enum BookingRow {
    New,
    Known(OwnedObject),
    /// Another workspace counted it, or counts.
    Foreign,
}

fn is_blank<T: Default + PartialEq>(told: &T) -> bool {
    *told == T::default()
}

fn now_secs() -> i64 {
    clock::now().micros().div_euclid(1_000_000)
}

fn is_recent(ended_secs: i64) -> bool {
    now_secs().saturating_sub(ended_secs) <= RECENT_SECS
}

fn written<T: Serialize>(document: &T) -> String {
    serde_json::to_string(document).unwrap_or_default()
}

fn row(id: Uuid, owner: ObjectOwner, kind: &str, (document, kept_secs): (String, i64)) -> OwnedObject {
    let created_at = clock::now();
    let expires_at = Timestamp(created_at.micros().saturating_add(kept_secs.saturating_mul(1_000_000)));
    let (ObjectOwner { org, workspace }, kind) = (owner, kind.to_owned());
    OwnedObject { id, org, workspace, kind, document, version: 1, created_at, expires_at }
}

async fn found_or_added(owned: &dyn OwnedObjects, row: &OwnedObject) -> Result<BookingRow, StoreError> {
    let place = OwnedPlace { workspace: row.workspace, kind: KIND };
    // Most looks come after the first: they write nothing.
    if let Some(found) = owned.owned(place, row.id).await? {
        return Ok(BookingRow::Known(found));
    }
    if owned.add(row).await? {
        return Ok(BookingRow::New);
    }
    Ok(owned.owned(place, row.id).await?.map_or(BookingRow::Foreign, BookingRow::Known))
}

impl Bookings {
    pub(crate) fn new(owned: Arc<dyn OwnedObjects>, runtime: Handle) -> Self {
        Self { owned, runtime, seats: Semaphore::new(COUNTS_AT_ONCE), since: clock::now().micros() }
    }

    async fn apart<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let done = self.runtime.spawn(work).await;
        done.unwrap_or_else(|_| Err(StoreError::Unavailable("the work was given up".to_owned())))
    }

    /// The right to count what one record tells of, unless it ended too long ago.
    pub(crate) async fn begin_one(
        &self,
        id: BookingId,
        owner: ObjectOwner,
        ended_secs: i64,
    ) -> Result<Option<CountingTurn>, StoreError> {
        if !is_recent(ended_secs) {
            return Ok(None);
        }
        self.begin(id, owner).await
    }

    /// `None`: all was counted, another counts, or it is another workspace's to count.
    pub(crate) async fn begin(&self, id: BookingId, owner: ObjectOwner) -> Result<Option<CountingTurn>, StoreError> {
        let now = now_secs();
        let note = CountNote { until: now + TURN_SECS, ..CountNote::default() };
        let (owned, new) = (self.owned.clone(), row(id.0, owner, KIND, (written(&note), KEPT_WITH_RESULTS_SECS)));
        let found = match self.apart(async move { found_or_added(&*owned, &new).await }).await? {
            BookingRow::New => return Ok(Some(CountingTurn::new((id, owner), 1, note))),
            BookingRow::Foreign => return Ok(None),
            BookingRow::Known(found) => found,
        };
        let before: CountNote = read(&found)?;
        if before.is_done || before.until > now {
            return Ok(None);
        }
        match CountingTurn::new((id, owner), found.version, before).renewed(self).await? {
            Some(turn) => turn.remembered(self).await.map(Some),
            None => Ok(None),
        }
    }

    /// Whether all was counted.
    pub(crate) async fn is_counted(&self, id: BookingId, owner: ObjectOwner) -> Result<bool, StoreError> {
        let owned = self.owned.clone();
        let found = self.apart(async move {
            let place = OwnedPlace { workspace: owner.workspace, kind: KIND };
            owned.owned(place, id.0).await
        });
        let note: Option<CountNote> = found.await?.as_ref().map(read).transpose()?;
        Ok(note.is_some_and(|note| note.is_done))
    }

    /// Waits until results may be read; until it is dropped, they may.
    pub(crate) async fn seat(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.seats.acquire().await.ok()
    }
}

fn read<T: serde::de::DeserializeOwned>(found: &OwnedObject) -> Result<T, StoreError> {
    let broken = |e| StoreError::Broken(format!("what is noted of a provider's work cannot be read: {e}"));
    serde_json::from_str(&found.document).map_err(broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::id::{OrgId, WorkspaceId};

    #[test]
    fn ids_are_of_all_their_parts() {
        let ids = [
            BookingId::of(&[b"finetune", b"a", b"b"]),
            BookingId::of(&[b"finetune", b"ab", b""]),
            BookingId::of(&[b"finetune", b"", b"ab"]),
        ];
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
        assert_eq!(ids[0], BookingId::of(&[b"finetune", b"a", b"b"]));
    }

    pub(super) async fn bookings() -> Bookings {
        let url = gateway_store::DatabaseUrl::parse("sqlite::memory:").expect("a URL");
        let database = gateway_store::open(&url, &gateway_store::DatabaseOptions::default()).await.expect("opens");
        Bookings::new(Arc::new(database), Handle::current())
    }

    pub(super) fn of_workspace(number: u128) -> ObjectOwner {
        ObjectOwner { org: OrgId(Uuid::nil()), workspace: WorkspaceId(Uuid::from_u128(number)) }
    }

    #[tokio::test]
    async fn so_many_results_are_read_at_once_and_no_more() {
        let bookings = bookings().await;
        let mut taken = Vec::new();
        for _ in 0..COUNTS_AT_ONCE {
            taken.push(bookings.seat().await.expect("a seat"));
        }
        assert!(tokio::time::timeout(std::time::Duration::from_millis(20), bookings.seat()).await.is_err());
        taken.pop();
        assert!(bookings.seat().await.is_some());
    }
}
