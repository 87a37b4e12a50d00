//! Calls of MCP servers: one road for every method, over the caller that intake made and the checked dialler. What a
//! list hides cannot be called; a tool call meets the policies of tools before it leaves. Knows no provider and no
//! config.

mod call;
mod door;
mod down;
mod gate;
mod guard;
mod note;
mod state;
mod upstream;

pub(crate) use state::{McpSettings, McpState};

use super::body::{self, BodyError, BodyLimits, Permit};
use super::client::Client;
use super::exchange::CallParts;
use super::record::PendingRecords;
use super::request::Request;
use call::McpTurn;
use door::{Posted, posted};
use down::McpDown;
use gateway_domain::id::UserId;
use gateway_domain::resource::mcp_reach::{McpPath, McpReach};
use gateway_domain::snapshot::{ManagedMcpServer, McpUpstream};
use gateway_domain::{Fault, FaultKind};
use gateway_mcp::session::{McpSession, principal};
use gateway_mcp::{Era, McpVersion, RpcError};
use http::{HeaderName, Method, header};
use pingora::Error;
use pingora::proxy::Session;
use std::sync::Arc;

/// What of the gateway such a call needs.
#[derive(Clone, Copy)]
pub(crate) struct McpParts<'a> {
    pub(crate) calls: &'a CallParts,
    pub(crate) state: &'a McpState,
}

/// Why nothing was answered here.
#[derive(Debug)]
pub(crate) enum McpStop {
    Refused(Fault),
    Gone(Box<Error>),
}

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The server that a path names, and what is behind it, for a caller who may use it.
pub(crate) struct McpTarget {
    pub(crate) server: Arc<ManagedMcpServer>,
    pub(crate) upstream: Arc<McpUpstream>,
    /// What the caller's key is held to.
    reach: Option<Arc<McpReach>>,
    /// Stands for the caller in sessions.
    pub(crate) principal: String,
}

impl McpTarget {
    fn of(request: &Request) -> Result<Self, Fault> {
        let tenant = &request.caller.tenant;
        let slug = request.ask.route.path.trim_start_matches('/').strip_suffix("/mcp").unwrap_or_default();
        let missing = || Fault::new(FaultKind::UnknownRoute, "Not Found: there is no such MCP server");
        let reach = tenant.key.mcp_access.clone();
        let known = |s: &&Arc<ManagedMcpServer>| {
            s.active && *s.slug == *slug && reach.as_ref().is_none_or(|reach| reach.opens(slug))
        };
        let server = tenant.workspace.mcp_server(slug).filter(known).ok_or_else(missing)?;
        let upstream =
            tenant.world.snapshot.mcp_upstream(server.integration).filter(|u| u.open_to(tenant.workspace.id));
        let upstream = upstream.ok_or_else(missing)?;
        if !server.admits(tenant.key.owner.map(UserId)) {
            let why = format!("The MCP server `{}` is not open to this user", server.slug);
            return Err(Fault::new(FaultKind::Forbidden, why));
        }
        let principal = principal(&format!("key:{}", tenant.key.id));
        Ok(Self { server: server.clone(), upstream: upstream.clone(), reach, principal })
    }

    /// Whether the caller may use this, listed or called.
    pub(crate) fn allows(&self, kind: &str, name: &str) -> bool {
        let named = [McpPath { server: &self.server.slug, name }];
        self.upstream.allows(kind, name)
            && self.server.allows(kind, name)
            && self.reach.as_ref().is_none_or(|reach| reach.allows(&named))
    }

    /// How the upstream was last found to speak.
    pub(crate) fn era(&self) -> Era {
        McpVersion::parse(&self.upstream.speaks).map_or(Era::Legacy, McpVersion::era)
    }
}

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
    let target = McpTarget::of(request).map_err(McpStop::Refused)?;
    let posted = match request.ask.method {
        Method::POST => match door::content(session) {
            Ok(()) => posted(session),
            Err(status) => return plain(parts, session, request, status).await,
        },
        Method::GET => door::stream(session).map(|()| posted(session)).unwrap_or_else(Posted::refused),
        _ => posted(session),
    };
    if let Some(status) = posted.refused {
        return plain(parts, session, request, status).await;
    }
    if request.ask.method == Method::POST {
        let settings = &parts.calls.delivery.settings;
        let limits = BodyLimits { most: settings.max_body.min(door::MOST_BODY), time: settings.body_timeout };
        let bytes = match body::read(&mut session.downstream_session, limits, held).await {
            Ok(bytes) => bytes,
            Err(BodyError::Gone(e)) => return Err(McpStop::Gone(e.into_down())),
            Err(BodyError::Invalid(fault, _) | BodyError::Refused(fault)) => return Err(McpStop::Refused(fault)),
        };
        request.ask.content.bytes = bytes;
    }
    let method = request.ask.method.clone();
    let down = McpDown::new(Client::new(session), parts, request, &posted);
    let mut turn =
        McpTurn { parts, request, target: &target, posted: &posted, records, down, session: None, issued: None };
    let found = turn.find_session();
    let done = match (method, found) {
        (_, Err(error)) => turn.down.error(&error, None).await,
        (Method::GET, Ok(())) => turn.listen().await,
        (Method::DELETE, Ok(())) => turn.end_session().await,
        (_, Ok(())) => turn.post().await,
    };
    done.map_err(|left| McpStop::Gone(left.into_error()))
}

/// An answer that says no more than its status.
async fn plain(parts: McpParts<'_>, session: &mut Session, request: &Request, status: u16) -> Result<(), McpStop> {
    let posted = Posted::refused(status);
    let mut down = McpDown::new(Client::new(session), parts, request, &posted);
    let why = match status {
        405 => "This method is not served here",
        406 => "The client must accept application/json or text/event-stream",
        _ => "The body must be application/json",
    };
    let error = RpcError::own(status, why);
    down.error(&error, None).await.map_err(|left| McpStop::Gone(left.into_error()))
}

impl McpTurn<'_, '_> {
    /// Opens the session that the request names; the one that it may use.
    fn find_session(&mut self) -> Result<(), RpcError> {
        // The modern era knows no sessions, whatever an old client of the same name left behind.
        let modern = self.posted.version().ok().flatten().is_some_and(McpVersion::is_modern_name);
        let Some(id) = self.posted.session.as_ref().filter(|_| !modern) else { return Ok(()) };
        let state = self.parts.state;
        let server = self.target.server.id.to_string();
        let now = crate::clock::now().micros() / 1_000_000;
        let good = |session: &McpSession| session.is_good(&server, &self.target.principal, now) && !state.has_ended(id);
        let opened = McpSession::open(id, state).filter(good);
        self.session = Some(opened.ok_or_else(RpcError::no_session)?);
        Ok(())
    }
}

/// Of the client's head, all that is for the upstream too.
pub(crate) const TRACED: [HeaderName; 2] =
    [HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];

/// Not a header that a browser can send by itself, so that nobody is made to call.
pub(crate) const ACCEPT: HeaderName = header::ACCEPT;
