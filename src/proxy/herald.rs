//! Comments in a stream that has not begun, for clients that ask for them: the first commits the 200, so what fails
//! after it is told in-band. Nothing is said without being asked, nor of calls that pass through untouched.

use super::Gateway;
use super::attempt::Tried;
use super::pulse::COMMENT;
use super::reply;
use super::request::Request;
use super::wire::{WireError, client_gone};
use gateway_domain::Operation;
use http::{HeaderValue, header};
use pingora::http::ResponseHeader;
use pingora::protocols::http::{HttpTask, ServerSession};
use pingora::{Error, ErrorType};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Herald {
    every: Duration,
    spoke: Instant,
    /// Until it went down.
    head: Option<Box<ResponseHeader>>,
    /// A comment was given up in the middle of being written.
    torn: bool,
    /// Bytes of comments.
    pub(crate) said: u64,
}

impl Herald {
    pub(crate) fn of(gateway: &Gateway, request: &Request) -> Option<Self> {
        let route = &request.route;
        let streams = matches!(
            route.operation,
            Operation::ChatCompletions | Operation::Completions | Operation::Messages | Operation::Responses
        );
        let wanted = request.headers.early_keepalive && request.content.stream && streams && !route.raw;
        let every = gateway.settings.stream_keepalive.filter(|_| wanted)?;
        let mut head = reply::bare_head(200);
        let told = head.insert_header(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        debug_assert!(told.is_ok(), "a constant header");
        reply::announce(gateway, &mut head, request);
        Some(Self { every, spoke: Instant::now(), head: Some(head), torn: false, said: 0 })
    }

    /// The client has its 200.
    pub(crate) const fn has_begun(&self) -> bool {
        self.head.is_none()
    }

    /// Speaks whenever it is time to, until the client is gone. May be dropped at any point.
    pub(crate) async fn watch(&mut self, client: &mut ServerSession) -> Box<Error> {
        loop {
            let left = self.every.saturating_sub(self.spoke.elapsed());
            tokio::select! { biased;
                gone = client_gone(client) => return gone,
                () = tokio::time::sleep(left) => {}
            }
            if let Err(gone) = self.speak(client).await {
                return gone;
            }
        }
    }

    /// What is dropped in the middle of a write leaves half a comment behind: only a client that does not read
    /// makes one wait.
    async fn speak(&mut self, client: &mut ServerSession) -> Result<(), Box<Error>> {
        if self.torn {
            return Err(lost());
        }
        self.torn = true;
        let mut tasks = Vec::with_capacity(2);
        if let Some(mut head) = self.head.take() {
            super::deliver::frame(client, &mut head);
            tasks.push(HttpTask::Header(head, false));
        }
        tasks.push(HttpTask::Body(Some(COMMENT), false));
        client.response_duplex_vec(tasks).await.map_err(Error::into_down)?;
        (self.torn, self.spoke) = (false, Instant::now());
        self.said += COMMENT.len() as u64;
        Ok(())
    }
}

fn lost() -> Box<Error> {
    Error::explain(ErrorType::WriteError, "the client takes nothing").into_down()
}

/// Nothing more can be said behind half a comment, whatever the target answered.
pub(crate) fn check(herald: Option<&Herald>, tried: &mut Tried) {
    if herald.is_some_and(|herald| herald.torn) {
        tried.answer = Err(WireError::ClientGone(lost()));
    }
}
