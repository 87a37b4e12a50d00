//! Records on disk before they are in any store: checksummed segment files in one folder, written by one thread,
//! shipped in order by another. The normal way and the way through an outage are the same: a store that is slow or
//! away only makes segments wait, up to a bound. Knows records and files, not what is done with either.

mod codec;
mod replay;
mod segment;
mod segment_list;
mod shipper;

pub use replay::{Replay, replay};
pub use shipper::{Shipment, Shipper};

use gateway_domain::Timestamp;
use gateway_domain::record::{LogRecord, Position};
use parking_lot::Mutex;
use segment::Segment;
use segment_list::Shelf;
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A bound on what a lost machine forgets; a killed process forgets nothing that was appended.
const SYNC_EVERY: Duration = Duration::from_millis(200);
/// Files are dropped whole, so a small bound means small files.
const LARGEST_SEGMENT: u64 = 16 << 20;
const SMALLEST_SEGMENT: u64 = 64 << 10;
const LARGEST_WRITE: usize = 1 << 20;

/// Segments in a folder, whosever they are, oldest first.
pub fn segments(dir: &Path) -> io::Result<Vec<u64>> {
    segment::numbers(dir)
}

/// How much lies in the journal now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    pub segments: usize,
    pub bytes: u64,
    /// The bound of `bytes`.
    pub max_bytes: u64,
    /// Records that the store has not confirmed.
    pub waiting: u64,
    /// When the oldest of those that are being shipped was made; `None` while the store keeps up.
    pub oldest: Option<Timestamp>,
}

/// What became of a batch: the first `kept` records are in the journal, the others are not, for the reason given.
#[derive(Debug)]
pub struct Appended {
    pub kept: usize,
    pub refused: Option<io::Error>,
}

/// The end that is written to. Dropping it leaves everything for the next process.
#[derive(Debug)]
pub struct Journal {
    shelf: Arc<Mutex<Shelf>>,
    dir: PathBuf,
    segment_bytes: u64,
    active: Option<Active>,
    buffer: Vec<u8>,
    ends: Vec<u64>,
    unsynced: Option<Instant>,
}

#[derive(Debug)]
struct Active {
    number: u64,
    file: Arc<File>,
    len: u64,
}

/// A view for gauges.
#[derive(Clone, Debug)]
pub struct Gauge(Arc<Mutex<Shelf>>);

impl Gauge {
    pub fn depth(&self) -> Depth {
        self.0.lock().depth()
    }

    /// The position behind everything that was written until now.
    pub fn end(&self) -> Position {
        self.0.lock().end()
    }

    /// The store has taken all that lies before it, or will never take it, also of what other processes left in the
    /// folder; what another one that lives still has to ship counts as not taken.
    pub fn has_shipped(&self, end: Position) -> io::Result<bool> {
        let shelf = self.0.lock();
        let there = segment::numbers(shelf.dir())?;
        Ok(there.into_iter().filter(|number| *number <= end.segment).all(|number| shelf.has_shipped(number, end)))
    }
}

impl Journal {
    /// Opens the folder, makes it if need be, and takes over what ended processes left in it. Of `max_bytes`, the
    /// oldest segments go first; at least 256 KiB are used.
    pub fn open(dir: &Path, max_bytes: u64) -> io::Result<(Self, Shipper)> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let max_bytes = max_bytes.max(4 * SMALLEST_SEGMENT);
        let mut shelf = Shelf::new(dir.to_owned(), max_bytes);
        shelf.adopt()?;
        let shelf = Arc::new(Mutex::new(shelf));
        let shipper = Shipper::new(shelf.clone());
        let journal = Self {
            shelf,
            dir: dir.to_owned(),
            segment_bytes: (max_bytes / 16).clamp(SMALLEST_SEGMENT, LARGEST_SEGMENT),
            active: None,
            buffer: Vec::new(),
            ends: Vec::new(),
            unsynced: None,
        };
        Ok((journal, shipper))
    }

    /// Segments that this process has, those of ended processes included: a living one keeps its own.
    pub fn segments(&self) -> Vec<u64> {
        self.shelf.lock().segments.iter().map(|s| s.number).collect()
    }

    pub fn gauge(&self) -> Gauge {
        Gauge(self.shelf.clone())
    }

    /// Puts the records down, one write for a batch of usual size. `after[i]` becomes the place behind `records[i]`;
    /// one that was not kept has the place of the last that was. Once it returns, a killed process loses none of those
    /// kept.
    pub fn append(&mut self, records: &[LogRecord], after: &mut Vec<Position>) -> Appended {
        after.clear();
        let outcome = self.write(records, after);
        let kept = after.len();
        let end = after.last().copied().unwrap_or_else(|| self.end());
        after.resize(records.len(), end);
        Appended { kept, refused: outcome.err() }
    }

    /// The place behind everything that was written.
    fn end(&self) -> Position {
        self.active.as_ref().map_or_else(|| self.shelf.lock().end(), |a| Position { segment: a.number, offset: a.len })
    }

    fn write(&mut self, records: &[LogRecord], after: &mut Vec<Position>) -> io::Result<()> {
        let mut rest = records;
        while !rest.is_empty() {
            self.roll()?;
            let done = after.len();
            let written = self.write_some(rest, after);
            rest = &rest[after.len() - done..];
            written?;
        }
        Ok(())
    }

    /// Writes as many records as make a write of a good size: with bodies they may be large.
    fn write_some(&mut self, records: &[LogRecord], after: &mut Vec<Position>) -> io::Result<()> {
        let Some(active) = &mut self.active else { return Ok(()) };
        self.buffer.clear();
        self.ends.clear();
        let mut too_long = 0;
        for record in records {
            too_long += u64::from(!segment::frame(record, &mut self.buffer));
            self.ends.push(active.len + self.buffer.len() as u64);
            if self.buffer.len() >= LARGEST_WRITE {
                break;
            }
        }
        let written = active.file.write_all_at(&self.buffer, active.len);
        if written.is_err() {
            // A full disk took a part: its whole records stay, the torn one must not be met by a reader.
            let len = active.file.metadata()?.len();
            self.ends.retain(|end| *end <= len);
            let whole = self.ends.last().copied().unwrap_or(active.len);
            active.file.set_len(whole)?;
        }
        active.len = self.ends.last().copied().unwrap_or(active.len);
        after.extend(self.ends.iter().map(|end| Position { segment: active.number, offset: *end }));
        self.unsynced.get_or_insert_with(Instant::now);
        // A record longer than any reader accepts was passed over; which of a torn batch were such is not told.
        let too_long = if written.is_ok() { too_long } else { 0 };
        self.shelf.lock().grew(active.number, active.len, self.ends.len() as u64 - too_long, too_long);
        self.buffer.shrink_to(2 * LARGEST_WRITE);
        written
    }

    /// A new segment when there is none or the last is full.
    fn roll(&mut self) -> io::Result<()> {
        if self.active.as_ref().is_some_and(|a| a.len < self.segment_bytes) {
            return Ok(());
        }
        self.sync()?;
        self.active = None;
        self.shelf.lock().close_last();
        let segment = loop {
            let number = self.shelf.lock().next_number();
            if let Some(segment) = Segment::create(&self.dir, number)? {
                break segment;
            }
        };
        File::open(&self.dir)?.sync_all()?;
        self.active = Some(Active { number: segment.number, file: segment.file.clone(), len: segment.len });
        self.shelf.lock().add(segment);
        Ok(())
    }

    /// Makes what was written safe from a lost machine once its time has come. It is to be called often.
    pub fn sync_when_due(&mut self) -> io::Result<()> {
        match self.unsynced {
            Some(since) if since.elapsed() >= SYNC_EVERY => self.sync(),
            _ => Ok(()),
        }
    }

    pub fn sync(&mut self) -> io::Result<()> {
        if self.unsynced.take().is_some()
            && let Some(active) = &self.active
        {
            active.file.sync_data()?;
        }
        Ok(())
    }

    /// What a replay may still ask for: shipped segments before it go, those after it stay, within the bound.
    /// Until the first call everything stays.
    pub fn hold(&self, needed: Option<Position>) {
        self.shelf.lock().hold(needed);
    }

    /// Records that were lost since the last call: their segment had to go or was damaged before they were shipped,
    /// or they were longer than 16 MiB.
    pub fn lost(&self) -> u64 {
        self.shelf.lock().take_lost()
    }
}
