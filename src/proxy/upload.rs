//! A body that streams up as it comes and is never held whole: what was read of it is kept while it is small, so that it
//! may be sent again.

use super::wire::client_gone;
use bytes::Bytes;
use http::header;
use pingora::Error;
use pingora::protocols::http::ServerSession;
use std::time::Duration;

/// A body larger than this is sent once: it can neither be retried nor fall back.
const MOST_KEPT: usize = 64 * 1024;

/// How the end of such a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
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
    /// More came than is kept.
    spilt: bool,
    ended: bool,
    /// The client waits for a word before it sends anything.
    expects: bool,
}

impl Upload {
    /// `silence`: the longest that the client may make the gateway wait for a piece.
    pub(crate) fn of(client: &mut ServerSession, silence: Duration) -> Self {
        client.set_read_timeout(Some(silence));
        let expects =
            client.get_header(header::EXPECT).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        Self { kept: Vec::new(), bytes: 0, spilt: false, ended: client.is_body_empty(), expects }
    }

    /// All of it was read.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// What was read so far is still here for another try, which reads on from there.
    pub(crate) const fn can_repeat(&self) -> bool {
        !self.spilt
    }

    pub(crate) fn kept(&self) -> &[Bytes] {
        &self.kept
    }

    /// The next piece, `None` at the end. Cancel-safe.
    pub(crate) async fn read(&mut self, client: &mut ServerSession) -> Result<Option<Bytes>, Box<Error>> {
        if self.ended {
            return Ok(None);
        }
        if self.expects {
            client.write_continue_response().await?;
            self.expects = false;
        }
        let piece = client.read_request_body().await?;
        self.ended = piece.is_none() || client.is_body_done();
        if let Some(piece) = &piece {
            self.bytes += piece.len();
            self.spilt |= self.bytes > MOST_KEPT;
            if self.spilt {
                self.kept = Vec::new();
            } else {
                // A piece may be a window into a larger read.
                self.kept.push(Bytes::copy_from_slice(piece));
            }
        }
        Ok(piece)
    }

    /// Resolves when the client has left; while its body is still to come nobody can tell, since looking is reading.
    pub(crate) async fn client_gone(&self, client: &mut ServerSession) -> Box<Error> {
        if self.ended { client_gone(client).await } else { std::future::pending().await }
    }
}
