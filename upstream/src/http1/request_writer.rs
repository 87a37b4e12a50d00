//! A request on its way up: head and the beginning of the body in one write, the rest as the peer takes it. Never waits
//! by itself: whoever reads the answer drives it, so that neither way makes the other wait.

use super::request::{Framing, RequestHead};
use super::{BodySource, RequestBody};
use bytes::Bytes;
use gateway_providers::BodyPieces;
use pingora::protocols::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;

/// So much of a body that is held leaves in the write of its head, copied behind it.
const TOGETHER: usize = 16 * 1024;
/// What streams up is gathered to writes of at most so many bytes.
const GATHERED: usize = 32 * 1024;
/// Around a chunk: its size, two line breaks, and the mark of the end.
const AROUND: usize = 32;
/// A connection that is kept must not keep the room of the largest request that it ever carried.
const KEPT: usize = 20 * 1024;

/// How far a request got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteProgress {
    /// The peer does not take what is to be written.
    Blocked,
    /// All was written that there is; more has to come from its source.
    Starved,
    Whole,
    /// It never will be whole: the connection cannot be used again.
    Short,
}

enum Rest {
    Nothing,
    Held { pieces: BodyPieces, piece: usize, offset: usize },
    Source(OutgoingFraming),
}

/// What came of asking the source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gathered {
    /// There was no more room.
    Full,
    /// It has nothing for now.
    Starved,
    /// Nothing more is to be asked of it, for now or for ever.
    Over,
}

/// How what comes from a source is framed.
#[derive(Clone, Copy)]
enum OutgoingFraming {
    /// So many bytes are still announced.
    Length(usize),
    Chunked,
    /// Nothing is said before the connection has become another.
    Closed,
    Open,
}

pub(super) struct RequestWriter {
    buffer: Vec<u8>,
    written: usize,
    /// Bytes went to the stream since its last flush; TLS and Pingora's own buffer may still hold some.
    is_dirty: bool,
    rest: Rest,
    /// Kept to its end, as another try may need it.
    source: Option<Box<dyn BodySource>>,
    progress: WriteProgress,
    /// The peer took something since somebody asked.
    moved: bool,
    /// The source gave other than was announced: what was gathered before still goes out.
    is_cut: bool,
    /// What was said on an open connection has ended, and nothing tells the peer so.
    is_ended: bool,
}

impl RequestWriter {
    pub(super) const fn new() -> Self {
        Self {
            buffer: Vec::new(),
            written: 0,
            is_dirty: false,
            rest: Rest::Nothing,
            source: None,
            progress: WriteProgress::Whole,
            moved: false,
            is_cut: false,
            is_ended: false,
        }
    }

    /// Begins with a request; what is left of the one before is gone.
    pub(super) fn begin(&mut self, head: &RequestHead, body: RequestBody<'_>) {
        if self.buffer.capacity() > KEPT {
            self.buffer = Vec::new();
        }
        self.buffer.clear();
        self.written = 0;
        (self.is_dirty, self.moved, self.is_cut, self.is_ended) = (false, false, false, false);
        self.progress = WriteProgress::Blocked;
        (self.rest, self.source) = (Rest::Nothing, None);
        match body {
            RequestBody::Held(pieces) => {
                head.write(head.framing_of(Some(pieces.len())), &mut self.buffer);
                self.hold(pieces);
            }
            RequestBody::Streaming(mut source) => {
                let framing = head.framing_of(None);
                head.write(framing, &mut self.buffer);
                source.rewind();
                self.source = Some(source);
                let frame = match framing {
                    Framing::None => return,
                    Framing::Length(length) => OutgoingFraming::Length(length),
                    Framing::Chunked => OutgoingFraming::Chunked,
                    Framing::WebSocket => OutgoingFraming::Closed,
                };
                self.rest = Rest::Source(frame);
            }
        }
    }

    fn hold(&mut self, pieces: &BodyPieces) {
        let mut room = TOGETHER;
        for (at, piece) in pieces.iter().enumerate() {
            let now = piece.len().min(room);
            self.buffer.extend_from_slice(&piece[..now]);
            room -= now;
            if now < piece.len() {
                self.rest = Rest::Held { pieces: pieces.clone(), piece: at, offset: now };
                return;
            }
        }
    }

    pub(super) const fn progress(&self) -> WriteProgress {
        self.progress
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.is_ended
    }

    /// Whether the peer took something since this was asked last.
    pub(super) const fn take_moved(&mut self) -> bool {
        std::mem::replace(&mut self.moved, false)
    }

    /// The source, for another try on another connection.
    pub(super) fn take_source(&mut self) -> Option<Box<dyn BodySource>> {
        self.rest = Rest::Nothing;
        self.source.take()
    }

    /// The connection has become another: what the source says goes up as it is.
    pub(super) const fn open(&mut self) {
        if let Rest::Source(frame) = &mut self.rest {
            *frame = OutgoingFraming::Open;
            self.progress = WriteProgress::Blocked;
        }
    }

    /// The connection stays what it is: nothing will be said on it.
    pub(super) fn settle(&mut self) {
        if matches!(self.rest, Rest::Source(OutgoingFraming::Closed)) {
            self.rest = Rest::Nothing;
        }
    }

    /// Writes what can be written now.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>, stream: &mut Stream) {
        if matches!(self.progress, WriteProgress::Whole | WriteProgress::Short) {
            return;
        }
        self.progress = match self.write_on(cx, stream) {
            Poll::Ready(Ok(progress)) => progress,
            Poll::Ready(Err(WriteFailure)) => {
                self.rest = Rest::Nothing;
                WriteProgress::Short
            }
            Poll::Pending => WriteProgress::Blocked,
        };
    }

    fn write_on(&mut self, cx: &mut Context<'_>, stream: &mut Stream) -> Poll<Result<WriteProgress, WriteFailure>> {
        loop {
            let gathered = self.gather(cx).unwrap_or_else(|WriteFailure| {
                (self.rest, self.is_cut) = (Rest::Nothing, true);
                Gathered::Over
            });
            while self.written < self.buffer.len() {
                let taken = write(cx, stream, &self.buffer[self.written..]);
                self.written += std::task::ready!(taken)?;
                (self.moved, self.is_dirty) = (true, true);
            }
            self.buffer.clear();
            self.written = 0;
            if let Some(bytes) = self.held() {
                let taken = std::task::ready!(write(cx, stream, &bytes))?;
                (self.moved, self.is_dirty) = (true, true);
                self.advance(taken);
                continue;
            }
            if gathered == Gathered::Full {
                continue;
            }
            if self.is_dirty {
                std::task::ready!(Pin::new(&mut *stream).poll_flush(cx)).map_err(|_| WriteFailure)?;
                self.is_dirty = false;
            }
            return Poll::Ready(Ok(match gathered {
                Gathered::Starved => WriteProgress::Starved,
                _ if self.is_cut => WriteProgress::Short,
                _ => WriteProgress::Whole,
            }));
        }
    }

    /// What is to be written next of a body that is held.
    fn held(&self) -> Option<Bytes> {
        let Rest::Held { pieces, piece, offset } = &self.rest else { return None };
        pieces.iter().nth(*piece).map(|bytes| bytes.slice(*offset..))
    }

    fn advance(&mut self, taken: usize) {
        let Rest::Held { pieces, piece, offset } = &mut self.rest else { return };
        *offset += taken;
        while pieces.iter().nth(*piece).is_some_and(|bytes| bytes.len() == *offset) {
            (*piece, *offset) = (*piece + 1, 0);
        }
        if *piece == pieces.iter().len() {
            self.rest = Rest::Nothing;
        }
    }

    /// Takes what the source has, as far as there is room.
    fn gather(&mut self, cx: &mut Context<'_>) -> Result<Gathered, WriteFailure> {
        let (Rest::Source(frame), Some(source)) = (&mut self.rest, &mut self.source) else { return Ok(Gathered::Over) };
        while !matches!(frame, OutgoingFraming::Closed | OutgoingFraming::Length(0)) {
            let Some(room) = GATHERED.checked_sub(self.buffer.len() + AROUND).filter(|room| *room > AROUND) else {
                return Ok(Gathered::Full);
            };
            match source.poll_part(cx, room) {
                Poll::Pending => return Ok(Gathered::Starved),
                Poll::Ready(Some(part)) => append(&mut self.buffer, frame, &part)?,
                Poll::Ready(None) => {
                    match frame {
                        // Fewer bytes than were announced: what comes next on this connection would be taken for them.
                        OutgoingFraming::Length(_) => return Err(WriteFailure),
                        OutgoingFraming::Chunked => self.buffer.extend_from_slice(b"0\r\n\r\n"),
                        OutgoingFraming::Open => self.is_ended = source.is_closing(),
                        OutgoingFraming::Closed => {}
                    }
                    self.rest = Rest::Nothing;
                    return Ok(Gathered::Over);
                }
            }
        }
        Ok(Gathered::Over)
    }
}

/// The peer takes nothing more, or must not be given more.
struct WriteFailure;

fn write(cx: &mut Context<'_>, stream: &mut Stream, bytes: &[u8]) -> Poll<Result<usize, WriteFailure>> {
    Pin::new(stream).poll_write(cx, bytes).map(|taken| taken.ok().filter(|taken| *taken > 0).ok_or(WriteFailure))
}

fn append(buffer: &mut Vec<u8>, frame: &mut OutgoingFraming, part: &[u8]) -> Result<(), WriteFailure> {
    match frame {
        OutgoingFraming::Length(left) => {
            // More than was announced would be read as the next request.
            *left = left.checked_sub(part.len()).ok_or(WriteFailure)?;
            buffer.extend_from_slice(part);
        }
        // An empty chunk would be the end.
        OutgoingFraming::Chunked if part.is_empty() => {}
        OutgoingFraming::Chunked => {
            push_hex(buffer, part.len());
            buffer.extend_from_slice(b"\r\n");
            buffer.extend_from_slice(part);
            buffer.extend_from_slice(b"\r\n");
        }
        OutgoingFraming::Open => buffer.extend_from_slice(part),
        OutgoingFraming::Closed => return Err(WriteFailure),
    }
    Ok(())
}

fn push_hex(buffer: &mut Vec<u8>, number: usize) {
    let digits = (usize::BITS - number.leading_zeros()).div_ceil(4).max(1);
    for at in (0..digits).rev() {
        let digit = (number >> (4 * at) & 15) as u32;
        buffer.push(char::from_digit(digit, 16).map_or(b'0', |c| c as u8));
    }
}

impl std::fmt::Debug for RequestWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestWriter").field("progress", &self.progress).finish_non_exhaustive()
    }
}
