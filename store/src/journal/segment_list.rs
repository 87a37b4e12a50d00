//! The segments of this process, oldest first, and their bound. Both ends of the journal hold it for moments only:
//! under its lock no file is read, written or synced, save for the few bytes of a head and for a takeover.

use super::Depth;
use super::segment::{self, Segment};
use gateway_domain::Timestamp;
use gateway_domain::record::{LogRecord, Position};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug)]
pub(super) struct Shelf {
    dir: PathBuf,
    max_bytes: u64,
    pub(super) segments: VecDeque<Segment>,
    /// Number of the segment that is still written to.
    active: Option<u64>,
    bytes: u64,
    /// `None`: nobody has said yet, so everything stays.
    needed: Option<Option<Position>>,
    lost: u64,
    last_number: u64,
    /// Taken and not confirmed: how many, and the time of the first.
    in_flight: Option<(u64, Timestamp)>,
}

impl Shelf {
    pub(super) fn new(dir: PathBuf, max_bytes: u64) -> Self {
        Self {
            dir,
            max_bytes,
            segments: VecDeque::new(),
            active: None,
            bytes: 0,
            needed: None,
            lost: 0,
            last_number: 0,
            in_flight: None,
        }
    }

    /// Takes over segments that nobody is at work on. A process that is being replaced keeps its own until it ends.
    pub(super) fn adopt(&mut self) -> io::Result<()> {
        for number in segment::numbers(&self.dir)? {
            self.last_number = self.last_number.max(number);
            let at = self.segments.partition_point(|s| s.number < number);
            if self.segments.get(at).is_some_and(|s| s.number == number) {
                continue;
            }
            match Segment::adopt(&self.dir, number) {
                Ok(Some(segment)) => {
                    self.bytes += segment.len;
                    self.segments.insert(at, segment);
                }
                Ok(None) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        self.bound();
        Ok(())
    }

    /// Numbers follow the clock, so that they grow even when the folder was emptied.
    pub(super) fn next_number(&mut self) -> u64 {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        self.last_number = (self.last_number + 1).max(u64::try_from(clock).unwrap_or(0));
        self.last_number
    }

    pub(super) fn add(&mut self, segment: Segment) {
        self.active = Some(segment.number);
        self.bytes += segment.len;
        self.segments.push_back(segment);
        self.bound();
    }

    pub(super) fn close_last(&mut self) {
        self.active = None;
        self.prune();
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether all of a segment before this place has shipped. That of another process is not on this shelf, and counts
    /// as not shipped: that process alone knows.
    pub(super) fn has_shipped(&self, number: u64, end: Position) -> bool {
        let Ok(at) = self.segments.binary_search_by_key(&number, |s| s.number) else { return false };
        let segment = &self.segments[at];
        let upto = if number == end.segment { end.offset.min(segment.len) } else { segment.len };
        segment.shipped >= upto
    }

    pub(super) fn end(&self) -> Position {
        self.segments.back().map_or_else(Position::default, |s| Position { segment: s.number, offset: s.len })
    }

    pub(super) fn grew(&mut self, number: u64, len: u64, records: u64, too_long: u64) {
        self.lost += too_long;
        if let Some(segment) = self.segment(number) {
            let more = len - segment.len;
            segment.len = len;
            segment.records += records;
            self.bytes += more;
        }
        self.bound();
    }

    pub(super) fn segment(&mut self, number: u64) -> Option<&mut Segment> {
        let at = self.segments.binary_search_by_key(&number, |s| s.number).ok()?;
        self.segments.get_mut(at)
    }

    pub(super) fn hold(&mut self, needed: Option<Position>) {
        if self.needed != Some(needed) {
            self.needed = Some(needed);
            self.prune();
        }
    }

    /// Lets go of segments that were shipped and that no replay asks for.
    pub(super) fn prune(&mut self) {
        let Some(needed) = self.needed else { return };
        let mut at = 0;
        while let Some(segment) = self.segments.get(at) {
            let is_needed = needed.is_some_and(|from| segment.number >= from.segment);
            if self.active == Some(segment.number) || segment.shipped < segment.len || is_needed {
                at += 1;
            } else {
                self.remove(at);
            }
        }
    }

    /// The oldest go until the rest fits. What the shipper already holds in memory is not lost with them.
    fn bound(&mut self) {
        while self.bytes > self.max_bytes && self.segments.len() > 1 {
            let oldest = &self.segments[0];
            let waiting = oldest.waiting();
            if waiting > 0 {
                self.lost += waiting;
                tracing::warn!(
                    segment = oldest.number,
                    records = waiting,
                    "the journal is full; its oldest records go"
                );
            }
            self.remove(0);
        }
    }

    /// The rest of a segment that cannot be read.
    pub(super) fn give_up(&mut self, number: u64) {
        let Some(segment) = self.segment(number) else { return };
        let lost = segment.waiting();
        segment.taken = segment.len;
        segment.taken_records = segment.records;
        self.lost += lost;
    }

    fn remove(&mut self, at: usize) {
        let Some(segment) = self.segments.remove(at) else { return };
        self.bytes -= segment.len;
        if let Err(e) = std::fs::remove_file(&segment.path) {
            tracing::warn!(error = %e, file = %segment.path.display(), "a journal segment cannot be removed");
        }
    }

    pub(super) fn set_in_flight(&mut self, records: &[LogRecord]) {
        self.in_flight = records.first().map(|r| (records.len() as u64, r.created_at));
    }

    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    pub(super) fn depth(&self) -> Depth {
        Depth {
            segments: self.segments.len(),
            bytes: self.bytes,
            max_bytes: self.max_bytes,
            waiting: self.segments.iter().map(Segment::waiting).sum::<u64>() + self.in_flight.map_or(0, |(n, _)| n),
            oldest: self.in_flight.map(|(_, at)| at),
        }
    }
}
