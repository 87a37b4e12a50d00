//! Comments in a stream that has not begun, for clients that ask for them: the first commits the 200, so what fails
//! after it is told in-band. Nothing is said without being asked, nor of calls that pass through untouched.

use super::response_writer::frame;
use super::{COMMENT, gone};
use pingora::http::ResponseHeader;
use pingora::protocols::http::{HttpTask, ServerSession};
use pingora::{Error, ErrorType};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct EarlyKeepalive {
    every: Duration,
    wrote: Instant,
    /// What goes down before the first comment; `None` once it did.
    head: Option<Box<ResponseHeader>>,
    /// A comment was given up in the middle of being written.
    half_written: bool,
    bytes: u64,
}

impl EarlyKeepalive {
    /// `head`: what goes down before the first comment.
    pub(crate) fn new(every: Duration, head: Box<ResponseHeader>) -> Self {
        Self { every, wrote: Instant::now(), head: Some(head), half_written: false, bytes: 0 }
    }

    /// What goes down first, where nothing went down yet.
    pub(super) fn head_to_come(&mut self) -> Option<&mut ResponseHeader> {
        self.head.as_deref_mut()
    }

    /// The client has its 200.
    pub(crate) const fn has_begun(&self) -> bool {
        self.head.is_none()
    }

    pub(crate) const fn is_half_written(&self) -> bool {
        self.half_written
    }

    /// Bytes of comments.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes whenever it is time to, until the client is gone. May be dropped at any point.
    pub(super) async fn run(&mut self, client: &mut ServerSession) -> Box<Error> {
        loop {
            let left = self.every.saturating_sub(self.wrote.elapsed());
            tokio::select! { biased;
                gone = gone(client) => return gone,
                () = tokio::time::sleep(left) => {}
            }
            if let Err(gone) = self.write(client).await {
                return gone;
            }
        }
    }

    /// What is dropped in the middle of a write leaves half a comment behind: only a client that does not read
    /// makes one wait.
    async fn write(&mut self, client: &mut ServerSession) -> Result<(), Box<Error>> {
        if self.half_written {
            return Err(unwritable());
        }
        self.half_written = true;
        let mut tasks = Vec::with_capacity(2);
        if let Some(mut head) = self.head.take() {
            frame(client, &mut head);
            tasks.push(HttpTask::Header(head, false));
        }
        tasks.push(HttpTask::Body(Some(COMMENT), false));
        client.response_duplex_vec(tasks).await.map_err(Error::into_down)?;
        (self.half_written, self.wrote) = (false, Instant::now());
        self.bytes += COMMENT.len() as u64;
        Ok(())
    }
}

pub(super) fn unwritable() -> Box<Error> {
    Error::explain(ErrorType::WriteError, "the client takes nothing").into_down()
}
