//! How calls and streams of MCP servers go on and end: clocks, clients that leave, places in a stream, and a process
//! that takes leave.

use crate::harness::{Gateway, Peer, Seen, Upstream, eventually, reply};
use crate::mcp_script::{JSON, Script, Served, initialize, tool_call};
use gateway_testing::Postgres;
use serde_json::{Value, json};
use std::time::Duration;

/// A server whose tools take their time: `slow` says where it stands every 300 ms, `mute` nothing at all; `ids`: its
/// events have places.
async fn slow(ids: bool) -> Upstream {
    Upstream::scripted(move |peer| serve(peer, ids)).await
}

async fn serve(mut peer: Peer, ids: bool) {
    while let Some(seen) = peer.request().await {
        let body: Value = if seen.body.is_empty() { json!({}) } else { seen.json() };
        let id = body["id"].clone();
        let answer = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let place = |n: usize| if ids { format!("id: {n}\n") } else { String::new() };
        match (seen.method.as_str(), body["method"].as_str().unwrap_or_default()) {
            ("GET", _) if seen.header("last-event-id") == Some("polled") => {
                let spoken = json!({"content": [{"type": "text", "text": "a forbidden thing"}]});
                let tools = json!({"tools": [{"name": "slow"}, {"name": "hidden"}]});
                let answers = [(5, spoken), (6, tools)].map(|(id, result)| {
                    let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
                    format!("id: answer-{id}\ndata: {answer}\n\n")
                });
                peer.send([reply::STREAM, &reply::chunk(answers.concat()), reply::LAST_CHUNK].concat()).await;
            }
            ("GET", _) => {
                let from = seen.header("last-event-id").and_then(|id| id.parse::<usize>().ok()).unwrap_or(0);
                let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": from + 1}});
                peer.send([reply::STREAM, &reply::chunk(format!("id: {}\ndata: {note}\n\n", from + 1))].concat()).await;
                peer.gone().await;
                return;
            }
            (_, "initialize") => {
                let result = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "slow", "version": "1"}});
                peer.send(reply::whole(200, &[JSON, ("mcp-session-id", "up-1")], answer(result))).await;
            }
            (_, "tools/call") if body["params"]["name"] == "mute" => {
                peer.send(reply::STREAM).await;
                peer.gone().await;
                return;
            }
            (_, "tools/call") if body["params"]["name"] == "polled" => {
                peer.send(
                    [reply::STREAM, &reply::chunk("id: polled\nretry: 10\ndata: \n\n"), reply::LAST_CHUNK].concat(),
                )
                .await;
            }
            (_, "tools/call") => {
                peer.send(reply::STREAM).await;
                for n in 0..6 {
                    let note = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": n, "progressToken": 1}});
                    if !peer.send(reply::chunk(format!("{}data: {note}\n\n", place(n)))).await {
                        return;
                    }
                    peer.pause(300).await;
                }
                let last = answer(json!({"content": [{"type": "text", "text": "done"}]}));
                peer.send(
                    [reply::chunk(format!("{}data: {last}\n\n", place(6))).as_slice(), reply::LAST_CHUNK].concat(),
                )
                .await;
            }
            (_, "server/discover") => drop(peer.send(reply::json(400, &json!({}))).await),
            (_, "tools/list") => drop(peer.send(reply::whole(200, &[JSON], answer(json!({"tools": []})))).await),
            _ => drop(peer.send(reply::whole(202, &[], "")).await),
        }
    }
}

async fn served(upstream: &Upstream, flags: &[&str]) -> (Gateway, String) {
    let gateway = Gateway::with(flags).await;
    let integration =
        json!({"name": "S", "slug": "slow-int", "url": upstream.url(), "auth_type": "none", "transport": "http"});
    gateway.admin().post("/mcp-integrations", &integration).await.expect(200);
    let server = json!({"name": "Slow", "slug": "slow", "mcp_integration_id": "slow-int"});
    gateway.admin().post("/mcp-servers", &server).await.expect(200);
    let (_, key) = gateway.admin().workspace_key("mcp", json!({"scopes": ["mcp.invoke"]})).await;
    (gateway, key)
}

fn on(gateway: &Gateway, key: &str, method: &str, session: &str) -> crate::harness::call::Call {
    let call = gateway.call(method, "/slow/mcp").key(key).header("accept", "application/json, text/event-stream");
    call.header("mcp-session-id", session)
}

async fn open(gateway: &Gateway, key: &str) -> String {
    let call = gateway.call("POST", "/slow/mcp").key(key).header("accept", "application/json, text/event-stream");
    let answer = call.json(&initialize("2025-06-18")).send().await.expect(200);
    answer.header("mcp-session-id").expect("a session").to_owned()
}

/// What the server heard of this method.
fn heard(upstream: &Upstream, method: &str) -> Vec<Seen> {
    let of = |seen: &Seen| !seen.body.is_empty() && seen.json()["method"] == method;
    upstream.seen().into_iter().filter(of).collect()
}

#[tokio::test]
async fn progress_keeps_a_call_alive_and_silence_ends_it_and_tells_the_server() {
    let upstream = slow(false).await;
    let (gateway, key) = served(&upstream, &["--mcp-timeout", "1s"]).await;
    let session = open(&gateway, &key).await;
    let long = on(&gateway, &key, "POST", &session).json(&tool_call("slow", 1)).send().await.expect(200);
    assert!(long.text().contains("done") && long.took > Duration::from_millis(1500), "{:?}", long.took);
    let silent = on(&gateway, &key, "POST", &session).json(&tool_call("mute", "m-1")).send().await;
    assert!(silent.text().contains("408") && silent.text().contains(r#""id":"m-1""#), "{}", silent.text());
    let told =
        eventually("the server hears of it", || async { heard(&upstream, "notifications/cancelled").pop() }).await;
    assert_eq!(told.json()["params"]["requestId"], "m-1");
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_call_and_is_told_where_nobody_can_come_back() {
    for ids in [false, true] {
        let upstream = slow(ids).await;
        let (gateway, key) = served(&upstream, &[]).await;
        let session = open(&gateway, &key).await;
        let mut call = on(&gateway, &key, "POST", &session).json(&tool_call("slow", 7)).open().await;
        call.chunk().await.expect("a piece").expect("more");
        let open = upstream.open();
        drop(call);
        if ids {
            eventually("the call ends upstream", || async { (upstream.open() < open).then_some(()) }).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert!(heard(&upstream, "notifications/cancelled").is_empty(), "it may be taken up again");
        } else {
            let told = eventually("it is told", || async { heard(&upstream, "notifications/cancelled").pop() }).await;
            assert_eq!(told.json()["params"]["requestId"], 7);
        }
    }
}

/// The first event of the stream of notices.
async fn first_notice(gateway: &Gateway, key: &str, session: &str, place: Option<&str>) -> String {
    let call = on(gateway, key, "GET", session);
    let call = match place {
        Some(place) => call.header("last-event-id", place),
        None => call,
    };
    let mut stream = call.open().await;
    let mut text = String::new();
    while !text.contains("data:") {
        text.push_str(&String::from_utf8_lossy(&stream.chunk().await.expect("a piece").expect("more")));
    }
    text
}

#[tokio::test]
async fn a_place_in_a_stream_is_good_on_another_node_and_after_a_restart() {
    let database = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("mcp_places"))).await;
    let (_postgres, url) = database.expect("no panic");
    let upstream = slow(true).await;
    let (gateway, key) = served(&upstream, &["--database-url", &url]).await;
    let session = open(&gateway, &key).await;
    let told = first_notice(&gateway, &key, &session, None).await;
    assert!(told.contains("id: 1\n") && told.contains(r#""data":1"#), "{told}");
    let master = gateway.folder().join("data/master.key").display().to_string();
    let other = Gateway::with(&["--database-url", &url, "--master-key-file", &master]).await;
    let told = first_notice(&other, &key, &session, Some("1")).await;
    assert!(told.contains("id: 2\n") && told.contains(r#""data":2"#), "what was missed comes once: {told}");
    let gateway = gateway.restart_with(&["--database-url", &url]).await;
    let told = first_notice(&gateway, &key, &session, Some("2")).await;
    assert!(told.contains("id: 3\n") && told.contains(r#""data":3"#), "{told}");
}

#[tokio::test]
async fn a_server_without_a_stream_is_asked_for_one_once() {
    let served = Served::start(Script::default()).await;
    let session = served.open().await;
    let before = served.mcp.upstream.seen().len();
    served
        .call("GET")
        .header("accept", "text/event-stream")
        .header("mcp-session-id", &session)
        .send()
        .await
        .expect(405);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let asked: Vec<Seen> = served.mcp.upstream.seen().split_off(before);
    assert_eq!(asked.len(), 1, "nobody tries again by himself: {asked:?}");
}

#[tokio::test]
async fn calls_and_streams_end_cleanly_when_the_process_takes_leave() {
    let upstream = slow(false).await;
    let (mut gateway, key) = served(&upstream, &[]).await;
    let session = open(&gateway, &key).await;
    let mut stream = on(&gateway, &key, "GET", &session).open().await;
    stream.chunk().await.expect("a piece").expect("more");
    let mut call = tokio::task::JoinSet::new();
    call.spawn(on(&gateway, &key, "POST", &session).json(&tool_call("slow", 3)).send());
    eventually("the call is under way", || async { heard(&upstream, "tools/call").pop() }).await;
    gateway.process.signal("TERM");
    let answer = call.join_next().await.expect("an answer").expect("no panic");
    assert!(answer.whole && answer.text().contains("done"), "{}", answer.text());
    while stream.chunk().await.expect("a clean end").is_some() {}
    gateway.process.exit(Duration::from_secs(20)).await;
}

#[tokio::test]
async fn an_answer_that_comes_on_the_next_stream_is_filtered_and_judged_there() {
    let upstream = slow(true).await;
    let (gateway, key) = served(&upstream, &[]).await;
    let session = open(&gateway, &key).await;
    let call = on(&gateway, &key, "POST", &session).json(&tool_call("polled", 5)).send().await.expect(200);
    assert!(call.text().contains("id: polled") && !call.text().contains("error"), "{}", call.text());
    let next = || on(&gateway, &key, "GET", &session).header("last-event-id", "polled").send();
    let told = next().await.expect(200).text();
    assert!(told.contains("a forbidden thing") && told.contains("answer-5") && told.contains("hidden"), "{told}");

    let off = json!({"capabilities": [{"name": "hidden", "type": "tool", "enabled": false}]});
    gateway.admin().put("/mcp-servers/slow/capabilities", &off).await.expect(200);
    let words = json!({"id": "default.contains", "parameters": {"words": ["forbidden"], "operator": "none"}});
    let guardrail = json!({"name": "words", "checks": [words], "actions": {"deny": true}});
    let made = gateway.admin().post("/guardrails", &guardrail).await.expect(200).json();
    let defaults = json!({"defaults": {"output_guardrails": [made["slug"]]}});
    gateway.admin().put("/admin/workspaces/default", &defaults).await.expect(200);
    let told = next().await.expect(200).text();
    assert!(!told.contains("forbidden thing") && told.contains("isError") && told.contains("answer-5"), "{told}");
    assert!(!told.contains("hidden") && told.contains(r#""name":"slow""#), "{told}");
}
