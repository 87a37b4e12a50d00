//! Calls of agents that speak A2A: one road for both bindings and versions, over the caller that intake made and the
//! checked dialler. Calls go to the registered address, whatever a card claims. Ids of tasks lead nobody but whom they
//! were given to. Knows no provider and no config.

mod call;
mod card;
mod ids;
mod message;
mod route;
mod stream;
mod target;

use super::body::{self, BodyError, BodyLimits, Permit};
use super::client::Client;
use super::mcp::McpParts;
use super::mcp::downstream::McpDown;
use super::mcp::identity;
use super::mcp::request_head::{MOST_BODY, posted};
use super::record::PendingRecords;
use super::request::Request;
use call::AgentTurn;
use gateway_domain::{Fault, FaultKind};
use gateway_mcp::RpcError;
use http::{HeaderName, HeaderValue};
use http::{Method, header};
use message::{AgentAsked, read};
use pingora::proxy::Session;
use route::{AgentRoute, version_of};
use target::AgentServed;
pub(crate) use target::AgentStop;

pub(crate) async fn serve(
    parts: McpParts<'_>,
    session: &mut Session,
    held: &mut Permit,
    request: &mut Request,
    records: &mut PendingRecords,
) -> Result<(), AgentStop> {
    let refused = AgentStop::Refused;
    if let Some(why) = parts.state.refuses_origin(session) {
        return Err(refused(Fault::new(FaultKind::Forbidden, why)));
    }
    let tenant = &request.caller.tenant;
    let mut served = AgentServed::of(tenant, &request.ask.route.path).map_err(refused)?;
    let headers = &session.req_header().headers;
    served.identity =
        identity::caller_header(parts, headers, tenant, (&served.upstream, call::NOUN)).map_err(refused)?;
    let version = version_of(headers, request.ask.route.query.as_deref());
    let route = AgentRoute::of(&request.ask.method, &served, &version).ok_or_else(|| {
        AgentStop::Refused(Fault::new(FaultKind::UnknownRoute, "Not Found: the agent has nothing at this path"))
    })?;
    let mut posted = posted(session);
    (posted.takes_json, posted.refused) = (true, None);
    if route == AgentRoute::Card {
        return card::answer(parts, session, request, &served).await;
    }
    let is_packed = request.ask.method == Method::POST && !is_json(session);
    if request.ask.method == Method::POST && !is_packed {
        let settings = &parts.calls.delivery.settings;
        let limits = BodyLimits { most: settings.max_body.min(MOST_BODY), time: settings.body_timeout };
        let bytes = match body::read(&mut session.downstream_session, limits, held).await {
            Ok(body) => body.bytes,
            Err(BodyError::Gone(e)) => return Err(AgentStop::Gone(e.into_down())),
            Err(BodyError::Invalid(fault, _) | BodyError::Refused(fault)) => return Err(refused(fault)),
        };
        request.ask.content.bytes = bytes;
    }
    let request = &*request;
    let extensions = extensions(session);
    let down = McpDown::new(Client::new(session), parts, request, &posted);
    let bytes = request.ask.content.bytes.clone();
    let mut turn = AgentTurn { parts, request, served: &served, posted: &posted, extensions, records, down };
    if is_packed {
        let error = RpcError::own(415, "The body must be application/json");
        let done = turn.refuse(&error, &AgentAsked::unread(&route, None, &version)).await;
        return done.map_err(|left| AgentStop::Gone(left.into_error()));
    }
    let asked = read(&route, &bytes, &version);
    let done = match asked {
        Ok(asked) => turn.answer(&asked).await,
        Err(bad) => turn.refuse(&bad.error, &AgentAsked::unread(&route, bad.id, &version)).await,
    };
    done.map_err(|left| AgentStop::Gone(left.into_error()))
}

/// What the client says of extensions that it can do.
fn extensions(session: &Session) -> Vec<(HeaderName, HeaderValue)> {
    let headers = &session.req_header().headers;
    let named = ["a2a-extensions", "x-a2a-extensions"].map(HeaderName::from_static);
    named.into_iter().filter_map(|name| Some((name.clone(), headers.get(name)?.clone()))).collect()
}

/// JSON by one of the names that the protocol has for it, and not packed: a page of another origin cannot send that
/// unasked.
fn is_json(session: &Session) -> bool {
    let headers = &session.req_header().headers;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let packed = headers.get(header::CONTENT_ENCODING).is_some_and(|v| !v.as_bytes().eq_ignore_ascii_case(b"identity"));
    !packed && ["application/json", "application/a2a+json"].iter().any(|kind| essence.eq_ignore_ascii_case(kind))
}
