//! The card of an agent as its clients see it, which leads to the gateway.

use super::target::{AgentServed, AgentStop};
use crate::proxy::client::{Client, ClientLeft, settle_unread_body};
use crate::proxy::deliver::own_head;
use crate::proxy::mcp::McpParts;
use crate::proxy::request::Request;
use bytes::Bytes;
use gateway_admin::public_agent_card;
use gateway_domain::{Fault, FaultKind};
use gateway_mcp::session::fingerprint;
use http::{HeaderValue, Method, header};
use pingora::proxy::Session;

/// How long clients may keep it, in a key's own name.
const KEPT: HeaderValue = HeaderValue::from_static("private, max-age=300");

pub(super) async fn answer(
    parts: McpParts<'_>,
    session: &mut Session,
    request: &Request,
    served: &AgentServed,
) -> Result<(), AgentStop> {
    let missing = |why: &'static str| AgentStop::Refused(Fault::new(FaultKind::UnknownRoute, why));
    let base = parts.state.settings.public_url.as_deref();
    let base = base.ok_or_else(|| missing("Not Found: cards need --public-url, the gateway's own address"))?;
    let card = public_agent_card(&served.agent, &served.upstream, base);
    let card = card.ok_or_else(|| missing("Not Found: the agent has given no card yet"))?.to_string();
    let tag = format!("\"{}\"", fingerprint(&card));
    let known = session.req_header().headers.get(header::IF_NONE_MATCH);
    let is_known = known.and_then(|known| known.to_str().ok()).is_some_and(|known| {
        known.split(',').map(|one| one.trim().trim_start_matches("W/")).any(|one| one == tag || one == "*")
    });
    let is_head = request.ask.method == Method::HEAD;
    let sent = send(parts, session, request, CardAnswer { card, tag, is_known, is_head }).await;
    sent.map_err(|left| AgentStop::Gone(left.into_error()))
}

struct CardAnswer {
    card: String,
    tag: String,
    is_known: bool,
    is_head: bool,
}

async fn send(
    parts: McpParts<'_>,
    session: &mut Session,
    request: &Request,
    answer: CardAnswer,
) -> Result<(), ClientLeft> {
    let mut client = Client::new(session);
    let mut head = own_head(&parts.calls.delivery.names, if answer.is_known { 304 } else { 200 }, request);
    let mut put = |name, value| head.insert_header(name, value).map_err(ClientLeft::Gone);
    put(header::CACHE_CONTROL, KEPT)?;
    if let Ok(tag) = HeaderValue::from_str(&answer.tag) {
        put(header::ETAG, tag)?;
    }
    if !answer.is_known {
        put(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))?;
    }
    settle_unread_body(client.session()).await;
    client.begin_answer(parts.calls.delivery.settings.idle_timeout);
    let is_empty = answer.is_known || answer.is_head;
    client.whole(head, if is_empty { Bytes::new() } else { answer.card.into() }).await
}
