//! The chunked transfer coding (RFC 9112, 7.1) as it is read: strict about what frames, bounded in what is dropped.
//! Works in place, on the bytes that came; knows no connection.

use super::BrokenWhy;

/// Bytes of all extensions of a body together. They carry nothing that anybody uses.
const MOST_EXTENSIONS: usize = 16 * 1024;
const MOST_TRAILERS: usize = 16 * 1024;
/// More digits than a length of 64 bits has.
const MOST_DIGITS: u8 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    Size,
    /// Blanks behind a size, as old servers send to fill a field.
    Padding,
    Extension,
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    Trailer,
    TrailerLf,
    LastLf,
    Done,
}

/// A body on its way.
#[derive(Debug)]
pub(super) struct Chunked {
    state: ChunkState,
    /// The size of the chunk that is being read, then what is left of it.
    size: u64,
    digits: u8,
    extensions: usize,
    trailers: usize,
}

/// What the bytes at hand gave.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    /// The data of all chunks, moved together.
    pub(super) start: usize,
    pub(super) end: usize,
    /// So many bytes were read.
    pub(super) read: usize,
}

impl Chunked {
    pub(super) const fn new() -> Self {
        Self { state: ChunkState::Size, size: 0, digits: 0, extensions: 0, trailers: 0 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// Reads on. Data that came before a fault is given first; the fault comes with the next call.
    pub(super) fn decode(&mut self, bytes: &mut [u8]) -> Result<Decoded, BrokenWhy> {
        let mut got = Decoded::default();
        while got.read < bytes.len() && self.state != ChunkState::Done {
            if self.state == ChunkState::Data {
                self.take(bytes, &mut got);
                continue;
            }
            match self.step(bytes[got.read]) {
                Ok(()) => got.read += 1,
                Err(_) if got.end > got.start => break,
                Err(why) => return Err(why),
            }
        }
        Ok(got)
    }

    fn take(&mut self, bytes: &mut [u8], got: &mut Decoded) {
        let here = bytes.len() - got.read;
        let length = usize::try_from(self.size).map_or(here, |size| size.min(here));
        if got.start == got.end {
            (got.start, got.end) = (got.read, got.read);
        }
        if got.end != got.read {
            bytes.copy_within(got.read..got.read + length, got.end);
        }
        got.end += length;
        got.read += length;
        self.size -= length as u64;
        if self.size == 0 {
            self.state = ChunkState::DataCr;
        }
    }

    /// One byte of the framing. Changes nothing where it fails.
    fn step(&mut self, byte: u8) -> Result<(), BrokenWhy> {
        self.state = match (self.state, byte) {
            (ChunkState::Size, b'\r') if self.digits > 0 => ChunkState::SizeEnd,
            (ChunkState::Size, b';') if self.digits > 0 => ChunkState::Extension,
            (ChunkState::Size, b' ' | b'\t') if self.digits > 0 => ChunkState::Padding,
            (ChunkState::Size, _) => {
                let digit = char::from(byte).to_digit(16).ok_or(BrokenWhy::BadChunk)?;
                if self.digits == MOST_DIGITS {
                    return Err(BrokenWhy::BadChunk);
                }
                self.digits += 1;
                self.size = self.size << 4 | u64::from(digit);
                ChunkState::Size
            }
            (ChunkState::Padding | ChunkState::Extension, b'\r') => ChunkState::SizeEnd,
            (ChunkState::Padding, b';') => ChunkState::Extension,
            (ChunkState::Padding, b' ' | b'\t') => {
                count(&mut self.extensions, MOST_EXTENSIONS, byte)?;
                ChunkState::Padding
            }
            (ChunkState::Extension, _) => {
                count(&mut self.extensions, MOST_EXTENSIONS, byte)?;
                ChunkState::Extension
            }
            (ChunkState::SizeEnd, b'\n') if self.size == 0 => ChunkState::TrailerStart,
            (ChunkState::SizeEnd, b'\n') => ChunkState::Data,
            (ChunkState::DataCr, b'\r') => ChunkState::DataLf,
            (ChunkState::DataLf, b'\n') => {
                (self.size, self.digits) = (0, 0);
                ChunkState::Size
            }
            (ChunkState::TrailerStart, b'\r') => ChunkState::LastLf,
            (ChunkState::Trailer, b'\r') => ChunkState::TrailerLf,
            (ChunkState::TrailerStart | ChunkState::Trailer, _) => {
                count(&mut self.trailers, MOST_TRAILERS, byte)?;
                ChunkState::Trailer
            }
            (ChunkState::TrailerLf, b'\n') => ChunkState::TrailerStart,
            (ChunkState::LastLf, b'\n') => ChunkState::Done,
            _ => return Err(BrokenWhy::BadChunk),
        };
        Ok(())
    }
}

/// Counts a byte that is dropped. Controls beside the tab have no place there.
fn count(counted: &mut usize, most: usize, byte: u8) -> Result<(), BrokenWhy> {
    if byte.is_ascii_control() && byte != b'\t' {
        return Err(BrokenWhy::BadChunk);
    }
    if *counted == most {
        return Err(BrokenWhy::ChunksTooLarge);
    }
    *counted += 1;
    Ok(())
}
