//! The life of one request to an agent: whether it may be asked, what goes up, and what of the answer the client sees.

use super::ids::AgentIds;
use super::message::{AgentAsked, AgentWay, protocol_error};
use super::target::AgentServed;
use crate::proxy::body::Permit;
use crate::proxy::client::ClientLeft;
use crate::proxy::mcp::McpParts;
use crate::proxy::mcp::call_record::{McpBook, McpOutcome};
use crate::proxy::mcp::downstream::{LastMessage, McpDown};
use crate::proxy::mcp::guard::{GuardedTool, guard};
use crate::proxy::mcp::request_head::Posted;
use crate::proxy::mcp::tool_policies::{self, ToolCalled};
use crate::proxy::mcp::upstream::response_of;
use crate::proxy::outbound::{OutboundAsk, OutboundCalls, read};
use crate::proxy::record::PendingRecords;
use crate::proxy::request::Request;
use crate::proxy::text_guard::{GuardedText, TextGuard};
use crate::upstream::http1::Response;
use gateway_admin::public_card;
use gateway_domain::egress::check_custom_host;
use gateway_domain::{Fault, Operation};
use gateway_mcp::a2a::ids::webhooks;
use gateway_mcp::a2a::method::{A2aMethod, UNNAMED};
use gateway_mcp::a2a::state::state_of;
use gateway_mcp::a2a::texts::each_said;
use gateway_mcp::{RawObject, RpcError};
use gateway_policies::{Hold, Used};
use http::{HeaderName, HeaderValue, Method, header};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) const NOUN: &str = "agent";
/// What records call an error that the agent told, or that was told in its place.
pub(super) const FAILED: &str = "a2a_error";
/// The status of records of what guardrails denied.
const DENIED: u16 = 446;

/// One request of HTTP.
pub(super) struct AgentTurn<'a, 's> {
    pub(super) parts: McpParts<'a>,
    pub(super) request: &'a Request,
    pub(super) served: &'a AgentServed,
    pub(super) posted: &'a Posted,
    /// Extensions that the client can do, as it wrote them.
    pub(super) extensions: Vec<(HeaderName, HeaderValue)>,
    pub(super) records: &'a mut PendingRecords,
    pub(super) down: McpDown<'a, 's>,
}

/// What may be asked, as the agent is to hear it.
pub(super) struct AdmittedAsk {
    pub(super) method: A2aMethod,
    params: String,
    /// The task that the path of an HTTP request names, by the agent's own id; ids in a body stand in `params`.
    task: Option<String>,
}

/// What came of a request, for its record and its limits.
pub(super) struct AgentOutcome {
    pub(super) last: LastMessage,
    /// How its task stands.
    pub(super) state: Option<String>,
    /// The last message is not to be sent: what was to be told is told.
    pub(super) is_told: bool,
    pub(super) answered: usize,
    /// It has its price: the agent did what was asked, whatever the client sees of that.
    pub(super) was_called: bool,
}

impl AgentOutcome {
    pub(super) fn of(last: LastMessage) -> Self {
        let (answered, was_called) = (last.body.len(), last.label.is_none());
        Self { last, state: None, is_told: false, answered, was_called }
    }
}

const fn operation(method: A2aMethod) -> Operation {
    match method {
        A2aMethod::SendMessage => Operation::A2aSendMessage,
        A2aMethod::SendStreamingMessage => Operation::A2aSendStreamingMessage,
        A2aMethod::GetTask => Operation::A2aGetTask,
        A2aMethod::ListTasks => Operation::A2aListTasks,
        A2aMethod::CancelTask => Operation::A2aCancelTask,
        A2aMethod::SubscribeToTask => Operation::A2aSubscribeToTask,
        A2aMethod::CreatePush => Operation::A2aCreatePush,
        A2aMethod::GetPush => Operation::A2aGetPush,
        A2aMethod::ListPush => Operation::A2aListPush,
        A2aMethod::DeletePush => Operation::A2aDeletePush,
        A2aMethod::GetExtendedCard => Operation::A2aExtendedCard,
        A2aMethod::OlderSend => Operation::A2aOlderSend,
    }
}

impl AgentTurn<'_, '_> {
    pub(super) async fn refuse(&mut self, error: &RpcError, asked: &AgentAsked) -> Result<(), ClientLeft> {
        let last = failed(asked, error);
        self.down.last(last).await
    }

    pub(super) async fn answer(&mut self, asked: &AgentAsked) -> Result<(), ClientLeft> {
        let admitted = match self.admit(asked) {
            Ok(admitted) => admitted,
            Err(error) => {
                let last = failed(asked, &error);
                self.note(asked, &AgentOutcome::of(last.clone()), (Duration::ZERO, Hold::default()), None);
                return self.down.last(last).await;
            }
        };
        let hold = match self.reserve(&admitted).await {
            Ok(hold) => hold,
            Err(fault) => {
                let last = limited(asked, fault);
                self.note(asked, &AgentOutcome::of(last.clone()), (Duration::ZERO, Hold::default()), None);
                return self.down.last(last).await;
            }
        };
        let mut guard = match self.guard(admitted.method).await? {
            Ok(guard) => guard,
            Err(fault) => {
                let error = RpcError::own(fault.status(), fault.message().to_owned());
                let label = Some(fault.kind().row().label);
                let last = LastMessage { label, ..failed(asked, &error) };
                self.note(asked, &AgentOutcome::of(last.clone()), (Duration::ZERO, hold), None);
                return self.down.last(last).await;
            }
        };
        let began = Instant::now();
        let outcome = match self.run(asked, admitted, guard.as_mut()).await {
            Ok(outcome) => self.unquoted(outcome),
            Err(left) => {
                let mut gone = AgentOutcome::of(LastMessage::ok(String::new()));
                // Whoever leaves early has caused what the call costs.
                (gone.last.status, gone.last.label) = (499, Some("client_gone"));
                self.note(asked, &gone, (began.elapsed(), hold), guard);
                return Err(left);
            }
        };
        self.note(asked, &outcome, (began.elapsed(), hold), guard);
        if outcome.is_told { self.down.finish().await } else { self.down.last(outcome.last).await }
    }

    /// Whether it may be asked, and as the agent is to hear it. Ids of others are unknown.
    fn admit(&self, asked: &AgentAsked) -> Result<AdmittedAsk, RpcError> {
        let version = asked.version.name.as_str();
        let speaks = self.served.upstream.endpoints.iter().any(|one| one.version == version);
        let is_known = self.served.upstream.card.is_some();
        if !speaks && (is_known || !["0.3", "1.0"].contains(&version)) {
            return Err(protocol_error(-32009, format!("The agent does not speak version {version} of the protocol")));
        }
        let method = asked.method.ok_or_else(|| protocol_error(-32601, "Method not found"))?;
        self.check_capabilities(method, &asked.params)?;
        let ids = AgentIds::of(&*self.parts.calls.ids, self.served, version);
        if ids.is_some() && method == A2aMethod::ListTasks {
            return Err(protocol_error(
                -32004,
                "Tasks cannot be listed: the agent does not know its callers one from another",
            ));
        }
        let of_path = match &asked.way {
            AgentWay::Rest(rest) => rest.task.clone(),
            AgentWay::JsonRpc { .. } => None,
        };
        let Some(ids) = ids else { return Ok(AdmittedAsk { method, params: asked.params.clone(), task: of_path }) };
        let unknown = || protocol_error(-32001, "Task not found");
        let own = method.names_task_by_id(version == UNNAMED);
        let params = ids.params(&asked.params, own).ok_or_else(unknown)?;
        let task =
            of_path.map(|task| ids.up(gateway_mcp::a2a::ids::A2aId::Task, &task).ok_or_else(unknown)).transpose()?;
        Ok(AdmittedAsk { method, params, task })
    }

    fn check_capabilities(&self, method: A2aMethod, params: &str) -> Result<(), RpcError> {
        if method.streams() && !self.served.allows("streaming") {
            return Err(protocol_error(-32004, "Streaming is not open at this agent"));
        }
        if method == A2aMethod::GetExtendedCard && !self.served.allows("extended_agent_card") {
            return Err(protocol_error(-32007, "No extended card is open at this agent"));
        }
        let pushes = method.pushes();
        let hooks = if pushes || method.sends() { webhooks(params) } else { Vec::new() };
        if (pushes || !hooks.is_empty()) && !self.served.allows("push_notifications") {
            return Err(protocol_error(-32003, "Push notifications are not open at this agent"));
        }
        // The agent calls these, and nobody may have it call what the gateway would not.
        for hook in hooks {
            let place = if hook.contains('#') { Some(hook.as_str()) } else { hook.split('?').next() };
            check_custom_host(place.unwrap_or_default(), &self.parts.state.settings.trusted)
                .map_err(|rule| protocol_error(-32602, format!("Invalid params: the address of the webhook {rule}")))?;
        }
        Ok(())
    }

    /// Each message counts; to ask how a task stands does not.
    async fn reserve(&self, admitted: &AdmittedAsk) -> Result<Hold, Fault> {
        if !admitted.method.sends() {
            return Ok(Hold::default());
        }
        let called = ToolCalled {
            server: &self.served.agent.slug,
            tool: admitted.method.name(),
            operation: operation(admitted.method),
            arguments: admitted.params.len(),
            price: self.served.upstream.price(admitted.method.name()),
        };
        tool_policies::admit(self.parts.calls, self.request, called).await
    }

    /// What judges this request and its answer.
    async fn guard(&mut self, method: A2aMethod) -> Result<Result<Option<TextGuard>, Fault>, ClientLeft> {
        if self.request.caller.tenant.guardrails.is_none() || method.pushes() || method == A2aMethod::GetExtendedCard {
            return Ok(Ok(None));
        }
        let called = GuardedTool {
            server: &self.served.agent.slug,
            tool: method.name(),
            operation: operation(method),
            streams: method.streams(),
        };
        let found = guard(self.parts.calls, self.request, called);
        self.down.client.during(None, found).await
    }

    async fn run(
        &mut self,
        asked: &AgentAsked,
        mut admitted: AdmittedAsk,
        mut guard: Option<&mut TextGuard>,
    ) -> Result<AgentOutcome, ClientLeft> {
        if let Some(guard) = guard.as_deref_mut().filter(|_| admitted.method.sends()) {
            let judging = guard.judge_asked(&self.parts.calls.guardrails, &admitted.params, each_said);
            match self.down.client.during(None, judging).await? {
                GuardedText::Same => {}
                GuardedText::Other(params) => {
                    guard.notes.rewritten = Some(params.clone().into());
                    admitted.params = params;
                }
                GuardedText::Denied => return Ok(AgentOutcome::of(denied(asked, guard))),
            }
        }
        let state = self.parts.state;
        let upstream = &self.served.upstream;
        if let Some(left) = state.breakers.rests(upstream, Instant::now()) {
            let error = RpcError::own(503, "The agent failed several times in a row, and is left alone for a while");
            let millis = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            return Ok(AgentOutcome::of(failed(asked, &error.data(json!({"retry_after_ms": millis})))));
        }
        let ask = self.ask(asked, &admitted);
        let calls = outbound(self.parts, self.served);
        let opened = self.down.client.during(None, calls.open(&ask, state.settings.silence)).await?;
        let is_failure = opened.as_ref().map_or_else(|error| error.status != 408, |response| response.status() >= 500);
        state.breakers.note(upstream, is_failure, Instant::now());
        match opened {
            Err(error) => Ok(AgentOutcome::of(failed(asked, &error))),
            Ok(response) if is_stream(&response) => self.follow(asked, response, guard).await,
            Ok(response) => self.whole(asked, admitted.method, response, guard).await,
        }
    }

    /// A failure without what the agent was called with.
    fn unquoted(&self, outcome: AgentOutcome) -> AgentOutcome {
        if outcome.last.label != Some(FAILED) {
            return outcome;
        }
        let body = outbound(self.parts, self.served).unquoted(outcome.last.body, None);
        AgentOutcome { last: LastMessage { body, ..outcome.last }, ..outcome }
    }

    fn ask(&self, asked: &AgentAsked, admitted: &AdmittedAsk) -> OutboundAsk {
        let mut headers = vec![(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"))];
        if asked.version.is_named
            && let Ok(version) = HeaderValue::from_str(&asked.version.name)
        {
            headers.push((HeaderName::from_static("a2a-version"), version));
        }
        headers.extend(self.extensions.iter().chain(&self.posted.traced).cloned());
        let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match &asked.way {
            AgentWay::JsonRpc { target, envelope, .. } => {
                headers.push(json);
                let mut envelope = RawObject::parse(envelope).unwrap_or_default();
                envelope.set("params", admitted.params.as_str());
                let body = envelope.to_json().into();
                OutboundAsk { method: Method::POST, target: target.clone(), headers, body }
            }
            AgentWay::Rest(rest) => {
                let query = self.request.ask.route.query.as_deref().unwrap_or_default();
                let target = rest.target(&asked.version.name, admitted.task.as_deref());
                let query = rest.query(query, self.served.shares_credential());
                let target = if query.is_empty() { target } else { format!("{target}?{query}") };
                let is_post = rest.verb == Method::POST;
                let body = if is_post { admitted.params.clone().into() } else { bytes::Bytes::new() };
                headers.extend(is_post.then_some(json));
                OutboundAsk { method: rest.verb.clone(), target, headers, body }
            }
        }
    }

    /// An answer that is no stream.
    async fn whole(
        &mut self,
        asked: &AgentAsked,
        method: A2aMethod,
        mut response: Response,
        guard: Option<&mut TextGuard>,
    ) -> Result<AgentOutcome, ClientLeft> {
        let mut held = Permit::new(&self.parts.calls.delivery.budget);
        let reading = read(&mut response, &mut held, NOUN);
        let reading = pingora_timeout::timeout(self.parts.state.settings.longest, reading);
        let body = match self.down.client.during(None, reading).await?.unwrap_or_else(|_| Err(too_long())) {
            Ok(body) => body,
            Err(error) => return Ok(AgentOutcome::of(failed(asked, &error))),
        };
        let status = response.status();
        response.release(self.parts.calls.delivery.settings.upstream_pool_size);
        let text = String::from_utf8_lossy(&body);
        let result = match result_of(asked, status, text.trim()) {
            Ok(result) => result,
            Err(last) => return Ok(AgentOutcome::of(last)),
        };
        let mut result = result;
        if let Some(guard) = guard.filter(|guard| guard.judges_answers()) {
            let judging = guard.judge_answered(&self.parts.calls.guardrails, &result, each_said);
            match self.down.client.during(None, judging).await? {
                GuardedText::Same => {}
                GuardedText::Other(other) => result = other,
                GuardedText::Denied => {
                    return Ok(AgentOutcome { was_called: true, ..AgentOutcome::of(denied(asked, guard)) });
                }
            }
        }
        let state = state_of(&result);
        let last = match self.seen(asked, Some(method), &result) {
            Ok(seen) => LastMessage { held: Some(Arc::new(held)), ..LastMessage::ok(asked.answered(&seen)) },
            Err(error) => failed(asked, &error),
        };
        Ok(AgentOutcome { state, ..AgentOutcome::of(last) })
    }

    /// A result as the client sees it.
    pub(super) fn seen(&self, asked: &AgentAsked, method: Option<A2aMethod>, result: &str) -> Result<String, RpcError> {
        if method == Some(A2aMethod::GetExtendedCard) {
            let base = self.parts.state.settings.public_url.as_deref();
            let base =
                base.ok_or_else(|| protocol_error(-32007, "Cards need --public-url, the gateway's own address"))?;
            let card = serde_json::from_str(result).unwrap_or_default();
            return Ok(public_card(&self.served.agent, &self.served.upstream, &card, base).to_string());
        }
        let ids = AgentIds::of(&*self.parts.calls.ids, self.served, &asked.version.name);
        Ok(ids.map_or_else(|| result.to_owned(), |ids| ids.result(result)))
    }

    fn note(
        &mut self,
        asked: &AgentAsked,
        outcome: &AgentOutcome,
        (upstream, hold): (Duration, Hold),
        guard: Option<TextGuard>,
    ) {
        let Some(method) = asked.method else { return };
        let last = &outcome.last;
        let was_called = method.sends() && outcome.was_called;
        let cost = self.served.upstream.price(method.name()).filter(|_| was_called);
        let tokens = if method.sends() {
            tool_policies::tokens(asked.params.len()) + tool_policies::tokens(outcome.answered)
        } else {
            0
        };
        let charges = hold.settle(Used { tokens, cost: cost.and_then(|cost| u64::try_from(cost.0).ok()) });
        let told = McpOutcome {
            protocol: "a2a",
            operation: operation(method),
            state: outcome.state.clone(),
            name: String::new(),
            status: last.recorded.unwrap_or(last.status),
            label: last.label,
            upstream,
            request_bytes: self.request.ask.content.bytes.len(),
            answer: last.body.clone().into(),
            stream: self.down.has_begun(),
            charges,
            cost,
            hooks: guard.map(|guard| guard.notes),
        };
        let (calls, request) = (self.parts.calls, self.request);
        let book = McpBook { calls, request, slug: &self.served.agent.slug, client: &self.down.client };
        book.write(told, self.records);
    }
}

fn outbound<'a>(parts: McpParts<'a>, served: &'a AgentServed) -> OutboundCalls<'a> {
    let (upstream, identity) = (&served.upstream, served.identity.as_ref());
    OutboundCalls { calls: parts.calls, upstream, identity, noun: NOUN }
}

fn is_stream(response: &Response) -> bool {
    let kind = response.head().headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    response.status() == 200 && essence.eq_ignore_ascii_case("text/event-stream")
}

pub(super) fn too_long() -> RpcError {
    RpcError::own(408, "The agent took longer than a call may")
}

pub(super) fn failed(asked: &AgentAsked, error: &RpcError) -> LastMessage {
    let told = asked.failed(error);
    LastMessage { label: Some(FAILED), recorded: None, ..with_status(told.status, told.body) }
}

fn with_status(status: u16, body: String) -> LastMessage {
    LastMessage { status, ..LastMessage::ok(body) }
}

/// A limit or a budget refuses.
fn limited(asked: &AgentAsked, fault: Fault) -> LastMessage {
    let kind = fault.kind().row();
    let data = json!({"type": kind.openai_type, "retry_after_ms": fault.retry_after()});
    let error = RpcError::own(fault.status(), fault.message().to_owned()).data(data);
    LastMessage { label: Some(kind.label), fault: Some(fault), ..failed(asked, &error) }
}

pub(super) fn denied(asked: &AgentAsked, guard: &TextGuard) -> LastMessage {
    let data = json!({"type": "hooks_failed", "hook_results": guard.results()});
    let error = RpcError::new(200, i64::from(DENIED), "The message was denied by a guardrail").data(data);
    let error = if asked.is_rest() { RpcError { status: DENIED, ..error } } else { error };
    LastMessage { recorded: Some(DENIED), label: Some("hooks_failed"), ..failed(asked, &error) }
}

/// The result that an answer holds, or what is told where it holds none. What an agent says of its own sign-in is no
/// caller's business.
fn result_of(asked: &AgentAsked, status: u16, text: &str) -> Result<String, LastMessage> {
    if matches!(status, 401 | 403) {
        let why = format!("The agent refused the gateway's credentials ({status})");
        return Err(failed(asked, &RpcError::own(502, why)));
    }
    let unreadable = || failed(asked, &RpcError::own(502, "The agent's answer cannot be understood"));
    match &asked.way {
        AgentWay::JsonRpc { id: Some(id), .. } => {
            let found = response_of(text, id).ok_or_else(|| match status {
                200 => unreadable(),
                _ => failed(asked, &RpcError::own(502, format!("The agent answered {status}"))),
            })?;
            let envelope = RawObject::parse(&found).map_err(|_| unreadable())?;
            match envelope.raw("result") {
                Some(result) => Ok(result.to_owned()),
                None => Err(LastMessage { label: Some(FAILED), ..LastMessage::ok(found.clone()) }),
            }
        }
        AgentWay::JsonRpc { id: None, .. } => Err(unreadable()),
        AgentWay::Rest(_) if (200..300).contains(&status) => {
            let text = if text.is_empty() { "{}" } else { text };
            let is_json = serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok();
            if is_json { Ok(text.to_owned()) } else { Err(unreadable()) }
        }
        AgentWay::Rest(_) => {
            let is_told = (400..600).contains(&status) && RawObject::parse(text).is_ok();
            let own = || failed(asked, &RpcError::own(502, format!("The agent answered {status}")));
            let passed = || LastMessage { label: Some(FAILED), ..with_status(status, text.to_owned()) };
            Err(if is_told { passed() } else { own() })
        }
    }
}
