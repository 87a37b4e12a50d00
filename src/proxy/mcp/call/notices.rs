//! Streams that stay open for what servers have to say by themselves, and what the gateway says in them: that lists are
//! others now. A stream ends when the process takes leave, or when its caller may not call any more.

use super::answer::TICK;
use super::{McpAsked, McpTurn};
use crate::proxy::client::ClientLeft;
use crate::proxy::mcp::downstream::LastMessage;
use crate::proxy::mcp::event_budget::HeardEvents;
use crate::proxy::mcp::guard::with_result;
use crate::proxy::mcp::lists;
use crate::proxy::mcp::upstream::{UpstreamAnswer, UpstreamCalls};
use crate::proxy::mcp::watch::{LOOK, ListWatch, WatchedLists};
use gateway_mcp::filter::{self, McpKind};
use gateway_mcp::sse::McpEvent;
use gateway_mcp::{Era, McpVersion, RpcError, RpcMessage};
use http::Method;
use std::borrow::Cow;
use std::time::Instant;

impl<'a> McpTurn<'a, '_> {
    /// What a request that stays open hears of changes made here; `None`: it is no such request.
    pub(super) fn watch_of(&self, asked: &McpAsked<'_>) -> Option<ListWatch<'a>> {
        (asked.method == "subscriptions/listen").then(|| {
            let watch = ListWatch::new(self.parts, self.request, self.served);
            watch.subscribed(asked.id.json(), asked.params().as_ref())
        })
    }

    /// A server that says that its lists are others is asked anew.
    pub(super) fn heard(&self, data: &str) {
        if lists::is_changed(data) {
            self.parts.state.forget_lists(&self.target.upstream);
        }
    }

    /// True: the stream is over.
    pub(super) async fn notify_of_changes(&mut self, watch: &mut ListWatch<'_>) -> Result<bool, ClientLeft> {
        if self.parts.state.is_draining() {
            return Ok(true);
        }
        match watch.look() {
            WatchedLists::Same => Ok(false),
            WatchedLists::Over => Ok(true),
            WatchedLists::Changed(notices) => {
                for notice in &notices {
                    self.down.event(notice).await?;
                }
                Ok(false)
            }
        }
    }

    /// A subscription where no server has one to pass on: what changes here is told, and what a server was found to
    /// offer when it was asked again.
    pub(super) async fn listen_here(&mut self, asked: &McpAsked<'_>) -> Result<LastMessage, ClientLeft> {
        let over = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"complete"}}}}"#, asked.id.json());
        let Some(mut watch) = self.watch_of(asked).filter(|_| asked.streams && self.down.takes_events) else {
            let error = RpcError::own(406, "A subscription is answered with events alone");
            return Ok(LastMessage::error(&error, Some(&asked.id)));
        };
        self.down.event(&watch.acknowledged()).await?;
        let mut quiet = Instant::now();
        while !self.notify_of_changes(&mut watch).await? {
            self.down.client.during(None, pingora_timeout::sleep(LOOK)).await?;
            if quiet.elapsed() >= TICK {
                self.down.comment_if_begun().await?;
                quiet = Instant::now();
            }
        }
        Ok(LastMessage::ok(over))
    }

    /// The answer to an earlier request, whose own stream ended before it, as it would have been there: without what
    /// the caller may not see, and judged. Everything else stays as it came.
    async fn as_answered(&mut self, event: McpEvent) -> Result<McpEvent, ClientLeft> {
        let Ok(RpcMessage::Response { id, envelope, .. }) = RpcMessage::parse(&event.data) else { return Ok(event) };
        let Some(result) = envelope.raw("result").map(str::to_owned) else { return Ok(event) };
        let (target, drift) = (self.target, &self.parts.state.drift);
        let mut seen = result.clone();
        for kind in McpKind::ALL {
            let allow =
                |name: &str, item: &str| target.allows(kind, name) && drift.sees(&target.upstream, kind, name, item);
            if let Ok(Cow::Owned(filtered)) = filter::filtered(&seen, kind, &allow) {
                seen = filtered;
            }
        }
        // Which tool it was is not known any more.
        let asked = McpAsked {
            id,
            method: "tools/call".to_owned(),
            envelope: &envelope,
            version: McpVersion::NEWEST_LEGACY,
            streams: true,
        };
        let answered = LastMessage::ok(with_result(&event.data, &seen));
        let judged = match self.guard_of(&asked, "").await? {
            Ok(mut guard) => self.judged_answer(&asked, answered, guard.as_mut()).await?,
            Err(refused) => refused,
        };
        Ok(McpEvent { data: judged.body, ..event })
    }

    /// The stream of notices that a legacy client listens to.
    pub(crate) async fn listen(&mut self) -> Result<(), ClientLeft> {
        let modern = self.posted.version().ok().flatten().is_some_and(McpVersion::is_modern_name);
        if self.served.is_merged() && !modern {
            return Box::pin(self.listen_to_members()).await;
        }
        if modern || self.target.era() == Era::Modern {
            return self.down.error(&RpcError::own(405, "There is no stream to listen to"), None).await;
        }
        let version = match self.legacy_version() {
            Ok(version) => version,
            Err(error) => return self.down.error(&error, None).await,
        };
        if self.is_detached() {
            return self.down.error(&RpcError::own(405, "There is no stream to listen to"), None).await;
        }
        let mut ask = self.asking(String::new(), version);
        ask.method = Method::GET;
        if let Some(last) = &self.posted.last_event {
            ask.headers.push((http::HeaderName::from_static("last-event-id"), last.clone()));
        }
        let calls = UpstreamCalls { calls: self.parts.calls, state: self.parts.state, target: self.target };
        let reply = self.down.client.during(None, calls.send(&ask)).await?;
        let mut response = match reply.map(|reply| reply.answer) {
            Ok(UpstreamAnswer::Events(response)) => response,
            Ok(UpstreamAnswer::SessionLost) => return self.down.error(&RpcError::no_session(), None).await,
            Ok(_) => return self.down.error(&RpcError::own(405, "There is no stream to listen to"), None).await,
            Err(error) => return self.down.error(&error, None).await,
        };
        response.without_idle_clock();
        self.down.begin().await?;
        let (mut events, mut quiet) = (HeardEvents::new(&self.parts.calls.delivery.budget), Instant::now());
        let mut watch = ListWatch::new(self.parts, self.request, self.served);
        loop {
            while let Ok(Some(event)) = events.next_event() {
                self.heard(&event.data);
                let event = self.as_answered(event).await?;
                self.down.event(&event).await?;
            }
            if self.notify_of_changes(&mut watch).await? {
                break;
            }
            let read = self.down.client.during(None, pingora_timeout::timeout(LOOK, response.read())).await?;
            match read {
                Err(_) if quiet.elapsed() < TICK => continue,
                Err(_) => self.down.comment_if_begun().await?,
                Ok(Ok(Some(piece))) if events.push(&piece).is_ok() => {}
                Ok(_) => break,
            }
            quiet = Instant::now();
        }
        self.down.finish().await
    }
}
