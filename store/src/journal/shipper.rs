//! The end that is read: records leave in the order of writing, are confirmed once a store has them, and what was
//! confirmed is noted in its segment. A process that dies in between ships the unconfirmed again, under the same ids.

use super::codec;
use super::segment::JournalFrames;
use super::segment_list::Shelf;
use gateway_domain::record::LogRecord;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

/// Bytes of a shipment, save for the last record: records with bodies may be large.
const LARGEST: u64 = 4 << 20;

/// The next records, out of one segment.
#[derive(Debug)]
pub struct Shipment {
    pub records: Vec<LogRecord>,
    /// No more could be taken at once.
    pub is_full: bool,
    segment: u64,
    to: u64,
}

#[derive(Debug)]
pub struct Shipper {
    shelf: Arc<Mutex<Shelf>>,
}

/// What of a segment nobody has taken yet: from there to its end.
struct UntakenPart {
    number: u64,
    file: Arc<std::fs::File>,
    from: u64,
    len: u64,
}

impl Shipper {
    pub(super) fn new(shelf: Arc<Mutex<Shelf>>) -> Self {
        Self { shelf }
    }

    /// Takes at most `most` records that were not taken yet; `None` when there are none.
    pub fn take(&mut self, most: usize) -> io::Result<Option<Shipment>> {
        loop {
            let Some(UntakenPart { number, file, from, len }) = self.next_segment() else { return Ok(None) };
            let mut frames = JournalFrames::new(&*file, from, len);
            let mut records = Vec::with_capacity(most.min(1024));
            let mut seen = 0;
            while seen < most
                && frames.at() - from < LARGEST
                && let Some(bytes) = frames.next()?
            {
                seen += 1;
                match codec::parse(bytes) {
                    Ok(record) => records.push(record),
                    Err(e) => tracing::error!(segment = number, error = %e, "a journal record cannot be read"),
                }
            }
            let to = frames.at();
            let mut shelf = self.shelf.lock();
            let Some(segment) = shelf.segment(number) else {
                // It had to go while it was being read, and these records were counted as lost with it.
                continue;
            };
            segment.taken = to;
            segment.taken_records += seen as u64;
            if seen < most && to - from < LARGEST && to < len {
                tracing::error!(segment = number, "a journal segment is damaged; the rest of it is given up");
                shelf.give_up(number);
            }
            shelf.set_in_flight(&records);
            drop(shelf);
            if !records.is_empty() {
                let is_full = seen == most || to - from >= LARGEST;
                return Ok(Some(Shipment { records, is_full, segment: number, to }));
            }
            self.confirm_up_to(number, to.max(len));
        }
    }

    fn next_segment(&self) -> Option<UntakenPart> {
        let shelf = self.shelf.lock();
        let next = shelf.segments.iter().find(|s| s.taken < s.len)?;
        Some(UntakenPart { number: next.number, file: next.file.clone(), from: next.taken, len: next.len })
    }

    /// The store has them.
    pub fn confirm(&mut self, shipment: &Shipment) {
        self.confirm_up_to(shipment.segment, shipment.to);
    }

    fn confirm_up_to(&self, number: u64, to: u64) {
        let mut shelf = self.shelf.lock();
        if let Some(segment) = shelf.segment(number) {
            // A damaged rest counts as shipped, or the segment would stay for ever.
            let is_given_up = segment.taken == segment.len;
            segment.note_shipped(if is_given_up { segment.len } else { to });
        }
        shelf.set_in_flight(&[]);
        shelf.prune();
    }

    /// Whether the records would be found again by the next process.
    pub fn keeps(&self, shipment: &Shipment) -> bool {
        self.shelf.lock().segment(shipment.segment).is_some()
    }

    /// Looks for segments whose process has ended since.
    pub fn adopt(&mut self) -> io::Result<()> {
        self.shelf.lock().adopt()
    }
}
