//! A scripted agent that speaks A2A, for the tests of agents: what reaches it can be read.

use crate::harness::call::Call;
use crate::harness::{Answer, Gateway, Seen, Upstream, reply};
use serde_json::{Value, json};

/// The card of an agent at this address, in both versions at once.
pub(crate) fn card(url: &str) -> Value {
    json!({
        "name": "Scripted", "description": "echoes", "version": "7", "url": format!("{url}/a2a"),
        "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": "grpc.example.com:443", "transport": "GRPC"}],
        "supportedInterfaces": [
            {"url": format!("{url}/a2a"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": format!("{url}/rest"), "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            {"url": "grpc.example.com:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": true, "pushNotifications": true, "extendedAgentCard": true},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "echo", "name": "Echo", "description": "says it again", "tags": ["a"]},
            {"id": "secret", "name": "Secret", "description": "is kept", "tags": []}],
        "securitySchemes": {"theirs": {"type": "apiKey", "in": "header", "name": "x-theirs"}},
        "security": [{"theirs": []}], "signatures": [{"protected": "p", "signature": "s"}], "x-own": {"kept": 1},
    })
}

/// Where a request was sent, as a card names it.
pub(crate) fn address(seen: &Seen) -> String {
    format!("http://{}/v1", seen.header("host").unwrap_or_default())
}

/// An agent that gives its card, and nothing else.
pub(crate) async fn carded(card: impl Fn(&str) -> Value + Send + Sync + 'static) -> Upstream {
    Upstream::replying(move |seen| match seen.target.as_str() {
        "/v1/.well-known/agent-card.json" => reply::json(200, &card(&address(seen))),
        _ => reply::whole(404, &[], ""),
    })
    .await
}

/// How the scripted agent behaves.
#[derive(Clone, Copy, Default)]
pub(crate) struct AgentScript {
    /// Its card names another origin for every endpoint.
    pub(crate) is_far: bool,
    /// Breaks streams off before the task is done.
    pub(crate) breaks: bool,
    /// Answers with this text instead of an echo.
    pub(crate) says: Option<&'static str>,
}

/// A task of either version, as the agent knows it.
fn task(version: &str, message: &Value, state: &str, said: &str) -> Value {
    let id = message["taskId"].as_str().or(message["task_id"].as_str()).unwrap_or("task-7");
    let context = message["contextId"].as_str().or(message["context_id"].as_str()).unwrap_or("context-7");
    if version == "1.0" {
        return json!({"id": id, "contextId": context, "status": {"state": format!("TASK_STATE_{state}")},
            "artifacts": [{"artifactId": "a", "parts": [{"text": said}]}]});
    }
    json!({"kind": "task", "id": id, "contextId": context, "status": {"state": state.to_lowercase()},
        "artifacts": [{"artifactId": "a", "parts": [{"kind": "text", "text": said}]}]})
}

fn said(message: &Value, script: AgentScript) -> String {
    script.says.map_or_else(|| message["parts"][0]["text"].as_str().unwrap_or_default().to_owned(), str::to_owned)
}

/// Events of a stream: a task at work, a piece, and the end.
fn events(version: &str, message: &Value, script: AgentScript) -> Vec<Value> {
    let work = task(version, message, "WORKING", "");
    let (id, context) = (&work["id"], &work["contextId"]);
    let said = said(message, script);
    let (half, rest) = said.split_at(said.len() / 2);
    if version == "1.0" {
        let piece = |text: &str| {
            json!({"artifactUpdate": {"taskId": id, "contextId": context,
            "artifact": {"artifactId": "a", "parts": [{"text": text}]}, "append": true}})
        };
        let end = json!({"statusUpdate": {"taskId": id, "contextId": context,
            "status": {"state": "TASK_STATE_COMPLETED"}}});
        return vec![json!({"task": work}), piece(half), piece(rest), end];
    }
    let piece = |text: &str| {
        json!({"kind": "artifact-update", "taskId": id, "contextId": context,
        "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": text}]}})
    };
    let end = json!({"kind": "status-update", "taskId": id, "contextId": context, "final": true,
        "status": {"state": "completed"}});
    vec![work.clone(), piece(half), piece(rest), end]
}

fn stream(all: &[Value], script: AgentScript) -> Vec<u8> {
    let shown = if script.breaks { &all[..2] } else { all };
    let mut out = [reply::STREAM, &reply::chunk(": hello\n\n")].concat();
    for event in shown {
        out.extend(reply::chunk(format!("data: {event}\n\n")));
    }
    // A stream of JSON-RPC breaks off in the middle, one of HTTP with JSON only ends too early.
    let is_cut = script.breaks && all[0].get("jsonrpc").is_some();
    out.extend(if is_cut { b"zz\r\n" } else { reply::LAST_CHUNK });
    out
}

fn rpc(seen: &Seen, script: AgentScript) -> Vec<u8> {
    let body = seen.json();
    let (method, params) = (body["method"].as_str().unwrap_or_default(), &body["params"]);
    let version = seen.header("a2a-version").filter(|v| !v.is_empty()).unwrap_or("0.3");
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
    let message = &params["message"];
    let result = match method {
        "SendMessage" => json!({"task": task("1.0", message, "COMPLETED", &said(message, script))}),
        "message/send" => task("0.3", message, "COMPLETED", &said(message, script)),
        "tasks/send" => json!({"id": params["id"], "sessionId": params["sessionId"], "status": {"state": "completed"}}),
        "SendStreamingMessage" | "message/stream" => {
            return stream(&events(version, message, script).into_iter().map(answer).collect::<Vec<_>>(), script);
        }
        "GetTask" | "tasks/get" => task(version, &json!({"taskId": params["id"]}), "COMPLETED", "again"),
        "CancelTask" | "tasks/cancel" => task(version, &json!({"taskId": params["id"]}), "CANCELED", ""),
        "ListTasks" => json!({"tasks": [task("1.0", &json!({}), "COMPLETED", "again")]}),
        method if method.contains("ushNotificationConfig") => hooked(method, params),
        "GetExtendedAgentCard" => card(&address(seen)),
        _ => {
            let error = json!({"code": -32601, "message": "scripted"});
            return reply::json(200, &json!({"jsonrpc": "2.0", "id": body["id"], "error": error}));
        }
    };
    reply::json(200, &answer(result))
}

/// What an agent says of webhooks: the config that it was given, in a list where a list is asked for.
fn hooked(method: &str, params: &Value) -> Value {
    let kept = match &params["pushNotificationConfig"] {
        Value::Null => json!({"taskId": params["taskId"], "id": "h-1", "url": params["url"]}),
        config => json!({"taskId": params["taskId"], "pushNotificationConfig": config}),
    };
    if method.to_lowercase().contains("delete") {
        return json!({});
    }
    if method.contains("list") || method.contains("List") { json!({"configs": [kept]}) } else { kept }
}

fn rest(seen: &Seen, script: AgentScript) -> Vec<u8> {
    let path = seen.target.strip_prefix("/v1/rest").unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let (version, path) = path.strip_prefix("/v1").map_or(("1.0", path), |path| ("0.3", path));
    match (seen.method.as_str(), path) {
        ("POST", "/message:send") => {
            let message = &seen.json()["message"];
            let task = task(version, message, "COMPLETED", &said(message, script));
            reply::json(200, &if version == "1.0" { json!({"task": task}) } else { task })
        }
        ("POST", "/message:stream") => stream(&events(version, &seen.json()["message"], script), script),
        ("POST", "/tasks/task-7/pushNotificationConfigs") => {
            reply::json(200, &json!({"taskId": "task-7", "id": "h-1", "url": seen.json()["url"]}))
        }
        ("DELETE", "/tasks/task-7/pushNotificationConfigs/h-1") => reply::json(200, &json!({})),
        ("GET", "/tasks/task-7") => reply::json(200, &task("1.0", &json!({}), "COMPLETED", "again")),
        _ => reply::json(404, &json!({"error": {"code": 404, "message": "scripted", "details": []}})),
    }
}

/// An agent that answers in both versions and by both bindings.
pub(crate) async fn agent(script: AgentScript) -> Upstream {
    Upstream::replying(move |seen| match seen.target.as_str() {
        "/v1/.well-known/agent-card.json" => {
            let own = address(seen);
            reply::json(200, &card(if script.is_far { "http://far.example.com/v1" } else { &own }))
        }
        "/v1/a2a" | "/v1" => rpc(seen, script),
        target if target.starts_with("/v1/rest/") => rest(seen, script),
        _ => reply::whole(404, &[], ""),
    })
    .await
}

/// A gateway with one agent, `helper`, and a key that may call it.
pub(crate) struct ServedAgent {
    pub(crate) gateway: Gateway,
    pub(crate) agent: Upstream,
    pub(crate) key: String,
}

pub(crate) const PUBLIC: &str = "https://ai.example.com";
pub(crate) const CREDENTIAL: &str = "Bearer upstream-secret-1234";

impl ServedAgent {
    pub(crate) async fn start(script: AgentScript) -> Self {
        Self::with(script, &[]).await
    }

    pub(crate) async fn with(script: AgentScript, flags: &[&str]) -> Self {
        let flags = [&["--public-url", PUBLIC], flags].concat();
        let (gateway, agent) = (Gateway::with(&flags).await, agent(script).await);
        let integration = json!({"name": "A", "slug": "a-int", "url": agent.url(), "auth_type": "headers",
            "configurations": {"custom_headers": {"authorization": CREDENTIAL}}});
        gateway.admin().post("/agent-integrations", &integration).await.expect(200);
        let server = json!({"name": "Helper", "slug": "helper", "agent_integration_id": "a-int"});
        gateway.admin().post("/agent-servers", &server).await.expect(200);
        let (_, key) = gateway.admin().workspace_key("agents", json!({"scopes": ["agents.invoke"]})).await;
        Self { gateway, agent, key }
    }

    pub(crate) async fn other_key(&self) -> String {
        self.gateway.admin().workspace_key("others", json!({"scopes": ["agents.invoke"]})).await.1
    }

    pub(crate) fn call(&self, method: &str, below: &str) -> Call {
        self.gateway.call(method, &format!("/v1/agent/helper{below}")).key(&self.key)
    }

    /// Calls a method by JSON-RPC, with `version` as the header, or without the header where it is empty.
    pub(crate) async fn rpc(&self, version: &str, method: &str, params: Value) -> Answer {
        self.rpc_as(&self.key, version, method, params).await
    }

    pub(crate) async fn rpc_as(&self, key: &str, version: &str, method: &str, params: Value) -> Answer {
        let call = self.gateway.call("POST", "/v1/agent/helper").key(key);
        let call = if version.is_empty() { call } else { call.header("a2a-version", version) };
        call.json(&json!({"jsonrpc": "2.0", "id": "r-1", "method": method, "params": params})).send().await
    }

    /// What reached the agent beside questions for its card.
    pub(crate) fn heard(&self) -> Vec<Seen> {
        self.agent.seen().into_iter().filter(|seen| !seen.target.contains(".well-known")).collect()
    }
}

/// A message of a user's, as version 1.0 writes it.
pub(crate) fn says(text: &str) -> Value {
    json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}})
}

/// The data of the events of an answer.
pub(crate) fn sse_events(answer: &Answer) -> Vec<Value> {
    let text = answer.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|why| panic!("{why}: {data}"))).collect()
}
