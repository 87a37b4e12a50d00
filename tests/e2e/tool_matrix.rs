//! No side door to tools and agents: what holds on one way to call them holds on every way. Tools, prompts and
//! resources in a session, in the modern era and in a batch, at a server, at one made of others and at all as one;
//! agents in both versions, by both bindings, whole and as events.

use crate::agent_script::{self, AgentScript};
use crate::harness::call::Call;
use crate::harness::{Answer, Gateway, Upstream, eventually};
use crate::mcp_script::{Script, ScriptedMcp, initialize, request};
use crate::ways::{GatewayWay, WayAnswer, leave_a_record, refuse_whoever_may_not, trace_of};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum McpPlace {
    Own,
    Virtual,
    /// All of them as one.
    All,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum McpForm {
    Session,
    Modern,
    Batch,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum McpThing {
    Tool,
    Prompt,
    Resource,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AgentBinding {
    Rpc,
    Rest,
}

/// One way to call a tool or an agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ToolWay {
    Mcp { place: McpPlace, form: McpForm, thing: McpThing },
    Agent { version: &'static str, binding: AgentBinding, streams: bool },
}

/// What is said, for guardrails to find; the scripted servers say it again.
const WORD: &str = "hello";
const BOTH: [&str; 2] = ["mcp.invoke", "agents.invoke"];

pub(crate) fn ways() -> Vec<ToolWay> {
    let mut all = Vec::new();
    for place in [McpPlace::Own, McpPlace::Virtual, McpPlace::All] {
        for form in [McpForm::Session, McpForm::Modern, McpForm::Batch] {
            for thing in [McpThing::Tool, McpThing::Prompt, McpThing::Resource] {
                all.push(ToolWay::Mcp { place, form, thing });
            }
        }
    }
    for version in ["0.3", "1.0"] {
        for binding in [AgentBinding::Rpc, AgentBinding::Rest] {
            for streams in [false, true] {
                all.push(ToolWay::Agent { version, binding, streams });
            }
        }
    }
    all
}

/// A gateway with `files`, `suite` made of it, and the agent `helper`.
pub(crate) struct ToolHouse {
    pub(crate) gateway: Gateway,
    pub(crate) mcp: ScriptedMcp,
    pub(crate) agent: Upstream,
    pub(crate) key: String,
}

impl ToolHouse {
    async fn start() -> Self {
        Self::with(&[]).await
    }

    pub(crate) async fn with(flags: &[&str]) -> Self {
        let (gateway, mcp) = (Gateway::with(flags).await, ScriptedMcp::start(Script::default()).await);
        let agent = agent_script::agent(AgentScript::default()).await;
        let admin = gateway.admin();
        let priced = json!({"pricing": {"default_usd_per_call": 0.6}});
        for (kind, url) in [("mcp", mcp.upstream.url()), ("agent", agent.url())] {
            let mut integration = json!({"name": kind, "slug": kind, "url": url, "auth_type": "none",
                "configurations": priced});
            if kind == "mcp" {
                integration["transport"] = "http".into();
            }
            admin.post(&format!("/{kind}-integrations"), &integration).await.expect(200);
        }
        let files = json!({"name": "Files", "slug": "files", "mcp_integration_id": "mcp"});
        admin.post("/mcp-servers", &files).await.expect(200);
        let suite = json!({"name": "Suite", "slug": "suite", "members": [{"mcp_server_id": "files"}]});
        admin.post("/mcp-servers", &suite).await.expect(200);
        let helper = json!({"name": "Helper", "slug": "helper", "agent_integration_id": "agent"});
        admin.post("/agent-servers", &helper).await.expect(200);
        let key = admin.workspace_key("tools", json!({"scopes": BOTH})).await.1;
        Self { gateway, mcp, agent, key }
    }

    /// A key that may call everything, held to what `fields` say.
    async fn key(&self, fields: Value) -> String {
        let fields = crate::harness::with(json!({"scopes": BOTH}), fields);
        self.gateway.admin().workspace_key("held", fields).await.1
    }

    async fn ask(&self, way: ToolWay, key: &str) -> Answer {
        way.ask(&self.gateway, &[("x-gateway-api-key", key)]).await
    }

    /// Calls that reached either of them; lists and sessions are none.
    fn calls(&self) -> usize {
        let methods = ["tools/call", "prompts/get", "resources/read"];
        let sent = self.agent.seen().iter().filter(|seen| !seen.target.contains(".well-known")).count();
        methods.iter().map(|method| self.mcp.heard(method).len()).sum::<usize>() + sent
    }

    /// A guardrail of the whole workspace that denies what holds the word, on one side.
    async fn forbid(&self, side: &str) {
        let checks = json!([{"id": "contains", "parameters": {"words": [WORD], "operator": "none"}}]);
        let guardrail = json!({"name": side, "checks": checks, "actions": {"deny": true}});
        let slug = self.gateway.admin().post("/guardrails", &guardrail).await.expect(200).json()["slug"].clone();
        let mut defaults = json!({"input_guardrails": [], "output_guardrails": []});
        defaults[side] = json!([slug]);
        let body = json!({"defaults": defaults});
        self.gateway.admin().put("/admin/workspaces/default", &body).await.expect(200);
    }
}

impl ToolWay {
    /// It is limited, judged and paid for: prompts and resources are only seen.
    fn is_called(self) -> bool {
        !matches!(self, Self::Mcp { thing: McpThing::Prompt | McpThing::Resource, .. })
    }

    fn is_batch(self) -> bool {
        matches!(self, Self::Mcp { form: McpForm::Batch, .. })
    }

    fn is_rest(self) -> bool {
        matches!(self, Self::Agent { binding: AgentBinding::Rest, .. })
    }

    /// The code of the error by which something is told to be missing.
    fn missing(self) -> i64 {
        match self {
            Self::Mcp { form: McpForm::Session | McpForm::Batch, thing: McpThing::Resource, .. } => -32002,
            _ => -32602,
        }
    }

    fn operation(self) -> &'static str {
        match self {
            Self::Mcp { thing: McpThing::Tool, .. } => "mcp.tools/call",
            Self::Mcp { thing: McpThing::Prompt, .. } => "mcp.prompts/get",
            Self::Mcp { thing: McpThing::Resource, .. } => "mcp.resources/read",
            Self::Agent { streams: false, .. } => "a2a.SendMessage",
            Self::Agent { streams: true, .. } => "a2a.SendStreamingMessage",
        }
    }

    pub(crate) async fn ask(self, gateway: &Gateway, headers: &[(&str, &str)]) -> Answer {
        match self {
            Self::Mcp { place, form, thing } => ask_mcp((place, form, thing), gateway, headers).await,
            Self::Agent { version, binding, streams } => {
                let (path, body) = agent_message(version, binding, streams);
                let call = gateway.call("POST", &format!("/v1/agent/helper{path}")).header("a2a-version", version);
                with_headers(call, headers).json(&body).send().await
            }
        }
    }

    /// The error that an answer holds, in whatever form this way has.
    fn error(self, answer: &Answer) -> Value {
        let text = answer.text();
        let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        let body: Value = serde_json::from_str(last.unwrap_or(&text)).unwrap_or_else(|e| panic!("{e}: {text}"));
        let body = if self.is_batch() && body.is_array() { body[0].clone() } else { body };
        body["error"].clone()
    }

    /// A refusal by a limit or a budget: its status, and the same in the words of this way.
    #[track_caller]
    fn expect_limited(self, answer: &Answer, status: u16) -> Value {
        let told = if self.is_batch() { 200 } else { status };
        assert_eq!(answer.status, told, "{self:?}: {}", answer.text());
        let error = self.error(answer);
        assert_eq!(error["code"], status, "{self:?}: {error}");
        if self.is_rest() { error["details"][0].clone() } else { error["data"].clone() }
    }

    /// Whether guardrails denied it.
    fn is_denied(self, answer: &Answer) -> bool {
        match self {
            Self::Mcp { .. } => answer.status == 200 && answer.text().contains("gateway/hook_results"),
            Self::Agent { streams, .. } => {
                let may_be_events = streams && answer.status == 200;
                (may_be_events || answer.status == if self.is_rest() { 446 } else { 200 })
                    && self.error(answer)["code"] == 446
            }
        }
    }
}

impl GatewayWay for ToolWay {
    async fn take(self, gateway: &Gateway, headers: &[(&str, &str)]) -> WayAnswer {
        let answer = self.ask(gateway, headers).await;
        WayAnswer { status: answer.status, text: answer.text() }
    }

    fn success(self) -> u16 {
        200
    }
}

fn with_headers(call: Call, headers: &[(&str, &str)]) -> Call {
    headers.iter().fold(call, |call, (name, value)| call.header(name, value))
}

/// Path below the agent and body.
fn agent_message(version: &str, binding: AgentBinding, streams: bool) -> (String, Value) {
    let part = if version == "1.0" { json!({"text": WORD}) } else { json!({"kind": "text", "text": WORD}) };
    let params = json!({"message": {"messageId": "m", "role": "user", "parts": [part]}});
    let rpc = |method: &str| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    match (binding, version, streams) {
        (AgentBinding::Rpc, "1.0", false) => (String::new(), rpc("SendMessage")),
        (AgentBinding::Rpc, "1.0", true) => (String::new(), rpc("SendStreamingMessage")),
        (AgentBinding::Rpc, _, false) => (String::new(), rpc("message/send")),
        (AgentBinding::Rpc, _, true) => (String::new(), rpc("message/stream")),
        (AgentBinding::Rest, version, streams) => {
            let base = if version == "1.0" { "/rest" } else { "/rest/v1" };
            (format!("{base}/message:{}", if streams { "stream" } else { "send" }), params)
        }
    }
}

async fn ask_mcp(
    (place, form, thing): (McpPlace, McpForm, McpThing),
    gateway: &Gateway,
    headers: &[(&str, &str)],
) -> Answer {
    let (path, prefix) = match place {
        McpPlace::Own => ("/files/mcp", ""),
        McpPlace::Virtual => ("/suite/mcp", "files"),
        McpPlace::All => ("/mcp", "files"),
    };
    let name =
        |own: &str, joint: &str| if prefix.is_empty() { own.to_owned() } else { format!("{prefix}{joint}{own}") };
    let (method, mut params, named) = match thing {
        McpThing::Tool => {
            let name = name("echo", "__");
            ("tools/call", json!({"name": name, "arguments": {"say": WORD}}), name)
        }
        McpThing::Prompt => {
            let name = name("greet", "__");
            ("prompts/get", json!({"name": name, "arguments": {"say": WORD}}), name)
        }
        McpThing::Resource => {
            let uri = name("file:///a", "+");
            ("resources/read", json!({"uri": uri}), uri)
        }
    };
    let post = || gateway.call("POST", path).header("accept", "application/json, text/event-stream");
    if form == McpForm::Modern {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let call = post().header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
        return with_headers(call.header("mcp-name", &named), headers).json(&request(method, params)).send().await;
    }
    let version = if form == McpForm::Batch { "2025-03-26" } else { "2025-06-18" };
    // Whoever may open none goes on without: what is asked for is refused by itself.
    let key: Vec<(&str, &str)> = headers.iter().copied().filter(|(name, _)| *name == "x-gateway-api-key").collect();
    let opened = with_headers(post(), &key).json(&initialize(version)).send().await;
    let call = with_headers(post(), headers);
    let call = match opened.header("mcp-session-id") {
        Some(session) => call.header("mcp-session-id", session),
        None => call,
    };
    let body = request(method, params);
    call.json(&if form == McpForm::Batch { json!([body]) } else { body }).send().await
}

#[tokio::test]
async fn who_may_not_is_refused_on_every_way() {
    // The rate for unknown keys is off: so many strangers from one address would have to wait.
    let house = ToolHouse::with(&["--unknown-key-rate", "0"]).await;
    refuse_whoever_may_not(&house.gateway, &ways(), &[]).await;
    assert_eq!(house.calls(), 0);
}

#[tokio::test]
async fn what_a_key_or_a_person_may_not_use_is_refused_on_every_way() {
    let house = ToolHouse::start().await;
    let admin = house.gateway.admin();
    let access = json!({"deny": ["files/echo", "files/greet", "files/file:///a"]});
    let held = house.key(json!({"mcp_access": access})).await;
    let mcp: Vec<ToolWay> = ways().into_iter().filter(|way| matches!(way, ToolWay::Mcp { .. })).collect();
    for way in &mcp {
        let answer = house.ask(*way, &held).await;
        assert_eq!(way.error(&answer)["code"], way.missing(), "{way:?}: {}", answer.text());
    }
    let others = house.key(json!({"mcp_access": {"allow": ["mail"]}})).await;
    for way in &mcp {
        assert_eq!(house.ask(*way, &others).await.status, 404, "{way:?}");
    }
    for path in ["/mcp-servers/files/user-access", "/agent-servers/helper/user-access"] {
        admin.put(path, &json!({"default_user_access": "deny"})).await.expect(200);
    }
    for way in ways() {
        let answer = house.ask(way, &house.key).await;
        // A member that is not open to somebody is none of the whole for them; here nothing is left of it.
        let expected =
            if matches!(way, ToolWay::Mcp { place: McpPlace::Virtual | McpPlace::All, .. }) { 404 } else { 403 };
        assert_eq!(answer.status, expected, "{way:?}: {}", answer.text());
    }
    assert_eq!(house.calls(), 0, "nothing of it went up");
    for path in ["/mcp-servers/files/user-access", "/agent-servers/helper/user-access"] {
        admin.put(path, &json!({"default_user_access": "allow"})).await.expect(200);
    }
    for way in ways() {
        let answer = house.ask(way, &house.key).await.expect(200);
        assert!(way.error(&answer).is_null(), "{way:?}: {}", answer.text());
    }
    assert_eq!(house.calls(), ways().len());
}

#[tokio::test]
async fn a_limit_holds_on_every_way_and_is_told_in_its_words() {
    let house = ToolHouse::start().await;
    for server in ["files", "helper"] {
        let policy = json!({"name": "One Call", "target": "mcp_tools", "type": "requests", "unit": "rpw", "value": 1,
            "conditions": [{"key": "mcp_server", "value": server}], "group_by": [{"key": "api_key"}]});
        house.gateway.admin().post("/policies/rate-limits", &policy).await.expect(200);
    }
    for way in ways() {
        let key = house.key(json!({})).await;
        let first = house.ask(way, &key).await.expect(200);
        assert!(way.error(&first).is_null(), "{way:?}: {}", first.text());
        let before = house.calls();
        let second = house.ask(way, &key).await;
        if !way.is_called() {
            assert!(second.status == 200 && way.error(&second).is_null(), "{way:?}: {}", second.text());
            continue;
        }
        let data = way.expect_limited(&second, 429);
        assert!(data["retry_after_ms"].as_u64() > Some(0), "{way:?}: {}", second.text());
        assert!(second.text().contains("One Call"), "{way:?}: {}", second.text());
        assert!(way.is_batch() || second.header("retry-after").is_some(), "{way:?}");
        assert_eq!(house.calls(), before, "{way:?}: it went up");
    }
}

#[tokio::test]
async fn a_budget_that_is_spent_holds_on_every_way() {
    let house = ToolHouse::start().await;
    for way in ways() {
        // A dollar is one call of 60 cents.
        let key = house.key(json!({"usage_limits": {"credit_limit": 1, "type": "cost"}})).await;
        house.ask(way, &key).await.expect(200);
        let before = house.calls();
        let second = house.ask(way, &key).await;
        if way.is_called() {
            way.expect_limited(&second, 412);
            assert_eq!(house.calls(), before, "{way:?}: it went up");
        } else {
            assert!(second.status == 200 && way.error(&second).is_null(), "{way:?}: {}", second.text());
        }
    }
}

#[tokio::test]
async fn guardrails_hold_on_every_way() {
    let house = ToolHouse::start().await;
    for (side, goes_up) in [("input_guardrails", false), ("output_guardrails", true)] {
        house.forbid(side).await;
        for way in ways() {
            let before = house.calls();
            let trace = format!("{side}-{}", trace_of(way));
            let headers = [("x-gateway-api-key", house.key.as_str()), ("x-gateway-trace-id", &trace)];
            let answer = way.ask(&house.gateway, &headers).await;
            assert_eq!(way.is_denied(&answer), way.is_called(), "{side} {way:?}: {}", answer.text());
            let sent = if way.is_called() { usize::from(goes_up) } else { 1 };
            assert_eq!(house.calls(), before + sent, "{side} {way:?}");
            if !way.is_called() {
                continue;
            }
            let said = ["artifact", r#"{\"say\""#];
            assert!(!said.iter().any(|said| answer.text().contains(said)), "{way:?}: {}", answer.text());
            eventually(&format!("the record of {side} {way:?}"), || async {
                let list = house.gateway.admin().get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
                let row = list["data"].as_array().filter(|rows| rows.len() == 1)?[0].to_string();
                assert!(row.contains("446") && row.contains("hooks_failed"), "{way:?}: {row}");
                Some(())
            })
            .await;
        }
    }
}

/// The record says what it was and what it cost: 60 cents, where calls have a price.
#[tokio::test]
async fn every_way_leaves_a_record_with_its_cost() {
    let house = ToolHouse::start().await;
    leave_a_record(&house.gateway, &ways(), &[("x-gateway-api-key", &house.key)], |way, row| {
        let text = row.to_string();
        assert!(text.contains(way.operation()), "{way:?}: {text}");
        let server = if matches!(way, ToolWay::Mcp { .. }) { "files" } else { "helper" };
        assert!(text.contains(server) && text.contains("200"), "{way:?}: {text}");
        let cost = row["metrics"]["cost"].as_f64().unwrap_or_default();
        let expected = if way.is_called() { 60.0 } else { 0.0 };
        assert!((cost - expected).abs() < 1e-9, "{way:?}: {text}");
    })
    .await;
}
