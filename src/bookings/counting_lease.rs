//! The right to count the results of one batch, and which lines were. What is about to be counted is noted before, with
//! the node that does so: should it die on the way, whether a line was counted is found out by the id that its record
//! would have, which follows from the batch and the line. A line is known by its name, since a provider may tell lines
//! in another order when they are read again. Knows no record and no store of any.

use super::{
    BookingId, Bookings, CountNote, KEPT_WITH_RESULTS_SECS, LineKey, TURN_SECS, is_blank, now_secs, read, row, written,
};
use crate::batches::ObjectOwner;
use crate::{clock, ids};
use gateway_domain::Timestamp;
use gateway_domain::ports::{OwnedPlace, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use uuid::Uuid;

/// The kind of objects that hold lines which were counted.
const PART: &str = "booking_part";

#[derive(Debug)]
pub(crate) struct CountingTurn {
    id: BookingId,
    owner: ObjectOwner,
    version: i64,
    note: CountNote,
    /// Those that parts of the note say.
    counted: HashSet<LineKey, ahash::RandomState>,
    /// Those that were counted and of which no part says so yet.
    unsaid: Vec<LineKey>,
}

/// Lines that a node was about to count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UnsureLines {
    /// The place of the last of them, in notes without names.
    #[serde(skip_serializing_if = "is_blank")]
    to: u64,
    #[serde(skip_serializing_if = "is_blank")]
    lines: Vec<LineKey>,
    /// The one that counts all of it, where that is the record of a call.
    #[serde(skip_serializing_if = "is_blank")]
    pub(super) record: Option<Uuid>,
    /// The id of the node that was about to count them, which is kept in its data folder.
    pub(crate) node: String,
    /// When that began, in microseconds: their records are of this time.
    pub(crate) at: i64,
}

/// Lines that were counted for sure, in a row of their own.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct CountedPart {
    lines: Vec<LineKey>,
}

/// The id and time by which the record of a line is found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineStamp {
    pub(crate) id: Uuid,
    pub(crate) at: Timestamp,
}

impl UnsureLines {
    /// Notes that a node is about to count something from this time on, in microseconds.
    pub(crate) fn of(node: &str, at: i64) -> Self {
        Self { node: node.to_owned(), at, ..Self::default() }
    }

    pub(super) fn with_record(self, record: Uuid) -> Self {
        Self { record: Some(record), ..self }
    }
}

impl CountingTurn {
    pub(super) fn new((id, owner): (BookingId, ObjectOwner), version: i64, note: CountNote) -> Self {
        Self { id, owner, version, note, counted: HashSet::default(), unsaid: Vec::new() }
    }

    /// It was counted before, for sure.
    pub(crate) fn is_counted(&self, number: u64, key: LineKey) -> bool {
        number <= self.note.lines || self.counted.contains(&key)
    }

    /// It was counted, or was not.
    pub(crate) fn is_unsure(&self, number: u64, key: LineKey) -> bool {
        let Some(unsure) = &self.note.unsure else { return false };
        !self.is_counted(number, key) && (number <= unsure.to || unsure.lines.contains(&key))
    }

    /// What is to be known of lines that were counted, or were not, with how many they are.
    pub(crate) fn unsure(&self) -> Option<(&UnsureLines, u64)> {
        let unsure = self.note.unsure.as_ref()?;
        let placed = unsure.to.saturating_sub(self.note.lines);
        Some((unsure, placed + unsure.lines.len() as u64))
    }

    /// These lines are about to be counted by this node. `None`: another has the turn by now.
    pub(crate) async fn counts(
        self,
        bookings: &Bookings,
        lines: Vec<LineKey>,
        node: &str,
    ) -> Result<Option<Self>, StoreError> {
        let unsure = UnsureLines { lines, ..UnsureLines::of(node, clock::now().micros()) };
        self.noted(bookings, |note| {
            note.unsure = Some(unsure);
            note.until = now_secs() + TURN_SECS;
        })
        .await
    }

    /// What was about to be counted was, or is held to be. It is noted with what comes next.
    pub(crate) fn settle(&mut self) {
        if let Some(UnsureLines { to, lines, .. }) = self.note.unsure.take() {
            self.note.lines = self.note.lines.max(to);
            self.counted.extend(&lines);
            self.unsaid.extend(lines);
        }
    }

    /// None of those that were about to be counted were. It is noted with what comes next.
    pub(crate) fn take_back(&mut self) {
        self.note.unsure = None;
    }

    /// Gives the turn back; what is unsure is left to whoever comes next. `is_done`: there is nothing left to count.
    pub(crate) async fn end(self, bookings: &Bookings, is_done: bool) -> Result<(), StoreError> {
        let (id, workspace, parts) = (self.id, self.owner.workspace, self.note.parts);
        let ended = self.noted(bookings, |note| (note.is_done, note.until) = (is_done, 0)).await?;
        if ended.is_some() && is_done {
            // Nobody asks for them any more.
            let owned = bookings.owned.clone();
            let forgotten = bookings.apart(async move {
                for part in 0..parts {
                    owned.remove(OwnedPlace { workspace, kind: PART }, id_of_part(id, part)).await?;
                }
                Ok(())
            });
            forgotten.await?;
        }
        Ok(())
    }

    pub(super) async fn renewed(self, bookings: &Bookings) -> Result<Option<Self>, StoreError> {
        self.noted(bookings, |note| note.until = now_secs() + TURN_SECS).await
    }

    /// Reads which lines were counted before.
    pub(super) async fn remembered(mut self, bookings: &Bookings) -> Result<Self, StoreError> {
        let (owned, id, workspace, parts) = (bookings.owned.clone(), self.id, self.owner.workspace, self.note.parts);
        let lines = bookings.apart(async move {
            let mut lines = Vec::new();
            for part in 0..parts {
                let found = owned.owned(OwnedPlace { workspace, kind: PART }, id_of_part(id, part)).await?;
                let lost =
                    || StoreError::Broken("which lines of a batch were counted is not there any more".to_owned());
                lines.extend(read::<CountedPart>(&found.ok_or_else(lost)?)?.lines);
            }
            Ok(lines)
        });
        self.counted.extend(lines.await?);
        Ok(self)
    }

    /// `None`: nobody noted that it would be counted.
    pub(crate) fn stamp(&self, line: LineKey) -> Option<LineStamp> {
        let at = Timestamp(self.note.unsure.as_ref()?.at);
        let named = BookingId::of(&[b"line", self.id.0.as_bytes(), &line.0.to_le_bytes()]);
        let bytes = named.0.into_bytes();
        Some(LineStamp { id: ids::of(at, std::array::from_fn(|place| bytes[place])), at })
    }

    /// The stamp of a line, told by its place where the note has places in the place of names.
    pub(crate) fn stamp_at(&self, number: u64, key: LineKey) -> Option<LineStamp> {
        let is_placed = number <= self.note.unsure.as_ref()?.to;
        self.stamp(if is_placed { LineKey::of_place(number) } else { key })
    }

    pub(super) async fn noted(
        mut self,
        bookings: &Bookings,
        change: impl FnOnce(&mut CountNote),
    ) -> Result<Option<Self>, StoreError> {
        change(&mut self.note);
        let lines = std::mem::take(&mut self.unsaid);
        // One that is done needs to say no more.
        let part = (!lines.is_empty() && !self.note.is_done).then(|| {
            let id = id_of_part(self.id, self.note.parts);
            self.note.parts += 1;
            row(id, self.owner, PART, (written(&CountedPart { lines }), KEPT_WITH_RESULTS_SECS))
        });
        let (owned, id, version, note) = (bookings.owned.clone(), self.id.0, self.version, written(&self.note));
        let is_ours = bookings.apart(async move {
            // Who comes next adds the same where this node dies in between, as the note says it still.
            if let Some(part) = part {
                owned.add(&part).await?;
            }
            owned.change(id, version, &note).await
        });
        let is_ours = is_ours.await?;
        self.version += 1;
        Ok(is_ours.then_some(self))
    }
}

fn id_of_part(id: BookingId, part: u32) -> Uuid {
    BookingId::of(&[b"counted", id.0.as_bytes(), &part.to_le_bytes()]).0
}

#[cfg(test)]
mod tests {
    use super::super::KIND;
    use super::super::tests::{bookings, of_workspace};
    use super::*;

    fn lines(of: std::ops::RangeInclusive<u64>) -> Vec<LineKey> {
        // These keys are larger than any place of a line.
        of.map(|line| LineKey(u64::MAX / 2 + line)).collect()
    }

    fn counted(turn: &CountingTurn, of: std::ops::RangeInclusive<u64>) -> usize {
        lines(of).into_iter().filter(|key| turn.is_counted(1, *key)).count()
    }

    #[tokio::test]
    async fn one_has_the_turn_and_goes_on_where_another_stopped() {
        let (bookings, owner, id) = (bookings().await, of_workspace(1), BookingId::of(&[b"batch", b"a"]));
        let begin = || async { bookings.begin(id, owner).await.expect("asked") };
        let turn = begin().await.expect("the first one has it");
        assert!(begin().await.is_none() && bookings.begin(id, of_workspace(2)).await.expect("asked").is_none());
        let mut turn = turn.counts(&bookings, lines(1..=100), "here").await.expect("noted").expect("still its own");
        assert_eq!(counted(&turn, 1..=100), 0, "it is not known yet whether they were counted");
        turn.settle();
        let mut turn = turn.counts(&bookings, lines(101..=130), "here").await.expect("noted").expect("still its own");
        assert_eq!((counted(&turn, 1..=130), turn.unsure().map(|(_, lines)| lines)), (100, Some(30)));
        turn.settle();
        turn.end(&bookings, false).await.expect("noted");
        let turn = begin().await.expect("it was given back");
        assert_eq!((counted(&turn, 1..=140), turn.unsure()), (130, None));
        turn.end(&bookings, true).await.expect("noted");
        assert!(begin().await.is_none(), "all was counted");
        let place = OwnedPlace { workspace: owner.workspace, kind: PART };
        assert!(
            bookings.owned.list_owned(place, None, 9).await.expect("rows").is_empty(),
            "nobody asks for them again"
        );
    }

    #[tokio::test]
    async fn what_was_about_to_be_counted_stays_unsure_until_somebody_knows() {
        let (bookings, owner, id) = (bookings().await, of_workspace(1), BookingId::of(&[b"batch", b"a"]));
        let begin = || async { bookings.begin(id, owner).await.expect("asked").expect("nobody has it") };
        let turn = begin().await.counts(&bookings, lines(1..=100), "here").await.expect("noted");
        let turn = turn.expect("still its own");
        let [one, other] = [1, 2].map(|line| turn.stamp(lines(line..=line)[0]).expect("it is about to be counted"));
        assert!(one.id != other.id && one.at == other.at);
        turn.end(&bookings, false).await.expect("noted");
        let mut turn = begin().await;
        assert_eq!(turn.unsure().map(|(unsure, lines)| (lines, &*unsure.node)), Some((100, "here")));
        // Wherever it stands by now.
        assert!(turn.is_unsure(7_000, lines(100..=100)[0]) && !turn.is_unsure(1, lines(101..=101)[0]));
        assert_eq!(turn.stamp(lines(1..=1)[0]), Some(one), "its record is found by the same id, at the same time");
        turn.take_back();
        turn.end(&bookings, false).await.expect("noted");
        let turn = begin().await;
        assert_eq!((counted(&turn, 1..=100), turn.unsure(), turn.stamp(lines(1..=1)[0])), (0, None, None));
    }

    /// Notes of earlier versions tell lines by their places, counted from the first to the last.
    #[tokio::test]
    async fn notes_that_tell_lines_by_their_places_are_gone_on_with() {
        let (bookings, owner, id) = (bookings().await, of_workspace(1), BookingId::of(&[b"batch", b"a"]));
        let note = r#"{"lines":100,"is_done":false,"until":0,"unsure":{"to":150,"node":"here","at":1000000}}"#;
        let old = row(id.0, owner, KIND, (note.to_owned(), KEPT_WITH_RESULTS_SECS));
        assert!(bookings.owned.add(&old).await.expect("added"));
        let begin = || async { bookings.begin(id, owner).await.expect("asked").expect("nobody has it") };
        let mut turn = begin().await;
        let key = lines(1..=1)[0];
        assert_eq!([100, 101].map(|number| turn.is_counted(number, key)), [true, false]);
        assert_eq!([100, 101, 150, 151].map(|number| turn.is_unsure(number, key)), [false, true, true, false]);
        assert_eq!(turn.unsure().map(|(_, lines)| lines), Some(50));
        let stamp = turn.stamp_at(150, key).expect("it was about to be counted");
        assert_ne!(turn.stamp_at(151, key), turn.stamp_at(151, LineKey::of_place(151)));
        let before = BookingId::of(&[b"line", id.0.as_bytes(), &150_u64.to_le_bytes()]).0.into_bytes();
        assert_eq!(stamp.id, ids::of(Timestamp(1_000_000), std::array::from_fn(|place| before[place])));
        turn.settle();
        let mut turn = turn.counts(&bookings, lines(151..=160), "here").await.expect("noted").expect("still its own");
        assert!(turn.is_counted(150, key) && !turn.is_counted(151, key));
        turn.settle();
        turn.end(&bookings, false).await.expect("noted");
        let turn = begin().await;
        assert!(turn.is_counted(150, key) && turn.unsure().is_none());
        let found = [151, 160, 161].map(|line| turn.is_counted(9_000, lines(line..=line)[0]));
        assert_eq!(found, [true, true, false]);
    }
}
