//! One request to what an integration leads to, an MCP server or an agent, over the checked dialler: with the gateway's
//! own sign-in, what the admin set, and what is told of whoever calls. Knows neither protocol.

use super::body::Permit;
use super::exchange::CallParts;
use crate::upstream::Pass;
use crate::upstream::http1::{self, Framing, PeerTimeouts, RequestBody, RequestHead, Response, SendError};
use bytes::{Bytes, BytesMut};
use gateway_domain::cloud::Grant;
use gateway_domain::snapshot::OutboundUpstream;
use gateway_mcp::RpcError;
use gateway_providers::BodyPieces;
use http::{HeaderName, HeaderValue, Method, header};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of one answer that is no stream.
pub(in crate::proxy) const MOST_ANSWER: usize = 16 << 20;

/// Where it goes, and as whom.
#[derive(Clone, Copy)]
pub(in crate::proxy) struct OutboundCalls<'a> {
    pub(in crate::proxy) calls: &'a CallParts,
    pub(in crate::proxy) upstream: &'a OutboundUpstream,
    /// What is told of whoever calls.
    pub(in crate::proxy) identity: Option<&'a (HeaderName, HeaderValue)>,
    /// What messages call it: `MCP server`.
    pub(in crate::proxy) noun: &'static str,
}

/// What is sent of the protocol's own.
#[derive(Clone, Debug)]
pub(in crate::proxy) struct OutboundAsk {
    pub(in crate::proxy) method: Method,
    /// Path and query.
    pub(in crate::proxy) target: String,
    pub(in crate::proxy) headers: Vec<(HeaderName, HeaderValue)>,
    pub(in crate::proxy) body: Bytes,
}

impl OutboundCalls<'_> {
    /// A token that is not taken is fetched anew, once: nothing was done with what was refused so.
    pub(in crate::proxy) async fn open(&self, ask: &OutboundAsk, silence: Duration) -> Result<Response, RpcError> {
        let Some(grant) = &self.upstream.grant else { return self.sent(ask, silence, None).await };
        let pass = self.token(grant).await?;
        let response = self.sent(ask, silence, Some(&pass)).await?;
        if response.status() != 401 {
            return Ok(response);
        }
        self.calls.credentials.refused(grant, &pass, Some(response.head().headers()));
        let next = self.token(grant).await?;
        if matches!((&pass, &next), (Pass::Header(before), Pass::Header(now)) if before == now) {
            return Ok(response);
        }
        response.discard(self.calls.delivery.settings.upstream_pool_size).await;
        self.sent(ask, silence, Some(&next)).await
    }

    /// What the token endpoint says is for the operator's log, and no caller's business.
    async fn token(&self, grant: &Arc<Grant>) -> Result<Pass, RpcError> {
        let told = |_| RpcError::own(502, format!("The gateway cannot sign in at the {}", self.noun));
        self.calls.credentials.token(grant).await.map_err(told)
    }

    /// Sends the request with this pass, or with none.
    pub(in crate::proxy) async fn sent(
        &self,
        ask: &OutboundAsk,
        silence: Duration,
        pass: Option<&Pass>,
    ) -> Result<Response, RpcError> {
        let unsendable = |_| RpcError::own(502, format!("The request cannot be sent to the {}", self.noun));
        let head = head(self.upstream, self.identity, ask, pass).map_err(unsendable)?;
        let dialer = &self.calls.dialer;
        let unreachable = |e: String| RpcError::own(503, format!("The {} cannot be reached: {e}", self.noun));
        let origin = dialer.origin(&self.upstream.base).await.map_err(|e| unreachable(e.to_string()))?;
        let clocks = PeerTimeouts { first_byte: silence, idle: silence };
        let pieces = BodyPieces::One(ask.body.clone());
        let sent = http1::send(dialer, &origin, &head, RequestBody::Held(&pieces), clocks).await;
        sent.map_err(|e| fallen(&e, self.noun))
    }
}

/// What no request can carry.
#[derive(Debug)]
pub(in crate::proxy) struct Unsendable;

pub(in crate::proxy) fn head(
    upstream: &OutboundUpstream,
    identity: Option<&(HeaderName, HeaderValue)>,
    ask: &OutboundAsk,
    pass: Option<&Pass>,
) -> Result<RequestHead, Unsendable> {
    let mut head = RequestHead::new(ask.method.clone(), &ask.target).map_err(|_| Unsendable)?;
    let authority = upstream.base.authority();
    head.set(header::HOST, HeaderValue::from_str(&authority).map_err(|_| Unsendable)?);
    head.set(header::USER_AGENT, HeaderValue::from_static(concat!("gateway/", env!("CARGO_PKG_VERSION"))));
    if ask.method == Method::POST {
        head.set_framing(Framing::Length(ask.body.len()));
    }
    for (name, value) in &ask.headers {
        head.set(name.clone(), value.clone());
    }
    if let Some(Pass::Header(value)) = pass {
        head.set(header::AUTHORIZATION, value.clone());
    }
    // The upstream's own headers come behind those of the request and of a sign-in, so that neither takes the place of
    // what the admin set. Behind them comes only the header that tells who calls.
    for (name, value) in &upstream.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Unsendable)?;
        let mut value = HeaderValue::from_str(value.expose()).map_err(|_| Unsendable)?;
        value.set_sensitive(true);
        head.set(name, value);
    }
    if let Some((name, value)) = identity {
        head.set(name.clone(), value.clone());
    }
    Ok(head)
}

/// A whole answer.
pub(in crate::proxy) async fn read(response: &mut Response, held: &mut Permit, noun: &str) -> Result<Bytes, RpcError> {
    let mut body = BytesMut::new();
    while !response.is_done() {
        let Some(piece) = response.read().await.map_err(|e| fallen(&e, noun))? else { break };
        if body.len() + piece.len() > MOST_ANSWER {
            return Err(RpcError::own(502, format!("The {noun}'s answer is longer than {MOST_ANSWER} bytes")));
        }
        body.extend_from_slice(&piece);
        held.grow_to(body.len()).map_err(|fault| RpcError::own(fault.status(), fault.message().to_owned()))?;
    }
    Ok(body.freeze())
}

pub(in crate::proxy) fn fallen(error: &SendError, noun: &str) -> RpcError {
    match error {
        SendError::NoConnection(why) => RpcError::own(503, format!("The {noun} cannot be reached: {why}")),
        SendError::Broken(why) => RpcError::own(502, format!("The {noun} broke off: {why}")),
        SendError::Silent => RpcError::own(408, format!("The {noun} said nothing in time")),
    }
}
