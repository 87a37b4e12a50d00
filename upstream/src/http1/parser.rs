//! One answer as it comes, in pieces of any size: interim answers, head, body, end. What it gives does not depend on
//! how the bytes were cut. Knows no connection and no clock, so that it can be fuzzed.

use super::BrokenWhy;
use super::chunked::Chunked;
use super::head::{Extent, RequestKind, ResponseHead, parse};
use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

/// Bytes of one head, and of all interim answers together.
const MOST_HEAD: usize = 64 * 1024;
const MOST_INTERIM: usize = 64;
const START: &[u8] = b"HTTP/1.";

#[derive(Debug)]
enum ParserState {
    Head,
    Length(u64),
    Chunked(Chunked),
    UntilClose,
    /// The bytes of another protocol.
    Upgraded,
    Done,
}

/// Reads one answer.
#[derive(Debug)]
pub struct Parser {
    asked: RequestKind,
    state: ParserState,
    /// Where the search goes on in the head that is coming: no empty line lies before here.
    searched: usize,
    interim: usize,
    interim_bytes: usize,
    keeps_alive: bool,
}

impl Parser {
    pub const fn new(asked: RequestKind) -> Self {
        Self { asked, state: ParserState::Head, searched: 0, interim: 0, interim_bytes: 0, keeps_alive: false }
    }

    /// Reads the head into `head`, once all of it is in `buffer`, past all answers that only inform.
    pub fn head(&mut self, buffer: &mut BytesMut, head: &mut ResponseHead) -> Result<bool, BrokenWhy> {
        while matches!(self.state, ParserState::Head) {
            let Some(length) = self.find_head(buffer)? else { return Ok(false) };
            let terms = parse(&buffer[..length], self.asked, head)?;
            buffer.advance(length);
            self.searched = 0;
            self.state = match terms.extent {
                Extent::Interim => {
                    (self.interim, self.interim_bytes) = (self.interim + 1, self.interim_bytes + length);
                    if self.interim > MOST_INTERIM || self.interim_bytes > MOST_HEAD {
                        return Err(BrokenWhy::TooManyInterim);
                    }
                    ParserState::Head
                }
                Extent::Length(0) => ParserState::Done,
                Extent::Length(length) => ParserState::Length(length),
                Extent::Chunked => ParserState::Chunked(Chunked::new()),
                Extent::UntilClose => ParserState::UntilClose,
                Extent::Upgraded => ParserState::Upgraded,
            };
            self.keeps_alive = terms.keeps_alive;
        }
        Ok(true)
    }

    /// The length of a head that is here as a whole. Each byte is looked at once, however many reads it takes.
    fn find_head(&mut self, buffer: &[u8]) -> Result<Option<usize>, BrokenWhy> {
        let known = buffer.len().min(START.len());
        if buffer[..known] != START[..known] {
            return Err(BrokenWhy::NotHttp);
        }
        let within = &buffer[..buffer.len().min(MOST_HEAD)];
        loop {
            let Some(line) = memchr(b'\n', &within[self.searched..]) else {
                self.searched = within.len();
                break;
            };
            let end = self.searched + line + 1;
            match within[end..] {
                [b'\n', ..] => return Ok(Some(end + 1)),
                [b'\r', b'\n', ..] => return Ok(Some(end + 2)),
                // What decides is still to come.
                [] | [b'\r'] => break,
                _ => self.searched = end,
            }
        }
        if buffer.len() >= MOST_HEAD {
            return Err(BrokenWhy::HeadTooLarge);
        }
        Ok(None)
    }

    /// The next piece of the body, of all that is in `buffer`; `None` when there is none yet, or no more. A piece of
    /// fewer than `copied_below` bytes is a copy: it must not keep the whole buffer from being used again.
    pub fn piece(&mut self, buffer: &mut BytesMut, copied_below: usize) -> Result<Option<Bytes>, BrokenWhy> {
        let length = match &mut self.state {
            ParserState::Head | ParserState::Done => return Ok(None),
            ParserState::Chunked(chunked) => {
                let got = chunked.decode(buffer)?;
                if chunked.is_done() {
                    self.state = ParserState::Done;
                }
                buffer.advance(got.start);
                let piece = cut(buffer, got.end - got.start, copied_below);
                buffer.advance(got.read - got.end);
                return Ok(piece);
            }
            ParserState::UntilClose | ParserState::Upgraded => buffer.len(),
            ParserState::Length(left) => {
                let length = usize::try_from(*left).map_or(buffer.len(), |left| left.min(buffer.len()));
                *left -= length as u64;
                if *left == 0 {
                    self.state = ParserState::Done;
                }
                length
            }
        };
        Ok(cut(buffer, length, copied_below))
    }

    /// The peer says no more.
    pub fn close(&mut self, buffer: &[u8]) -> Result<(), BrokenWhy> {
        match self.state {
            ParserState::Head if self.interim == 0 && buffer.is_empty() => Err(BrokenWhy::NoAnswer),
            ParserState::UntilClose | ParserState::Upgraded if buffer.is_empty() => {
                self.keeps_alive = false;
                self.state = ParserState::Done;
                Ok(())
            }
            ParserState::Done => Ok(()),
            _ => Err(BrokenWhy::CutOff),
        }
    }

    pub const fn is_done(&self) -> bool {
        matches!(self.state, ParserState::Done)
    }

    pub const fn is_upgraded(&self) -> bool {
        matches!(self.state, ParserState::Upgraded)
    }

    /// The connection may carry another request, once this answer is done.
    pub const fn keeps_alive(&self) -> bool {
        self.keeps_alive
    }
}

fn cut(buffer: &mut BytesMut, length: usize, copied_below: usize) -> Option<Bytes> {
    if length == 0 {
        return None;
    }
    if length >= copied_below {
        return Some(buffer.split_to(length).freeze());
    }
    let piece = Bytes::copy_from_slice(&buffer[..length]);
    buffer.advance(length);
    Some(piece)
}
