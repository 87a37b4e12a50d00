//! What a connection is made of: the stream of events of an address and the address that it named for what is sent, or
//! the two ends of a program. Both carry one message at a time, and know nothing of what it says.

use crate::proxy::mcp::upstream::{UpstreamAsk, UpstreamCalls, UsedPass, fallen};
use crate::proxy::outbound::{self, OutboundAsk};
use crate::upstream::http1::{self, PeerTimeouts, RequestBody, Response};
use crate::upstream::{Credentials, Dialer, ProgramInput, ProgramOutput};
use gateway_domain::snapshot::McpUpstream;
use gateway_mcp::RpcError;
use gateway_mcp::sse::McpEvents;
use gateway_providers::BodyPieces;
use http::{HeaderName, HeaderValue, Method, header};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// How long the server may keep the gateway waiting, at each step, when a message of the gateway's own is sent.
const BRIEF: Duration = Duration::from_secs(2);

pub(super) enum Wire {
    Sse(SseWire),
    Program(ProgramInput),
}

/// Where messages are sent, and as whom.
pub(super) struct SseWire {
    pub(super) endpoint: String,
    pub(super) upstream: Arc<McpUpstream>,
    pub(super) dialer: Arc<Dialer>,
    pub(super) credentials: Arc<Credentials>,
    /// The identity and credential of the last message. The gateway's own messages go with them: one connection belongs
    /// to one caller.
    pub(super) last: Mutex<LastSender>,
}

#[derive(Default)]
pub(super) struct LastSender {
    pub(super) identity: Option<(HeaderName, HeaderValue)>,
    pub(super) pass: UsedPass,
}

impl Wire {
    pub(super) async fn send(
        &self,
        calls: &UpstreamCalls<'_>,
        text: String,
        traced: &[(HeaderName, HeaderValue)],
    ) -> Result<(), RpcError> {
        let silence = calls.state.settings.silence;
        match self {
            Self::Sse(wire) => wire.send(calls, text, traced).await,
            Self::Program(input) => match pingora_timeout::timeout(silence, input.send(in_a_line(&text))).await {
                Ok(true) => Ok(()),
                Ok(false) => Err(RpcError::own(502, "The MCP server broke off: its program has ended")),
                Err(_) => Err(RpcError::own(408, "The MCP server took nothing in time")),
            },
        }
    }

    /// A word of the gateway's own; whether it arrives is nobody's concern.
    pub(super) async fn note(&self, text: String) {
        match self {
            Self::Sse(wire) => drop(pingora_timeout::timeout(BRIEF, wire.note(text)).await),
            Self::Program(input) => drop(input.try_send(in_a_line(&text))),
        }
    }
}

/// JSON holds line breaks between its parts alone.
fn in_a_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

impl SseWire {
    async fn send(
        &self,
        calls: &UpstreamCalls<'_>,
        text: String,
        traced: &[(HeaderName, HeaderValue)],
    ) -> Result<(), RpcError> {
        let used = {
            let mut last = self.last.lock();
            last.identity.clone_from(&calls.target.identity);
            last.pass.clone()
        };
        let ask = UpstreamAsk {
            place: Some(self.endpoint.clone()),
            used: Some(used),
            headers: traced.to_vec(),
            ..UpstreamAsk::post(text)
        };
        let response = calls.open(&ask, calls.state.settings.silence).await?;
        let status = response.status();
        response.discard(calls.pool()).await;
        match status {
            200..=299 => Ok(()),
            401 | 403 => {
                Err(RpcError::own(502, format!("The MCP server refused the gateway's credentials ({status})")))
            }
            _ => Err(RpcError::own(502, format!("The MCP server answered {status}"))),
        }
    }

    async fn note(&self, text: String) -> Option<()> {
        let (identity, used) = {
            let last = self.last.lock();
            (last.identity.clone(), last.pass.get())
        };
        let pass = match &self.upstream.grant {
            Some(grant) => Some(self.credentials.token(grant).await.ok()?),
            None => used,
        };
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        let headers =
            vec![(header::ACCEPT, accept), (header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let ask = OutboundAsk { method: Method::POST, target: self.endpoint.clone(), headers, body: text.into() };
        let head = outbound::head(&self.upstream, identity.as_ref(), &ask, pass.as_ref()).ok()?;
        let origin = self.dialer.origin(&self.upstream.base).await.ok()?;
        let clocks = PeerTimeouts { first_byte: BRIEF, idle: BRIEF };
        let pieces = BodyPieces::One(ask.body);
        let sent = http1::send(&self.dialer, &origin, &head, RequestBody::Held(&pieces), clocks).await;
        sent.ok()?.discard(1).await;
        Some(())
    }
}

/// Where a server is heard.
pub(super) enum Hearing {
    Sse(Box<Response>, McpEvents),
    Program(ProgramOutput),
}

impl Hearing {
    /// The next message. `Err`: there is none any more, the rest of a sentence. Safe to drop.
    pub(super) async fn next(&mut self) -> Result<String, &'static str> {
        match self {
            Self::Program(output) => output.next().await.unwrap_or(Err("ended")),
            Self::Sse(response, events) => loop {
                match events.next_event() {
                    Ok(Some(event)) if event.event == "message" => return Ok(event.data),
                    Ok(Some(_)) => {}
                    Ok(None) => match response.read().await {
                        Ok(Some(piece)) => events.push(&piece),
                        Ok(None) | Err(_) => return Err("ended"),
                    },
                    Err(_) => return Err("said more than 4 MiB in one event"),
                }
            },
        }
    }
}

/// The first event of a stream, which must say where to send.
pub(super) async fn endpoint(response: &mut Response, events: &mut McpEvents) -> Result<String, RpcError> {
    let broken = |why: &str| RpcError::own(502, format!("The MCP server broke off: {why}"));
    loop {
        match events.next_event() {
            Ok(Some(event)) if event.event == "endpoint" => return Ok(event.data),
            Ok(Some(_)) => {}
            Ok(None) => match response.read().await.map_err(|e| fallen(&e))? {
                Some(piece) => events.push(&piece),
                None => return Err(broken("its stream ended without an endpoint")),
            },
            Err(too_long) => return Err(broken(&too_long.to_string())),
        }
    }
}
