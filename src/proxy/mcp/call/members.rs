//! One message to several servers that are shown as one: lists are asked of all, a call of the one that its name leads
//! to, and what comes back goes by the names of the whole. A member that fails takes no other with it.

use super::{McpAsked, McpTurn, Noted, is_served};
use crate::proxy::client::ClientLeft;
use crate::proxy::mcp::downstream::LastMessage;
use crate::proxy::mcp::server_query::{self, ListRoom, McpTalk, WITHIN};
use crate::proxy::mcp::state::{BridgeKey, BridgeSession};
use crate::proxy::mcp::target::McpTarget;
use crate::proxy::mcp::upstream::UpstreamCalls;
use futures_util::future::join_all;
use gateway_mcp::filter::{self, McpItem, McpKind};
use gateway_mcp::merge::{self, MergedItem};
use gateway_mcp::session::{UpstreamSession, fingerprint};
use gateway_mcp::{Era, McpVersion, RawObject, RpcError, bridge, names};
use serde_json::json;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// One member being asked.
type MemberAsk<'t, T> = Pin<Box<dyn Future<Output = Result<T, RpcError>> + Send + 't>>;
/// What members that were asked together told, by their places.
type MembersTold<T> = Vec<Result<T, RpcError>>;

impl<'a> McpTurn<'a, '_> {
    pub(super) async fn answer_of_members(&mut self, asked: &McpAsked<'_>) -> Result<LastMessage, ClientLeft> {
        let told = |error: &RpcError| LastMessage::error(error, Some(&asked.id));
        if !is_served(&asked.method, asked.version.era()) {
            return Ok(told(&RpcError::no_method(&asked.method, asked.is_modern())));
        }
        if asked.method == "subscriptions/listen" {
            return Box::pin(self.listen_here(asked)).await;
        }
        let params = asked.params();
        match filter::named(&asked.method, params.as_ref()) {
            Err(error) => return Ok(told(&error)),
            Ok(Some(item)) => return Box::pin(self.ask_member(asked, &item)).await,
            Ok(None) => {}
        }
        let began = Instant::now();
        let result = match asked.method.as_str() {
            "initialize" => Box::pin(self.open_members(asked)).await?,
            "server/discover" => Ok(self.discovered()),
            "logging/setLevel" => Box::pin(self.broadcast(asked)).await?,
            method => match McpKind::listed_by(method) {
                Some(kind) => Box::pin(self.list_members(asked, kind)).await?,
                None => Err(RpcError::no_method(method, asked.is_modern())),
            },
        };
        let last = match result {
            Ok(result) => {
                let result = bridge::result(&result, asked.version.era(), Era::Legacy, &asked.method).unwrap_or(result);
                LastMessage::ok(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, asked.id.json()))
            }
            Err(error) => told(&error),
        };
        self.note(asked, &last, Noted { upstream: began.elapsed(), ..Noted::default() });
        Ok(last)
    }

    /// How a member is spoken with in the name of this caller.
    pub(super) fn talk(&self, target: &'a McpTarget) -> McpTalk<'a> {
        let (parts, session) = (self.parts, self.session.as_ref());
        let opening = match session.filter(|_| target.member.is_some()) {
            Some(session) => opening(&session.version, &session.client),
            None => bridge::initialize_params(McpVersion::NEWEST_LEGACY).to_string(),
        };
        McpTalk {
            calls: UpstreamCalls { calls: parts.calls, state: parts.state, target },
            state: parts.state,
            key: self.key_of(target),
            sealed: session.and_then(|session| session.member(&target.part())).cloned(),
            opening,
            traced: self.posted.traced.clone(),
        }
    }

    /// Which upstream session is used. At a member it is the client's own where it has one, else one that stands for
    /// the caller.
    pub(super) fn key_of(&self, target: &McpTarget) -> BridgeKey {
        let upstream = &target.upstream;
        let own = self.session.is_some() && target.member.is_some();
        let session = self.posted.session.as_deref().filter(|_| own).map(fingerprint);
        BridgeKey {
            integration: upstream.id.0,
            revision: if own { 0 } else { upstream.revision },
            principal: self.served.principal.clone(),
            session: session.map(|session| format!("{session}.{}", target.part()).into()),
        }
    }

    /// How the client's session began, where its connection may not be open on this node.
    pub(super) fn reopening(&self) -> Option<String> {
        let session = self.session.as_ref().filter(|_| self.target.upstream.transport.stays_open())?;
        Some(opening(&session.version, &session.client))
    }

    fn all_talks(&self) -> Vec<McpTalk<'a>> {
        self.served.targets.iter().map(|target| self.talk(target)).collect()
    }

    /// Asks all members at once, each for as long as all may take.
    async fn together<T: Send>(&mut self, asking: Vec<MemberAsk<'_, T>>) -> Result<MembersTold<T>, ClientLeft> {
        let within = WITHIN.min(self.parts.state.settings.silence);
        let all: Vec<MemberAsk<'_, T>> =
            asking.into_iter().map(|one| Box::pin(in_time(one, within)) as MemberAsk<'_, T>).collect();
        self.down.client.during(None, join_all(all)).await
    }

    /// A call of the one thing that is named.
    async fn ask_member(&mut self, asked: &McpAsked<'_>, item: &McpItem) -> Result<LastMessage, ClientLeft> {
        let missing = || LastMessage::error(&filter::missing(item, asked.is_modern()), Some(&asked.id));
        let found = match self.whose(item).await? {
            Ok(found) => found.filter(|(target, own)| target.allows(item.kind, own)),
            Err(error) => return Ok(LastMessage::error(&error, Some(&asked.id))),
        };
        let (Some((target, own)), Some(params)) = (found, asked.params()) else {
            let last = missing();
            self.note(asked, &last, Noted::default());
            return Ok(last);
        };
        let mut envelope = asked.envelope.clone();
        envelope.set("params", merge::asked(&asked.method, &params, &own));
        let (id, method) = (asked.id.clone(), asked.method.clone());
        let other = McpAsked { id, method, envelope: &envelope, version: asked.version, streams: asked.streams };
        (self.target, self.called) = (target, &target.server);
        let last = Box::pin(self.answer_of_one(&other)).await;
        self.called = &self.served.server;
        let last = last?;
        Ok(renamed(&asked.method, last, target.prefix()))
    }

    /// The member that a merged name leads to, and what it calls the thing.
    async fn whose(&mut self, item: &McpItem) -> Result<Result<Option<(&'a McpTarget, String)>, RpcError>, ClientLeft> {
        let Some((prefix, own)) = merge::split(item.kind, &item.name) else { return Ok(Ok(None)) };
        let served = self.served;
        let Some(target) = served.targets.iter().find(|target| target.prefix() == prefix) else {
            let lacking = served.lacking.iter().any(|member| &*member.prefix == prefix);
            let away =
                || RpcError::own(503, format!("The member `{prefix}` of this MCP server cannot be used at present"));
            return Ok(if lacking { Err(away()) } else { Ok(None) });
        };
        if !names::may_be_cut(&item.name) || !matches!(item.kind, McpKind::Tool | McpKind::Prompt) {
            return Ok(Ok(Some((target, own))));
        }
        // What the member calls it cannot be read from a name that was cut.
        let (talk, room) = (self.talk(target), ListRoom::default());
        let listed = self.down.client.during(None, Box::pin(talk.list(item.kind, &room))).await?;
        let all = match listed {
            Ok(all) => merge::keep_distinct(all),
            Err(error) => return Ok(Err(error)),
        };
        Ok(Ok(all.into_iter().find(|found| found.name == item.name).map(|found| (target, found.own))))
    }

    async fn list_members(
        &mut self,
        asked: &McpAsked<'_>,
        kind: McpKind,
    ) -> Result<Result<String, RpcError>, ClientLeft> {
        let cursor = asked.params().and_then(|params| params.text("cursor"));
        let Some(from) = cursor.as_deref().map_or(Some(0), merge::place) else {
            return Ok(Err(RpcError::bad_params("params.cursor is none that was given here")));
        };
        let room = ListRoom::default();
        let talks = self.all_talks();
        let mut asking: Vec<MemberAsk<'_, _>> = Vec::with_capacity(talks.len());
        for talk in &talks {
            asking.push(Box::pin(talk.list(kind, &room)));
        }
        let told = self.together(asking).await?;
        Ok(self.joined(told).map(|(all, unavailable)| page(kind, &all, from, &unavailable)))
    }

    /// What the members listed, in their order. A required one that failed fails the whole, an optional one is named.
    fn joined(&self, told: MembersTold<Vec<MergedItem>>) -> Result<(Vec<MergedItem>, Vec<&'a str>), RpcError> {
        let served = self.served;
        let mut unavailable: Vec<&str> = served.lacking.iter().map(|member| &*member.prefix).collect();
        let mut required = served.lacking.iter().find(|member| !member.optional).map(|member| &*member.prefix);
        let (mut all, mut answered) = (Vec::new(), false);
        for (target, told) in served.targets.iter().zip(told) {
            match told {
                Ok(items) => {
                    answered = true;
                    all.extend(items);
                }
                Err(_) => {
                    unavailable.push(target.prefix());
                    required = required.or((!target.is_optional()).then(|| target.prefix()));
                }
            }
        }
        if let Some(prefix) = required {
            return Err(RpcError::own(502, format!("The member `{prefix}` of this MCP server did not answer")));
        }
        if !answered {
            return Err(RpcError::own(502, "No member of this MCP server answered"));
        }
        Ok((merge::keep_distinct(all), unavailable))
    }

    /// Every member hears of it; whether one minds is its own matter.
    async fn broadcast(&mut self, asked: &McpAsked<'_>) -> Result<Result<String, RpcError>, ClientLeft> {
        let params = asked.params();
        let method = asked.method.as_str();
        let talks = self.all_talks();
        let mut asking: Vec<MemberAsk<'_, _>> = Vec::new();
        for talk in talks.iter().filter(|talk| talk.calls.target.era() == Era::Legacy && talk.held().is_some()) {
            asking.push(Box::pin(talk.request(method, params.as_ref())));
        }
        self.together(asking).await.map(|_| Ok("{}".to_owned()))
    }

    fn discovered(&self) -> String {
        let told = self.served.targets.iter().map(|target| target.upstream.capabilities.as_str());
        let mut result = RawObject::default();
        result.set_text("resultType", "complete");
        result.set("supportedVersions", bridge::supported_versions());
        result.set("capabilities", merge::capabilities(told));
        let info = self.server_info();
        result.set("serverInfo", info.as_str());
        result.set("_meta", format!(r#"{{"io.modelcontextprotocol/serverInfo":{info}}}"#));
        result.to_json()
    }

    fn server_info(&self) -> String {
        json!({"name": &*self.served.server.slug, "version": env!("CARGO_PKG_VERSION")}).to_string()
    }

    /// Opens a session with each member that keeps any. One that cannot be reached is opened when it is asked.
    async fn open_members(&mut self, asked: &McpAsked<'_>) -> Result<Result<String, RpcError>, ClientLeft> {
        let client = asked.params().and_then(|params| params.raw("capabilities").and_then(bridge::capabilities));
        let client = client.filter(|told| told.len() <= MOST_CLIENT).unwrap_or_else(|| "{}".to_owned());
        let params = opening(asked.version.name(), &client);
        let talks = self.all_talks();
        let mut asking: Vec<MemberAsk<'_, _>> = Vec::with_capacity(talks.len());
        for talk in &talks {
            asking.push(Box::pin(opened(talk, &params)));
        }
        let opened = self.together(asking).await?;
        let (mut parts, mut told, mut keeps) = (Vec::new(), Vec::new(), client != "{}");
        for (target, opened) in self.served.targets.iter().zip(opened) {
            let capabilities = match opened {
                Ok(Some(session)) => {
                    keeps |= session.id.is_some();
                    let id = session.id.unwrap_or_default();
                    parts.push(UpstreamSession { integration: target.part(), id, version: session.version });
                    RawObject::parse(&session.opened).ok().and_then(|o| o.raw("capabilities").map(str::to_owned))
                }
                Ok(None) => None,
                Err(_) => {
                    keeps = true;
                    None
                }
            };
            told.push(capabilities.unwrap_or_else(|| target.upstream.capabilities.clone()));
        }
        if keeps && let Err(error) = self.issue_parts(parts, asked.version, client) {
            return Ok(Err(error));
        }
        let mut result = RawObject::default();
        result.set_text("protocolVersion", asked.version.name());
        let told = merge::capabilities(told.iter().map(String::as_str));
        result.set("capabilities", bridge::capabilities(&told).unwrap_or(told));
        result.set("serverInfo", self.server_info());
        Ok(Ok(result.to_json()))
    }

    /// A session over those of the members. Where all of them are too long to be carried, each node opens its own.
    fn issue_parts(
        &mut self,
        parts: Vec<UpstreamSession>,
        version: McpVersion,
        client: String,
    ) -> Result<(), RpcError> {
        let mut session = self.new_session(version);
        (session.members, session.client) = (parts, client);
        let sealed = session.seal(self.parts.state).or_else(|| {
            session.members.clear();
            session.seal(self.parts.state)
        });
        let too_long = || RpcError::own(502, "The session is too long to be carried");
        self.down.session = Some(sealed.ok_or_else(too_long)?);
        Ok(())
    }
}

async fn in_time<T>(asking: MemberAsk<'_, T>, within: Duration) -> Result<T, RpcError> {
    let late = |_| RpcError::own(408, "The MCP server said nothing in time");
    pingora_timeout::timeout(within, asking).await.map_err(late).and_then(|told| told)
}

/// A session with one that keeps any.
async fn opened(talk: &McpTalk<'_>, params: &str) -> Result<Option<BridgeSession>, RpcError> {
    let target = talk.calls.target;
    if target.era() == Era::Legacy {
        return server_query::open(talk.calls, params).await.map(Some);
    }
    // One of both eras opens a session as well; no other needs any.
    let known = &talk.state.sessionless;
    if known.has(&target.upstream, Instant::now()) {
        return Ok(None);
    }
    match server_query::open(talk.calls, params).await {
        Ok(session) => Ok(Some(session).filter(|session| session.id.is_some())),
        Err(error) => {
            if error.code < 0 {
                known.note(&target.upstream, Instant::now());
            }
            Ok(None)
        }
    }
}

/// Bytes of what a client says it can do, as far as its session carries them.
pub(super) const MOST_CLIENT: usize = 1024;

/// Parameters of `initialize` for a client that can do this.
fn opening(version: &str, client: &str) -> String {
    let info = bridge::client_info();
    let client = if client.is_empty() { "{}" } else { client };
    format!(r#"{{"protocolVersion":"{version}","capabilities":{client},"clientInfo":{info}}}"#)
}

/// One page of a merged list.
fn page(kind: McpKind, all: &[MergedItem], from: usize, unavailable: &[&str]) -> String {
    let to = from.saturating_add(merge::PAGE).min(all.len());
    let shown: Vec<&str> = all.get(from..to).unwrap_or_default().iter().map(|item| item.json.as_str()).collect();
    let mut result = RawObject::default();
    result.set(kind.member(), format!("[{}]", shown.join(",")));
    if to < all.len() {
        result.set_text("nextCursor", &merge::cursor(to));
    }
    if !unavailable.is_empty() {
        result.set("_meta", json!({"gateway/unavailable": unavailable}).to_string());
    }
    result.to_json()
}

/// The answer of a member under the names of the whole.
fn renamed(method: &str, last: LastMessage, prefix: &str) -> LastMessage {
    let change = || {
        let mut envelope = RawObject::parse(&last.body).ok()?;
        let result = merge::result(method, envelope.raw("result")?, prefix)?;
        envelope.set("result", result);
        Some(envelope.to_json())
    };
    let body = change();
    LastMessage { body: body.unwrap_or(last.body), ..last }
}
