//! Reading the journal from a place on, without owning it: for counters that are rebuilt from their last checkpoint.

use super::codec;
use super::segment::{JournalFrames, numbers, path_of, read_head};
use gateway_domain::record::{LogRecord, Position};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Every whole record behind `from`, in the order of writing, each with the place behind it. A place that is not
/// there any more stands for the next one that is. A folder that does not exist is an empty journal.
pub fn replay(dir: &Path, from: Position) -> io::Result<Replay> {
    let all = match numbers(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        found => found?,
    };
    let rest = all.into_iter().filter(|number| *number >= from.segment).collect();
    Ok(Replay { dir: dir.to_owned(), from, rest, open: None })
}

#[derive(Debug)]
pub struct Replay {
    dir: PathBuf,
    from: Position,
    rest: VecDeque<u64>,
    open: Option<(u64, JournalFrames<File>)>,
}

impl Replay {
    fn advance(&mut self) -> io::Result<Option<(Position, LogRecord)>> {
        loop {
            if let Some((segment, frames)) = &mut self.open {
                let record = frames.next()?.map(codec::parse).transpose();
                match record.map_err(io::Error::other)? {
                    Some(record) => {
                        let place = Position { segment: *segment, offset: frames.at() };
                        return Ok(Some((place, record)));
                    }
                    None => self.open = None,
                }
            }
            let Some(number) = self.rest.pop_front() else { return Ok(None) };
            let file = match File::open(path_of(&self.dir, number)) {
                // Shipped and gone since the folder was read.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            if read_head(&file, number)?.is_none() {
                continue;
            }
            let end = file.metadata()?.len();
            let from = if number == self.from.segment { self.from.offset } else { 0 };
            self.open = Some((number, JournalFrames::new(file, from, end)));
        }
    }
}

impl Iterator for Replay {
    type Item = io::Result<(Position, LogRecord)>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if matches!(next, Some(Err(_))) {
            self.rest.clear();
            self.open = None;
        }
        next
    }
}
