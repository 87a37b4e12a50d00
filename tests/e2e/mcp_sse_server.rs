//! A scripted MCP server of 2024-11-05: a stream of events that stays open, whose first event says where to send. Each
//! stream is a session with a count of its own.

use crate::harness::{Gateway, Peer, Seen, Upstream, reply};
use crate::mcp_script::{initialize, offered, request};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

pub(crate) struct SseServer {
    pub(crate) upstream: Upstream,
    /// What each stream is told of, so that a test can tell more.
    streams: Arc<Mutex<BTreeMap<usize, SseSession>>>,
}

struct SseSession {
    out: UnboundedSender<String>,
    count: usize,
    /// A call that waits for the client's answer.
    asking: Option<Value>,
}

impl SseServer {
    pub(crate) async fn start() -> Self {
        Self::naming(Some("/messages?session=")).await
    }

    /// `endpoint`: what stands before the number of the stream; `None`: none is ever named.
    pub(crate) async fn naming(endpoint: Option<&'static str>) -> Self {
        let streams: Arc<Mutex<BTreeMap<usize, SseSession>>> = Arc::default();
        let all = streams.clone();
        let upstream = Upstream::scripted(move |peer| serve(peer, all.clone(), endpoint)).await;
        Self { upstream, streams }
    }

    /// Where its stream is.
    pub(crate) fn url(&self) -> String {
        format!("{}/sse", self.upstream.url())
    }

    pub(crate) fn heard(&self, method: &str) -> Vec<Seen> {
        let of = |seen: &Seen| seen.method == "POST" && seen.json()["method"] == method;
        self.upstream.seen().into_iter().filter(of).collect()
    }

    /// Streams that are open.
    pub(crate) fn open(&self) -> usize {
        self.streams.lock().expect("no panic").len()
    }

    /// Says something over every stream.
    pub(crate) fn say(&self, message: &Value) {
        for session in self.streams.lock().expect("no panic").values() {
            let _ = session.out.send(event(message));
        }
    }
}

fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

async fn serve(mut peer: Peer, all: Arc<Mutex<BTreeMap<usize, SseSession>>>, endpoint: Option<&'static str>) {
    while let Some(seen) = peer.request().await {
        if seen.method == "GET" {
            return stream(peer, &all, endpoint).await;
        }
        let number = seen.target.rsplit('=').next().and_then(|n| n.parse::<usize>().ok());
        let known = number.is_some_and(|number| all.lock().expect("no panic").contains_key(&number));
        peer.send(reply::whole(if known { 202 } else { 404 }, &[], "")).await;
        if let Some(number) = number.filter(|_| known) {
            take(&all, number, &seen.json());
        }
    }
}

async fn stream(mut peer: Peer, all: &Mutex<BTreeMap<usize, SseSession>>, endpoint: Option<&str>) {
    let (out, mut told) = unbounded_channel();
    let number = peer.connection();
    all.lock().expect("no panic").insert(number, SseSession { out, count: 0, asking: None });
    let mut begin = reply::STREAM.to_vec();
    begin.extend(reply::chunk(": welcome\n\n"));
    if let Some(endpoint) = endpoint {
        begin.extend(reply::chunk(format!("event: endpoint\ndata: {endpoint}{number}\n\n")));
    }
    peer.send(begin).await;
    loop {
        tokio::select! {
            () = peer.gone() => break,
            text = told.recv() => match text {
                Some(text) => drop(peer.send(reply::chunk(text)).await),
                None => break,
            },
        }
    }
    all.lock().expect("no panic").remove(&number);
}

fn take(all: &Mutex<BTreeMap<usize, SseSession>>, number: usize, body: &Value) {
    let mut all = all.lock().expect("no panic");
    let Some(session) = all.get_mut(&number) else { return };
    let (method, id) = (body["method"].as_str().unwrap_or_default(), body["id"].clone());
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let answer = |id: &Value, result: Value| event(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    if method.is_empty() {
        if let Some(asked) = session.asking.take() {
            let said = body["result"]["content"]["text"].as_str().unwrap_or("nothing");
            let _ = session.out.send(answer(&asked, text(said)));
        }
        return;
    }
    if id.is_null() {
        return;
    }
    let token = &body["params"]["_meta"]["progressToken"];
    let progress = |n: usize| {
        event(&json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": token, "progress": n}}))
    };
    let said = match (method, body["params"]["name"].as_str().unwrap_or_default()) {
        ("initialize", _) => answer(
            &id,
            json!({"protocolVersion": "2024-11-05", "serverInfo": {"name": "sse", "version": "1"},
                "capabilities": {"tools": {"listChanged": true}, "prompts": {}, "resources": {}, "logging": {}}}),
        ),
        ("tools/call", "count") => {
            session.count += 1;
            answer(&id, text(&session.count.to_string()))
        }
        ("tools/call", "ask") => {
            session.asking = Some(id);
            event(
                &json!({"jsonrpc": "2.0", "id": "s-1", "method": "sampling/createMessage", "params": {"maxTokens": 5}}),
            )
        }
        ("tools/call", "talk") => {
            let log = event(&json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": "on it"}}));
            format!("{}{log}{}{}", progress(1), progress(2), answer(&id, text("talked")))
        }
        ("tools/call", "mute") => return,
        ("tools/call", "die") => return drop(all.remove(&number)),
        ("tools/call", "long") => answer(&id, text(&"x".repeat(5 << 20))),
        (method, _) => match offered(method, &body["params"]) {
            Some(result) => answer(&id, result),
            None => {
                let error = json!({"code": -32601, "message": "scripted"});
                event(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
            }
        },
    };
    let _ = session.out.send(said);
}

/// A gateway with one server, `events`, and a key that may call it.
pub(crate) struct SseServed {
    pub(crate) gateway: Gateway,
    pub(crate) server: SseServer,
    pub(crate) key: String,
}

impl SseServed {
    pub(crate) async fn start(flags: &[&str]) -> Self {
        Self::before(SseServer::start().await, flags).await
    }

    pub(crate) async fn before(server: SseServer, flags: &[&str]) -> Self {
        let gateway = Gateway::with(flags).await;
        let integration = json!({
            "name": "Events", "slug": "events-int", "url": server.url(), "auth_type": "headers", "transport": "sse",
            "configurations": {"custom_headers": {"authorization": "Bearer upstream-secret-1234"}},
        });
        gateway.admin().post("/mcp-integrations", &integration).await.expect(200);
        let made = json!({"name": "Events", "slug": "events", "mcp_integration_id": "events-int"});
        gateway.admin().post("/mcp-servers", &made).await.expect(200);
        let (_, key) = gateway.admin().workspace_key("mcp", json!({"scopes": ["mcp.invoke"]})).await;
        Self { gateway, server, key }
    }

    pub(crate) fn client(&self) -> McpClient<'_> {
        McpClient { gateway: &self.gateway, key: &self.key, path: "/events/mcp" }
    }
}

/// A client of one key, which holds what it is given.
#[derive(Clone, Copy)]
pub(crate) struct McpClient<'g> {
    pub(crate) gateway: &'g Gateway,
    pub(crate) key: &'g str,
    pub(crate) path: &'g str,
}

impl McpClient<'_> {
    pub(crate) fn call(&self, method: &str, session: Option<&str>) -> crate::harness::call::Call {
        let call = self.gateway.call(method, self.path).key(self.key);
        let call = call.header("accept", "application/json, text/event-stream");
        session.into_iter().fold(call, |call, session| call.header("mcp-session-id", session))
    }

    pub(crate) async fn post(&self, session: Option<&str>, body: &Value) -> crate::harness::Answer {
        self.call("POST", session).json(body).send().await
    }

    pub(crate) async fn open(&self) -> String {
        self.open_as(json!({})).await
    }

    pub(crate) async fn open_as(&self, capabilities: Value) -> String {
        let mut body = initialize("2025-06-18");
        body["params"]["capabilities"] = capabilities;
        let answer = self.post(None, &body).await.expect(200);
        let session = answer.header("mcp-session-id").expect("a session").to_owned();
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post(Some(&session), &note).await.expect(202);
        session
    }

    /// What a tool says, or the whole answer where it says nothing.
    pub(crate) async fn tool(&self, session: &str, name: &str) -> String {
        let answer = self.post(Some(session), &request("tools/call", json!({"name": name, "arguments": {}}))).await;
        let last = last(&answer);
        last["result"]["content"][0]["text"].as_str().map_or_else(|| last.to_string(), str::to_owned)
    }
}

/// The last message of an answer, in whichever form it came.
pub(crate) fn last(answer: &crate::harness::Answer) -> Value {
    let text = answer.text();
    let last = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
    serde_json::from_str(last).unwrap_or_else(|e| panic!("{e}: {text}"))
}
