//! One request to the MCP server behind a target, over the checked dialler, and its answer as JSON or events. What the
//! upstream says of itself and of its own sign-in never reaches the client.

use super::accounts::is_sign_in_away;
use super::downstream::LastMessage;
use super::duplex::DuplexStream;
use super::request_head::ARGUMENT;
use super::state::McpState;
use super::target::McpTarget;
use crate::proxy::body::Permit;
use crate::proxy::exchange::CallParts;
pub(super) use crate::proxy::outbound::MOST_ANSWER;
use crate::proxy::outbound::{self, OutboundAsk, OutboundCalls};
use crate::upstream::Pass;
use crate::upstream::http1::{Response, SendError};
use bytes::Bytes;
use gateway_mcp::header::encoded;
use gateway_mcp::session::LONGEST_UPSTREAM;
use gateway_mcp::{RpcError, RpcId, RpcMessage};
use http::{HeaderName, HeaderValue, Method, header};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NOUN: &str = "MCP server";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
/// How long a word in passing may take: a session's end, a call's cancellation.
const BRIEF: Duration = Duration::from_secs(2);

/// What is asked of it.
#[derive(Clone, Debug)]
pub(super) struct UpstreamAsk {
    pub(super) method: Method,
    pub(super) body: Bytes,
    /// The version of the protocol; `None` before it is known.
    pub(super) version: Option<String>,
    pub(super) session: Option<String>,
    /// The modern era repeats these in headers.
    pub(super) rpc_method: Option<String>,
    pub(super) name: Option<String>,
    /// Arguments by the names of their headers, without what stands before all of them.
    pub(super) arguments: Vec<(String, String)>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// Parameters of `initialize`, for a session whose connection is not open on this node.
    pub(super) opening: Option<String>,
    /// Path and query, where they are not the upstream's own.
    pub(super) place: Option<String>,
    /// Set where somebody needs to know what it was sent with.
    pub(super) used: Option<UsedPass>,
}

/// What signed in the person in whose name something was sent.
#[derive(Clone, Debug, Default)]
pub(super) struct UsedPass(Arc<Mutex<Option<Pass>>>);

impl UsedPass {
    pub(super) fn get(&self) -> Option<Pass> {
        self.0.lock().clone()
    }
}

impl UpstreamAsk {
    pub(super) fn post(body: String) -> Self {
        Self {
            method: Method::POST,
            body: body.into(),
            version: None,
            session: None,
            rpc_method: None,
            name: None,
            arguments: Vec::new(),
            headers: Vec::new(),
            opening: None,
            place: None,
            used: None,
        }
    }
}

/// How it answered.
pub(super) enum UpstreamAnswer {
    /// 202, or anything else that says no more than that it was taken.
    Taken,
    Json(Bytes),
    Events(UpstreamStream),
    /// It does not know the session.
    SessionLost,
    /// It does not serve this method of HTTP.
    NotServed,
}

/// Events as they come.
pub(super) enum UpstreamStream {
    Http(Box<Response>),
    /// Events that come over a connection which carries other answers too.
    Duplex(DuplexStream),
}

impl UpstreamStream {
    /// The next piece; `None` at the end. Safe to drop, also as to the clock.
    pub(super) async fn read(&mut self) -> Result<Option<Bytes>, RpcError> {
        match self {
            Self::Http(response) => response.read().await.map_err(|e| fallen(&e)),
            Self::Duplex(stream) => stream.read().await,
        }
    }

    /// Stops the clock of silence: from now on the caller watches that.
    pub(super) const fn without_idle_clock(&mut self) {
        match self {
            Self::Http(response) => response.without_idle_clock(),
            Self::Duplex(stream) => stream.without_idle_clock(),
        }
    }

    /// Nobody reads on; what can be used again is kept.
    pub(super) fn release(self, pool_size: usize) {
        if let Self::Http(response) = self {
            response.release(pool_size);
        }
    }
}

/// An answer with the session that came with it.
pub(super) struct UpstreamReply {
    pub(super) answer: UpstreamAnswer,
    pub(super) session: Option<String>,
    /// Its bytes count with all that is held, until it was dealt with.
    pub(super) held: Permit,
}

/// Calls one upstream.
#[derive(Clone, Copy)]
pub(super) struct UpstreamCalls<'a> {
    pub(super) calls: &'a CallParts,
    pub(super) state: &'a McpState,
    pub(super) target: &'a McpTarget,
}

impl UpstreamCalls<'_> {
    pub(super) fn pool(&self) -> usize {
        self.calls.delivery.settings.upstream_pool_size
    }

    /// One that failed several times in a row is not asked for a while.
    pub(super) async fn send(&self, ask: &UpstreamAsk) -> Result<UpstreamReply, RpcError> {
        let (breakers, upstream) = (&self.state.breakers, &self.target.upstream);
        if let Some(left) = breakers.rests(upstream, Instant::now()) {
            let millis = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            let told =
                RpcError::own(503, "The MCP server failed several times in a row, and is left alone for a while");
            return Err(told.data(json!({"retry_after_ms": millis})));
        }
        if upstream.transport.stays_open() {
            return Box::pin(self.converse(ask)).await;
        }
        let opened = self.open(ask, self.state.settings.silence).await;
        let failed = match &opened {
            Ok(response) => response.status() >= 500,
            Err(error) => error.status >= 500 && !is_sign_in_away(error),
        };
        breakers.note(upstream, failed, Instant::now());
        let mut response = opened?;
        let session = match response.head().headers().get(SESSION) {
            Some(id) if id.len() > LONGEST_UPSTREAM || id.to_str().is_err() => {
                return Err(RpcError::own(502, "The MCP server issued a session that cannot be carried"));
            }
            Some(id) => id.to_str().ok().map(str::to_owned),
            None => None,
        };
        let mut held = Permit::new(&self.calls.delivery.budget);
        let status = response.status();
        let kind =
            response.head().headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if status == 200 && kind == "text/event-stream" {
            return Ok(UpstreamReply {
                answer: UpstreamAnswer::Events(UpstreamStream::Http(Box::new(response))),
                session,
                held,
            });
        }
        let body = read(&mut response, &mut held).await?;
        response.release(self.pool());
        let answer = match status {
            200 | 202 | 204 if body.is_empty() => UpstreamAnswer::Taken,
            202 => UpstreamAnswer::Taken,
            200 => UpstreamAnswer::Json(body),
            404 if ask.session.is_some() => UpstreamAnswer::SessionLost,
            405 => UpstreamAnswer::NotServed,
            _ => return Err(refusal(status, &body)),
        };
        Ok(UpstreamReply { answer, session, held })
    }

    /// Says something that needs no answer, and waits no longer than a moment.
    pub(super) async fn notify(&self, ask: &UpstreamAsk) {
        if self.target.upstream.transport.stays_open() {
            return drop(pingora_timeout::timeout(BRIEF, Box::pin(self.converse(ask))).await);
        }
        let told = pingora_timeout::timeout(BRIEF, self.open(ask, BRIEF)).await;
        if let Ok(Ok(response)) = told {
            response.discard(self.pool()).await;
        }
    }

    pub(super) async fn open(&self, ask: &UpstreamAsk, silence: Duration) -> Result<Response, RpcError> {
        if let Some(person) = self.target.person {
            return Box::pin(self.open_for(person, ask, silence)).await;
        }
        self.outbound().open(&self.asking(ask)?, silence).await
    }

    fn outbound(&self) -> OutboundCalls<'_> {
        OutboundCalls {
            calls: self.calls,
            upstream: &self.target.upstream,
            identity: self.target.identity.as_ref(),
            noun: NOUN,
        }
    }

    fn asking(&self, ask: &UpstreamAsk) -> Result<OutboundAsk, RpcError> {
        let headers = headers(ask).ok_or_else(|| RpcError::own(502, "The request cannot be sent to the MCP server"))?;
        let target = ask.place.clone().unwrap_or_else(|| self.target.upstream.target.clone());
        Ok(OutboundAsk { method: ask.method.clone(), target, headers, body: ask.body.clone() })
    }

    pub(super) async fn sent(
        &self,
        ask: &UpstreamAsk,
        silence: Duration,
        pass: Option<&Pass>,
    ) -> Result<Response, RpcError> {
        if let Some(used) = &ask.used {
            *used.0.lock() = pass.cloned();
        }
        self.outbound().sent(&self.asking(ask)?, silence, pass).await
    }
}

/// What the protocol says of a message in headers; `None`: one of them cannot be sent.
fn headers(ask: &UpstreamAsk) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let accept = if ask.method == Method::GET { "text/event-stream" } else { "application/json, text/event-stream" };
    let mut headers = vec![(header::ACCEPT, HeaderValue::from_static(accept))];
    if ask.method == Method::POST {
        headers.push((header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
    }
    let named =
        [("mcp-protocol-version", &ask.version), ("mcp-session-id", &ask.session), ("mcp-method", &ask.rpc_method)];
    for (name, value) in named {
        let Some(value) = value else { continue };
        headers.push((HeaderName::from_static(name), HeaderValue::from_str(value).ok()?));
    }
    if let Some(name) = &ask.name {
        headers.push((HeaderName::from_static("mcp-name"), HeaderValue::from_str(&encoded(name)).ok()?));
    }
    for (name, value) in &ask.arguments {
        let name = HeaderName::from_bytes(format!("{ARGUMENT}{name}").as_bytes()).ok()?;
        headers.push((name, HeaderValue::from_str(&encoded(value)).ok()?));
    }
    headers.extend(ask.headers.iter().cloned());
    Some(headers)
}

async fn read(response: &mut Response, held: &mut Permit) -> Result<Bytes, RpcError> {
    outbound::read(response, held, NOUN).await
}

pub(super) fn fallen(error: &SendError) -> RpcError {
    outbound::fallen(error, NOUN)
}

/// An answer of HTTP that is no success. A JSON-RPC error in it is told; a challenge to sign in is the gateway's
/// matter.
fn refusal(status: u16, body: &[u8]) -> RpcError {
    if matches!(status, 401 | 403) {
        return RpcError::own(502, format!("The MCP server refused the gateway's credentials ({status})"));
    }
    let text = std::str::from_utf8(body).unwrap_or_default().trim();
    if (400..500).contains(&status)
        && let Some(error) = parse_error(text)
    {
        return RpcError { status: if status == 404 { 404 } else { 400 }, ..error };
    }
    RpcError::own(502, format!("The MCP server answered {status}"))
}

/// The error that a body holds; its id may be missing or null.
fn parse_error(text: &str) -> Option<RpcError> {
    let object = gateway_mcp::RawObject::parse(text).ok()?;
    let error = object.object("error")?;
    let code = error.raw("code")?.parse::<i64>().ok()?;
    let message: String = error.text("message")?.chars().take(1000).collect();
    let data = error.raw("data").and_then(|data| serde_json::from_str(data).ok());
    Some(RpcError { data, ..RpcError::new(400, code, message) })
}

/// The response to this id that a body holds by itself.
pub(in crate::proxy) fn response_of(text: &str, id: &RpcId) -> Option<String> {
    let text = text.trim();
    matches!(RpcMessage::parse(text), Ok(RpcMessage::Response { id: of, .. }) if of.is(id.json()))
        .then(|| text.to_owned())
}

/// What a client is told where the upstream's answer is none.
pub(super) fn unreadable(id: &RpcId) -> LastMessage {
    LastMessage::error(&RpcError::own(502, "The MCP server's answer cannot be understood"), Some(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_stay_here_and_errors_are_told() {
        for status in [401, 403] {
            let body = br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"secret hint"}}"#;
            let error = refusal(status, body);
            assert_eq!((error.status, error.code), (502, 502));
            assert!(!error.message.contains("secret"));
        }
        let body = br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}"#;
        assert_eq!((refusal(400, body).status, refusal(400, body).code), (400, -32000));
        assert_eq!(refusal(422, body).status, 400);
        assert_eq!((refusal(500, body).status, refusal(400, b"<html>").status), (502, 502));
    }

    #[test]
    fn only_the_answer_to_what_was_asked_counts() {
        let id = RpcId::parse("7").expect("an id");
        assert!(response_of(r#" {"jsonrpc":"2.0","id":7,"result":{}} "#, &id).is_some());
        assert!(response_of(r#"{"jsonrpc":"2.0","id":8,"result":{}}"#, &id).is_none());
        assert!(response_of(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, &id).is_none());
        assert!(response_of("[]", &id).is_none());
    }
}
