//! Streams that stay open hear of what is changed at the gateway, on whichever node, and end when their caller may not
//! call any more. And lists that are kept for a while.

use crate::harness::{Gateway, eventually};
use crate::mcp_client::{BACK, access, signing_in};
use crate::mcp_script::{Script, Served, code, initialize, modern_call, request};
use gateway_testing::Postgres;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const LISTENS: Script = Script { listens: true, streams: false, stateless: false, modern: false, both: false };

/// Reads on until this is there.
async fn hears(stream: &mut reqwest::Response, text: &mut String, what: &str) {
    while !text.contains(what) {
        let piece = tokio::time::timeout(Duration::from_secs(20), stream.chunk()).await;
        let piece = piece.unwrap_or_else(|_| panic!("no {what} in {text}")).expect("a piece");
        text.push_str(&String::from_utf8_lossy(&piece.unwrap_or_else(|| panic!("no {what} in {text}"))));
    }
}

async fn ends(stream: &mut reqwest::Response) {
    let all = async { while stream.chunk().await.ok().flatten().is_some() {} };
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("an end");
}

fn off(tool: &str) -> Value {
    json!({"capabilities": [{"name": tool, "type": "tool", "enabled": false}]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_is_switched_off_on_another_node_is_told_to_open_streams_and_refused() {
    let database = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("mcp_notices"))).await;
    let (_postgres, url) = database.expect("no panic");
    let one = Served::with(LISTENS, &["--database-url", &url]).await;
    let master = one.gateway.folder().join("data/master.key").display().to_string();
    let flags = ["--database-url", &url, "--master-key-file", &master, "--role", "proxy"];
    let two = Served { gateway: Gateway::with(&flags).await, key: one.key.clone(), path: one.path, mcp: one.mcp };
    let session = eventually("the other node knows the server", || async {
        let answer = two.post(None, &initialize("2025-06-18")).await;
        answer.header("mcp-session-id").map(str::to_owned)
    })
    .await;
    let listen = two.call("GET").header("accept", "text/event-stream").header("mcp-session-id", &session);
    let mut stream = listen.open().await;
    assert_eq!(stream.status(), 200);
    let (mut text, began) = (String::new(), Instant::now());
    one.gateway.admin().put("/mcp-servers/files/capabilities", &off("secret")).await.expect(200);
    hears(&mut stream, &mut text, "notifications/tools/list_changed").await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(!text.contains("prompts/list_changed") && !text.contains("resources/list_changed"), "{text}");
    assert_eq!(code(&two.tool(&session, "secret", 1).await.expect(200)), -32602);
    assert_eq!(two.names(&session, "tools/list", "tools").await, ["echo"]);
}

#[tokio::test]
async fn a_stream_ends_when_its_key_or_what_was_allowed_does() {
    let served = Served::start(LISTENS).await;
    let admin = served.gateway.admin();
    let (id, key) = admin.workspace_key("gone", json!({"scopes": ["mcp.invoke"]})).await;
    let held = Served { key, ..served };
    let session = held.open().await;
    let listen = held.call("GET").header("accept", "text/event-stream").header("mcp-session-id", &session);
    let mut stream = listen.open().await;
    assert_eq!(stream.status(), 200);
    held.gateway.admin().delete(&format!("/api-keys/{id}")).await.expect(200);
    ends(&mut stream).await;

    let here = signing_in(&[]).await;
    let client = here.register(BACK).await;
    let tokens = here.tokens(&client, "mcp").await;
    let bearer = format!("Bearer {}", access(&tokens));
    let mut body = request("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    body["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let call = here.served.call("POST").without("x-gateway-api-key").header("authorization", &bearer);
    let call = call.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "subscriptions/listen");
    let mut stream = call.json(&body).open().await;
    let mut text = String::new();
    hears(&mut stream, &mut text, "subscriptions/acknowledged").await;
    here.served.gateway.admin().delete("/mcp-servers/files/grants").await.expect(200);
    ends(&mut stream).await;
}

#[tokio::test]
async fn a_subscription_of_the_modern_era_hears_what_it_asked_for() {
    let served = Served::start(Script::default()).await;
    let admin = served.gateway.admin();
    let wants = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": false}});
    let mut stream = modern_call(&served, "subscriptions/listen", wants).open().await;
    let mut text = String::new();
    hears(&mut stream, &mut text, "subscriptions/acknowledged").await;
    assert!(text.contains(r#""notifications":{"toolsListChanged":true}"#), "{text}");
    let prompt = json!({"capabilities": [{"name": "greet", "type": "prompt", "enabled": false}]});
    admin.put("/mcp-integrations/files-int/capabilities", &prompt).await.expect(200);
    admin.put("/mcp-integrations/files-int/capabilities", &off("secret")).await.expect(200);
    hears(&mut stream, &mut text, "tools/list_changed").await;
    assert!(!text.contains("prompts/list_changed"), "{text}");
    assert_eq!(text.matches(r#""io.modelcontextprotocol/subscriptionId":1"#).count(), 2, "{text}");
}

#[tokio::test]
async fn lists_of_a_server_without_sessions_are_kept_filtered_for_each_and_help_out_when_it_fails() {
    let served = Served::with(Script { modern: true, ..Script::default() }, &["--mcp-list-ttl", "30s"]).await;
    let list = || modern_call(&served, "tools/list", json!({})).send();
    let names = |answer: &Value| -> Vec<String> {
        let tools = answer["result"]["tools"].as_array().expect("tools").iter();
        tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    };
    let before = served.mcp.heard("tools/list").len();
    assert_eq!(names(&list().await.expect(200).json()), ["echo", "secret"]);
    assert_eq!(names(&list().await.expect(200).json()), ["echo", "secret"]);
    assert_eq!(served.mcp.heard("tools/list").len(), before + 1, "the second was kept");
    // Whoever sees less of it sees less of what is kept.
    let fields = json!({"scopes": ["mcp.invoke"], "mcp_access": {"allow": ["files/echo"]}});
    let (_, key) = served.gateway.admin().workspace_key("less", fields).await;
    let seen = modern_call(&served, "tools/list", json!({})).key(&key).send().await.expect(200).json();
    assert_eq!((names(&seen), seen["result"]["cacheScope"].as_str()), (vec!["echo".to_owned()], Some("private")));
    // Another page is another list.
    let more = modern_call(&served, "tools/list", json!({"cursor": "more"})).send().await.expect(200).json();
    assert_eq!(names(&more), ["fail", "last"]);
    assert_eq!(served.mcp.heard("tools/list").len(), before + 2);
    served.gateway.admin().post("/mcp-integrations/files-int/test", &json!({})).await.expect(200);
    let asked = served.mcp.heard("tools/list").len();
    list().await.expect(200);
    assert_eq!(served.mcp.heard("tools/list").len(), asked + 1, "asked again, nothing of before counts");
    let Served { gateway, mcp, key, path } = served;
    drop(mcp.upstream);
    let call = gateway.call("POST", path).key(&key).header("accept", "application/json, text/event-stream");
    let call = call.header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/list");
    let mut body = request("tools/list", json!({}));
    body["params"]["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    assert_eq!(names(&call.json(&body).send().await.expect(200).json()), ["echo", "secret"]);
}

#[tokio::test]
async fn lists_of_sessions_are_never_kept() {
    let served = Served::start(Script::default()).await;
    let session = served.open().await;
    for _ in 0..2 {
        served.post(Some(&session), &request("tools/list", json!({}))).await.expect(200);
    }
    let asked = served.mcp.heard("tools/list").into_iter().filter(|seen| seen.text().contains(r#""params":{}"#));
    assert!(asked.count() >= 2);
    let told = served.post(None, &initialize("2025-06-18")).await.expect(200).json();
    for list in ["tools", "prompts", "resources"] {
        assert_eq!(told["result"]["capabilities"][list]["listChanged"], true, "{told}");
    }
    let off = Served::with(Script { modern: true, ..Script::default() }, &["--mcp-list-ttl", "0s"]).await;
    let before = off.mcp.heard("tools/list").len();
    for _ in 0..2 {
        modern_call(&off, "prompts/list", json!({})).send().await.expect(200);
    }
    assert_eq!(off.mcp.heard("tools/list").len(), before);
    eventually("both were asked for", || async { (off.mcp.heard("prompts/list").len() >= 2).then_some(()) }).await;
}

#[tokio::test]
async fn a_server_that_says_that_its_lists_changed_is_asked_again_at_a_pace() {
    let served = Served::start(LISTENS).await;
    let admin = served.gateway.admin();
    let tools = async || {
        let told = admin.get("/mcp-integrations/files-int/capabilities").await.expect(200);
        told.text().contains("brand_new")
    };
    // The job that asks it again is planned a moment after it was saved.
    eventually("its job is there", || async {
        served.gateway.metrics().await.contains("gateway_mcp_integrations 1").then_some(())
    })
    .await;
    let session = served.open().await;
    let before = served.mcp.heard("initialize").len();
    let tool = json!([{"name": "brand_new", "description": "x", "inputSchema": {"type": "object"}}]);
    *served.mcp.tools.lock().expect("no panic") = Some(tool);
    assert!(!tools().await);
    let began = Instant::now();
    let listen = || async {
        let call = served.call("GET").header("accept", "text/event-stream").header("mcp-session-id", &session);
        let mut stream = call.open().await;
        hears(&mut stream, &mut String::new(), "tools/list_changed").await;
    };
    listen().await;
    eventually("it was asked again", || async { tools().await.then_some(()) }).await;
    assert!(began.elapsed() < Duration::from_secs(15), "long before its time comes: {:?}", began.elapsed());
    // However often it says so.
    while began.elapsed() < Duration::from_secs(9) {
        listen().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let asked = served.mcp.heard("initialize").len() - before;
    assert!((1..=1 + began.elapsed().as_secs() as usize / 5).contains(&asked), "{asked} times");
    assert!(asked >= 2, "what was said since is not forgotten");
}
