//! The way of an answer to its client and, beside it, to the cache and those who follow the same call. A leader goes on
//! without its client for as long as somebody follows.

use super::pump::Sink;
use crate::cache::{AnswerHead, Leader};
use crate::proxy::client::{COMMENT, Client, ClientLeft};
use crate::proxy::responses::ResponseKeeper;
use bytes::Bytes;
use http::header;
use pingora::http::ResponseHeader;

pub(crate) struct Downstream<'c, 's> {
    client: &'c mut Client<'s>,
    leader: Option<Leader>,
    keeper: Option<Box<ResponseKeeper>>,
    /// The answer's head; `None` once it went down.
    head: Option<Box<ResponseHeader>>,
    /// The client left, but others wait.
    client_left: Option<ClientLeft>,
    /// The last piece was handed on.
    ended: bool,
    stream: bool,
}

impl<'c, 's> Downstream<'c, 's> {
    /// `head`: goes down with the first bytes.
    pub(crate) fn new(client: &'c mut Client<'s>, head: Box<ResponseHeader>) -> Self {
        Self { client, leader: None, keeper: None, head: Some(head), client_left: None, ended: false, stream: true }
    }

    /// Writes to a connection that has become another (a WebSocket), whose head is down already.
    pub(crate) fn tunnel(client: &'c mut Client<'s>) -> Self {
        Self { client, leader: None, keeper: None, head: None, client_left: None, ended: false, stream: true }
    }

    /// Told to the cache, and to those who follow, as well. `stream`: without a length.
    #[must_use]
    pub(crate) fn led_by(mut self, leader: Option<Leader>, stream: bool) -> Self {
        (self.leader, self.stream) = (leader, stream);
        self
    }

    /// Keeps what goes by, if it is a response that its client may go on from.
    #[must_use]
    pub(crate) fn kept_by(mut self, keeper: Option<Box<ResponseKeeper>>) -> Self {
        self.keeper = keeper;
        self
    }

    /// `Err`: the client left, though the call may have gone on without it.
    pub(crate) fn close(self) -> (Option<Leader>, Option<ClientLeft>) {
        (self.leader.filter(|_| self.ended), self.client_left)
    }

    fn written(&mut self, outcome: Result<(), ClientLeft>, end: bool) -> Result<(), ClientLeft> {
        match outcome {
            Ok(()) => {}
            Err(left) if self.leader.as_ref().is_some_and(Leader::followed) => self.client_left = Some(left),
            Err(left) => return Err(left),
        }
        self.ended = end;
        Ok(())
    }
}

impl Sink for Downstream<'_, '_> {
    async fn during<T: Send>(&mut self, work: impl Future<Output = T> + Send) -> Result<T, ClientLeft> {
        self.client.during(self.leader.as_ref(), work).await
    }

    async fn write(&mut self, bytes: Bytes, end: bool) -> Result<(), ClientLeft> {
        let head = self.head.take();
        if let Some(leader) = &mut self.leader {
            if let Some(head) = &head {
                leader.begin(beginning(head, self.stream));
            }
            leader.push(&bytes);
        }
        if let Some(keeper) = &mut self.keeper {
            Box::pin(keeper.piece(&bytes)).await;
        }
        if self.client_left.is_some() {
            self.ended = end;
            return Ok(());
        }
        let piece = (!bytes.is_empty()).then_some(bytes);
        let written = match head {
            Some(head) => self.client.begin(head, piece, end).await,
            None if piece.is_none() && !end => Ok(()),
            None => self.client.piece(piece, end).await,
        };
        self.written(written, end)
    }

    async fn comment(&mut self) -> Result<(), ClientLeft> {
        if self.client_left.is_some() {
            return Ok(());
        }
        let written = self.client.piece(Some(COMMENT), false).await;
        self.written(written, false)
    }

    fn has_begun(&self) -> bool {
        self.head.is_none()
    }
}

/// How an answer begins, as an entry of the cache keeps it.
pub(crate) fn beginning(head: &ResponseHeader, stream: bool) -> AnswerHead {
    let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    AnswerHead { status: head.status.as_u16(), content_type: content_type.to_owned(), stream }
}
