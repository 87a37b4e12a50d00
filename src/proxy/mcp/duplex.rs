//! Servers that are spoken with over one connection that stays open: a stream of events (HTTP with SSE, 2024-11-05), or
//! a program on this machine. To the rest of this module they are servers that keep sessions and answer with events:
//! opening a session opens a connection, its requests go over that, and a reader of notices hears what belongs to none
//! of them. A session that has no connection on this node gets one, where it is known how it was begun.

mod conversation;
mod table;
mod wire;

pub(in crate::proxy) use conversation::DuplexStream;
pub(crate) use table::DuplexBounds;
pub(in crate::proxy) use table::DuplexTable;

use super::upstream::{UpstreamAnswer, UpstreamAsk, UpstreamCalls, UpstreamReply, UpstreamStream, UsedPass};
use crate::proxy::body::Permit;
use crate::upstream::{NoProgram, sse_endpoint};
use conversation::{ConversationAsk, DuplexConversation};
use gateway_domain::resource::mcp::{McpTransport, program_of};
use gateway_mcp::sse::McpEvents;
use gateway_mcp::{McpVersion, RawObject, RpcError, RpcId, RpcMessage, bridge};
use http::{Method, header};
use parking_lot::Mutex;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::{DuplexKey, full};
use wire::{Hearing, LastSender, SseWire, Wire};

/// The longest wait for the first event of a stream, which names the endpoint.
const ENDPOINT_WITHIN: Duration = Duration::from_secs(10);
/// How long a program that makes room has to end; `ROOM_LOOK` is the pause between two looks at that.
const ROOM_WITHIN: Duration = Duration::from_secs(5);
const ROOM_LOOK: Duration = Duration::from_millis(50);

/// How a connection comes to be.
enum ConnectionOpening<'o> {
    /// The client opens it with its own message.
    Bare,
    /// The gateway does, with these parameters of `initialize`.
    With(&'o str),
}

impl UpstreamCalls<'_> {
    /// Sends like [`Self::send`], over a connection that stays open.
    pub(super) async fn converse(&self, ask: &UpstreamAsk) -> Result<UpstreamReply, RpcError> {
        let held = Permit::new(&self.calls.delivery.budget);
        let reply = |answer, session| Ok(UpstreamReply { answer, session, held });
        let Some(session) = ask.session.as_deref() else {
            let (answer, session) = self.begin(ask).await?;
            return reply(answer, Some(session));
        };
        if ask.method == Method::DELETE {
            self.end(session);
            return reply(UpstreamAnswer::Taken, None);
        }
        if ask.method == Method::GET {
            let Some(open) = self.conversation(session, ask.opening.as_deref()).await? else {
                return reply(UpstreamAnswer::SessionLost, None);
            };
            let stream = DuplexStream::of_listener(open.listen(session));
            return reply(UpstreamAnswer::Events(UpstreamStream::Duplex(stream)), None);
        }
        let text = String::from_utf8_lossy(&ask.body);
        let message = RpcMessage::parse(&text).map_err(|bad| bad.error)?;
        let RpcMessage::Request { id, method, envelope } = &message else {
            // What is said beside requests is for a connection that is open: it opens none.
            if let Some(open) = self.found(session) {
                open.notify(self, session, (message.envelope(), &ask.headers)).await?;
            }
            return reply(UpstreamAnswer::Taken, None);
        };
        let Some(open) = self.conversation(session, ask.opening.as_deref()).await? else {
            return reply(UpstreamAnswer::SessionLost, None);
        };
        let asked = ConversationAsk { session, request: envelope, id, method, traced: &ask.headers };
        let stream = self.stream(&open, asked).await?;
        reply(UpstreamAnswer::Events(UpstreamStream::Duplex(stream)), None)
    }

    async fn stream(&self, open: &Arc<DuplexConversation>, ask: ConversationAsk<'_>) -> Result<DuplexStream, RpcError> {
        let call = open.ask(self, ask).await?;
        Ok(DuplexStream::of_call(call, self.state.settings.silence))
    }

    /// `initialize`: a session of the gateway's own making, and the server's answer.
    async fn begin(&self, ask: &UpstreamAsk) -> Result<(UpstreamAnswer, String), RpcError> {
        let text = String::from_utf8_lossy(&ask.body);
        let message = RpcMessage::parse(&text).map_err(|bad| bad.error)?;
        let RpcMessage::Request { id, method, envelope } = &message else {
            return Err(RpcError::invalid("Mcp-Session-Id is missing: this MCP server keeps sessions"));
        };
        if method != "initialize" {
            return Err(RpcError::invalid("Mcp-Session-Id is missing: this MCP server keeps sessions"));
        }
        let session = format!("{:032x}", rand::random::<u128>());
        if self.is_shared() {
            let open = self.conversation(&session, None).await?;
            let opened = open.and_then(|open| open.opened.lock().clone());
            let opened = opened.ok_or_else(|| RpcError::own(502, "The MCP server did not open"))?;
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{opened}}}"#, id.json());
            return Ok((UpstreamAnswer::Json(answer.into()), session));
        }
        let key = self.key(&session);
        let open = self.state.duplex.open(&key, self.connect(key.name, ConnectionOpening::Bare)).await?;
        let asked = ConversationAsk { session: &session, request: envelope, id, method, traced: &ask.headers };
        let stream = self.stream(&open, asked).await?;
        Ok((UpstreamAnswer::Events(UpstreamStream::Duplex(stream)), session))
    }

    fn end(&self, session: &str) {
        if self.is_shared() {
            if let Some(open) = self.found(session) {
                open.end_session(session);
            }
        } else {
            self.state.duplex.close(session);
        }
    }

    fn found(&self, session: &str) -> Option<Arc<DuplexConversation>> {
        self.state.duplex.find(&self.key(session))
    }

    /// The connection of a session; `None`: there is none, and nobody says how it was begun.
    async fn conversation(
        &self,
        session: &str,
        opening: Option<&str>,
    ) -> Result<Option<Arc<DuplexConversation>>, RpcError> {
        let key = self.key(session);
        if let Some(found) = self.state.duplex.find(&key) {
            return Ok(Some(found));
        }
        let own = bridge::initialize_params(McpVersion::NEWEST_LEGACY).to_string();
        let Some(opening) = (if self.is_shared() { Some(own.as_str()) } else { opening }) else { return Ok(None) };
        self.state.duplex.open(&key, self.connect(key.name, ConnectionOpening::With(opening))).await.map(Some)
    }

    fn is_shared(&self) -> bool {
        let name = program_of(&self.target.upstream.url);
        name.and_then(|name| self.state.duplex.programs.spec(name)).is_some_and(|spec| spec.shared)
    }

    fn key<'k>(&'k self, session: &'k str) -> DuplexKey<'k> {
        let upstream = &self.target.upstream;
        let name = if self.is_shared() { &*upstream.url } else { session };
        let mut place = DefaultHasher::new();
        (&*upstream.url, upstream.id.0, upstream.transport.stays_open()).hash(&mut place);
        for (name, value) in &upstream.headers {
            (name, value.expose()).hash(&mut place);
        }
        let is_program = upstream.transport == McpTransport::Stdio;
        // What all share is the same wherever it is named.
        let place = if self.is_shared() { 0 } else { place.finish() };
        DuplexKey { name, is_program, place }
    }

    /// Whether it was the server's fault counts for whether it is asked again.
    fn note(&self, failed: bool) {
        self.state.breakers.note(&self.target.upstream, failed, Instant::now());
    }

    async fn connect(&self, name: &str, opening: ConnectionOpening<'_>) -> Result<Arc<DuplexConversation>, RpcError> {
        let (wire, hearing) = if self.target.upstream.transport == McpTransport::Stdio {
            self.start().await?
        } else {
            let dialled = Box::pin(self.dial()).await;
            self.note(dialled.as_ref().is_err_and(|error| error.status >= 500));
            dialled?
        };
        let (bounds, shared) = (&self.state.duplex.bounds, self.is_shared());
        let told = DuplexConversation::new(wire, hearing, (self.key(name).place, shared), bounds.idle);
        let (open, attending) = (Arc::new(told.0), told.1);
        let (table, name, attended) = (Arc::downgrade(&self.state.duplex), name.to_owned(), open.clone());
        self.calls.delivery.background.spawn(async move {
            attended.attend(attending).await;
            if let Some(table) = table.upgrade() {
                table.remove(&name, &attended);
            }
        });
        if let ConnectionOpening::With(params) = opening
            && let Err(error) = self.initialize(&open, params).await
        {
            open.close();
            return Err(error);
        }
        Ok(open)
    }

    /// Sends `initialize` in the place of a client that did so elsewhere, or of all clients.
    async fn initialize(&self, open: &Arc<DuplexConversation>, params: &str) -> Result<(), RpcError> {
        let id = RpcId::of("g0");
        let text = format!(r#"{{"jsonrpc":"2.0","id":"g0","method":"initialize","params":{params}}}"#);
        let broken = |_| RpcError::own(502, "The MCP server's answer cannot be understood");
        let request = RawObject::parse(&text).map_err(broken)?;
        let asked = ConversationAsk { session: "", request: &request, id: &id, method: "initialize", traced: &[] };
        let stream = self.stream(open, asked).await?;
        let answered = super::server_query::answer_of(
            UpstreamStream::Duplex(stream),
            Permit::new(&self.calls.delivery.budget),
            &id,
        )
        .await?;
        *open.opened.lock() = Some(answered.into());
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let note = RawObject::parse(note).map_err(broken)?;
        open.notify(self, "", (&note, &[])).await
    }

    async fn dial(&self) -> Result<(Wire, Hearing), RpcError> {
        let broken = |why: &str| RpcError::own(502, format!("The MCP server broke off: it {why}"));
        let silence = self.state.settings.silence.min(ENDPOINT_WITHIN);
        let used = UsedPass::default();
        let ask = UpstreamAsk { method: Method::GET, used: Some(used.clone()), ..UpstreamAsk::post(String::new()) };
        let mut response = self.open(&ask, silence).await?;
        let kind = response.head().headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_stream = kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with("text/event-stream"));
        match response.status() {
            200 if is_stream => {}
            200 => return Err(broken("answered with no stream of events")),
            status @ (401 | 403) => {
                let why = format!("The MCP server refused the gateway's credentials ({status})");
                return Err(RpcError::own(502, why));
            }
            status => return Err(RpcError::own(502, format!("The MCP server answered {status}"))),
        }
        let mut events = McpEvents::default();
        let told = pingora_timeout::timeout(silence, wire::endpoint(&mut response, &mut events)).await;
        let told = told.map_err(|_| RpcError::own(408, "The MCP server named no endpoint in time"))??;
        let upstream = self.target.upstream.clone();
        let endpoint = sse_endpoint(&upstream.base, &upstream.target, &told).map_err(broken)?;
        response.without_idle_clock();
        let last = Mutex::new(LastSender { identity: self.target.identity.clone(), pass: used });
        let (dialer, credentials) = (self.calls.dialer.clone(), self.calls.credentials.clone());
        let wire = SseWire { endpoint, upstream, dialer, credentials, last };
        Ok((Wire::Sse(wire), Hearing::Sse(Box::new(response), events)))
    }

    /// One that had to make room for this one may not have ended yet.
    async fn start(&self) -> Result<(Wire, Hearing), RpcError> {
        let name = program_of(&self.target.upstream.url).unwrap_or_default();
        let began = Instant::now();
        loop {
            match self.state.duplex.programs.start(name) {
                Ok(program) => {
                    self.note(false);
                    return Ok((Wire::Program(program.input), Hearing::Program(program.output)));
                }
                Err(NoProgram::Full) if began.elapsed() < ROOM_WITHIN => pingora_timeout::sleep(ROOM_LOOK).await,
                Err(NoProgram::Full) => return Err(full()),
                Err(why) => {
                    self.note(true);
                    tracing::warn!(program = name, %why, "an MCP server cannot be started");
                    return Err(RpcError::own(503, "The MCP server cannot be reached: its program cannot be started"));
                }
            }
        }
    }
}
