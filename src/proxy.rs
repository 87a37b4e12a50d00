//! The data plane as Pingora sees it. Each phase is one or two calls, named for what they do: intake, plan, exchange.

mod admission_guard;
mod agent;
mod asked_path;
mod body;
mod body_mode;
mod call;
mod call_ask;
mod capture_policy;
mod client;
mod client_address;
mod content;
mod control;
mod cors;
mod credential_trial;
mod deliver;
mod direct;
mod estimate;
mod exchange;
mod gateway_key;
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
mod prompt_target;
mod quoted;
mod reckoned;
mod record;
mod refused;
mod request;
mod responses;
mod routing;
mod settings;
mod shape;
mod short_keys;
mod sticky;
mod target;
mod tenants;
mod text_guard;
mod trace;
mod unpack;

pub(crate) use admission_guard::{AdmissionGuard, Bounds};
pub(crate) use body::Budget;
pub(crate) use control::ControlPlane;
pub(crate) use cors::CorsOrigins;
pub(crate) use credential_trial::CredentialTester;
pub(crate) use deliver::{DeliveryParts, ReplyNames};
pub(crate) use exchange::{
    CallParts, CallRows, CallTakeover, LiveCounts, LiveParts, NotedCalls, PartClaims, UnpricedCalls, WatchSeats,
};
pub(crate) use gateway_key::known_key;
pub(crate) use mcp::{DuplexBounds, McpAuthorization, McpFigures, McpPeople, McpSettings, McpState};
pub(crate) use own_tokens::OwnTokens;
pub(crate) use routing::{BreakerStates, InlineConfigs};
pub(crate) use settings::ProxySettings;
pub(crate) use sticky::Assignments;

use crate::batches::{LineGuest, LineTask, SharedBatches};
use crate::clock;
use crate::connections;
use crate::explanations::Explainer;
use crate::guardrails::ConfigGuards;
use crate::in_flight::{InFlight, InFlightGuard};
use crate::issuers::Issuers;
use crate::runtime_config::ConfigHandle;
use crate::upstream::http1::Framing;
use crate::writer::{Records, cost_of};
use agent::AgentStop;
use async_trait::async_trait;
use body::{BodyError, Permit};
use body_mode::BodyMode;
use client::{Client, Upload, framing};
use client_address::client_ip;
use cors::CorsBuilder;
use direct::{DirectCall, DirectParts};
use exchange::{Exchange, Unanswered};
use gateway_domain::ports::{Doorkeeper, KeyUses, Revision};
use gateway_domain::{Dialect, Fault, FaultKind, Operation, Timestamp};
use http::header;
use mcp::{LegacyAsk, McpChallenge, McpParts, McpStop, take_legacy};
use own_objects::{KeptAnswer, KeptCall, OwnParts};
use pingora::proxy::{FailToProxy, ProxyHttp, Session};
use pingora::upstreams::peer::HttpPeer;
use pingora::{Error, ErrorSource, ErrorType};
use record::{BodyCapture, PendingRecords, RecordBodies};
use refused::Refused;
use request::Request;
use responses::Recalled;
use short_keys::KeyAsk;
use std::sync::Arc;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The proxy: one value, shared by all workers and their connections.
pub(crate) struct Gateway {
    pub(crate) settings: Arc<ProxySettings>,
    pub(crate) live: Arc<ConfigHandle>,
    pub(crate) issuers: Arc<Issuers>,
    pub(crate) calls: Arc<CallParts>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) records: Records,
    pub(crate) names: Arc<ReplyNames>,
    pub(crate) inline: Arc<InlineConfigs>,
    pub(crate) breakers: Arc<BreakerStates>,
    pub(crate) sticks: Arc<Assignments>,
    pub(crate) shield: Arc<AdmissionGuard>,
    pub(crate) door: Arc<dyn Doorkeeper>,
    pub(crate) uses: Arc<dyn KeyUses>,
    pub(crate) control: ControlPlane,
    pub(crate) mcp: Arc<McpState>,
    pub(crate) own_tokens: OwnTokens,
    pub(crate) batches: SharedBatches,
    /// Sends requests through here that are only supposed.
    pub(crate) explainer: Arc<Explainer>,
    pub(crate) flight: InFlight,
}

/// What one request gathers on its way; filled phase by phase.
pub(crate) struct Ctx {
    started: Instant,
    at: Timestamp,
    held: Permit,
    records: PendingRecords,
    /// Of a key that has a bound, until the request is over.
    seat: Option<admission_guard::ConcurrencySlot>,
    /// Of a request whose key is known.
    flight: Option<InFlightGuard>,
    /// Of a line of a batch, which is told what it cost.
    line: Option<Arc<LineGuest>>,
    /// Of a client of MCP servers that speaks as of 2024-11-05.
    legacy: Option<LegacyAsk>,
}

#[async_trait]
impl ProxyHttp for Gateway {
    type CTX = Ctx;

    fn new_ctx(&self) -> Ctx {
        Ctx {
            started: Instant::now(),
            at: clock::now(),
            held: Permit::new(&self.budget),
            records: PendingRecords::default(),
            seat: None,
            flight: None,
            line: None,
            legacy: None,
        }
    }

    /// Pingora's own modules (compression) would only cost here: bodies are passed on as they are.
    fn init_downstream_modules(&self, modules: &mut pingora::modules::http::HttpModules) {
        let mcp = self.mcp.settings.origins.as_ref();
        if self.settings.cors.is_some() || mcp.is_some() {
            modules.add_module(Box::new(CorsBuilder { all: self.settings.cors.clone(), mcp: mcp.cloned() }));
        }
    }

    /// Always `Ok(true)`, or an error: everything is answered here.
    async fn request_filter(&self, session: &mut Session, ctx: &mut Ctx) -> pingora::Result<bool> {
        let chunked = session.req_header().headers.contains_key(header::TRANSFER_ENCODING);
        connections::heed(&session.downstream_session, chunked);
        if let Some(fault) = http1_head::check(session) {
            session.downstream_session.set_keepalive(None);
            return self.refuse(session, ctx, fault.into()).await;
        }
        if self.mcp.settings.legacy_sse {
            ctx.legacy = take_legacy(session.req_header_mut());
        }
        if let Some(fault) = self.shield.storm(|| client_ip(session, &self.settings.trusted_proxies)) {
            return self.refuse(session, ctx, fault.into()).await;
        }
        if let Some(answered) = local::serve(self, session).await? {
            return Ok(answered);
        }
        let mut received = intake::receive(self, session, ctx.started, ctx.at);
        if let Some(org) = received.as_ref().err().and_then(|refused| refused.unknown_signer) {
            gateway_domain::ports::Tokens::refresh(&*self.issuers, org).await;
            received = intake::receive(self, session, ctx.started, ctx.at);
        }
        if let Some(revision) = received.as_ref().err().and_then(|refused| refused.awaits) {
            self.hear_of(revision).await;
            received = intake::receive(self, session, ctx.started, ctx.at);
        }
        let request = match received {
            Ok(request) => request,
            Err(refused) => {
                let refused = self.shield.count_unknown(
                    (&*self.door, client_ip(session, &self.settings.trusted_proxies)),
                    session.req_header(),
                    refused,
                );
                return self.refuse(session, ctx, refused).await;
            }
        };
        match self.flight.enter(self.settings.max_connections) {
            Ok(ticket) => ctx.flight = Some(ticket),
            Err(fault) => return self.refuse(session, ctx, fault.into()).await,
        }
        ctx.held.charge(request.caller.tenant.key.id.0);
        ctx.line.clone_from(&request.caller.tenant.line);
        match ctx.line.as_ref().map(|line| &line.task) {
            Some(LineTask::Booked(_)) => return Box::pin(self.book(session, ctx, request)).await,
            Some(task) if task.is_written() => return Box::pin(self.write_line(session, ctx, request)).await,
            _ => {}
        }
        match self.shield.caller(&request) {
            Ok(seat) => ctx.seat = seat,
            Err(fault) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
        if request.caller.tenant.supposed {
            return Box::pin(self.explain(session, ctx, request)).await;
        }
        if request.ask.route.operation == Operation::McpSession {
            return Box::pin(self.mcp(session, ctx, request)).await;
        }
        if request.ask.route.operation == Operation::A2aCard {
            return Box::pin(self.agent(session, ctx, request)).await;
        }
        if matches!(request.ask.route.operation, Operation::RealtimeCall | Operation::RealtimeCallControl) {
            return Box::pin(self.realtime_call(session, ctx, request)).await;
        }
        if let Some(call) = own_objects::asked(&request) {
            return Box::pin(self.own_object(session, ctx, request, call)).await;
        }
        let mode = match ctx.line.as_ref().map(|line| &line.task) {
            Some(LineTask::Native { streams: true, .. }) => Ok(BodyMode::Streaming),
            _ => body_mode::of(session, &request.ask.route),
        };
        match mode {
            Ok(BodyMode::Buffered) => self.exchange(session, ctx, request).await,
            // Boxed, as it is large and few calls have it: the common way is boxed once, by the framework.
            Ok(BodyMode::Streaming) => Box::pin(self.relay(session, ctx, request)).await,
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
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
            line.tell_cost(cost);
        }
    }

    /// For error lines of the framework: a query may hold a key.
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
    async fn exchange(&self, session: &mut Session, ctx: &mut Ctx, mut request: Box<Request>) -> pingora::Result<bool> {
        let read = match request.ask.prompt {
            None => {
                content::read_content(session, &request.ask.route, self.settings.body_limits(), &mut ctx.held).await
            }
            // Boxed to keep the room for it out of every other request.
            Some(_) => Box::pin(local::read_prompt(self, session, &mut request, &mut ctx.held)).await,
        };
        match read {
            Ok(content) => request.ask.content = content,
            Err(BodyError::Gone(e)) => return Err(e.into_down()),
            Err(BodyError::Invalid(fault, bytes)) => {
                request.ask.content.bytes = bytes;
                return self.refuse(session, ctx, Refused::of(fault, request)).await;
            }
            Err(BodyError::Refused(fault)) => {
                return self.refuse(session, ctx, Refused::of(fault, request)).await;
            }
        }
        if request.ask.route.operation == Operation::CreateBatch
            && let Some(input) = own_objects::input_of(&request)
        {
            return Box::pin(self.own_batch(session, ctx, request, input)).await;
        }
        if request.ask.route.operation == Operation::RealtimeSecret {
            return Box::pin(self.short_key(session, ctx, request)).await;
        }
        if request.is_rendered_only() {
            return Box::pin(local::show_prompt(self, session, &request, &mut ctx.records)).await;
        }
        let parse_us = request.look().saturating_sub(request.ask.content.waited_us);
        if request.ask.route.operation.facts().about_kept_response || request.ask.route.asked() == Operation::Responses
        {
            match Box::pin(self.kept_response(ctx, &mut request)).await {
                Ok(None) => {}
                Ok(Some(told)) => {
                    let answer = KeptAnswer::Json(told);
                    let told = own_objects::deliver(self.own_parts(), session, (&request, answer), &mut ctx.records);
                    return Box::pin(told).await;
                }
                Err(fault) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
            }
        }
        let routing = match self.prepare(&mut request).await {
            Ok(routing) => routing,
            Err(fault) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
        };
        if let Some(call) = direct::asked(&request, &routing) {
            return Box::pin(self.direct(session, ctx, request, (routing, call))).await;
        }
        match local::catalogued(&request, &routing).await {
            None => {}
            Some(Ok(body)) => {
                let told = local::CatalogAnswer { request: &request, routing: &routing, body };
                return Box::pin(local::deliver(self, session, told, &mut ctx.records)).await;
            }
            Some(Err(fault)) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
        let client = Client::new(session);
        let mut exchange = Exchange::new(&self.calls, client, &mut request, routing, &mut ctx.records);
        exchange.steps.parse_us = parse_us;
        let ended = exchange.run().await;
        if let Some(told) = exchange.looked_at.take().filter(|_| ended.is_ok()) {
            let Exchange { routing, .. } = exchange;
            let batches = direct::ended(&request, &routing, *told);
            direct::count_apart(&self.calls, (request, routing), batches);
            return Ok(true);
        }
        self.end(session, ctx, request, ended).await
    }

    /// Waits a moment for this node to come as far as another was when it signed a token.
    async fn hear_of(&self, revision: Revision) {
        const STEP: Duration = Duration::from_millis(20);
        const STEPS: usize = 100;
        for _ in 0..STEPS {
            if self.live.current().snapshot.revision >= revision {
                return;
            }
            tokio::time::sleep(STEP).await;
        }
    }

    fn own_parts(&self) -> OwnParts<'_> {
        OwnParts { batches: &self.batches, names: &self.names, settings: &self.settings }
    }

    /// Files and batches that the gateway keeps itself.
    async fn own_object(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        request: Box<Request>,
        call: KeptCall,
    ) -> pingora::Result<bool> {
        match own_objects::answer(self.own_parts(), session, &request, call).await {
            Ok(answer) => own_objects::deliver(self.own_parts(), session, (&request, answer), &mut ctx.records).await,
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    /// A file or a batch of a provider whose interface for them is not OpenAI's.
    async fn direct(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        request: Box<Request>,
        (routing, call): (routing::Routing, DirectCall),
    ) -> pingora::Result<bool> {
        let parts = DirectParts { calls: &self.calls, own: self.own_parts() };
        match Box::pin(parts.serve(session, (&request, &routing), call, &mut ctx.records)).await? {
            Ok(ended) => {
                direct::count_apart(&self.calls, (request, routing), ended);
                Ok(true)
            }
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    /// A batch that the gateway is to run.
    async fn own_batch(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
        input: Result<Uuid, Fault>,
    ) -> pingora::Result<bool> {
        let own = self.own_parts();
        if let Err(fault) = own_objects::apply_options(&mut request) {
            return self.refuse(session, ctx, Refused::of(fault, request)).await;
        }
        let chosen = routing::choose(&self.inline, &request.caller.tenant, &request.ask.headers).await;
        let made = match input.and_then(|input| Ok((input, chosen?.of_batch()))) {
            Ok(made_of) => own_objects::create(own, &session.req_header().headers, &request, made_of).await,
            Err(fault) => Err(fault),
        };
        match made {
            Ok(answer) => own_objects::deliver(own, session, (&request, answer), &mut ctx.records).await,
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    /// A key of the gateway's own for a browser.
    async fn short_key(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
    ) -> pingora::Result<bool> {
        let ask = match KeyAsk::read(&request.ask.route.path, &request.ask.content.bytes) {
            Ok(ask) => ask,
            Err(fault) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
        };
        request.ask.content.model = ask.model().map(Into::into);
        let routing = match self.prepare(&mut request).await {
            Ok(routing) => routing,
            Err(fault) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
        };
        if short_keys::is_direct(&request, &routing) {
            if let Err(fault) = ask.permit_direct(&request, &routing) {
                return self.refuse(session, ctx, Refused::of(fault, request)).await;
            }
            return Box::pin(self.provider_key(session, ctx, request, routing)).await;
        }
        match ask.mint(&*self.calls.ids, &request, &routing) {
            Ok(body) => {
                let told = local::CatalogAnswer { request: &request, routing: &routing, body };
                local::deliver(self, session, told, &mut ctx.records).await
            }
            Err(fault) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    /// A key of the provider's own for a browser, which its integration hands out: what is asked and answered passes as it
    /// came, and nothing of it is kept.
    async fn provider_key(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
        routing: routing::Routing,
    ) -> pingora::Result<bool> {
        request.caller.keep = capture_policy::CapturePolicy::Nothing;
        request.ask.route.raw = true;
        request.ask.untouched_model =
            Some(request::AskedModel { name: request.ask.content.model.clone(), unread: false });
        let client = Client::new(session);
        let ended = Exchange::new(&self.calls, client, &mut request, routing, &mut ctx.records).run().await;
        self.end(session, ctx, request, ended).await
    }

    /// Messages for the MCP server that the path names.
    async fn mcp(&self, session: &mut Session, ctx: &mut Ctx, mut request: Box<Request>) -> pingora::Result<bool> {
        let legacy = ctx.legacy.take();
        let parts = McpParts { calls: &self.calls, state: &self.mcp, legacy: legacy.as_ref() };
        match Box::pin(mcp::serve(parts, session, &mut ctx.held, &mut request, &mut ctx.records)).await {
            Ok(()) => Ok(true),
            Err(McpStop::Gone(gone)) => Err(gone),
            Err(McpStop::Refused(fault)) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    /// What is asked of the agent that the path names.
    async fn agent(&self, session: &mut Session, ctx: &mut Ctx, mut request: Box<Request>) -> pingora::Result<bool> {
        let parts = McpParts { calls: &self.calls, state: &self.mcp, legacy: None };
        match agent::serve(parts, session, &mut ctx.held, &mut request, &mut ctx.records).await {
            Ok(()) => Ok(true),
            Err(AgentStop::Gone(gone)) => Err(gone),
            Err(AgentStop::Refused(fault)) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    /// A body that streams up, or a connection that becomes another.
    async fn relay(&self, session: &mut Session, ctx: &mut Ctx, mut request: Box<Request>) -> pingora::Result<bool> {
        request.ask.content.unread = true;
        let upgrade = body_mode::is_websocket(session);
        let downstream = &mut session.downstream_session;
        request.ask.upload = Some(if upgrade { Framing::WebSocket } else { framing(downstream) });
        if upgrade {
            content::read_session_model(&mut request);
        }
        let routing = match self.prepare(&mut request).await {
            Ok(routing) => routing,
            Err(fault) => return self.refuse(session, ctx, Refused::of(fault, request)).await,
        };
        if let Some(call) = direct::asked(&request, &routing) {
            return Box::pin(self.direct(session, ctx, request, (routing, call))).await;
        }
        let upload = Upload::of(&mut session.downstream_session, self.settings.idle_timeout, &self.budget);
        let mut client = Client::new(session);
        client.set_upload(upload);
        let ended = Exchange::new(&self.calls, client, &mut request, routing, &mut ctx.records).run().await;
        self.end(session, ctx, request, ended).await
    }

    /// What is known of the response that a call is about; a request that goes on from one is written out.
    async fn kept_response(&self, ctx: &mut Ctx, request: &mut Request) -> Result<Option<serde_json::Value>, Fault> {
        objects::unbind(&*self.calls.ids, request).await?;
        let (kept, held) = (&self.calls.kept, &mut ctx.held);
        responses::recall(Recalled { kept, held, most: self.settings.max_body }, request).await?;
        responses::answer(kept, request).await.transpose()
    }

    /// Config and plan.
    async fn prepare(&self, request: &mut Request) -> Result<routing::Routing, Fault> {
        objects::unbind(&*self.calls.ids, request).await?;
        let chosen = routing::choose(&self.inline, &request.caller.tenant, &request.ask.headers).await?;
        let objects = objects::route(&chosen.config, chosen.inline, request)?;
        let mut routing = routing::plan((&self.breakers, &self.sticks), (chosen, objects), request).await?;
        if !routing.plan.config().hooks.is_empty() {
            routing.guards = Some(Box::pin(self.guards(&routing, request)).await?);
        }
        request.ask.untouched_model = request.is_untouched().then(|| target::untouched_model(&routing, request));
        Ok(routing)
    }

    /// The guardrails that the config names. What is wrong with one is told before any target has its turn.
    async fn guards(&self, routing: &routing::Routing, request: &Request) -> Result<Arc<ConfigGuards>, Fault> {
        let (config, tenant) = (routing.plan.config(), &request.caller.tenant);
        let guards = self.calls.guardrails.of_config(config, routing.inline, &tenant.org).await?;
        let is_known = |name: &str| tenant.world.snapshot.guardrail(&tenant.workspace, name).is_some();
        let unknown = guards.saved().find(|name| !is_known(name)).map(hooks::unknown);
        unknown.map_or(Ok(guards), Err)
    }

    async fn end(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        request: Box<Request>,
        ended: Result<(), Unanswered>,
    ) -> pingora::Result<bool> {
        match ended {
            Ok(()) => Ok(true),
            Err(Unanswered::ClientLeft(left)) => Err(left.into_error()),
            Err(Unanswered::Denied(fault)) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    /// What a client of an MCP server is told of how to come again.
    fn challenge(&self, head: &pingora::http::RequestHeader, fault: &Fault) -> Option<header::HeaderValue> {
        let authorization = self.mcp.authorization()?;
        let why = match fault.kind() {
            FaultKind::Unauthenticated if head.headers.contains_key(header::AUTHORIZATION) => McpChallenge::BadToken,
            FaultKind::Unauthenticated => McpChallenge::NoToken,
            FaultKind::Forbidden if fault.message() == intake::NO_MCP => McpChallenge::NoScope,
            _ => return None,
        };
        authorization.challenge(head.uri.path(), why)
    }

    /// Answers with a fault; of a known tenant it is a record too.
    async fn refuse(&self, session: &mut Session, ctx: &mut Ctx, refused: Refused) -> pingora::Result<bool> {
        let Refused { fault, request, .. } = refused;
        let head = session.req_header();
        let dialect = asked_path::dialect(&head.method, head.uri.path());
        let challenge = self.challenge(head, &fault);
        if matches!(fault.kind(), FaultKind::Flooded | FaultKind::TooLarge | FaultKind::SlowClient | FaultKind::Busy) {
            session.downstream_session.set_keepalive(None);
        }
        let mut answer = deliver::refusal(&self.names, &fault, dialect, request.as_deref());
        if let Some(challenge) = challenge {
            answer.head.insert_header(header::WWW_AUTHENTICATE, challenge)?;
        }
        let length = answer.body.len() as u64;
        let sent = client::answer_early(session, answer).await;
        if let Some(request) = request.filter(|request| !request.caller.tenant.supposed) {
            let mut record = record::refused(&request, &fault, if sent.is_ok() { length } else { 0 });
            let mut capture = BodyCapture::new(request.caller.keep, &self.budget);
            capture.sent_if_wanted(|| fault.body(dialect).into());
            let (settings, budget) = (&*self.settings, &self.budget);
            RecordBodies { settings, budget, session, request: &request, sent: None, rewritten: None }
                .answered(&mut record, capture);
            ctx.records.push(record);
        }
        sent.map(|()| true).map_err(Error::into_down)
    }
}
