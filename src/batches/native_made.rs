//! What is noted of batches that clients made at a provider themselves: what each was asked with, which few providers tell
//! again, and how far its results were counted. One node counts at a time, and no line twice: what is about to be counted
//! is noted before.

use super::keep::{KeepError, now_secs, object, read, written};
use super::{Batches, ObjectOwner};
use gateway_domain::ports::OwnedPlace;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Of objects.
const MADE: &str = "native_batch";
const COUNTED: &str = "native_count";
/// Longer than any provider keeps results.
const KEPT_SECS: i64 = 400 * 86_400;
/// Whoever counts and notes nothing for so long is waited for no more.
const TURN_SECS: i64 = 600;

/// What a client asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NativeMade {
    pub(crate) endpoint: String,
    pub(crate) input: String,
    pub(crate) model: Option<String>,
    pub(crate) metadata: Value,
    pub(crate) created: i64,
}

/// How far results were counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct CountNote {
    lines: u64,
    is_done: bool,
    /// Who counts does so until then.
    until: i64,
}

/// The right to count the results of one batch.
#[derive(Debug)]
pub(crate) struct CountingTurn {
    id: Uuid,
    version: i64,
    note: CountNote,
}

/// Of one batch at one target.
fn id_of(kind: &str, target: &str, native: &str) -> Uuid {
    let mut hash = Sha256::new();
    for part in [kind, target, native] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    Uuid::from_bytes(std::array::from_fn(|place| digest[place]))
}

impl Batches {
    pub(crate) async fn note_made(
        &self,
        owner: ObjectOwner,
        (target, native): (String, String),
        made: NativeMade,
    ) -> Result<(), KeepError> {
        let document = (written(&made), now_secs() + KEPT_SECS);
        self.owned.add(&object(id_of(MADE, &target, &native), owner, MADE, document)).await?;
        Ok(())
    }

    /// `None`: it was made elsewhere, or by another workspace.
    pub(crate) async fn made(
        &self,
        owner: ObjectOwner,
        (target, native): (String, String),
    ) -> Result<Option<NativeMade>, KeepError> {
        let place = OwnedPlace { workspace: owner.workspace, kind: MADE };
        self.owned.owned(place, id_of(MADE, &target, &native)).await?.as_ref().map(read).transpose()
    }

    /// `None`: all was counted, another counts, or it is another workspace's to count.
    pub(crate) async fn begin_count(
        &self,
        owner: ObjectOwner,
        (target, native): (String, String),
    ) -> Result<Option<CountingTurn>, KeepError> {
        let id = id_of(COUNTED, &target, &native);
        let now = now_secs();
        let note = CountNote { until: now + TURN_SECS, ..CountNote::default() };
        if self.owned.add(&object(id, owner, COUNTED, (written(&note), now + KEPT_SECS))).await? {
            return Ok(Some(CountingTurn { id, version: 1, note }));
        }
        let Some(found) = self.owned.owned(OwnedPlace { workspace: owner.workspace, kind: COUNTED }, id).await? else {
            return Ok(None);
        };
        let before: CountNote = read(&found)?;
        if before.is_done || before.until > now {
            return Ok(None);
        }
        let turn = CountingTurn { id, version: found.version, note: before };
        turn.noted(self, |note| note.until = now + TURN_SECS).await
    }
}

impl CountingTurn {
    /// Lines that were counted before, or were about to be.
    pub(crate) const fn lines(&self) -> u64 {
        self.note.lines
    }

    /// So many will have been counted; `None`: another has the turn by now.
    pub(crate) async fn counts(self, batches: &Batches, lines: u64) -> Result<Option<Self>, KeepError> {
        let until = now_secs() + TURN_SECS;
        let set = |note: &mut CountNote| (note.lines, note.until) = (lines, until);
        self.noted(batches, set).await
    }

    /// Gives the turn back; `is_done`: there is nothing left to count.
    pub(crate) async fn end(self, batches: &Batches, is_done: bool) -> Result<(), KeepError> {
        self.noted(batches, |note| (note.is_done, note.until) = (is_done, 0)).await.map(drop)
    }

    async fn noted(
        mut self,
        batches: &Batches,
        change: impl FnOnce(&mut CountNote),
    ) -> Result<Option<Self>, KeepError> {
        change(&mut self.note);
        let is_ours = batches.owned.change(self.id, self.version, &written(&self.note)).await?;
        self.version += 1;
        Ok(is_ours.then_some(self))
    }
}
