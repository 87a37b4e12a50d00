//! What is noted of batches that clients made at a provider themselves: that they came by here, for only those are
//! counted, and what each was asked with, which few providers tell again.

use super::{BookingId, Bookings, KEPT_WITH_RESULTS_SECS, read, row, written};
use crate::batches::ObjectOwner;
use gateway_domain::ports::{OwnedPlace, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The kind of objects that hold notes of batches that clients made.
const MADE: &str = "native_batch";

/// What a client asked for, as far as it said so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct NativeMade {
    pub(crate) endpoint: String,
    pub(crate) input: String,
    pub(crate) model: Option<String>,
    pub(crate) metadata: Value,
    pub(crate) created: i64,
    /// The number of lines in the file, where the provider takes them up by and by and they could be counted.
    pub(crate) lines: Option<u64>,
}

/// `keeper`: what keeps the batch, which calls it `native`.
fn id_of((keeper, native): (&[u8], &str)) -> BookingId {
    BookingId::of(&[MADE.as_bytes(), keeper, native.as_bytes()])
}

impl Bookings {
    pub(crate) async fn note_made(
        &self,
        owner: ObjectOwner,
        batch: (&[u8], &str),
        made: &NativeMade,
    ) -> Result<(), StoreError> {
        let (owned, id) = (self.owned.clone(), id_of(batch).0);
        let row = row(id, owner, MADE, (written(made), KEPT_WITH_RESULTS_SECS));
        self.apart(async move { owned.add(&row).await.map(drop) }).await
    }

    /// `None`: it was made elsewhere, or by another workspace.
    pub(crate) async fn made(
        &self,
        owner: ObjectOwner,
        batch: (&[u8], &str),
    ) -> Result<Option<NativeMade>, StoreError> {
        let (owned, id) = (self.owned.clone(), id_of(batch).0);
        let found = self.apart(async move {
            let place = OwnedPlace { workspace: owner.workspace, kind: MADE };
            owned.owned(place, id).await
        });
        found.await?.as_ref().map(read).transpose()
    }
}
