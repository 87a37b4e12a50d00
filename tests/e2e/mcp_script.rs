//! A scripted MCP server and a gateway before it, for the tests of MCP: what reaches the server can be read, and its
//! sessions can be forgotten.

use crate::harness::{Answer, Gateway, Seen, Upstream, reply};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");

/// How the scripted server behaves.
#[derive(Clone, Copy, Default)]
pub(crate) struct Script {
    /// Answers calls as events, with a notice before each answer.
    pub(crate) streams: bool,
    /// Keeps no sessions.
    pub(crate) stateless: bool,
    /// Speaks the modern era alone.
    pub(crate) modern: bool,
    /// Speaks it besides, with whoever asks so.
    pub(crate) both: bool,
    /// Has a stream of notices.
    pub(crate) listens: bool,
}

/// A server that keeps sessions, and can forget them.
pub(crate) struct ScriptedMcp {
    pub(crate) upstream: Upstream,
    pub(crate) sessions: Arc<Mutex<BTreeSet<String>>>,
    /// All that it lists of tools, where a test says so.
    pub(crate) tools: Arc<Mutex<Option<Value>>>,
}

impl ScriptedMcp {
    pub(crate) async fn start(script: Script) -> Self {
        let sessions: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let (known, count) = (sessions.clone(), AtomicUsize::new(0));
        let tools: Arc<Mutex<Option<Value>>> = Arc::default();
        let told = tools.clone();
        let upstream = Upstream::replying(move |seen| {
            let mut known = known.lock().expect("no panic");
            if seen.method == "DELETE" {
                known.remove(seen.header("mcp-session-id").unwrap_or_default());
                return reply::whole(204, &[], "");
            }
            if seen.method == "GET" {
                // Where a test says what it lists, it says by itself that this is new.
                let note = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                let is_new = told.lock().expect("no panic").is_some();
                let text = if is_new { format!(": here\n\ndata: {note}\n\n") } else { ": here\n\n".to_owned() };
                let stream = || [reply::STREAM, &reply::chunk(text)].concat();
                return if script.listens { stream() } else { reply::whole(405, &[], "") };
            }
            let body = seen.json();
            let offered = |method: &str, params: &Value| match &*told.lock().expect("no panic") {
                Some(tools) if method == "tools/list" => Some(json!({"tools": tools})),
                _ => offered(method, params),
            };
            let (method, id) = (body["method"].as_str().unwrap_or_default(), body["id"].clone());
            if script.modern || (script.both && seen.header("mcp-protocol-version") == Some("2026-07-28")) {
                return modern(seen, method, &body, &offered);
            }
            let error = |status, code: i64| {
                reply::json(status, &json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "scripted"}}))
            };
            if method == "initialize" {
                let session = format!("up-{}", count.fetch_add(1, SeqCst));
                let result = json!({
                    "protocolVersion": body["params"]["protocolVersion"], "serverInfo": {"name": "scripted", "version": "1"},
                    "capabilities": {"tools": {"listChanged": true}, "prompts": {}, "resources": {}, "tasks": {}},
                    "instructions": "be kind",
                });
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
                if script.stateless {
                    return reply::whole(200, &[JSON], answer);
                }
                known.insert(session.clone());
                return reply::whole(200, &[JSON, ("mcp-session-id", &session)], answer);
            }
            let session = seen.header("mcp-session-id");
            if method == "server/discover" || (!script.stateless && session.is_none()) {
                return error(400, -32000);
            }
            if !script.stateless && !known.contains(session.unwrap_or_default()) {
                return error(404, -32001);
            }
            if id.is_null() || body.get("method").is_none() {
                return reply::whole(202, &[], "");
            }
            let Some(result) = offered(method, &body["params"]) else { return error(200, -32601) };
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
            if script.streams {
                let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "on it"}});
                let text = format!(": hello\n\nid: 1\ndata: \n\nevent: message\nid: 2\ndata: {note}\n\nid: 3\ndata: {answer}\n\n");
                return [reply::STREAM, &reply::chunk(text), reply::LAST_CHUNK].concat();
            }
            reply::json(200, &answer)
        })
        .await;
        Self { upstream, sessions, tools }
    }

    /// What it heard of this method since it was connected.
    pub(crate) fn heard(&self, method: &str) -> Vec<Seen> {
        let of = |seen: &Seen| seen.method == "POST" && seen.json()["method"] == method;
        self.upstream.seen().into_iter().filter(of).collect()
    }
}

fn modern(seen: &Seen, method: &str, body: &Value, offered: &dyn Fn(&str, &Value) -> Option<Value>) -> Vec<u8> {
    let meta = &body["params"]["_meta"];
    let told = meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        && seen.header("mcp-protocol-version") == Some("2026-07-28")
        && seen.header("mcp-method") == Some(method);
    let error = |status, code: i64| {
        reply::json(
            status,
            &json!({"jsonrpc": "2.0", "id": body["id"], "error": {"code": code, "message": "scripted"}}),
        )
    };
    if !told || seen.header("mcp-session-id").is_some() {
        return error(400, -32020);
    }
    if method == "tools/call" && seen.header("mcp-name") != body["params"]["name"].as_str() {
        return error(400, -32020);
    }
    let mut result = if method == "server/discover" {
        json!({"supportedVersions": ["2026-07-28"], "instructions": "be brief",
            "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
            "serverInfo": {"name": "modern", "version": "2"}})
    } else {
        match offered(method, &body["params"]) {
            Some(result) => result,
            None => return error(404, -32601),
        }
    };
    if result["resultType"].is_null() {
        result["resultType"] = "complete".into();
    }
    result["ttlMs"] = 3_600_000.into();
    result["cacheScope"] = "public".into();
    reply::json(200, &json!({"jsonrpc": "2.0", "id": body["id"], "result": result}))
}

/// What both kinds of server offer.
pub(crate) fn offered(method: &str, params: &Value) -> Option<Value> {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}, "x-kept": 1.50});
    Some(match method {
        "tools/list" if params["cursor"] == "more" => json!({"tools": [tool("fail"), tool("last")]}),
        "tools/list" => json!({"tools": [tool("echo"), tool("secret")], "nextCursor": "more"}),
        "tools/call" if params["name"] == "leak" => json!({"content": [{"type": "text", "text": "a forbidden thing"}]}),
        "tools/call" if params["name"] == "fail" => {
            json!({"content": [{"type": "text", "text": "no"}], "isError": true})
        }
        "tools/call" if params["name"] == "slow" => {
            json!({"resultType": "task", "taskId": "task-1", "status": "working", "ttlMs": null})
        }
        "tools/call" => json!({"content": [{"type": "text", "text": params["arguments"].to_string()}]}),
        "tasks/get" if params["taskId"] == "task-1" => json!({"taskId": "task-1", "status": "completed",
            "result": {"content": [{"type": "text", "text": "a forbidden thing"}]}}),
        "tasks/update" | "tasks/cancel" if params["taskId"] == "task-1" => json!({}),
        "prompts/list" => json!({"prompts": [{"name": "greet"}, {"name": "scold"}]}),
        "prompts/get" => json!({"messages": []}),
        "resources/list" => {
            json!({"resources": [{"uri": "file:///a", "name": "a"}, {"uri": "file:///b", "name": "b"}]})
        }
        "resources/templates/list" => json!({"resourceTemplates": []}),
        "resources/read" => json!({"contents": [{"uri": params["uri"], "text": "read"}]}),
        "resources/subscribe" | "logging/setLevel" => json!({}),
        "completion/complete" => json!({"completion": {"values": []}}),
        _ => return None,
    })
}

/// A gateway with one server, `files`, and a key that may call it.
pub(crate) struct Served {
    pub(crate) gateway: Gateway,
    pub(crate) mcp: ScriptedMcp,
    pub(crate) key: String,
    /// Where it calls.
    pub(crate) path: &'static str,
}

impl Served {
    pub(crate) async fn start(script: Script) -> Self {
        Self::with(script, &[]).await
    }

    pub(crate) async fn with(script: Script, flags: &[&str]) -> Self {
        let (gateway, mcp) = (Gateway::with(flags).await, ScriptedMcp::start(script).await);
        let integration = json!({
            "name": "Files", "slug": "files-int", "url": mcp.upstream.url(), "auth_type": "headers", "transport": "http",
            "configurations": {"custom_headers": {"authorization": "Bearer upstream-secret-1234"}},
        });
        gateway.admin().post("/mcp-integrations", &integration).await.expect(200);
        let server = json!({"name": "Files", "slug": "files", "mcp_integration_id": "files-int"});
        gateway.admin().post("/mcp-servers", &server).await.expect(200);
        let (_, key) = gateway.admin().workspace_key("mcp", json!({"scopes": ["mcp.invoke"]})).await;
        Self { gateway, mcp, key, path: "/files/mcp" }
    }

    pub(crate) fn call(&self, method: &str) -> crate::harness::call::Call {
        self.gateway.call(method, self.path).key(&self.key).header("accept", "application/json, text/event-stream")
    }

    pub(crate) async fn post(&self, session: Option<&str>, body: &Value) -> Answer {
        let call = self.call("POST").json(body);
        match session {
            Some(id) => call.header("mcp-session-id", id).send().await,
            None => call.send().await,
        }
    }

    /// Opens a session.
    pub(crate) async fn open(&self) -> String {
        let answer = self.post(None, &initialize("2025-06-18")).await.expect(200);
        let session = answer.header("mcp-session-id").expect("a session").to_owned();
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post(Some(&session), &note).await.expect(202);
        session
    }

    pub(crate) async fn tool(&self, session: &str, name: &str, id: impl Into<Value>) -> Answer {
        self.post(Some(session), &tool_call(name, id)).await
    }

    /// Names on the first page of a list.
    pub(crate) async fn names(&self, session: &str, method: &str, member: &str) -> Vec<String> {
        let answer = self.post(Some(session), &request(method, json!({}))).await.expect(200).json();
        let items = answer["result"][member].as_array().expect("items").iter();
        items.map(|item| item["uri"].as_str().or(item["name"].as_str()).expect("a name").to_owned()).collect()
    }
}

pub(crate) fn request(method: &str, params: impl Into<Value>) -> Value {
    let params: Value = params.into();
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

pub(crate) fn initialize(version: &str) -> Value {
    let info = json!({"name": "test", "version": "0"});
    request("initialize", json!({"protocolVersion": version, "capabilities": {}, "clientInfo": info}))
}

pub(crate) fn tool_call(name: &str, id: impl Into<Value>) -> Value {
    let params = json!({"name": name, "arguments": {"say": "hi"}});
    json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": params})
}

/// A request of the modern era, with the headers that repeat it.
pub(crate) fn modern_call(served: &Served, method: &str, params: Value) -> crate::harness::call::Call {
    modern_call_of(&served.gateway, (served.path, &served.key), method, params)
}

/// A request of the modern era to any path and with any key.
pub(crate) fn modern_call_of(
    gateway: &Gateway,
    (path, key): (&str, &str),
    method: &str,
    mut params: Value,
) -> crate::harness::call::Call {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let name = params["name"].as_str().or(params["uri"].as_str()).or(params["taskId"].as_str()).map(str::to_owned);
    let call = gateway.call("POST", path).key(key).header("accept", "application/json, text/event-stream");
    let call = call.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
    let call = name.into_iter().fold(call, |call, name| call.header("mcp-name", &name));
    call.json(&request(method, params))
}

pub(crate) fn code(answer: &Answer) -> i64 {
    answer.json()["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {}", answer.text()))
}
