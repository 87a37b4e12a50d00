//! The data plane as Pingora sees it. Each phase is one or two calls, named for what they do: intake, plan, exchange.

mod admission_guard;
mod agent;
mod batch_watcher;
mod body;
mod body_mode;
mod call;
mod capture_policy;
mod catalogue;
mod client;
mod client_address;
mod content;
mod control;
mod cors;
mod credential_trial;
mod decompression;
mod deliver;
mod direct;
mod error_redaction;
mod estimate;
mod exchange;
mod gateway;
mod gateway_key;
mod handlers;
mod handshake;
mod head;
mod headers;
mod hooks;
mod http1_head;
mod intake;
mod local;
mod mcp;
mod objects;
mod outbound;
mod own_objects;
mod own_tokens;
mod param_overrides;
mod prompt_calls;
mod prompt_target;
mod realtime_call_request;
mod record;
mod recorded_answer;
mod refusal;
mod request;
mod responses;
mod route_match;
mod routing;
mod settings;
mod short_keys;
mod sticky_assignments;
mod stored_request;
mod target;
mod tenants;
mod text_guard;
mod token_estimate;
mod trace;
mod watch_row;

pub(crate) use admission_guard::{AdmissionGuard, Bounds};
pub(crate) use batch_watcher::BatchWatcher;
pub(crate) use body::BufferBudget;
pub(crate) use control::ControlPlane;
pub(crate) use cors::CorsOrigins;
pub(crate) use credential_trial::CredentialTester;
pub(crate) use deliver::{DeliveryParts, ReplyNames};
pub(crate) use exchange::{
    CallParts, CallRows, CallTakeover, LiveCounts, LiveParts, NotedCalls, PartClaims, UnpricedCalls, WatchSeats,
};
pub(crate) use gateway::Gateway;
pub(crate) use gateway_key::known_key;
pub(crate) use mcp::{DuplexBounds, McpAuthorization, McpFigures, McpPeople, McpSettings, McpState};
pub(crate) use own_tokens::OwnTokens;
pub(crate) use routing::{BreakerStates, InlineConfigs};
pub(crate) use settings::ProxySettings;
pub(crate) use sticky_assignments::Assignments;

use crate::writer::cost_of;
use async_trait::async_trait;
use cors::CorsBuilder;
use gateway::Ctx;
use gateway_domain::{Dialect, Fault, FaultKind};
use handlers::Handler;
use pingora::proxy::{FailToProxy, ProxyHttp, Session};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorSource, ErrorType};
use refusal::Refused;
use std::pin::Pin;

#[async_trait]
impl ProxyHttp for Gateway {
    type CTX = Ctx;

    fn new_ctx(&self) -> Ctx {
        Ctx::new(&self.budget)
    }

    /// Pingora's own modules (compression) would only cost here: bodies are passed on as they are.
    fn init_downstream_modules(&self, modules: &mut pingora::modules::http::HttpModules) {
        let mcp = self.mcp.settings.origins.as_ref();
        if self.settings.cors.is_some() || mcp.is_some() {
            modules.add_module(Box::new(CorsBuilder { all: self.settings.cors.clone(), mcp: mcp.cloned() }));
        }
    }

    /// Always `Ok(true)`, or an error: everything is answered here.
    fn request_filter<'g, 's, 'c, 'f>(
        &'g self,
        session: &'s mut Session,
        ctx: &'c mut Ctx,
    ) -> Pin<Box<dyn Future<Output = pingora::Result<bool>> + Send + 'f>>
    where
        'g: 'f,
        's: 'f,
        'c: 'f,
        Self: 'f,
    {
        // The room first, for the future to be made in it: made before, all of its kilobytes would be copied.
        let room = Box::new_uninit();
        let answered = Box::write(room, self.answer(session, ctx));
        Box::into_pin(answered)
    }

    /// Never asked for: every request is answered above.
    async fn upstream_peer(&self, _: &mut Session, _: &mut Ctx) -> pingora::Result<Box<HttpPeer>> {
        Err(Error::explain(ErrorType::InternalError, "a request was left to the framework"))
    }

    /// The client has left, or was cut off in the middle of an answer: then there is nobody to tell.
    async fn fail_to_proxy(&self, session: &mut Session, e: &Error, _: &mut Ctx) -> FailToProxy {
        let gone = *e.esource() == ErrorSource::Downstream;
        let fault = Fault::new(FaultKind::Internal, "The request could not be answered");
        if !gone && session.response_written().is_none() {
            session.downstream_session.set_keepalive(None);
            // A client that cannot be written to is gone.
            let _ = client::answer_early(session, deliver::refusal(&self.names, &fault, Dialect::OpenAi, None)).await;
        }
        FailToProxy { error_code: if gone { 499 } else { fault.status() }, can_reuse_downstream: false }
    }

    /// Nothing is awaited: this delays the next request on the connection.
    async fn logging(&self, _: &mut Session, _: Option<&Error>, ctx: &mut Ctx) {
        let background = self.calls.guardrails.background();
        let mut cost = 0_i64;
        for noted in ctx.records.drain() {
            if ctx.line.is_some() {
                cost = cost.saturating_add(cost_of(&noted.record).map_or(0, |cost| cost.0));
            }
            background.send(noted, &self.records);
        }
        if let Some(line) = &ctx.line {
            line.report_cost(cost);
        }
    }

    /// What error lines of the framework say of a request: no query, since it may hold a key.
    fn request_summary(&self, session: &Session, _: &Ctx) -> String {
        let head = session.req_header();
        format!("{} {}", head.method, head.uri.path())
    }

    /// A client that leaves is told of in its record, not in the error log.
    fn suppress_error_log(&self, _: &Session, _: &Ctx, e: &Error) -> bool {
        *e.esource() == ErrorSource::Downstream
    }
}

impl Gateway {
    async fn answer(&self, session: &mut Session, ctx: &mut Ctx) -> pingora::Result<bool> {
        if let Some(fault) = self.turn_away(session, ctx) {
            return self.refuse(session, ctx, fault.into()).await;
        }
        if let Some(answered) = local::serve(self, session).await? {
            return Ok(answered);
        }
        let request = match self.receive(session, ctx).await {
            Ok(request) => request,
            Err(refused) => return self.refuse(session, ctx, refused).await,
        };
        if let Err(fault) = self.enter(ctx, &request) {
            return self.refuse(session, ctx, fault.into()).await;
        }
        let handler = Handler::of(session, &request);
        if !matches!(&handler, Ok(handler) if handler.calls_nobody()) {
            match self.shield.caller(&request) {
                Ok(seat) => ctx.seat = seat,
                Err(fault) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
            }
        }
        // Boxed is what few calls have, as it is large: the common way is boxed once, by the framework.
        match handler {
            Ok(Handler::BookedLine) => Box::pin(self.book(session, ctx, request)).await,
            Ok(Handler::WrittenLine) => Box::pin(self.write_line(session, ctx, request)).await,
            Ok(Handler::Explained) => Box::pin(self.explain(session, ctx, request)).await,
            Ok(Handler::Mcp) => Box::pin(self.mcp(session, ctx, request)).await,
            Ok(Handler::Agent) => Box::pin(self.agent(session, ctx, request)).await,
            Ok(Handler::RealtimeCall) => Box::pin(self.realtime_call(session, ctx, request)).await,
            Ok(Handler::KeptObject(call)) => Box::pin(self.own_object(session, ctx, request, call)).await,
            Ok(Handler::Buffered) => self.exchange(session, ctx, request).await,
            Ok(Handler::Streaming) => Box::pin(self.relay(session, ctx, request)).await,
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }
}
