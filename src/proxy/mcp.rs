//! Calls of MCP servers: one road for every method, over the caller that intake made and the checked dialler. What a
//! list hides cannot be called; a tool call meets the policies of tools before it leaves. Knows no provider and no
//! config.

mod accounts;
mod authorization;
pub(in crate::proxy) mod breaker;
mod call;
pub(in crate::proxy) mod call_record;
pub(in crate::proxy) mod downstream;
mod drift;
mod duplex;
pub(in crate::proxy) mod event_budget;
mod figures;
pub(in crate::proxy) mod guard;
pub(in crate::proxy) mod identity;
mod legacy;
mod legacy_streams;
mod lists;
mod mailbox;
pub(in crate::proxy) mod request_head;
mod server_query;
mod sessionless_servers;
pub(in crate::proxy) mod state;
mod target;
pub(in crate::proxy) mod tool_policies;
pub(in crate::proxy) mod upstream;
mod watch;

pub(crate) use accounts::McpPeople;
pub(crate) use authorization::{McpAuthorization, McpChallenge};
pub(crate) use duplex::DuplexBounds;
pub(crate) use figures::McpFigures;
pub(crate) use legacy::{LegacyAsk, take as take_legacy};
pub(crate) use state::{McpSettings, McpState};

use super::body::{self, BodyError, BodyLimits, Permit};
use super::client::Client;
use super::exchange::CallParts;
use super::record::PendingRecords;
use super::request::Request;
use bytes::Bytes;
use call::McpTurn;
use downstream::McpDown;
use gateway_domain::{Fault, FaultKind};
use gateway_mcp::RpcError;
use gateway_mcp::session::McpSession;
use http::{HeaderName, Method, header};
use legacy::LegacyServing;
use pingora::Error;
use pingora::proxy::Session;
use request_head::{Posted, posted};
use target::McpServed;

/// What of the gateway such a call needs.
#[derive(Clone, Copy)]
pub(crate) struct McpParts<'a> {
    pub(crate) calls: &'a CallParts,
    pub(crate) state: &'a McpState,
    /// Set where a client of 2024-11-05 asks.
    pub(crate) legacy: Option<&'a LegacyAsk>,
}

/// Why nothing was answered here.
#[derive(Debug)]
pub(crate) enum McpStop {
    Refused(Fault),
    Gone(Box<Error>),
}

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

pub(crate) async fn serve(
    parts: McpParts<'_>,
    session: &mut Session,
    held: &mut Permit,
    request: &mut Request,
    records: &mut PendingRecords,
) -> Result<(), McpStop> {
    if let Some(why) = parts.state.refuses_origin(session) {
        return Err(McpStop::Refused(Fault::new(FaultKind::Forbidden, why)));
    }
    if let Some(authorization) = &parts.state.settings.authorization {
        authorization.check_audience(request).map_err(McpStop::Refused)?;
    }
    let tenant = &request.caller.tenant;
    let mut served = McpServed::of(tenant, &request.ask.route.path).map_err(McpStop::Refused)?;
    identity::identify(parts, &session.req_header().headers, tenant, &mut served).map_err(McpStop::Refused)?;
    if let Some(asked) = parts.legacy {
        let serving = LegacyServing { parts, request, served: &mut served, records };
        return match asked {
            LegacyAsk::Stream => Box::pin(serving.stream(session)).await,
            LegacyAsk::Message(id) => Box::pin(serving.message(session, id, held)).await,
        };
    }
    let posted = match request.ask.method {
        Method::POST => match request_head::content(session) {
            Ok(()) => posted(session),
            Err(status) => return plain(parts, session, request, status).await,
        },
        Method::GET => request_head::stream(session).map(|()| posted(session)).unwrap_or_else(Posted::refused),
        _ => posted(session),
    };
    if let Some(status) = posted.refused {
        return plain(parts, session, request, status).await;
    }
    let found = find_session(parts, &served, &posted);
    if let Ok(Some(session)) = &found {
        served.keep_session(session);
    }
    if request.ask.method == Method::POST {
        request.ask.content.bytes = read_message(parts, session, held).await?;
    }
    let method = request.ask.method.clone();
    let down = McpDown::new(Client::new(session), parts, request, &posted);
    let mut turn = McpTurn {
        parts,
        request,
        served: &served,
        target: &served.targets[0],
        called: &served.server,
        posted: &posted,
        records,
        down,
        session: found.as_ref().ok().cloned().flatten(),
        issued: None,
        has_places: false,
    };
    let done = match (method, found) {
        (_, Err(error)) => turn.down.error(&error, None).await,
        (Method::GET, Ok(_)) => turn.listen().await,
        (Method::DELETE, Ok(_)) => turn.end_session().await,
        (_, Ok(_)) => turn.post().await,
    };
    done.map_err(|left| McpStop::Gone(left.into_error()))
}

async fn read_message(parts: McpParts<'_>, session: &mut Session, held: &mut Permit) -> Result<Bytes, McpStop> {
    let settings = &parts.calls.delivery.settings;
    let limits = BodyLimits { most: settings.max_body.min(request_head::MOST_BODY), time: settings.body_timeout };
    match body::read(&mut session.downstream_session, limits, held).await {
        Ok(body) => Ok(body.bytes),
        Err(BodyError::Gone(e)) => Err(McpStop::Gone(e.into_down())),
        Err(BodyError::Invalid(fault, _) | BodyError::Refused(fault)) => Err(McpStop::Refused(fault)),
    }
}

/// An answer that says no more than its status.
async fn plain(parts: McpParts<'_>, session: &mut Session, request: &Request, status: u16) -> Result<(), McpStop> {
    let posted = Posted::refused(status);
    let mut down = McpDown::new(Client::new(session), parts, request, &posted);
    let why = match status {
        405 => "This method is not served here",
        406 => "The client must accept application/json or text/event-stream",
        400 => "The body must be one message of JSON-RPC",
        404 => "There is no such stream of this caller's: begin anew",
        503 => "As many streams or messages of clients are under way as may be",
        _ => "The body must be application/json",
    };
    let error = RpcError::own(status, why);
    down.error(&error, None).await.map_err(|left| McpStop::Gone(left.into_error()))
}

/// The session that the request names, which must be one that it may use.
fn find_session(parts: McpParts<'_>, served: &McpServed, posted: &Posted) -> Result<Option<McpSession>, RpcError> {
    let Some(id) = posted.session.as_ref().filter(|_| posted.names_session()) else { return Ok(None) };
    let state = parts.state;
    let server = served.server.id.to_string();
    let now = crate::clock::now().micros() / 1_000_000;
    let good = |session: &McpSession| session.is_good(&server, &served.principal, now) && !state.has_ended(id);
    McpSession::open(id, state).filter(good).map(Some).ok_or_else(RpcError::no_session)
}

/// The headers of the client that are passed on to the upstream.
pub(crate) const TRACED: [HeaderName; 2] =
    [HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];

/// Not a header that a browser can send by itself, so that nobody is made to call.
pub(crate) const ACCEPT: HeaderName = header::ACCEPT;
