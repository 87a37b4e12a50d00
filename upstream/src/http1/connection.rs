//! A connection with all that a request needs on it: buffers, parser, clock. They stay with it from request to request.
//! Everything happens in one loop that writes, then reads, so that both ways go on at once and no task is needed.

use super::clock::{Clock, Wait};
use super::head::{RequestKind, ResponseHead};
use super::parser::Parser;
use super::request::RequestHead;
use super::request_writer::{RequestWriter, WriteProgress};
use super::{BodySource, BrokenWhy, PeerTimeouts, RequestBody, SendError};
use bytes::{Bytes, BytesMut};
use http::Method;
use pingora::protocols::Stream;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;

/// Room for most heads with what follows at once.
const USUAL: usize = 8 * 1024;
/// Once an answer fills that.
const LARGE: usize = 64 * 1024;
/// Less is not worth a read.
const LEAST: usize = 1024;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    key: u64,
    /// What was read and not yet taken.
    incoming: BytesMut,
    /// The room that `incoming` has.
    room: usize,
    outgoing: RequestWriter,
    parser: Parser,
    head: ResponseHead,
    clock: Clock,
    clocks: PeerTimeouts,
    /// The caller watches the silence of the body.
    is_unclocked: bool,
    /// Something of an answer came.
    is_heard: bool,
    is_broken: bool,
}

impl Connection {
    pub(crate) fn new(stream: Stream, key: u64) -> Self {
        let clocks = PeerTimeouts { first_byte: Duration::ZERO, idle: Duration::ZERO };
        Self {
            stream,
            key,
            incoming: BytesMut::new(),
            room: USUAL,
            outgoing: RequestWriter::new(),
            parser: Parser::new(RequestKind::Content),
            head: ResponseHead::default(),
            clock: Clock::new(),
            clocks,
            is_unclocked: false,
            is_heard: false,
            is_broken: false,
        }
    }

    pub(crate) const fn key(&self) -> u64 {
        self.key
    }

    /// A request takes the connection over.
    pub(super) fn begin(&mut self, head: &RequestHead, body: RequestBody<'_>, clocks: PeerTimeouts, now: Instant) {
        self.parser = Parser::new(match head.method() {
            _ if head.opens_web_socket() => RequestKind::WebSocket,
            &Method::HEAD => RequestKind::HeadOnly,
            _ => RequestKind::Content,
        });
        self.outgoing.begin(head, body);
        self.clock.begin(now);
        self.clocks = clocks;
        (self.is_unclocked, self.is_heard) = (false, false);
    }

    pub(super) fn take_source(&mut self) -> Option<Box<dyn BodySource>> {
        self.outgoing.take_source()
    }

    pub(super) const fn parser(&self) -> &Parser {
        &self.parser
    }

    pub(super) const fn head(&self) -> &ResponseHead {
        &self.head
    }

    pub(super) fn take_head(&mut self) -> ResponseHead {
        self.head.take()
    }

    pub(super) const fn set_unclocked(&mut self) {
        self.is_unclocked = true;
    }

    /// No byte of an answer came before the connection ended.
    pub(super) const fn is_unheard(&self) -> bool {
        !self.is_heard
    }

    /// The request is whole, the answer is, and nothing lies behind it.
    pub(super) fn can_be_kept(&self) -> bool {
        self.parser.is_done()
            && self.parser.keeps_alive()
            && self.outgoing.progress() == WriteProgress::Whole
            && self.incoming.is_empty()
            && !self.is_broken
    }

    /// Nothing more is to be read.
    pub(super) const fn is_over(&self) -> bool {
        self.parser.is_done() || self.outgoing.has_ended() && self.is_sent()
    }

    pub(super) const fn is_sent(&self) -> bool {
        matches!(self.outgoing.progress(), WriteProgress::Whole)
    }

    /// A read would wait: nothing came, and the peer has not closed.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut byte = [0; 1];
        let read = tokio::task::coop::unconstrained(self.stream.read(&mut byte));
        pin!(read).poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }

    /// Sends, and reads the head of the answer.
    pub(super) fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        loop {
            self.outgoing.drive(cx, &mut self.stream);
            if !self.incoming.is_empty() && self.parser.head(&mut self.incoming, &mut self.head).map_err(broken)? {
                self.clock.stop();
                if self.parser.is_upgraded() {
                    self.outgoing.open()
                } else {
                    self.outgoing.settle()
                }
                return Poll::Ready(Ok(()));
            }
            let wait = self.waits_for(Wait::Head);
            let limit = match wait {
                Wait::Head => Some(self.clocks.first_byte),
                Wait::Source => None,
                Wait::Taken | Wait::Piece => Some(self.clocks.idle),
            };
            if !ready!(self.poll_fill(cx, wait, limit))? {
                return Poll::Ready(Err(broken(self.parser.close(&self.incoming).err().unwrap_or(BrokenWhy::CutOff))));
            }
        }
    }

    /// Sends on, and reads the next piece of the body; `None` at its end.
    pub(super) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, SendError>> {
        let polled = self.poll_piece_or_failure(cx);
        if polled.is_ready() {
            self.clock.stop();
        }
        self.is_broken |= matches!(polled, Poll::Ready(Err(_)));
        polled
    }

    fn poll_piece_or_failure(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, SendError>> {
        loop {
            self.outgoing.drive(cx, &mut self.stream);
            if !self.incoming.is_empty()
                && let Some(piece) = self.parser.piece(&mut self.incoming, self.room / 4).map_err(broken)?
            {
                return Poll::Ready(Ok(Some(piece)));
            }
            if self.is_over() {
                return Poll::Ready(Ok(None));
            }
            let wait = self.waits_for(Wait::Piece);
            let limit = match wait {
                Wait::Source => None,
                // Both may be silent for long on an open connection.
                Wait::Piece if self.is_unclocked || self.parser.is_upgraded() => None,
                Wait::Piece | Wait::Head | Wait::Taken => Some(self.clocks.idle),
            };
            if !ready!(self.poll_fill(cx, wait, limit))? {
                self.parser.close(&self.incoming).map_err(broken)?;
            }
        }
    }

    /// Who keeps everybody waiting.
    fn waits_for(&mut self, otherwise: Wait) -> Wait {
        match self.outgoing.progress() {
            WriteProgress::Blocked => {
                if self.outgoing.take_moved() {
                    self.clock.stop();
                }
                Wait::Taken
            }
            WriteProgress::Starved => Wait::Source,
            WriteProgress::Whole | WriteProgress::Short => otherwise,
        }
    }

    /// Reads what is there. `false`: the peer says no more.
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        wait: Wait,
        limit: Option<Duration>,
    ) -> Poll<Result<bool, SendError>> {
        if self.incoming.capacity() - self.incoming.len() < LEAST {
            self.incoming.reserve(self.room.saturating_sub(self.incoming.len()).max(LEAST));
        }
        let before = self.incoming.capacity() - self.incoming.len();
        let read = pin!(self.stream.read_buf(&mut self.incoming)).poll(cx);
        match read {
            Poll::Ready(Ok(0)) => Poll::Ready(Ok(false)),
            Poll::Ready(Ok(length)) => {
                self.is_heard = true;
                if length == before {
                    self.room = LARGE;
                }
                Poll::Ready(Ok(true))
            }
            Poll::Ready(Err(e)) => Poll::Ready(Err(broken(reading_failed(&e, self.is_heard)))),
            Poll::Pending => self.clock.poll(cx, wait, limit).map(|()| Err(SendError::Silent)),
        }
    }

    /// Makes ready to lie in the pool: nothing of the last request is kept there.
    pub(super) fn settle(&mut self) {
        self.head.clear();
        if self.room > USUAL {
            (self.room, self.incoming) = (USUAL, BytesMut::new());
        }
    }
}

fn reading_failed(e: &io::Error, is_heard: bool) -> BrokenWhy {
    match e.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            BrokenWhy::Reset
        }
        _ if is_heard => BrokenWhy::CutOff,
        _ => BrokenWhy::NoAnswer,
    }
}

const fn broken(why: BrokenWhy) -> SendError {
    SendError::Broken(why)
}
