//! The life of one message: which era it speaks, whether it may be asked, what it is upstream, and what of the answer
//! the client sees.

use super::accounts::is_not_connected;
use super::call_record::{McpBook, McpOutcome, operation};
use super::downstream::{LastMessage, McpDown};
use super::request_head::Posted;
use super::target::{McpServed, McpTarget};
use super::tool_policies::{self, ToolCalled};
use super::upstream::{UpstreamAnswer, UpstreamAsk, UpstreamCalls, response_of, unreadable};
use super::{McpChallenge, McpParts};
use crate::guardrails::HookNotes;
use crate::proxy::client::ClientLeft;
use crate::proxy::record::PendingRecords;
use crate::proxy::request::Request;
use crate::proxy::text_guard::GuardedText;
use gateway_domain::counters::Charge;
use gateway_domain::resource::mcp_tool_headers::McpToolHeaders;
use gateway_domain::snapshot::ManagedMcpServer;
use gateway_domain::{NanoUsd, Operation};
use gateway_mcp::filter::{self, McpKind};
use gateway_mcp::header::{self, subject};
use gateway_mcp::session::{McpSession, UpstreamSession};
use gateway_mcp::task::is_of_task;
use gateway_mcp::{Era, McpVersion, RawObject, RpcBody, RpcError, RpcId, RpcMessage, bridge};
use gateway_policies::{Hold, Used};
use http::Method;
use serde_json::json;
use std::time::{Duration, Instant};

mod answer;
mod fan_out;
mod guardrail_stage;
mod members;
mod missing_account;
mod notices;
mod task;
mod version_bridge;

pub(super) use missing_account::listed;

/// What is known of a call when it is over, beside its answer.
#[derive(Default)]
struct Noted {
    upstream: Duration,
    charges: Vec<Charge>,
    cost: Option<NanoUsd>,
    hooks: Option<Box<HookNotes>>,
}

/// One request of HTTP, with whatever messages it holds.
pub(super) struct McpTurn<'a, 's> {
    pub(super) parts: McpParts<'a>,
    pub(super) request: &'a Request,
    pub(super) served: &'a McpServed,
    /// The one that is asked now.
    pub(super) target: &'a McpTarget,
    /// The server whose name records go by.
    pub(super) called: &'a ManagedMcpServer,
    pub(super) posted: &'a Posted,
    pub(super) records: &'a mut PendingRecords,
    pub(super) down: McpDown<'a, 's>,
    pub(super) session: Option<McpSession>,
    /// The session that the upstream issued with the answer that is being read.
    pub(super) issued: Option<String>,
    /// Its events have places, so that a client may come back for what it missed.
    pub(super) has_places: bool,
}

/// A request of the client's.
pub(super) struct McpAsked<'m> {
    pub(super) id: RpcId,
    pub(super) method: String,
    pub(super) envelope: &'m RawObject<'m>,
    pub(super) version: McpVersion,
    /// Its messages on the way go down as they come.
    pub(super) streams: bool,
}

impl McpAsked<'_> {
    fn is_modern(&self) -> bool {
        self.version.era() == Era::Modern
    }

    fn params(&self) -> Option<RawObject<'_>> {
        self.envelope.object("params")
    }
}

/// Methods that are asked of the upstream; all others are not served.
fn is_served(method: &str, era: Era) -> bool {
    let both = McpKind::listed_by(method).is_some()
        || matches!(method, "tools/call" | "prompts/get" | "resources/read" | "completion/complete");
    both || match era {
        Era::Legacy => {
            matches!(method, "initialize" | "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel")
        }
        Era::Modern => matches!(method, "server/discover" | "subscriptions/listen"),
    }
}

impl McpTurn<'_, '_> {
    fn up(&self) -> UpstreamCalls<'_> {
        UpstreamCalls { calls: self.parts.calls, state: self.parts.state, target: self.target }
    }

    pub(super) async fn post(&mut self) -> Result<(), ClientLeft> {
        let bytes = self.request.ask.content.bytes.clone();
        match RpcBody::parse(&bytes) {
            Err(error) => self.down.error(&error, None).await,
            Ok(RpcBody::Batch(all)) => match self.batch_version() {
                Ok(version) => self.batch(&all, version).await,
                Err(error) => self.down.error(&error, None).await,
            },
            Ok(RpcBody::One(text)) => match RpcMessage::parse(text) {
                Err(bad) => self.down.error(&bad.error, bad.id.as_ref()).await,
                Ok(message) => self.one(&message).await,
            },
        }
    }

    /// The version of a legacy message: what its header says, else the session, else the oldest.
    fn legacy_version(&self) -> Result<McpVersion, RpcError> {
        let told = self.posted.version().map_err(|()| RpcError::invalid("MCP-Protocol-Version stands twice"))?;
        match told {
            Some(name) => McpVersion::served(name).ok_or_else(|| RpcError::bad_version(name)),
            None => {
                let of_session = self.session.as_ref().and_then(|session| McpVersion::parse(&session.version));
                Ok(of_session.unwrap_or(McpVersion::V2025_03_26))
            }
        }
    }

    fn batch_version(&self) -> Result<McpVersion, RpcError> {
        let version = self.legacy_version()?;
        let of_session = self.session.as_ref().is_none_or(|session| session.version == version.name());
        let barred = || RpcError::invalid("Invalid Request: this version of the protocol takes one message at a time");
        if version.takes_batches() && of_session { Ok(version) } else { Err(barred()) }
    }

    /// Which version a message is of; headers of the modern era are held to its body.
    fn version_of(&self, message: &RpcMessage<'_>) -> Result<McpVersion, RpcError> {
        let params = message.params();
        let named = header::meta_version(params.as_ref());
        let of_header = self.posted.version().ok().flatten().is_some_and(McpVersion::is_modern_name);
        match message {
            RpcMessage::Request { method, .. } if named.is_some() || (of_header && method != "initialize") => {
                header::check(&self.posted.headers(), method, params.as_ref())
            }
            RpcMessage::Request { method, .. } if method == "initialize" => {
                let asked = params.as_ref().and_then(|params| params.text("protocolVersion"));
                let asked = asked.ok_or_else(|| RpcError::bad_params("params.protocolVersion must be a text"))?;
                Ok(self.down.negotiated(&asked))
            }
            RpcMessage::Response { .. } if of_header => {
                Err(RpcError::invalid("Invalid Request: this version of the protocol has no responses of clients"))
            }
            RpcMessage::Notification { .. } if of_header => Ok(McpVersion::V2026_07_28),
            _ => self.legacy_version(),
        }
    }

    async fn one(&mut self, message: &RpcMessage<'_>) -> Result<(), ClientLeft> {
        let id = if let RpcMessage::Request { id, .. } = message { Some(id.clone()) } else { None };
        let version = match self.version_of(message) {
            Ok(version) => version,
            Err(error) => return self.down.error(&error, id.as_ref()).await,
        };
        match message {
            RpcMessage::Request { id, method, envelope } => {
                let asked = McpAsked { id: id.clone(), method: method.clone(), envelope, version, streams: true };
                let last = self.answer(&asked).await?;
                self.down.last(last).await
            }
            RpcMessage::Notification { .. } | RpcMessage::Response { .. } => {
                if let Err(error) = self.pass_on(message, version).await? {
                    return self.down.error(&error, None).await;
                }
                self.down.empty(202).await
            }
        }
    }

    /// Messages of a batch one after another; what comes on the way of one has no place in the answer.
    async fn batch(&mut self, all: &[&str], version: McpVersion) -> Result<(), ClientLeft> {
        let (mut answers, mut held) = (Vec::new(), Vec::new());
        for text in all {
            match RpcMessage::parse(text) {
                Err(bad) => answers.push(bad.error.body(bad.id.as_ref())),
                Ok(RpcMessage::Request { id, method, .. }) if method == "initialize" => {
                    answers.push(RpcError::invalid("Invalid Request: initialize stands alone").body(Some(&id)));
                }
                Ok(RpcMessage::Request { id, method, envelope }) => {
                    let asked = McpAsked { id, method, envelope: &envelope, version, streams: false };
                    let last = self.answer(&asked).await?;
                    answers.push(last.body);
                    held.extend(last.held);
                }
                Ok(message) => drop(self.pass_on(&message, version).await?),
            }
        }
        if answers.is_empty() {
            return self.down.empty(202).await;
        }
        self.down.last(LastMessage::ok(format!("[{}]", answers.join(",")))).await
    }

    /// What needs no answer goes up where the upstream keeps sessions, and is done with elsewhere.
    async fn pass_on(
        &mut self,
        message: &RpcMessage<'_>,
        version: McpVersion,
    ) -> Result<Result<(), RpcError>, ClientLeft> {
        let known = match message {
            RpcMessage::Notification { method, .. } => matches!(
                method.as_str(),
                "notifications/initialized"
                    | "notifications/cancelled"
                    | "notifications/progress"
                    | "notifications/roots/list_changed"
            ),
            _ => true,
        };
        if version.era() == Era::Modern || !known {
            return Ok(Ok(()));
        }
        if self.served.is_merged() {
            return Box::pin(self.pass_on_to_members(message)).await;
        }
        if self.target.era() == Era::Modern || self.is_detached() {
            return Ok(Ok(()));
        }
        let ask = self.asking(message.envelope().to_json(), version);
        let calls = UpstreamCalls { calls: self.parts.calls, state: self.parts.state, target: self.target };
        let reply = self.down.client.during(None, calls.send(&ask)).await?;
        Ok(match reply {
            Ok(reply) if matches!(reply.answer, UpstreamAnswer::SessionLost) => Err(RpcError::no_session()),
            Ok(_) => Ok(()),
            // Nobody waits for an answer that could say where to connect.
            Err(error) if is_not_connected(&error) => Ok(()),
            Err(error) => Err(error),
        })
    }

    /// A request to the upstream in the client's own session.
    fn asking(&self, body: String, version: McpVersion) -> UpstreamAsk {
        let member = self.session.as_ref().and_then(|s| s.member(&self.target.part()));
        UpstreamAsk {
            version: Some(member.map_or_else(|| version.name().to_owned(), |member| member.version.clone())),
            session: member.map(|member| member.id.clone()),
            headers: self.posted.traced.clone(),
            opening: self.reopening(),
            ..UpstreamAsk::post(body)
        }
    }

    async fn answer(&mut self, asked: &McpAsked<'_>) -> Result<LastMessage, ClientLeft> {
        if asked.method == "ping" && asked.version.era() == Era::Legacy {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, asked.id.json());
            return Ok(LastMessage::ok(body));
        }
        if let Some(refused) = self.may_not_write(asked) {
            self.note(asked, &refused, Noted::default());
            return Ok(refused);
        }
        if asked.is_modern() && is_of_task(&asked.method) {
            return Box::pin(self.answer_of_task(asked)).await;
        }
        if self.served.is_merged() { self.answer_of_members(asked).await } else { self.answer_of_one(asked).await }
    }

    /// A token may be good for reading alone.
    fn may_not_write(&self, asked: &McpAsked<'_>) -> Option<LastMessage> {
        let authorization = self.parts.state.authorization()?;
        if asked.method != "tools/call" || authorization.may_write(&self.request.caller.tenant) {
            return None;
        }
        let error = RpcError::own(403, "The token lacks the scope mcp:write");
        let challenge = authorization.challenge(&self.request.ask.route.path, McpChallenge::NoWriting);
        Some(LastMessage { challenge, ..LastMessage::error(&error, Some(&asked.id)) })
    }

    /// Everything that is decided before the upstream hears of it, then what it says.
    async fn answer_of_one(&mut self, asked: &McpAsked<'_>) -> Result<LastMessage, ClientLeft> {
        let mut hold = Hold::default();
        if let Err(refused) = self.admit(asked, &mut hold).await {
            self.note(asked, &refused, Noted::default());
            return Ok(*refused);
        }
        let mut guard = match self.guard(asked).await? {
            Ok(guard) => guard,
            Err(last) => {
                self.note(asked, &last, Noted::default());
                return Ok(last);
            }
        };
        let began = Instant::now();
        let asks = self.judged(asked, guard.as_mut()).await?;
        let answered = match &asks {
            GuardedText::Denied => Ok(self.denied(asked, guard.as_mut())),
            GuardedText::Same => self.ask(asked).await,
            GuardedText::Other(params) => {
                let mut envelope = asked.envelope.clone();
                envelope.set("params", params.as_str());
                let (id, method) = (asked.id.clone(), asked.method.clone());
                let other =
                    McpAsked { id, method, envelope: &envelope, version: asked.version, streams: asked.streams };
                self.ask(&other).await
            }
        };
        let mut last = match answered {
            Ok(last) => self.unquoted(last),
            Err(left) => {
                self.cancel(asked).await;
                let cost = self.price(asked);
                let used = Used { tokens: self.tokens_asked(asked), cost: nanos(cost) };
                let mut gone = LastMessage::ok(String::new());
                (gone.status, gone.label) = (499, Some("client_gone"));
                let (upstream, charges) = (began.elapsed(), hold.settle(used));
                self.note(asked, &gone, Noted { upstream, charges, cost, hooks: guard.map(|guard| guard.notes) });
                return Err(left);
            }
        };
        let tokens = self.tokens_asked(asked) + tool_policies::tokens(answer::texts(&last.body));
        // A tool that ran and failed has been called; one that nobody could ask has not.
        let was_called = !matches!(asks, GuardedText::Denied) && last.label.is_none();
        let cost = self.price(asked).filter(|_| was_called);
        // Where nobody was called since there is no account, nothing counts: the same call comes again.
        let charges = if last.is_unconnected {
            hold.release();
            Vec::new()
        } else {
            hold.settle(Used { tokens, cost: nanos(cost) })
        };
        let upstream = began.elapsed();
        if !matches!(asks, GuardedText::Denied) {
            last = self.judged_answer(asked, last, guard.as_mut()).await?;
        }
        self.note(asked, &last, Noted { upstream, charges, cost, hooks: guard.map(|guard| guard.notes) });
        Ok(last)
    }

    /// What a call of a tool costs; `None`: nobody said, or it is no such call.
    fn price(&self, asked: &McpAsked<'_>) -> Option<NanoUsd> {
        let item = filter::named(&asked.method, asked.params().as_ref()).ok().flatten()?;
        self.target.upstream.price(&item.name).filter(|_| item.kind == McpKind::Tool)
    }

    fn tokens_asked(&self, asked: &McpAsked<'_>) -> u64 {
        tool_policies::tokens(arguments(asked))
    }

    /// Whether it may be asked. Whoever may not use a thing is told that there is none.
    async fn admit(&mut self, asked: &McpAsked<'_>, hold: &mut Hold) -> Result<(), Box<LastMessage>> {
        let refused = |error: &RpcError| Box::new(LastMessage::error(error, Some(&asked.id)));
        let modern = asked.is_modern();
        if !is_served(&asked.method, asked.version.era()) {
            return Err(refused(&RpcError::no_method(&asked.method, modern)));
        }
        let params = asked.params();
        let item = filter::named(&asked.method, params.as_ref()).map_err(|error| refused(&error))?;
        let Some(item) = item else { return Ok(()) };
        let drifted = self.parts.state.drift.has(&self.target.upstream, item.kind, &item.name);
        if drifted || !self.target.allows(item.kind, &item.name) {
            return Err(refused(&filter::missing(&item, modern)));
        }
        if item.kind != McpKind::Tool {
            return Ok(());
        }
        if modern {
            self.check_arguments(&item.name, params.as_ref()).map_err(|error| refused(&error))?;
        }
        let (server, price) = (&*self.target.server.slug, self.target.upstream.price(&item.name));
        let called = ToolCalled {
            server,
            tool: &item.name,
            operation: Operation::McpCallTool,
            arguments: arguments(asked),
            price,
        };
        *hold = tool_policies::admit(self.parts.calls, self.request, called).await.map_err(|fault| {
            let kind = fault.kind().row().openai_type;
            let data = json!({"type": kind, "retry_after_ms": fault.retry_after()});
            let error = RpcError::own(fault.status(), fault.message().to_owned()).data(data);
            let label = Some(fault.kind().row().label);
            Box::new(LastMessage { fault: Some(fault), label, ..LastMessage::error(&error, Some(&asked.id)) })
        })?;
        Ok(())
    }

    /// Headers that repeat arguments of a call must say what its body says.
    fn check_arguments(&self, tool: &str, params: Option<&RawObject<'_>>) -> Result<(), RpcError> {
        let Some(annotated) = self.target.upstream.tool_headers(tool) else { return Ok(()) };
        let headers = self.posted.headers();
        annotated.iter().try_for_each(|told| {
            header::check_argument(&headers, &told.name, header::argument(params, &told.path).as_deref())
        })
    }

    /// Asks the upstream in the way that it understands.
    async fn ask(&mut self, asked: &McpAsked<'_>) -> Result<LastMessage, ClientLeft> {
        let answered = asked.params().filter(|_| self.target.person.is_some());
        if let Some(params) = answered.as_ref().and_then(missing_account::without_answer) {
            let mut envelope = asked.envelope.clone();
            envelope.set("params", params.as_str());
            let (id, method) = (asked.id.clone(), asked.method.clone());
            let bare = McpAsked { id, method, envelope: &envelope, version: asked.version, streams: asked.streams };
            return Box::pin(self.ask_anew(&bare, asked)).await;
        }
        self.ask_in_its_way(asked).await
    }

    async fn ask_in_its_way(&mut self, asked: &McpAsked<'_>) -> Result<LastMessage, ClientLeft> {
        match (asked.version.era(), self.target.era()) {
            (Era::Legacy, Era::Legacy) if self.target.member.is_none() && !self.is_detached() => {
                self.ask_directly(asked).await
            }
            (Era::Modern, Era::Modern) => self.ask_modern(asked).await,
            (Era::Legacy, Era::Modern) if asked.method == "initialize" => self.open_modern(asked).await,
            (Era::Legacy, Era::Modern) => self.ask_modern(asked).await,
            (_, Era::Legacy) => self.ask_over_bridge(asked).await,
        }
    }

    async fn ask_directly(&mut self, asked: &McpAsked<'_>) -> Result<LastMessage, ClientLeft> {
        let mut envelope = asked.envelope.clone();
        if asked.method == "initialize" {
            let mut params = asked.params().unwrap_or_default();
            params.set_text("protocolVersion", asked.version.name());
            if let Some(told) = params.raw("capabilities").and_then(bridge::capabilities) {
                params.set("capabilities", told);
            }
            let params = params.to_json();
            envelope.set("params", params);
        }
        let mut ask = self.asking(envelope.to_json(), asked.version);
        if asked.method == "initialize" {
            (ask.version, ask.session) = (None, None);
        }
        self.exchange(asked, &asked.id, &ask).await
    }

    /// Upstreams of the modern era hear no more of a session than of whoever else asks.
    async fn ask_modern(&mut self, asked: &McpAsked<'_>) -> Result<LastMessage, ClientLeft> {
        let params = asked.params();
        let mut envelope = asked.envelope.clone();
        if !asked.is_modern() {
            if matches!(asked.method.as_str(), "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel") {
                return Ok(LastMessage::error(&RpcError::no_method(&asked.method, false), Some(&asked.id)));
            }
            envelope.set("params", bridge::to_modern(params.as_ref()));
        } else if asked.method == "subscriptions/listen"
            && let Some(params) = params.as_ref().and_then(bridge::without_tasks)
        {
            envelope.set("params", params);
        }
        let ask = UpstreamAsk {
            version: Some(McpVersion::V2026_07_28.name().to_owned()),
            rpc_method: Some(asked.method.clone()),
            name: subject(&asked.method, params.as_ref()),
            headers: self.posted.traced.clone(),
            arguments: self.repeated(asked, params.as_ref()),
            ..UpstreamAsk::post(envelope.to_json())
        };
        self.exchange(asked, &asked.id, &ask).await
    }

    /// Arguments that the tool wants in headers, as they stand in what is sent.
    fn repeated(&self, asked: &McpAsked<'_>, params: Option<&RawObject<'_>>) -> Vec<(String, String)> {
        let named = params.filter(|_| asked.method == "tools/call").and_then(|params| params.text("name"));
        let annotated = named.and_then(|name| self.target.upstream.tool_headers(&name));
        let all = annotated.into_iter().flat_map(McpToolHeaders::iter);
        all.filter_map(|told| Some((told.name.to_string(), header::argument(params, &told.path)?))).collect()
    }

    /// The client has left: a modern upstream hears it by the closed connection, a legacy one is told.
    async fn cancel(&self, asked: &McpAsked<'_>) {
        if self.target.era() == Era::Modern || asked.is_modern() || asked.method == "initialize" {
            return;
        }
        // Where the client can come back the call goes on without it.
        if self.has_places && self.target.member.is_none() {
            return;
        }
        let note = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}}}}}"#,
            asked.id.json()
        );
        if self.target.member.is_none() {
            return self.up().notify(&self.asking(note, asked.version)).await;
        }
        let talk = self.talk(self.target);
        // The server knows a call of a shared session by an id that is not at hand here: it is told nothing then.
        if let Some(session) = talk.held().filter(|_| talk.key.session.is_some()) {
            self.up().notify(&session.post(note)).await;
        }
    }

    fn note(&mut self, asked: &McpAsked<'_>, last: &LastMessage, noted: Noted) {
        let Noted { upstream, charges, cost, hooks } = noted;
        let Some(operation) = operation(&asked.method) else { return };
        let named = filter::named(&asked.method, asked.params().as_ref()).ok().flatten();
        let failed = last.label.or_else(|| answer::is_failed(&last.body).then_some("mcp_tool_error"));
        let outcome = McpOutcome {
            protocol: "mcp",
            operation,
            state: None,
            name: named.map(|item| item.name.chars().take(256).collect()).unwrap_or_default(),
            status: last.recorded.unwrap_or(last.status),
            label: failed,
            upstream,
            request_bytes: self.request.ask.content.bytes.len(),
            answer: last.body.clone().into(),
            stream: self.down.has_begun(),
            charges,
            cost,
            hooks,
        };
        let book = McpBook {
            calls: self.parts.calls,
            request: self.request,
            slug: &self.called.slug,
            client: &self.down.client,
        };
        book.write(outcome, self.records);
    }

    /// The client's session, from the one that the upstream issued.
    fn issue(
        &mut self,
        id: Option<String>,
        version: McpVersion,
        (upstream, client): (&str, Option<&str>),
    ) -> Result<(), RpcError> {
        let Some(id) = id else {
            return if client.is_some() { self.issue_alone(version, client) } else { Ok(()) };
        };
        let mut session = self.new_session(version);
        session.client = client.unwrap_or_default().to_owned();
        let integration = self.target.part();
        session.members.push(UpstreamSession { integration, id, version: upstream.to_owned() });
        let sealed = session.seal(self.parts.state);
        self.down.session = Some(sealed.ok_or_else(|| RpcError::own(502, "The MCP server's session is too long"))?);
        Ok(())
    }

    fn new_session(&self, version: McpVersion) -> McpSession {
        let now = crate::clock::now().micros() / 1_000_000;
        let ttl = i64::try_from(self.parts.state.settings.session_ttl.as_secs()).unwrap_or(i64::MAX);
        let server = self.served.server.id.to_string();
        McpSession::new(&server, self.served.principal.clone(), version).lasting(now, ttl)
    }

    /// The end of a session: the upstream's goes, and ours counts as ended whether it minds or not.
    pub(super) async fn end_session(&mut self) -> Result<(), ClientLeft> {
        let modern = self.posted.version().ok().flatten().is_some_and(McpVersion::is_modern_name);
        let (Some(id), false) = (self.posted.session.clone(), modern) else {
            let (status, why) =
                if modern { (405, "This version has no sessions") } else { (400, "No session is named") };
            let error = if modern { RpcError::own(status, why) } else { RpcError::invalid(why) };
            return self.down.error(&error, None).await;
        };
        if self.served.is_merged() {
            Box::pin(self.end_members()).await;
        } else if !self.is_detached() {
            let version = self.session.as_ref().and_then(|session| McpVersion::parse(&session.version));
            let mut ask = self.asking(String::new(), version.unwrap_or(McpVersion::V2025_03_26));
            ask.method = Method::DELETE;
            self.up().notify(&ask).await;
        }
        self.parts.state.end(&id);
        self.down.empty(204).await
    }
}

fn nanos(cost: Option<NanoUsd>) -> Option<u64> {
    cost.and_then(|cost| u64::try_from(cost.0).ok())
}

/// Bytes of what a tool is called with.
fn arguments(asked: &McpAsked<'_>) -> usize {
    asked.params().and_then(|params| params.raw("arguments").map(str::len)).unwrap_or(0)
}

/// The response that a whole answer holds, or what is told where it holds none.
fn parse_response(text: &str, id: &RpcId) -> Result<String, LastMessage> {
    response_of(text, id).ok_or_else(|| unreadable(id))
}
