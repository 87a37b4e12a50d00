//! One file of the journal: a head of 32 bytes, then records, each behind its length and checksum.
//! The head also holds how far the file has been shipped; whoever holds the file's lock may write to it.

use super::codec;
use std::borrow::Borrow;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"gwjrnl01";
/// Magic, number of the segment, bytes that were shipped, checksum of these two numbers, four bytes of nothing.
pub(super) const HEAD: u64 = 32;
const SHIPPED_AT: u64 = 16;
/// Length and checksum of what follows.
pub(super) const FRAME_HEAD: usize = 8;
/// More than any record takes; a length above it was never written.
pub(super) const LONGEST: usize = 16 << 20;
const CHUNK: usize = 256 << 10;
const HEADLESS: std::time::Duration = std::time::Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    pub(super) file: Arc<File>,
    /// Bytes of head and whole records.
    pub(super) len: u64,
    pub(super) records: u64,
    /// How far the shipper has read, and how far the store has confirmed.
    pub(super) taken: u64,
    pub(super) taken_records: u64,
    pub(super) shipped: u64,
}

pub(super) fn path_of(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:020}.journal"))
}

/// Numbers of the segments in the folder, oldest first.
pub(super) fn numbers(dir: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|n| n.strip_suffix(".journal")).and_then(|n| n.parse::<u64>().ok());
        found.extend(number);
    }
    found.sort_unstable();
    Ok(found)
}

impl Segment {
    /// A new file, ours. `None`: the number is taken.
    pub(super) fn create(dir: &Path, number: u64) -> io::Result<Option<Self>> {
        let path = path_of(dir, number);
        let mut options = OpenOptions::new();
        let file = match options.read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            opened => opened?,
        };
        if !lock(&file)? {
            return Ok(None);
        }
        let mut head = Vec::with_capacity(HEAD as usize);
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&number.to_le_bytes());
        head.extend_from_slice(&shipped_field(number, HEAD));
        head.resize(HEAD as usize, 0);
        if let Err(e) = file.write_all_at(&head, 0) {
            // No room for it: an empty file must not stay behind.
            let _ = std::fs::remove_file(&path);
            return Err(e);
        }
        Ok(Some(Self {
            number,
            path,
            file: Arc::new(file),
            len: HEAD,
            records: 0,
            taken: HEAD,
            taken_records: 0,
            shipped: HEAD,
        }))
    }

    /// Takes over what an ended process left, and cuts off a record that it had not finished.
    /// `None`: somebody is at work on it, or it is no segment.
    pub(super) fn adopt(dir: &Path, number: u64) -> io::Result<Option<Self>> {
        let path = path_of(dir, number);
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        if !lock(&file)? {
            return Ok(None);
        }
        let Some(shipped) = read_head(&file, number)? else {
            let age = std::time::SystemTime::now().duration_since(file.metadata()?.modified()?).unwrap_or_default();
            // One that is being made has its head in a moment; one that never got it holds nothing.
            if age > HEADLESS {
                std::fs::remove_file(&path)?;
            }
            return Ok(None);
        };
        let mut frames = JournalFrames::new(&file, HEAD, file.metadata()?.len());
        let (mut records, mut before) = (0, 0);
        while frames.next()?.is_some() {
            records += 1;
            before = if frames.at() <= shipped { records } else { before };
        }
        let len = frames.at();
        let torn = file.metadata()?.len() - len;
        if torn > 0 {
            tracing::warn!(segment = number, bytes = torn, "the journal ends in an unfinished record; it is cut off");
            file.set_len(len)?;
        }
        let shipped = shipped.min(len);
        let file = Arc::new(file);
        Ok(Some(Self { number, path, file, len, records, taken: shipped, taken_records: before, shipped }))
    }

    pub(super) fn waiting(&self) -> u64 {
        self.records - self.taken_records
    }

    /// Survives the process at once; a lost machine may forget it, and then ships records again.
    pub(super) fn note_shipped(&mut self, to: u64) {
        self.shipped = to;
        if let Err(e) = self.file.write_all_at(&shipped_field(self.number, to), SHIPPED_AT) {
            tracing::warn!(error = %e, segment = self.number, "cannot note what was shipped");
        }
    }
}

fn lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

fn shipped_field(number: u64, shipped: u64) -> [u8; 12] {
    let mut field = [0; 12];
    field[..8].copy_from_slice(&shipped.to_le_bytes());
    field[8..].copy_from_slice(&checksum_of_pair(number, shipped).to_le_bytes());
    field
}

fn checksum_of_pair(number: u64, shipped: u64) -> u32 {
    let mut both = [0; 16];
    both[..8].copy_from_slice(&number.to_le_bytes());
    both[8..].copy_from_slice(&shipped.to_le_bytes());
    crc32fast::hash(&both)
}

/// How far the file was shipped; `None` when it is no segment of this number.
pub(super) fn read_head(file: &File, number: u64) -> io::Result<Option<u64>> {
    let mut head = [0; HEAD as usize];
    if file.metadata()?.len() < HEAD {
        return Ok(None);
    }
    file.read_exact_at(&mut head, 0)?;
    let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    let short = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    if &head[..8] != MAGIC || long(8) != number {
        return Ok(None);
    }
    let shipped = long(16);
    let is_whole = short(24) == checksum_of_pair(number, shipped);
    // A damaged field costs work, not records: ids make a second shipping harmless.
    Ok(Some(if is_whole { shipped.max(HEAD) } else { HEAD }))
}

/// Appends one record with its frame; `false` when it is too long to be written.
pub(super) fn frame(record: &gateway_domain::record::LogRecord, into: &mut Vec<u8>) -> bool {
    let start = into.len();
    into.extend_from_slice(&[0; FRAME_HEAD]);
    codec::write(record, into);
    let length = into.len() - start - FRAME_HEAD;
    let Some(short) = u32::try_from(length).ok().filter(|_| length <= LONGEST) else {
        into.truncate(start);
        return false;
    };
    let sum = crc32fast::hash(&into[start + FRAME_HEAD..]);
    into[start..start + 4].copy_from_slice(&short.to_le_bytes());
    into[start + 4..start + FRAME_HEAD].copy_from_slice(&sum.to_le_bytes());
    true
}

/// Reads record after record, and stops at the end or at the first that is not whole.
#[derive(Debug)]
pub(super) struct JournalFrames<F> {
    file: F,
    /// Offset behind the last record that was given.
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    /// Where `at` lies in the buffer.
    next: usize,
}

impl<F: Borrow<File>> JournalFrames<F> {
    pub(super) fn new(file: F, from: u64, end: u64) -> Self {
        Self { file, at: from.max(HEAD), end, buffer: Vec::new(), next: 0 }
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        if !self.fill(FRAME_HEAD)? {
            return Ok(None);
        }
        let word = |bytes: &[u8], at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let (length, sum) = (word(&self.buffer, self.next) as usize, word(&self.buffer, self.next + 4));
        if length == 0 || length > LONGEST || !self.fill(FRAME_HEAD + length)? {
            return Ok(None);
        }
        let start = self.next + FRAME_HEAD;
        if crc32fast::hash(&self.buffer[start..start + length]) != sum {
            return Ok(None);
        }
        self.next = start + length;
        self.at += (FRAME_HEAD + length) as u64;
        Ok(Some(&self.buffer[start..start + length]))
    }

    /// Sees to it that so many bytes stand in the buffer; `false` when the file has no more.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        if self.buffer.len() - self.next >= wanted {
            return Ok(true);
        }
        let rest = self.end.saturating_sub(self.at);
        if rest < wanted as u64 {
            return Ok(false);
        }
        self.buffer.drain(..self.next);
        self.next = 0;
        let have = self.buffer.len();
        let size = usize::try_from(rest).unwrap_or(usize::MAX).min(wanted.max(CHUNK));
        self.buffer.resize(size, 0);
        self.file.borrow().read_exact_at(&mut self.buffer[have..], self.at + have as u64)?;
        Ok(true)
    }
}
