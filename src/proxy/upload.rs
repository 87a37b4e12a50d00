//! What streams up as it comes and is never held whole: a body, of which what was read is kept while it is small, so that
//! it may be sent again; or what is said on a WebSocket once it is open. Knows nothing of who it is sent to.

use super::body::{self, Budget, Permit};
use super::wire::client_gone;
use bytes::Bytes;
use http::header;
use pingora::protocols::http::ServerSession;
use pingora::{Error, ErrorType};
use std::sync::Arc;
use std::time::Duration;

/// A body larger than this is sent once: it can neither be retried nor fall back.
const MOST_KEPT: usize = 64 * 1024;

/// How the end of such a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
    /// No body, but what is said on the connection once it is another, until it ends.
    WebSocket,
}

impl Framing {
    pub(crate) fn of(client: &ServerSession) -> Self {
        let length = client.get_header(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.trim().parse().ok());
        length.map_or(Self::Chunked, Self::Length)
    }
}

#[derive(Debug)]
pub(crate) struct Upload {
    kept: Vec<Bytes>,
    bytes: usize,
    /// What is kept counts as what the process holds.
    held: Permit,
    /// Of what is kept, handed on in the current try.
    handed: usize,
    /// Of the piece that is being handed on.
    rest: Bytes,
    /// More came than is kept.
    spilt: bool,
    ended: bool,
    /// The client waits for a word before it sends anything.
    expects: bool,
    /// The longest that the client may make the gateway wait for a piece.
    silence: Duration,
    /// It is the client's turn.
    awaited: bool,
    /// The connection has become another.
    open: bool,
}

impl Upload {
    pub(crate) fn of(client: &mut ServerSession, silence: Duration, budget: &Arc<Budget>) -> Self {
        Self {
            kept: Vec::new(),
            bytes: 0,
            held: Permit::new(budget),
            handed: 0,
            rest: Bytes::new(),
            spilt: false,
            ended: client.is_body_empty(),
            expects: true,
            silence,
            awaited: false,
            open: false,
        }
    }

    /// From now on all that the client says goes up, however long it is silent.
    pub(crate) fn open(&mut self, client: &mut ServerSession) {
        client.set_read_timeout(None);
        (self.open, self.ended, self.spilt) = (true, false, true);
    }

    /// The client says no more on an open connection; what it said has still to go up.
    pub(crate) const fn is_closing(&self) -> bool {
        self.open && self.ended
    }

    /// All of it was read.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// What was read so far is still here for another try, which reads on from there.
    pub(crate) const fn can_repeat(&self) -> bool {
        !self.spilt
    }

    /// Everybody waits for the client.
    pub(crate) const fn is_awaited(&self) -> bool {
        self.awaited
    }

    /// Another try: from the beginning.
    pub(crate) fn rewind(&mut self) {
        (self.handed, self.rest) = (0, Bytes::new());
    }

    /// What goes up next of all that was read, `most` bytes of it.
    pub(crate) fn part(&mut self, most: usize) -> Option<Bytes> {
        if self.rest.is_empty() {
            self.rest = self.kept.get(self.handed)?.clone();
            self.handed += 1;
        }
        Some(self.rest.split_to(self.rest.len().min(most)))
    }

    fn has_part(&self) -> bool {
        !self.rest.is_empty() || self.handed < self.kept.len()
    }

    /// Reads on once all that was read is handed on. `Err`: the client has left, or sends nothing. Cancel-safe.
    pub(crate) async fn attend(&mut self, client: &mut ServerSession) -> Result<(), Box<Error>> {
        self.awaited = false;
        if self.ended {
            return Err(client_gone(client).await);
        }
        if self.has_part() {
            return std::future::pending().await;
        }
        self.awaited = true;
        if self.expects && !self.open {
            body::go_on(client).await?;
            self.expects = false;
        }
        let piece = match self.open {
            true => client.read_request_body().await,
            false => body::read_within(client, self.silence).await,
        };
        self.awaited = false;
        let piece = piece.inspect_err(|e| self.spilt |= *e.etype() == ErrorType::ReadTimedout)?;
        self.ended = piece.is_none() || client.is_body_done();
        if let Some(piece) = piece {
            self.take(piece);
        }
        Ok(())
    }

    fn take(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        self.spilt |= self.bytes > MOST_KEPT || self.held.grow_to(self.bytes).is_err();
        if self.spilt {
            (self.kept, self.handed) = (Vec::new(), 0);
            self.held.give_back();
            self.rest = piece;
        } else {
            // A piece may be a window into a larger read.
            self.kept.push(Bytes::copy_from_slice(&piece));
        }
    }

    /// Resolves when the client has left; while its body is still to come nobody can tell, since looking is reading.
    pub(crate) async fn client_gone(&self, client: &mut ServerSession) -> Box<Error> {
        if self.ended { client_gone(client).await } else { std::future::pending().await }
    }
}
