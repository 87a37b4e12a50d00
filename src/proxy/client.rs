//! The client of one exchange: the only owner of its connection. It sends what is answered, reads a body that streams
//! up, speaks while an answer is awaited, and notices when the client leaves. Knows no provider and no config.

mod early_keepalive;
mod response_writer;
mod upload;

pub(crate) use early_keepalive::EarlyKeepalive;
pub(crate) use response_writer::{SmallAnswer, answer_early, frame, linger, send_head, send_piece, settle_unread_body};
pub(crate) use upload::{Upload, framing};

use crate::cache::Leader;
use crate::connections;
use bytes::Bytes;
use pingora::http::ResponseHeader;
use pingora::protocols::http::ServerSession;
use pingora::proxy::Session;
use pingora::{Error, ErrorType};
use std::time::Duration;
use tokio::sync::watch;

/// A line that every reader of event streams skips; only ever sent between two events.
pub(crate) const COMMENT: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// Why nobody waits for an answer any more.
#[derive(Debug)]
pub(crate) enum ClientLeft {
    /// The connection was closed, reset, or cannot be written to.
    Gone(Box<Error>),
    /// It is still there, but sends no more of the body that it announced.
    Silent,
    /// It was cut off from an answer that broke on its way.
    CutOff(&'static str),
}

impl ClientLeft {
    /// The error that Pingora is told.
    pub(crate) fn into_error(self) -> Box<Error> {
        match self {
            Self::Gone(e) => e.into_down(),
            Self::Silent => Error::explain(ErrorType::ReadTimedout, "the client sends nothing").into_down(),
            Self::CutOff(why) => Error::explain(ErrorType::ConnectionClosed, why).into_up(),
        }
    }
}

pub(crate) struct Client<'a> {
    session: &'a mut Session,
    /// The body of its request, where that streams up.
    upload: Option<Upload>,
    /// Comments for a client that waits for its stream to begin.
    early: Option<EarlyKeepalive>,
    /// Set where it has its answer, and what is said goes elsewhere: true once nobody reads that any more.
    elsewhere: Option<watch::Receiver<bool>>,
    /// Header lines beside the next head, each with its end.
    lines: Vec<u8>,
}

impl<'a> Client<'a> {
    pub(crate) fn new(session: &'a mut Session) -> Self {
        Self { session, upload: None, early: None, elsewhere: None, lines: Vec::new() }
    }

    pub(crate) fn set_upload(&mut self, upload: Upload) {
        self.upload = Some(upload);
    }

    pub(crate) fn set_early_keepalive(&mut self, early: Option<EarlyKeepalive>) {
        self.early = early;
    }

    /// Answers over another stream: from now on what counts is that stream's end, not this client's leaving.
    pub(crate) fn answer_elsewhere(&mut self, over: watch::Receiver<bool>) {
        self.elsewhere = Some(over);
    }

    /// Where header lines are written that go out beside the next head; `None`: this connection has heads of another
    /// form.
    pub(crate) fn lines(&mut self) -> Option<&mut Vec<u8>> {
        connections::takes_lines(&self.session.downstream_session).then_some(&mut self.lines)
    }

    async fn send_head(
        &mut self,
        head: Box<ResponseHeader>,
        first: Option<Bytes>,
        end: bool,
    ) -> Result<(), ClientLeft> {
        if !self.lines.is_empty() {
            connections::put_beside(&self.session.downstream_session, std::mem::take(&mut self.lines));
        }
        let sent = send_head(self.session, head, first, end).await;
        if sent.is_err() {
            // Whatever is said after that has headers of its own.
            connections::put_beside(&self.session.downstream_session, Vec::new());
        }
        sent.map_err(ClientLeft::Gone)
    }

    pub(crate) fn session(&mut self) -> &mut Session {
        self.session
    }

    pub(crate) fn view(&self) -> &Session {
        self.session
    }

    pub(crate) fn upload(&self) -> Option<&Upload> {
        self.upload.as_ref()
    }

    /// What was asked can be sent once more.
    pub(crate) fn can_repeat(&self) -> bool {
        self.upload.as_ref().is_none_or(Upload::can_repeat)
    }

    /// Everybody waits for the client's body.
    pub(crate) fn is_awaited(&self) -> bool {
        self.upload.as_ref().is_some_and(Upload::is_awaited)
    }

    /// A 200 and comments went down before there was an answer.
    pub(crate) fn has_begun(&self) -> bool {
        self.early.as_ref().is_some_and(EarlyKeepalive::has_begun)
    }

    /// Bytes of such comments.
    pub(crate) fn bytes_before(&self) -> u64 {
        self.early.as_ref().filter(|early| early.has_begun()).map_or(0, EarlyKeepalive::bytes)
    }

    /// Does `work` for as long as somebody wants it: until the client has left and nobody follows the leader's call
    /// either. Meanwhile the client's body is read on, as far as the call asks for it, and the client is spoken to.
    /// This is the only place that watches for a client that leaves; `work` must be safe to drop. Work of the hot path
    /// is pinned where it is made, since it is copied, all of it, each time that it is handed on.
    pub(crate) async fn during<T>(
        &mut self,
        leader: Option<&Leader>,
        work: impl Future<Output = T>,
    ) -> Result<T, ClientLeft> {
        let done = tokio::select! { biased;
            done = work => done,
            left = self.left(leader) => return Err(left),
        };
        // Nothing more can be said behind half a comment.
        if self.early.as_ref().is_some_and(EarlyKeepalive::is_half_written) {
            return Err(ClientLeft::Gone(early_keepalive::unwritable()));
        }
        Ok(done)
    }

    async fn left(&mut self, leader: Option<&Leader>) -> ClientLeft {
        if let Some(over) = &mut self.elsewhere {
            let _ = over.wait_for(|over| *over).await;
            return ClientLeft::Gone(Error::explain(ErrorType::ConnectionClosed, "the client's stream has ended"));
        }
        if let Some(head) = self.early.as_mut().and_then(EarlyKeepalive::head_to_come)
            && let Err(e) = self.session.downstream_modules_ctx.response_header_filter(head, false).await
        {
            return ClientLeft::Gone(e);
        }
        let session = &mut *self.session.downstream_session;
        let left = match (&mut self.early, &self.upload) {
            (_, Some(upload)) => upload.feed(session).await,
            (Some(early), None) => ClientLeft::Gone(early.run(session).await),
            (None, None) => ClientLeft::Gone(gone(session).await),
        };
        if let Some(leader) = leader {
            leader.without_followers().await;
        }
        left
    }

    /// Begins the answer: from now on a write may take no longer than `longest`. A connection whose request is still on
    /// its way is not used again.
    pub(crate) fn begin_answer(&mut self, longest: Duration) {
        if self.upload.as_ref().is_some_and(|upload| !upload.has_ended()) {
            self.session.downstream_session.set_keepalive(None);
        }
        self.session.downstream_session.set_write_timeout(Some(longest));
    }

    /// Head and first bytes in one write. Behind early comments the head is dropped: the client has one.
    pub(crate) async fn begin(
        &mut self,
        mut head: Box<ResponseHeader>,
        first: Option<Bytes>,
        end: bool,
    ) -> Result<(), ClientLeft> {
        if self.has_begun() {
            self.lines.clear();
            return match (first, end) {
                (None, false) => Ok(()),
                (first, end) => self.piece(first, end).await,
            };
        }
        frame(&self.session.downstream_session, &mut head);
        self.send_head(head, first, end).await
    }

    /// A head by itself.
    pub(crate) async fn head(&mut self, head: Box<ResponseHeader>, end: bool) -> Result<(), ClientLeft> {
        self.send_head(head, None, end).await
    }

    /// The connection has become another: all that the client says from now on goes up.
    pub(crate) fn open_upload(&mut self) {
        if let Some(upload) = &self.upload {
            upload.open(&mut self.session.downstream_session);
        }
    }

    /// Opens the connection for a caller that reads the client itself and hands on what goes up. `None`: no body
    /// streams up.
    pub(crate) fn open_session(&mut self) -> Option<Upload> {
        self.open_upload();
        self.upload.clone()
    }

    pub(crate) async fn piece(&mut self, piece: Option<Bytes>, end: bool) -> Result<(), ClientLeft> {
        send_piece(self.session, piece, end).await.map_err(ClientLeft::Gone)
    }

    /// An answer of known length, in one write.
    pub(crate) async fn whole(&mut self, mut head: Box<ResponseHeader>, body: Bytes) -> Result<(), ClientLeft> {
        head.set_content_length(body.len()).map_err(ClientLeft::Gone)?;
        let head_only = self.session.req_header().method == http::Method::HEAD || body.is_empty();
        let body = (!head_only).then_some(body);
        self.send_head(head, body, true).await
    }

    /// Ends the connection without an end of the answer: the client must not take what it has for the whole.
    pub(crate) async fn cut(&mut self) {
        // What was written still goes out; a client that takes nothing has all of it dropped with the connection.
        const LONGEST: Duration = Duration::from_millis(500);
        let _ = pingora_timeout::timeout(LONGEST, self.session.downstream_session.shutdown()).await;
    }
}

/// Resolves when the client has closed. A half-close counts as leaving, as it does in Pingora's own proxy.
pub(crate) async fn gone(session: &mut ServerSession) -> Box<Error> {
    connections::watch(session);
    loop {
        match session.read_body_or_idle(true).await {
            Err(e) => return e,
            Ok(None) => return Error::explain(ErrorType::ConnectionClosed, "client closed"),
            Ok(Some(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests;
