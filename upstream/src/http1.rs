//! HTTP/1.1 to one peer: a request, its answer, and the connection that both share. Dialling, TLS and the check of
//! certificates are Pingora's; what is said over the connection is ours. Knows no client of the gateway.
//!
//! A request leaves in one write. An answer is read strictly, since what two readers understand in two ways can smuggle
//! a second answer in; what is passed on of it is bounded by the caller, what is not (heads, interim answers, chunk
//! extensions, trailers) is bounded here.

mod chunked;
mod clock;
mod connection;
mod head;
mod lines;
mod parser;
mod refusal;
mod request;
mod request_writer;
#[cfg(test)]
mod tests;

pub(crate) use connection::Connection;
pub use head::{RequestKind, ResponseHead};
pub use lines::{LineError, ResponseLines};
pub use parser::Parser;
pub use refusal::BrokenWhy;
pub use request::{BadPath, Framing, RequestHead};

use crate::dial::{DialError, Dialer, ResolvedOrigin};
use crate::pool;
use bytes::Bytes;
use gateway_providers::BodyPieces;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// How much of an answer that nobody wants is read to keep its connection, and for how long.
const WORTH_READING: usize = 64 * 1024;
const WORTH_WAITING: Duration = Duration::from_millis(500);

/// How long a peer may be silent.
#[derive(Clone, Copy, Debug)]
pub struct PeerTimeouts {
    /// The time from the end of the request to the end of the answer's head, whatever comes before that head.
    pub first_byte: Duration,
    /// The time between two pieces of the answer; also the time that the peer may take in nothing of the request.
    pub idle: Duration,
}

/// What streams up: asked by the call, filled by whoever owns the client.
pub trait BodySource: Send + Sync {
    /// The next part, at most `most` bytes long; `None`: the end. Wakes the task when there is more.
    fn poll_part(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Option<Bytes>>;

    /// Begins anew; each try does.
    fn rewind(&mut self);

    /// All that was given so far is still there for another try.
    fn can_repeat(&self) -> bool;

    /// Its end on an open connection ends the other way too, once everything has been written.
    fn is_closing(&self) -> bool;
}

/// What goes up behind a head.
pub enum RequestBody<'a> {
    Held(&'a BodyPieces),
    /// Goes on while the answer is read, as [`RequestHead::framing`] says.
    Streaming(Box<dyn BodySource>),
}

/// Why there is no answer, or no more of one.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error(transparent)]
    NoConnection(DialError),
    /// Closed, reset, or not to be understood.
    #[error("{0}")]
    Broken(BrokenWhy),
    #[error("nothing came in time")]
    Silent,
}

/// Sends one request and reads the head of its answer. A kept connection that the peer closed before any byte came back
/// is replaced by a fresh one, once and silently, where the body can be repeated.
pub async fn send(
    dialer: &Dialer,
    origin: &ResolvedOrigin,
    head: &RequestHead,
    body: RequestBody<'_>,
    clocks: PeerTimeouts,
) -> Result<Response, SendError> {
    let (_, key) = dialer.address(origin);
    let (mut body, now) = (body, Instant::now());
    if let Some(connection) = pool::take(key, now) {
        match Response::over(connection, head, body, (clocks, now)).await {
            Ok(response) => return Ok(response),
            Err(failed) => body = failed.body_to_repeat()?,
        }
    }
    // Boxed, as it is rare: every request would carry the room for it.
    Box::pin(send_afresh(dialer, origin, head, body, clocks)).await
}

/// Sends a request over a connection of its own: once, and no second time for whatever reason.
pub async fn send_afresh(
    dialer: &Dialer,
    origin: &ResolvedOrigin,
    head: &RequestHead,
    body: RequestBody<'_>,
    clocks: PeerTimeouts,
) -> Result<Response, SendError> {
    let (address, key) = dialer.address(origin);
    // Boxed, as dialling is rare and its future large: every request would carry the room for it.
    let dialled = Box::pin(dialer.connect(origin, address, key)).await.map_err(SendError::NoConnection)?;
    let connection = Box::new(Connection::new(dialled.stream, dialled.key));
    Response::over(connection, head, body, (clocks, Instant::now())).await.map_err(|failed| failed.error)
}

/// A try that gave no head.
struct FailedSend<'a> {
    error: SendError,
    /// The peer had closed: nothing tells that it has seen the request.
    is_unheard: bool,
    body: Option<RequestBody<'a>>,
}

impl<'a> FailedSend<'a> {
    fn body_to_repeat(self) -> Result<RequestBody<'a>, SendError> {
        let is_stale = self.is_unheard && matches!(self.error, SendError::Broken(_));
        let can_repeat = |body: &RequestBody<'a>| match body {
            RequestBody::Held(_) => true,
            RequestBody::Streaming(source) => source.can_repeat(),
        };
        match self.body.filter(|body| is_stale && can_repeat(body)) {
            Some(body) => Ok(body),
            None => Err(self.error),
        }
    }
}

/// An answer whose head has come, with the connection that it comes over.
#[derive(Debug)]
pub struct Response {
    connection: Box<Connection>,
}

impl Response {
    async fn over<'a>(
        mut connection: Box<Connection>,
        head: &RequestHead,
        body: RequestBody<'a>,
        (clocks, now): (PeerTimeouts, Instant),
    ) -> Result<Self, FailedSend<'a>> {
        let held = if let RequestBody::Held(pieces) = &body { Some(*pieces) } else { None };
        connection.begin(head, body, clocks, now);
        match poll_fn(|cx| connection.poll_head(cx)).await {
            Ok(()) => Ok(Self { connection }),
            Err(error) => {
                let source = connection.take_source().map(RequestBody::Streaming);
                let body = held.map(RequestBody::Held).or(source);
                Err(FailedSend { error, is_unheard: connection.is_unheard(), body })
            }
        }
    }

    pub fn status(&self) -> u16 {
        self.head().status()
    }

    pub fn head(&self) -> &ResponseHead {
        self.connection.head()
    }

    /// The head, for whoever passes it on: its headers are gone from here, its status stays.
    pub fn take_head(&mut self) -> ResponseHead {
        self.connection.take_head()
    }

    /// The peer agreed to a WebSocket: what is read and written now are its bytes.
    pub fn is_upgraded(&self) -> bool {
        self.connection.parser().is_upgraded()
    }

    /// The body was read to its end; or an open connection is over, as its source said, and all was written.
    pub fn is_done(&self) -> bool {
        self.connection.is_over()
    }

    /// All of the request was written.
    pub fn is_sent(&self) -> bool {
        self.connection.is_sent()
    }

    /// The next piece of the body; `None` at its end. Sends the rest of the request meanwhile. Cancel-safe, also as to
    /// the clock, which goes on from when the wait began.
    pub async fn read(&mut self) -> Result<Option<Bytes>, SendError> {
        poll_fn(|cx| self.connection.poll_piece(cx)).await
    }

    /// Turns the idle clock off: from now on the caller itself watches how long the body is silent.
    pub const fn without_idle_clock(&mut self) {
        self.connection.set_unclocked();
    }

    /// Keeps the connection for the next request if nothing speaks against it, else closes it.
    pub fn release(self, pool_size: usize) {
        self.release_at(Instant::now(), pool_size);
    }

    /// Does what [`Self::release`] does, for whoever has just looked at the clock.
    pub fn release_at(mut self, now: Instant, pool_size: usize) {
        if self.connection.can_be_kept() {
            self.connection.settle();
            pool::keep(self.connection, now, pool_size);
        }
    }

    /// Reads what is left of an answer that nobody wants, within reason, so that its connection can be kept.
    pub async fn discard(mut self, pool_size: usize) {
        if !self.is_sent() {
            return;
        }
        let rest = async {
            let mut read = 0;
            while !self.is_done() && read <= WORTH_READING {
                read += self.read().await.ok()?.map_or(0, |piece| piece.len());
            }
            Some(())
        };
        if matches!(pingora_timeout::timeout(WORTH_WAITING, rest).await, Ok(Some(()))) {
            self.release(pool_size);
        }
    }
}

impl std::fmt::Debug for RequestBody<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Held(pieces) => f.debug_tuple("Held").field(&pieces.len()).finish(),
            Self::Streaming(_) => f.write_str("Streaming"),
        }
    }
}
