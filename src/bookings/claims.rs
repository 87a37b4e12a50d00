//! What is told at its end and at every look behind it, and is counted with the call that tells of it first. Which
//! record that is is noted before it is written: where a node dies in between, a later look finds that there is none,
//! and counts it.

use super::{BookingId, BookingRow, Bookings, CountNote, CountingTurn, KEPT_SECS, KIND, TURN_SECS, UnsureLines};
use super::{clock, found_or_added, is_recent, now_secs, read, row, written};
use crate::batches::ObjectOwner;
use gateway_domain::ports::StoreError;
use uuid::Uuid;

/// The record that something is to be counted with, and who writes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimedBy<'a> {
    pub(crate) record: Uuid,
    /// The id of the node that writes the record, which is kept in that node's data folder.
    pub(crate) node: &'a str,
}

/// Who is to count something.
#[derive(Debug)]
pub(crate) enum RecordClaim {
    Ours,
    /// It was counted, or somebody counts it, or it ended too long ago.
    Past,
    /// A process that is no more was about to count it with a record, which it wrote or did not.
    Unsure(Box<CountingTurn>, Uuid),
}

impl ClaimedBy<'_> {
    fn note(self) -> CountNote {
        let unsure = UnsureLines::of(self.node, clock::now().micros()).with_record(self.record);
        CountNote { until: now_secs() + TURN_SECS, unsure: Some(unsure), ..CountNote::default() }
    }
}

impl Bookings {
    pub(crate) async fn claim(
        &self,
        (id, owner): (BookingId, ObjectOwner),
        ended_secs: i64,
        by: ClaimedBy<'_>,
    ) -> Result<RecordClaim, StoreError> {
        if !is_recent(ended_secs) {
            return Ok(RecordClaim::Past);
        }
        let (owned, row) = (self.owned.clone(), row(id.0, owner, KIND, (written(&by.note()), KEPT_SECS)));
        let found = match self.apart(async move { found_or_added(&*owned, &row).await }).await? {
            BookingRow::New => return Ok(RecordClaim::Ours),
            BookingRow::Foreign => return Ok(RecordClaim::Past),
            BookingRow::Known(found) => found,
        };
        let before: CountNote = read(&found)?;
        let unsure = before.unsure.as_ref().filter(|unsure| {
            !before.is_done && before.until <= now_secs() && !self.is_of_this_process(unsure, by.node)
        });
        let record = unsure.and_then(|unsure| unsure.record);
        Ok(record.map_or(RecordClaim::Past, |record| {
            RecordClaim::Unsure(Box::new(CountingTurn::new((id, owner), found.version, before)), record)
        }))
    }

    /// This very process, on this data folder, writes it yet, or did.
    pub(crate) fn is_of_this_process(&self, unsure: &UnsureLines, node: &str) -> bool {
        unsure.node == node && unsure.at >= self.since
    }
}

impl CountingTurn {
    /// It is counted with this record instead of one that nobody wrote. False: another came before.
    pub(crate) async fn claims(self, bookings: &Bookings, by: ClaimedBy<'_>) -> Result<bool, StoreError> {
        Ok(self.noted(bookings, |note| *note = by.note()).await?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::super::RECENT_SECS;
    use super::super::tests::{bookings, of_workspace};
    use super::*;

    fn by(record: u128, node: &'static str) -> ClaimedBy<'static> {
        ClaimedBy { record: Uuid::from_u128(record), node }
    }

    #[tokio::test]
    async fn what_is_counted_in_one_go_is_claimed_once_and_not_when_it_is_old() {
        let (bookings, owner) = (bookings().await, of_workspace(1));
        let [one, old] = [b"a", b"b"].map(|name| BookingId::of(&[b"run", name]));
        let claimed = async |id, ended, by| bookings.claim((id, owner), ended, by).await.expect("asked");
        assert!(matches!(claimed(one, now_secs(), by(1, "here")).await, RecordClaim::Ours));
        for by in [by(2, "here"), by(2, "there")] {
            assert!(matches!(claimed(one, now_secs(), by).await, RecordClaim::Past));
        }
        assert!(matches!(claimed(old, now_secs() - RECENT_SECS - 60, by(1, "here")).await, RecordClaim::Past));
    }

    #[tokio::test]
    async fn what_a_process_that_is_no_more_was_about_to_count_is_unsure_and_taken_once() {
        let (mut bookings, owner, id) = (bookings().await, of_workspace(1), BookingId::of(&[b"run", b"a"]));
        let mut note = by(1, "here").note();
        note.until = 0;
        let row = row(id.0, owner, KIND, (written(&note), KEPT_SECS));
        assert!(bookings.owned.add(&row).await.expect("added"));
        let claimed = async |bookings: &Bookings, by| bookings.claim((id, owner), now_secs(), by).await.expect("asked");
        // It was noted by a process that began before.
        assert!(matches!(claimed(&bookings, by(2, "here")).await, RecordClaim::Past), "it is this one");
        bookings.since = clock::now().micros() + 1;
        let [first, second] = [claimed(&bookings, by(2, "here")).await, claimed(&bookings, by(3, "there")).await];
        let (RecordClaim::Unsure(first, record), RecordClaim::Unsure(second, _)) = (first, second) else {
            panic!("nobody knows whether it was counted")
        };
        assert_eq!(record, Uuid::from_u128(1));
        assert!(first.claims(&bookings, by(2, "here")).await.expect("noted"));
        assert!(!second.claims(&bookings, by(3, "there")).await.expect("noted"), "another came before");
        assert!(matches!(claimed(&bookings, by(4, "here")).await, RecordClaim::Past), "it is waited for");
    }

    /// Before it was noted with which record they are counted.
    #[tokio::test]
    async fn what_older_notes_say_was_counted_was() {
        let (bookings, owner, id) = (bookings().await, of_workspace(1), BookingId::of(&[b"run", b"a"]));
        let row = row(id.0, owner, KIND, (r#"{"lines":0,"is_done":true,"until":0}"#.to_owned(), KEPT_SECS));
        assert!(bookings.owned.add(&row).await.expect("added"));
        let claimed = bookings.claim((id, owner), now_secs(), by(1, "here")).await.expect("asked");
        assert!(matches!(claimed, RecordClaim::Past));
    }
}
