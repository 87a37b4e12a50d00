//! What agents and tools say counts among the bytes that the gateway holds, for as long as it is held: to be judged,
//! for its end to come, for the rest of a batch. At the bound it is an error in the words of the protocol.

use crate::agent_script::sse_events;
use crate::agent_slow::{slow_agent, slow_gateway, streaming};
use crate::harness::{Gateway, Peer, Upstream, eventually, reply};
use crate::mcp_script::JSON;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// A megabyte together, and 256 KiB of it for one key.
const SMALL: [&str; 4] = ["--max-buffered-bytes", "1MiB", "--max-body", "256KiB"];

async fn held(gateway: &Gateway) -> f64 {
    let metrics = gateway.metrics().await;
    let held = metrics.lines().find_map(|line| line.strip_prefix("gateway_buffered_bytes ")).expect("the metric");
    held.parse::<f64>().expect("a number")
}

async fn holds(gateway: &Gateway, at_least: f64) {
    eventually(&format!("{at_least} bytes are held"), || async { (held(gateway).await >= at_least).then_some(()) })
        .await;
}

async fn holds_nothing(gateway: &Gateway) {
    eventually("all of it is given back", || async { (held(gateway).await == 0.0).then_some(()) }).await;
}

/// Answers are judged for a word that never comes; with `url`, by asking there.
async fn judge_answers(gateway: &Gateway, check: Value) {
    let guardrail = json!({"name": "words", "checks": [check], "actions": {"deny": true}});
    let slug = gateway.admin().post("/guardrails", &guardrail).await.expect(200).json()["slug"].clone();
    let defaults = json!({"defaults": {"output_guardrails": [slug]}});
    gateway.admin().put("/admin/workspaces/default", &defaults).await.expect(200);
}

fn words() -> Value {
    json!({"id": "contains", "parameters": {"words": ["never"], "operator": "none"}})
}

#[tokio::test]
async fn agents_streams_that_wait_to_be_judged_count_for_their_key_and_for_all() {
    let agent = slow_agent().await;
    let (gateway, key) = slow_gateway(&agent, &SMALL).await;
    judge_answers(&gateway, words()).await;
    // What one key may hold.
    let refused = sse_events(&streaming(&gateway, &key, "large 512").send().await.expect(200));
    assert_eq!(refused.len(), 1, "nothing of it passes unjudged");
    assert_eq!((&refused[0]["error"]["code"], &refused[0]["id"]), (&json!(429), &json!("s-1")), "{refused:?}");
    holds_nothing(&gateway).await;
    // What all may: four of 224 KiB fit, and no fifth. The others come when these are there whole: were all to grow
    // side by side, more of them could be refused than must be.
    let mut calls = JoinSet::new();
    for n in 0..8 {
        let fields = json!({"scopes": ["agents.invoke"]});
        let (_, key) = gateway.admin().workspace_key(&format!("k{n}"), fields).await;
        calls.spawn(streaming(&gateway, &key, "large 224").send());
        if n == 3 {
            holds(&gateway, f64::from(4 * (224 << 10))).await;
        }
    }
    let mut next = async || sse_events(&calls.join_next().await.expect("a call").expect("no panic").expect(200));
    for _ in 0..4 {
        let events = next().await;
        let last = &events.last().expect("events")["error"];
        assert_eq!(last["code"], 503, "none has let go yet, of {} events: {last}", events.len());
    }
    let _ = agent.go.send(true);
    for _ in 0..4 {
        let events = next().await;
        assert_eq!(events.len(), 8, "seven pieces and an end: {:?}", events.last());
        assert!(events.iter().all(|event| event["error"].is_null()), "{:?}", events.last());
    }
    holds_nothing(&gateway).await;
}

#[tokio::test]
async fn an_agents_event_without_an_end_counts_and_the_next_is_refused() {
    let agent = slow_agent().await;
    let (gateway, key) = slow_gateway(&agent, &SMALL).await;
    let mut calls = JoinSet::new();
    calls.spawn(streaming(&gateway, &key, "open 700").send());
    holds(&gateway, 700e3).await;
    let refused = sse_events(&streaming(&gateway, &key, "open 700").send().await.expect(200));
    assert_eq!(refused[0]["error"]["code"], 503, "{refused:?}");
    assert!(refused[0]["error"]["message"].as_str().is_some_and(|why| why.contains("not come to its end")));
    let _ = agent.go.send(true);
    let events = sse_events(&calls.join_next().await.expect("a call").expect("no panic").expect(200));
    assert!(events.len() == 2 && events[0]["error"].is_null(), "{}", events.len());
    holds_nothing(&gateway).await;
}

/// A server whose tools say so many KiB: `whole` as JSON, `open` as an event whose end waits, `wait` when it is told
/// to.
async fn server(go: watch::Receiver<bool>) -> Upstream {
    Upstream::scripted(move |peer| serve(peer, go.clone())).await
}

async fn serve(mut peer: Peer, mut go: watch::Receiver<bool>) {
    while let Some(seen) = peer.request().await {
        let body: Value = if seen.body.is_empty() { json!({}) } else { seen.json() };
        let answer = |result: Value| json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string();
        let arguments = &body["params"]["arguments"];
        let text = "x".repeat((arguments["kib"].as_u64().unwrap_or_default() as usize) << 10);
        let said = answer(json!({"content": [{"type": "text", "text": text}]}));
        match (body["method"].as_str().unwrap_or_default(), body["params"]["name"].as_str().unwrap_or_default()) {
            ("initialize", _) => {
                let result = json!({"protocolVersion": body["params"]["protocolVersion"], "capabilities": {"tools": {}},
                    "serverInfo": {"name": "large", "version": "1"}});
                peer.send(reply::whole(200, &[JSON], answer(result))).await;
            }
            ("tools/call", "open") => {
                peer.send([reply::STREAM, &reply::chunk(format!("data: {said}"))].concat()).await;
                let _ = go.wait_for(|go| *go).await;
                peer.send([reply::chunk("\n\n").as_slice(), reply::LAST_CHUNK].concat()).await;
            }
            ("tools/call", "wait") => {
                let _ = go.wait_for(|go| *go).await;
                peer.send(reply::whole(200, &[JSON], said)).await;
            }
            ("tools/call", _) => drop(peer.send(reply::whole(200, &[JSON], said)).await),
            ("server/discover", _) => drop(peer.send(reply::json(400, &json!({}))).await),
            ("tools/list", _) => drop(peer.send(reply::whole(200, &[JSON], answer(json!({"tools": []})))).await),
            _ => drop(peer.send(reply::whole(202, &[], "")).await),
        }
    }
}

struct LargeTools {
    gateway: Gateway,
    key: String,
    go: watch::Sender<bool>,
    _server: Upstream,
}

impl LargeTools {
    async fn start() -> Self {
        let (go, waits) = watch::channel(false);
        let (gateway, server) = (Gateway::with(&SMALL).await, server(waits).await);
        let integration =
            json!({"name": "L", "slug": "l", "url": server.url(), "auth_type": "none", "transport": "http"});
        gateway.admin().post("/mcp-integrations", &integration).await.expect(200);
        let named = json!({"name": "Large", "slug": "large", "mcp_integration_id": "l"});
        gateway.admin().post("/mcp-servers", &named).await.expect(200);
        let (_, key) = gateway.admin().workspace_key("large", json!({"scopes": ["mcp.invoke"]})).await;
        Self { gateway, key, go, _server: server }
    }

    fn call(&self, version: &str, body: &Value) -> crate::harness::call::Call {
        let call = self.gateway.call("POST", "/large/mcp").key(&self.key).header("mcp-protocol-version", version);
        call.header("accept", "application/json, text/event-stream").json(body)
    }
}

fn tool(id: u32, name: &str, kib: usize) -> Value {
    let params = json!({"name": name, "arguments": {"kib": kib}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[tokio::test]
async fn a_tools_event_without_an_end_counts_and_the_next_is_refused() {
    let tools = LargeTools::start().await;
    let call = || tools.call("2025-06-18", &tool(1, "open", 700)).send();
    let mut calls = JoinSet::new();
    calls.spawn(call());
    holds(&tools.gateway, 700e3).await;
    let refused = sse_events(&call().await.expect(200));
    assert_eq!((&refused[0]["error"]["code"], &refused[0]["id"]), (&json!(503), &json!(1)), "{refused:?}");
    let _ = tools.go.send(true);
    let answer = sse_events(&calls.join_next().await.expect("a call").expect("no panic").expect(200));
    assert_eq!(answer[0]["result"]["content"][0]["text"].as_str().map(str::len), Some(700 << 10));
    holds_nothing(&tools.gateway).await;
}

#[tokio::test]
async fn answers_of_a_batch_count_until_all_of_it_is_told() {
    let tools = LargeTools::start().await;
    let batch = json!([tool(1, "whole", 300), tool(2, "whole", 300), tool(3, "whole", 600), tool(4, "wait", 1)]);
    let mut calls = JoinSet::new();
    calls.spawn(tools.call("2025-03-26", &batch).send());
    holds(&tools.gateway, 600e3).await;
    let _ = tools.go.send(true);
    let answers = calls.join_next().await.expect("a call").expect("no panic").expect(200).json();
    let told = |at: usize| answers[at]["result"]["content"][0]["text"].as_str().map(str::len);
    assert_eq!((told(0), told(1), told(3)), (Some(300 << 10), Some(300 << 10), Some(1 << 10)));
    assert_eq!((&answers[2]["error"]["code"], &answers[2]["id"]), (&json!(503), &json!(3)));
    holds_nothing(&tools.gateway).await;
}

#[tokio::test]
async fn a_tools_answer_counts_while_it_is_judged() {
    let tools = LargeTools::start().await;
    let (go, waits) = watch::channel(false);
    let judge = Upstream::scripted(move |mut peer| {
        let mut waits = waits.clone();
        async move {
            while peer.request().await.is_some() {
                let _ = waits.wait_for(|go| *go).await;
                peer.send(reply::json(200, &json!({"verdict": true}))).await;
            }
        }
    })
    .await;
    let webhook = json!({"id": "webhook", "parameters": {"webhookURL": judge.url(), "timeout": 20_000}});
    judge_answers(&tools.gateway, webhook).await;
    let mut calls = JoinSet::new();
    calls.spawn(tools.call("2025-06-18", &tool(1, "whole", 300)).send());
    eventually("it is being judged", || async { (judge.connections() > 0).then_some(()) }).await;
    holds(&tools.gateway, 300e3).await;
    let _ = go.send(true);
    calls.join_next().await.expect("a call").expect("no panic").expect(200);
    holds_nothing(&tools.gateway).await;
}
