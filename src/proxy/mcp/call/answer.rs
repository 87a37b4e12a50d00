//! The upstream's answer on its way down: what comes before it passes as it came, and of the last message the client
//! sees what it may see, in the form of its own era.

use super::{McpAsked, McpTurn, fan_out, parse_response};
use crate::proxy::body::Permit;
use crate::proxy::client::ClientLeft;
use crate::proxy::mcp::downstream::LastMessage;
use crate::proxy::mcp::event_budget::HeardEvents;
use crate::proxy::mcp::lists::ListKey;
use crate::proxy::mcp::target::McpTarget;
use crate::proxy::mcp::upstream::{
    UpstreamAnswer, UpstreamAsk, UpstreamCalls, UpstreamStream, response_of, unreadable,
};
use crate::proxy::mcp::watch::LOOK;
use crate::proxy::outbound::OutboundCalls;
use gateway_mcp::filter::{self, McpKind};
use gateway_mcp::{Era, McpVersion, RawObject, RpcError, RpcId, bridge, object};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The message that answers, and what it counts with among all that is held.
pub(super) struct AnsweringMessage {
    text: String,
    held: Option<Permit>,
}

/// How a subscription ends.
const COMPLETE: &str = r#"{"resultType":"complete"}"#;
/// Silence after which a client that waits for events hears that it is not forgotten.
pub(super) const TICK: Duration = Duration::from_secs(15);

impl McpTurn<'_, '_> {
    /// One request and its answer. `wire`: the id by which the upstream knows it.
    pub(super) async fn exchange(
        &mut self,
        asked: &McpAsked<'_>,
        wire: &RpcId,
        ask: &UpstreamAsk,
    ) -> Result<LastMessage, ClientLeft> {
        let lists = &self.parts.state.lists;
        let key = self.list_key(asked, ask);
        if let Some(kept) = key.as_ref().and_then(|key| lists.get(key, Instant::now())) {
            return Ok(self.seen(asked, &answered(asked, &kept)));
        }
        let calls = UpstreamCalls { calls: self.parts.calls, state: self.parts.state, target: self.target };
        let sending = pingora_timeout::timeout(self.parts.state.settings.longest, calls.send(ask));
        let reply = match self.down.client.during(None, sending).await?.unwrap_or_else(|_| Err(too_long())) {
            // What it holds counts until the answer is made of it.
            Ok(reply) => reply,
            Err(error) => {
                if let Some(told) = Box::pin(self.unconnected(asked, &error)).await? {
                    return Ok(told);
                }
                if error.status == 408 {
                    self.cancel(asked).await;
                }
                let stale = key.filter(|_| error.status >= 500 || error.status == 408);
                if let Some(kept) = stale.and_then(|key| lists.stale(&key, Instant::now())) {
                    return Ok(self.seen(asked, &answered(asked, &kept)));
                }
                return Ok(LastMessage::error(&error, Some(&asked.id)));
            }
        };
        if asked.method == "initialize" && ask.session.is_none() && !asked.is_modern() {
            self.issued = reply.session;
        }
        let AnsweringMessage { text, held } = match reply.answer {
            UpstreamAnswer::Json(bytes) => match parse_response(&String::from_utf8_lossy(&bytes), wire) {
                Ok(text) => AnsweringMessage { text, held: Some(reply.held) },
                Err(last) => return Ok(last),
            },
            UpstreamAnswer::Events(response) => match self.follow(asked, wire, response).await? {
                Ok(Some(answer)) => answer,
                Ok(None) => return Ok(LastMessage::elsewhere()),
                Err(error) => return Ok(LastMessage::error(&error, Some(&asked.id))),
            },
            UpstreamAnswer::SessionLost => return Ok(LastMessage::error(&RpcError::no_session(), Some(&asked.id))),
            UpstreamAnswer::Taken | UpstreamAnswer::NotServed => return Ok(unreadable(&asked.id)),
        };
        if let Some(key) = key
            && let Ok(envelope) = RawObject::parse(&text)
            && let Some(result) = envelope.raw("result")
        {
            lists.keep(key, result, Instant::now());
        }
        // Guardrails may look at it for long, and a batch waits for its other answers.
        let held = held.map(Arc::new);
        Ok(LastMessage { held, ..self.seen(asked, &text) })
    }

    /// Under which a list is kept; `None`: what is asked is none, or may be for one session alone.
    fn list_key(&self, asked: &McpAsked<'_>, ask: &UpstreamAsk) -> Option<ListKey> {
        if !self.parts.state.lists.are_kept() || ask.session.is_some() {
            return None;
        }
        let version = McpVersion::parse(ask.version.as_deref()?)?;
        ListKey::new(&self.target.upstream, version, &asked.method, asked.params().as_ref(), self.target.owner.clone())
    }

    /// Events until the one that answers. What comes before it goes down at once. `None`: the server ended the stream
    /// so that the client opens another where this one stopped.
    async fn follow(
        &mut self,
        asked: &McpAsked<'_>,
        wire: &RpcId,
        mut response: UpstreamStream,
    ) -> Result<Result<Option<AnsweringMessage>, RpcError>, ClientLeft> {
        let streams = asked.streams && self.down.takes_events && asked.method != "initialize";
        let (began, longest) = (Instant::now(), self.parts.state.settings.longest);
        self.has_places = false;
        let mut events = HeardEvents::new(&self.parts.calls.delivery.budget);
        if streams {
            self.down.begin().await?;
        }
        let mut waiting = Instant::now();
        // A subscription lasts, and may have nothing to say.
        let mut watch = self.watch_of(asked);
        if watch.is_some() {
            response.without_idle_clock();
        }
        loop {
            loop {
                let event = match events.next_event() {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(too_long) => {
                        return Ok(Err(RpcError::own(502, format!("The MCP server broke off: {too_long}"))));
                    }
                };
                self.has_places |= event.id.is_some();
                if let Some(text) = response_of(&event.data, wire) {
                    response.release(self.parts.calls.delivery.settings.upstream_pool_size);
                    return Ok(Ok(Some(AnsweringMessage { text, held: events.into_permit() })));
                }
                let event = match self.target.member {
                    Some(_) => fan_out::of_member(event, self.target),
                    None => Some(event),
                };
                if let Some(event) = event.filter(|_| streams) {
                    self.heard(&event.data);
                    self.down.event(&event).await?;
                }
            }
            if watch.is_none() && began.elapsed() > longest {
                self.has_places = false;
                self.cancel(asked).await;
                return Ok(Err(too_long()));
            }
            if let Some(watch) = &mut watch
                && self.notify_of_changes(watch).await?
            {
                return Ok(Ok(Some(AnsweringMessage { text: answered(asked, COMPLETE), held: None })));
            }
            let left = TICK.saturating_sub(waiting.elapsed()).max(Duration::from_millis(1));
            let left = if watch.is_some() { left.min(LOOK) } else { left };
            let read = self.down.client.during(None, pingora_timeout::timeout(left, response.read())).await?;
            match read {
                Err(_) if waiting.elapsed() < TICK => {}
                Err(_) => {
                    self.down.comment_if_begun().await?;
                    waiting = Instant::now();
                }
                Ok(Ok(Some(piece))) => match events.push(&piece) {
                    Ok(()) => waiting = Instant::now(),
                    Err(full) => return Ok(Err(full)),
                },
                Ok(Ok(None)) if self.has_places && streams && self.target.member.is_none() => return Ok(Ok(None)),
                Ok(Ok(None)) => {
                    return Ok(Err(RpcError::own(502, "The MCP server ended its stream without an answer")));
                }
                Ok(Err(error)) => {
                    if error.status == 408 {
                        self.has_places = false;
                        self.cancel(asked).await;
                    }
                    return Ok(Err(error));
                }
            }
        }
    }

    /// The response as the client sees it.
    pub(super) fn seen(&mut self, asked: &McpAsked<'_>, text: &str) -> LastMessage {
        let Ok(mut envelope) = RawObject::parse(text) else { return unreadable(&asked.id) };
        envelope.set("id", asked.id.json());
        let result = match envelope.raw("result") {
            None => return LastMessage { label: Some("mcp_error"), ..LastMessage::ok(envelope.to_json()) },
            Some(result) => result.to_owned(),
        };
        match self.shaped(asked, result) {
            Ok(result) => {
                envelope.set("result", result);
                LastMessage::ok(envelope.to_json())
            }
            Err(error) => LastMessage::error(&error, Some(&asked.id)),
        }
    }

    /// A failure without what the server was called with.
    pub(super) fn unquoted(&self, last: LastMessage) -> LastMessage {
        let McpTarget { upstream, identity, person, .. } = self.target;
        let outbound = OutboundCalls { calls: self.parts.calls, upstream, identity: identity.as_ref(), noun: "" };
        let pass = person.and_then(|person| self.parts.state.people()?.ready(person, upstream));
        let has_secrets = outbound.has_secrets() || pass.is_some();
        if !has_secrets || (last.label.is_none() && !is_failed(&last.body)) {
            return last;
        }
        LastMessage { body: outbound.unquoted(last.body, pass.as_ref()), ..last }
    }

    fn shaped(&mut self, asked: &McpAsked<'_>, mut result: String) -> Result<String, RpcError> {
        let broken = |why: &str| RpcError::own(502, format!("The MCP server's answer cannot be understood: {why}"));
        if let Some(kind) = McpKind::listed_by(&asked.method) {
            let (target, drift) = (self.target, &self.parts.state.drift);
            let allow =
                |name: &str, item: &str| target.allows(kind, name) && drift.sees(&target.upstream, kind, name, item);
            result = filter::filtered(&result, kind, &allow).map_err(broken)?.into_owned();
        }
        if asked.method == "initialize" {
            let mut object = RawObject::parse(&result).map_err(|_| broken("it is no object"))?;
            let upstream = object.text("protocolVersion").ok_or_else(|| broken("it names no version"))?;
            if McpVersion::parse(&upstream).is_none() {
                return Err(broken("its version is not known here"));
            }
            object.set_text("protocolVersion", asked.version.name());
            if let Some(told) = object.raw("capabilities").and_then(bridge::server_capabilities) {
                object.set("capabilities", told);
            }
            let issued = self.issued.take();
            let client = self.remember_client(asked);
            self.issue(issued, asked.version, (&upstream, client.as_deref()))?;
            return Ok(object.to_json());
        }
        if asked.method == "server/discover" {
            let mut object = RawObject::parse(&result).map_err(|_| broken("it is no object"))?;
            if let Some(told) = object.raw("capabilities").and_then(bridge::modern_capabilities) {
                object.set("capabilities", told);
            }
            object.set("supportedVersions", bridge::supported_versions());
            result = object.to_json();
        }
        let (client, upstream) = (asked.version.era(), self.target.era());
        if client == Era::Modern {
            result = self.of_begun(asked, result)?;
        }
        Ok(bridge::result(&result, client, upstream, &asked.method).unwrap_or(result))
    }
}

fn too_long() -> RpcError {
    RpcError::own(408, "The MCP server took longer than a call may")
}

/// A result as the answer to what was asked.
pub(super) fn answered(asked: &McpAsked<'_>, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, asked.id.json())
}

/// A tool that ran and failed says so in its result.
pub(super) fn is_failed(body: &str) -> bool {
    let failed = |body: &str| RawObject::parse(body).ok()?.object("result")?.raw("isError").map(|raw| raw == "true");
    failed(body).unwrap_or(false)
}

/// Bytes of the texts that an answer holds.
pub(super) fn texts(body: &str) -> usize {
    let count = |body: &str| {
        let envelope = RawObject::parse(body).ok()?;
        let result = envelope.object("result")?;
        let structured = result.raw("structuredContent").map_or(0, str::len);
        let content = result.raw("content").and_then(object::items).unwrap_or_default();
        let of = |item: &&str| {
            let item = RawObject::parse(item).ok()?;
            let embedded = item.object("resource").and_then(|r| r.text("text").map(|text| text.len()));
            Some(item.text("text").map_or(0, |text| text.len()) + embedded.unwrap_or(0))
        };
        Some(structured + content.iter().filter_map(of).sum::<usize>())
    };
    count(body).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_an_answer_are_counted() {
        let body = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"abcd"},
            {"type":"resource","resource":{"uri":"a:b","text":"ef"}},{"type":"image","data":"xxxx"}],
            "structuredContent":{"a":1}}}"#;
        assert_eq!(texts(body), 4 + 2 + 7);
        assert_eq!(texts("{}"), 0);
    }

    #[test]
    fn a_tool_that_failed_is_told_by_its_result() {
        assert!(is_failed(r#"{"result":{"isError":true}}"#) && !is_failed(r#"{"result":{"isError":false}}"#));
        assert!(!is_failed(r#"{"result":{}}"#) && !is_failed("x"));
    }
}
