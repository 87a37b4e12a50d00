//! What goes beside calls of several servers that are shown as one: their notices in one stream, the client's answers
//! to what one of them asked, and the end of all their sessions.

use super::McpTurn;
use super::answer::TICK;
use crate::proxy::client::ClientLeft;
use crate::proxy::mcp::event_budget::HeardEvents;
use crate::proxy::mcp::lists;
use crate::proxy::mcp::server_query::{McpTalk, WITHIN};
use crate::proxy::mcp::target::McpTarget;
use crate::proxy::mcp::upstream::{UpstreamAnswer, UpstreamAsk, UpstreamStream};
use crate::proxy::mcp::watch::{LOOK, ListWatch};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use gateway_mcp::sse::{EventTooLong, McpEvent};
use gateway_mcp::{RpcError, RpcMessage, merge};
use http::Method;
use std::pin::Pin;
use std::time::Instant;

/// Something that is done with one member while others do theirs.
type Beside<'t, T> = Pin<Box<dyn Future<Output = T> + Send + 't>>;

/// The stream of one member.
struct MemberStream<'a> {
    target: &'a McpTarget,
    response: UpstreamStream,
    events: HeardEvents,
}

/// A stream with what was read of it.
struct MemberRead<'a> {
    stream: MemberStream<'a>,
    read: Result<Option<Bytes>, RpcError>,
}

impl<'a> MemberStream<'a> {
    async fn read(mut self) -> MemberRead<'a> {
        let read = self.response.read().await;
        MemberRead { stream: self, read }
    }

    /// The next message, as the whole tells it. Places in the stream of one member are none in that of all.
    fn next_message(&mut self) -> Result<Option<McpEvent>, EventTooLong> {
        while let Some(event) = self.events.next_event()? {
            if let Some(event) = of_member(event, self.target) {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }
}

/// A member's event as clients of the whole read it; `None` where it says nothing but a place.
pub(super) fn of_member(event: McpEvent, target: &McpTarget) -> Option<McpEvent> {
    if event.data.is_empty() {
        return None;
    }
    let data = merge::message(&event.data, target.prefix(), &target.tag());
    Some(McpEvent { id: None, retry: None, data: data.unwrap_or(event.data), ..event })
}

impl<'a> McpTurn<'a, '_> {
    /// Members with a session of this client's.
    fn talks(&self) -> Vec<McpTalk<'a>> {
        if self.session.is_none() {
            return Vec::new();
        }
        self.served.targets.iter().map(|target| self.talk(target)).filter(|talk| talk.held().is_some()).collect()
    }

    /// Notices of all members. When the stream of one ends this one does, so that the client opens all of them anew.
    pub(super) async fn listen_to_members(&mut self) -> Result<(), ClientLeft> {
        let talks = self.talks();
        let mut opening: Vec<Beside<'_, Option<MemberStream<'a>>>> = Vec::with_capacity(talks.len());
        for talk in &talks {
            opening.push(Box::pin(stream_of(talk)));
        }
        let opened = self.down.client.during(None, join_all(opening)).await?;
        let mut reads: FuturesUnordered<Beside<'_, MemberRead<'a>>> = FuturesUnordered::new();
        for stream in opened.into_iter().flatten() {
            reads.push(Box::pin(stream.read()));
        }
        if reads.is_empty() {
            return self.down.error(&RpcError::own(405, "There is no stream to listen to"), None).await;
        }
        self.down.begin().await?;
        let (mut watch, mut quiet) = (ListWatch::new(self.parts, self.request, self.served), Instant::now());
        loop {
            if self.notify_of_changes(&mut watch).await? {
                break;
            }
            let read = self.down.client.during(None, pingora_timeout::timeout(LOOK, reads.next())).await?;
            let mut stream = match read {
                Err(_) if quiet.elapsed() < TICK => continue,
                Err(_) => {
                    self.down.comment_if_begun().await?;
                    quiet = Instant::now();
                    continue;
                }
                Ok(Some(MemberRead { mut stream, read: Ok(Some(piece)) })) => match stream.events.push(&piece) {
                    Ok(()) => stream,
                    Err(_) => break,
                },
                Ok(_) => break,
            };
            let broken = loop {
                match stream.next_message() {
                    Ok(Some(event)) => {
                        if lists::is_changed(&event.data) {
                            self.parts.state.forget_lists(&stream.target.upstream);
                        }
                        self.down.event(&event).await?;
                    }
                    Ok(None) => break false,
                    Err(EventTooLong) => break true,
                }
            };
            if broken {
                break;
            }
            reads.push(Box::pin(stream.read()));
        }
        self.down.finish().await
    }

    /// A client's answer goes to the member that asked, its notices to all.
    pub(super) async fn pass_on_to_members(
        &mut self,
        message: &RpcMessage<'_>,
    ) -> Result<Result<(), RpcError>, ClientLeft> {
        let mut talks = self.talks();
        let mut envelope = message.envelope().clone();
        match message {
            RpcMessage::Notification { method, .. } if method == "notifications/initialized" => return Ok(Ok(())),
            RpcMessage::Notification { .. } | RpcMessage::Request { .. } => {}
            RpcMessage::Response { id, .. } => {
                let Some((tag, own)) = merge::answered(id) else { return Ok(Ok(())) };
                talks.retain(|talk| talk.calls.target.tag() == tag);
                envelope.set("id", own.json());
            }
        }
        let body = envelope.to_json();
        let mut telling: Vec<Beside<'_, ()>> = Vec::with_capacity(talks.len());
        for talk in &talks {
            telling.push(Box::pin(notify(talk, &body)));
        }
        self.down.client.during(None, join_all(telling)).await?;
        Ok(Ok(()))
    }

    pub(super) async fn end_members(&self) {
        let talks = self.talks();
        let mut ending: Vec<Beside<'_, ()>> = Vec::with_capacity(talks.len());
        for talk in &talks {
            ending.push(Box::pin(end(talk)));
        }
        join_all(ending).await;
    }
}

/// The notices of one member; `None` where it has none.
async fn stream_of<'a>(talk: &McpTalk<'a>) -> Option<MemberStream<'a>> {
    let session = talk.held()?;
    let ask = UpstreamAsk { method: Method::GET, headers: talk.traced.clone(), ..session.post(String::new()) };
    let reply = pingora_timeout::timeout(WITHIN, talk.calls.send(&ask)).await.ok()?.ok()?;
    let UpstreamAnswer::Events(mut response) = reply.answer else { return None };
    response.without_idle_clock();
    let events = HeardEvents::new(&talk.calls.calls.delivery.budget);
    Some(MemberStream { target: talk.calls.target, response, events })
}

async fn notify(talk: &McpTalk<'_>, body: &str) {
    if let Some(session) = talk.held() {
        let ask = UpstreamAsk { headers: talk.traced.clone(), ..session.post(body.to_owned()) };
        talk.calls.notify(&ask).await;
    }
}

async fn end(talk: &McpTalk<'_>) {
    if let Some(session) = talk.held().filter(|session| session.id.is_some()) {
        talk.calls.notify(&UpstreamAsk { method: Method::DELETE, ..session.post(String::new()) }).await;
    }
    talk.state.forget_bridge(&talk.key);
}
