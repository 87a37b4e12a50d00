//! The right to count the results of one batch, and how far that went. What is about to be counted is noted before, with the
//! node that does so: should it die on the way, whether a line was counted is found out by the id that its record would have,
//! which follows from the batch and the line. Knows no record and no store of any.

use super::{BookingId, Bookings, CountNote, TURN_SECS, now_secs, written};
use crate::{clock, ids};
use gateway_domain::Timestamp;
use gateway_domain::ports::StoreError;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

#[derive(Debug)]
pub(crate) struct CountingTurn {
    id: BookingId,
    version: i64,
    note: CountNote,
}

/// Lines that a node was about to count, up to one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UnsureLines {
    /// The last of them.
    pub(crate) to: u64,
    /// By its data folder.
    pub(crate) node: String,
    /// When that began, in microseconds: their records are of this time.
    pub(crate) at: i64,
}

/// By what the record of a line is found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineStamp {
    pub(crate) id: Uuid,
    pub(crate) at: Timestamp,
}

impl CountingTurn {
    pub(super) const fn new(id: BookingId, version: i64, note: CountNote) -> Self {
        Self { id, version, note }
    }

    /// Lines that were counted before, for sure.
    pub(crate) const fn lines(&self) -> u64 {
        self.note.lines
    }

    /// Lines behind these that were counted, or were not.
    pub(crate) const fn unsure(&self) -> Option<&UnsureLines> {
        self.note.unsure.as_ref()
    }

    /// The lines up to this one are about to be counted by this node. `None`: another has the turn by now.
    pub(crate) async fn counts(self, bookings: &Bookings, to: u64, node: &str) -> Result<Option<Self>, StoreError> {
        let (node, at) = (node.to_owned(), clock::now().micros());
        self.noted(bookings, |note| {
            note.unsure = Some(UnsureLines { to, node, at });
            note.until = now_secs() + TURN_SECS;
        })
        .await
    }

    /// What was about to be counted was, or is held to be. It is noted with what comes next.
    pub(crate) fn settle(&mut self) {
        if let Some(UnsureLines { to, .. }) = self.note.unsure.take() {
            self.note.lines = to;
        }
    }

    /// None of those that were about to be counted were. It is noted with what comes next.
    pub(crate) fn take_back(&mut self) {
        self.note.unsure = None;
    }

    /// Gives the turn back; what is unsure is left to whoever comes next. `is_done`: there is nothing left to count.
    pub(crate) async fn end(self, bookings: &Bookings, is_done: bool) -> Result<(), StoreError> {
        self.noted(bookings, |note| (note.is_done, note.until) = (is_done, 0)).await.map(drop)
    }

    pub(super) async fn renewed(self, bookings: &Bookings) -> Result<Option<Self>, StoreError> {
        self.noted(bookings, |note| note.until = now_secs() + TURN_SECS).await
    }

    /// `None`: nobody noted that it would be counted.
    pub(crate) fn stamp(&self, line: u64) -> Option<LineStamp> {
        let at = Timestamp(self.note.unsure.as_ref()?.at);
        let named = BookingId::of(&[b"line", self.id.0.as_bytes(), &line.to_le_bytes()]);
        let bytes = named.0.into_bytes();
        Some(LineStamp { id: ids::of(at, std::array::from_fn(|place| bytes[place])), at })
    }

    async fn noted(
        mut self,
        bookings: &Bookings,
        change: impl FnOnce(&mut CountNote),
    ) -> Result<Option<Self>, StoreError> {
        change(&mut self.note);
        let (owned, id, version, note) = (bookings.owned.clone(), self.id.0, self.version, written(&self.note));
        let is_ours = bookings.apart(async move { owned.change(id, version, &note).await }).await?;
        self.version += 1;
        Ok(is_ours.then_some(self))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{bookings, of_workspace};
    use super::*;

    #[tokio::test]
    async fn one_has_the_turn_and_goes_on_where_another_stopped() {
        let (bookings, owner, id) = (bookings().await, of_workspace(1), BookingId::of(&[b"batch", b"a"]));
        let begin = || async { bookings.begin(id, owner).await.expect("asked") };
        let turn = begin().await.expect("the first one has it");
        assert!(begin().await.is_none() && bookings.begin(id, of_workspace(2)).await.expect("asked").is_none());
        let mut turn = turn.counts(&bookings, 100, "here").await.expect("noted").expect("still its own");
        assert_eq!(turn.lines(), 0, "it is not known yet whether they were counted");
        turn.settle();
        let mut turn = turn.counts(&bookings, 130, "here").await.expect("noted").expect("still its own");
        assert_eq!((turn.lines(), turn.unsure().map(|unsure| unsure.to)), (100, Some(130)));
        turn.settle();
        turn.end(&bookings, false).await.expect("noted");
        let turn = begin().await.expect("it was given back");
        assert_eq!((turn.lines(), turn.unsure()), (130, None));
        turn.end(&bookings, true).await.expect("noted");
        assert!(begin().await.is_none(), "all was counted");
    }

    #[tokio::test]
    async fn what_was_about_to_be_counted_stays_unsure_until_somebody_knows() {
        let (bookings, owner, id) = (bookings().await, of_workspace(1), BookingId::of(&[b"batch", b"a"]));
        let begin = || async { bookings.begin(id, owner).await.expect("asked").expect("nobody has it") };
        let turn = begin().await.counts(&bookings, 100, "here").await.expect("noted").expect("still its own");
        let [one, other] = [1, 2].map(|line| turn.stamp(line).expect("it is about to be counted"));
        assert!(one.id != other.id && one.at == other.at);
        turn.end(&bookings, false).await.expect("noted");
        let mut turn = begin().await;
        assert_eq!(turn.unsure().map(|unsure| (unsure.to, &*unsure.node)), Some((100, "here")));
        assert_eq!(turn.stamp(1), Some(one), "its record is found by the same id, at the same time");
        turn.take_back();
        turn.end(&bookings, false).await.expect("noted");
        let turn = begin().await;
        assert_eq!((turn.lines(), turn.unsure(), turn.stamp(1)), (0, None, None));
    }
}
