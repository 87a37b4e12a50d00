//! What a provider did long after it was asked for, and tells of every time that it is looked at: counted once, whoever looks
//! and at whichever node. A row beside the configuration says that it was. Knows neither prices nor limits.

use crate::clock;
use gateway_domain::Timestamp;
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::ports::{OwnedObject, OwnedObjects, OwnedPlace, StoreError};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tokio::runtime::Handle;
use uuid::Uuid;

/// Of objects.
const KIND: &str = "booking";
/// What ended longer ago is not counted any more, so that rows need not be kept for good.
const RECENT_SECS: i64 = 30 * 86_400;
const KEPT_SECS: i64 = 2 * RECENT_SECS;

/// Where it is known what was counted.
pub(crate) struct Bookings {
    owned: Arc<dyn OwnedObjects>,
    /// Databases are asked here, never on a thread that serves requests.
    runtime: Handle,
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
}

impl Bookings {
    pub(crate) fn new(owned: Arc<dyn OwnedObjects>, runtime: Handle) -> Self {
        Self { owned, runtime }
    }

    /// Whether it is to be counted now, and by nobody else: it ended not long ago, and nobody came before.
    pub(crate) async fn claim(
        &self,
        id: BookingId,
        (org, workspace): (OrgId, WorkspaceId),
        ended_secs: i64,
    ) -> Result<bool, StoreError> {
        let now = clock::now();
        if now.micros().div_euclid(1_000_000).saturating_sub(ended_secs) > RECENT_SECS {
            return Ok(false);
        }
        let expires_at = Timestamp(now.micros().saturating_add(KEPT_SECS * 1_000_000));
        let (kind, document) = (KIND.to_owned(), "{}".to_owned());
        let row = OwnedObject { id: id.0, org, workspace, kind, document, version: 1, created_at: now, expires_at };
        let owned = self.owned.clone();
        let claimed = self.runtime.spawn(async move {
            // Most looks come after the first: they write nothing.
            let place = OwnedPlace { workspace, kind: KIND };
            if owned.owned(place, row.id).await?.is_some() {
                return Ok(false);
            }
            owned.add(&row).await
        });
        claimed.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the work was given up".to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
