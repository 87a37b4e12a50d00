//! MCP servers of 2024-11-05 behind the gateway: what goes over a stream that stays open, whose it is, and how it ends.

use crate::harness::{Gateway, eventually};
use crate::mcp_script::{Script, ScriptedMcp, modern_call_of, request, tool_call};
use crate::mcp_sse_server::{McpClient, SseServed, SseServer, last};
use gateway_testing::Postgres;
use serde_json::{Value, json};

#[tokio::test]
async fn a_server_over_sse_is_asked_listed_and_called_over_one_stream() {
    let served = SseServed::start(&[]).await;
    let told = served.gateway.admin().get("/mcp-integrations/events-int/metadata").await.expect(200).json();
    assert_eq!((&told["sync_status"], &told["protocol_version"]), (&json!("ok"), &json!("2024-11-05")), "{told}");
    let tested = served.gateway.admin().post("/mcp-integrations/events-int/test", &json!({})).await.expect(200).json();
    assert_eq!((&tested["success"], &tested["server_name"]), (&json!(true), &json!("sse")), "{tested}");
    let found = served.gateway.admin().get("/mcp-integrations/events-int/capabilities").await.expect(200).text();
    assert!(["echo", "secret", "fail", "last"].iter().all(|tool| found.contains(tool)), "all pages: {found}");
    let before = served.server.upstream.seen().iter().filter(|seen| seen.method == "GET").count();
    let client = served.client();
    let session = client.open().await;
    for (cursor, names) in [(json!({}), ["echo", "secret"]), (json!({"cursor": "more"}), ["fail", "last"])] {
        let listed = last(&client.post(Some(&session), &request("tools/list", cursor)).await.expect(200));
        let listed = listed["result"]["tools"].as_array().expect("tools").iter();
        assert_eq!(listed.map(|tool| tool["name"].as_str().expect("a name")).collect::<Vec<_>>(), names);
    }
    let called = last(&client.post(Some(&session), &tool_call("echo", "call-7")).await.expect(200));
    assert_eq!((&called["id"], &called["result"]["content"][0]["text"]), (&json!("call-7"), &json!(r#"{"say":"hi"}"#)));
    let refused = last(&client.post(Some(&session), &request("resources/subscribe", json!({"uri": "x:y"}))).await);
    assert!(refused["result"].is_object() || refused["error"].is_object(), "{refused}");
    let seen = served.server.upstream.seen();
    assert_eq!(seen.iter().filter(|seen| seen.method == "GET").count(), before + 1, "one stream for one session");
    for seen in seen {
        assert_eq!(seen.header("authorization"), Some("Bearer upstream-secret-1234"), "{seen:?}");
        assert!(!format!("{seen:?}").contains(&served.key), "{seen:?}");
    }
    client.call("DELETE", Some(&session)).send().await.expect(204);
    eventually("the stream is closed", || async { (served.server.open() == 0).then_some(()) }).await;
}

#[tokio::test]
async fn two_keys_never_share_a_stream() {
    let served = SseServed::start(&[]).await;
    let (_, other) = served.gateway.admin().workspace_key("other", json!({"scopes": ["mcp.invoke"]})).await;
    let (ours, theirs) = (served.client(), McpClient { key: &other, ..served.client() });
    let (one, two) = (ours.open().await, theirs.open().await);
    assert_eq!([ours.tool(&one, "count").await, ours.tool(&one, "count").await], ["1", "2"]);
    assert_eq!(theirs.tool(&two, "count").await, "1");
    theirs.post(Some(&one), &tool_call("count", 1)).await.expect(404);
    // Clients without sessions have one that stands for their key.
    let modern =
        |key: &str| modern_call_of(&served.gateway, ("/events/mcp", key), "tools/call", json!({"name": "count"}));
    let mut counted = Vec::new();
    for key in [&served.key, &served.key, &other] {
        counted.push(last(&modern(key).send().await.expect(200))["result"]["content"][0]["text"].clone());
    }
    assert_eq!(counted, ["1", "2", "1"]);
}

#[tokio::test]
async fn what_comes_on_the_way_of_a_call_has_the_clients_own_names() {
    let served = SseServed::start(&[]).await;
    let client = served.client();
    let session = client.open_as(json!({"sampling": {}})).await;
    let call = json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call",
        "params": {"name": "talk", "arguments": {}, "_meta": {"progressToken": "mine"}}});
    let answer = client.post(Some(&session), &call).await.expect(200);
    let events: Vec<Value> = answer.events().iter().map(|text| serde_json::from_str(text).expect("json")).collect();
    assert_eq!(events.len(), 4, "{events:?}");
    assert_eq!((&events[0]["params"]["progressToken"], &events[2]["params"]["progress"]), (&json!("mine"), &json!(2)));
    assert_eq!((&events[1]["params"]["data"], &events[3]["id"]), (&json!("on it"), &json!("c")));
    let heard = served.server.heard("tools/call").pop().expect("a call").json();
    assert!(heard["id"].is_u64() && heard["params"]["_meta"]["progressToken"] == heard["id"], "{heard}");
    // It asks the client in the midst of a call, and hears the answer over the same session.
    let mut asking = client.call("POST", Some(&session)).json(&tool_call("ask", "a-1")).open().await;
    let mut said = String::new();
    while !said.contains("sampling/createMessage") {
        let piece = asking.chunk().await.expect("a piece").expect("a request");
        said.push_str(&String::from_utf8_lossy(&piece));
    }
    let sampled = json!({"jsonrpc": "2.0", "id": "s-1", "result": {"role": "assistant", "model": "m",
        "content": {"type": "text", "text": "sampled"}}});
    client.post(Some(&session), &sampled).await.expect(202);
    while let Some(piece) = asking.chunk().await.expect("a piece") {
        said.push_str(&String::from_utf8_lossy(&piece));
    }
    assert!(said.contains("sampled") && said.contains(r#""id":"a-1""#), "{said}");
}

#[tokio::test]
async fn notices_come_over_the_clients_stream_and_pings_are_answered_by_the_gateway() {
    let served = SseServed::start(&[]).await;
    let client = served.client();
    let session = client.open().await;
    let mut listening = client.call("GET", Some(&session)).open().await;
    assert_eq!(listening.status(), 200);
    let mut said = String::new();
    served.server.say(&json!({"jsonrpc": "2.0", "id": 77, "method": "ping"}));
    served.server.say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    while !said.contains("tools/list_changed") {
        let piece = listening.chunk().await.expect("a piece").expect("a notice");
        said.push_str(&String::from_utf8_lossy(&piece));
    }
    assert!(!said.contains("ping"), "{said}");
    eventually("the ping is answered", || async {
        served
            .server
            .upstream
            .seen()
            .iter()
            .find(|s| s.method == "POST" && s.json() == json!({"jsonrpc": "2.0", "id": 77, "result": {}}))
            .map(|_| ())
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_ends_in_a_call_is_a_502_and_the_next_call_has_a_new_one() {
    let served = SseServed::start(&[]).await;
    let client = served.client();
    let session = client.open().await;
    assert_eq!(client.tool(&session, "count").await, "1");
    for tool in ["die", "long"] {
        let said = client.tool(&session, tool).await;
        assert!(said.contains("502") && said.contains("broke off"), "{said}");
        assert_eq!(client.tool(&session, "count").await, "1", "a new stream counts anew");
    }
}

#[tokio::test]
async fn a_client_that_leaves_and_a_silent_tool_are_told_to_the_server_by_its_own_number() {
    let served = SseServed::start(&["--mcp-timeout", "1s"]).await;
    let client = served.client();
    let session = client.open().await;
    let silent = client.tool(&session, "mute").await;
    assert!(silent.contains("408"), "{silent}");
    let leaving = client.call("POST", Some(&session)).json(&tool_call("mute", "m-2")).open().await;
    drop(leaving);
    let numbers =
        || -> Vec<Value> { served.server.heard("tools/call").iter().map(|seen| seen.json()["id"].clone()).collect() };
    eventually("both are taken back", || async {
        let told: Vec<Value> = served
            .server
            .heard("notifications/cancelled")
            .iter()
            .map(|seen| seen.json()["params"]["requestId"].clone())
            .collect();
        (told.len() == 2 && told == numbers()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_elsewhere_or_none_at_all_is_refused_in_time() {
    for (endpoint, why) in [
        (Some("http://169.254.169.254/latest?s="), "another origin"),
        (Some("//evil.example/m?s="), "another origin"),
        (Some("https://127.0.0.1/m?s="), "another origin"),
        (None, "in time"),
    ] {
        let server = SseServer::naming(endpoint).await;
        let served = SseServed::before(server, &["--mcp-timeout", "1s"]).await;
        let client = served.client();
        let body = crate::mcp_script::initialize("2025-06-18");
        let answer = client.post(None, &body).await;
        assert!(matches!(answer.status, 502 | 408) && answer.text().contains(why), "{why}: {}", answer.text());
        assert!(served.server.heard("initialize").is_empty(), "nothing was sent anywhere");
        let told = served.gateway.admin().get("/mcp-integrations/events-int/metadata").await.expect(200).json();
        assert_eq!(told["sync_status"], "failed", "{told}");
    }
}

#[tokio::test]
async fn streams_are_bounded_and_one_that_nobody_uses_makes_room() {
    let served = SseServed::start(&["--mcp-connections", "1"]).await;
    let (_, other) = served.gateway.admin().workspace_key("other", json!({"scopes": ["mcp.invoke"]})).await;
    let (ours, theirs) = (served.client(), McpClient { key: &other, ..served.client() });
    let one = ours.open().await;
    let listening = ours.call("GET", Some(&one)).open().await;
    assert_eq!(listening.status(), 200);
    let full = theirs.post(None, &crate::mcp_script::initialize("2025-06-18")).await.expect(503);
    assert!(full.text().contains("--mcp-connections"), "{}", full.text());
    assert!(served.gateway.metrics().await.contains(r#"gateway_mcp_kept{table="connections"} 1"#));
    drop(listening);
    eventually("the other key has its turn", || async {
        let answer = theirs.post(None, &crate::mcp_script::initialize("2025-06-18")).await;
        (answer.status == 200).then_some(())
    })
    .await;
    eventually("one stream is open", || async { (served.server.open() == 1).then_some(()) }).await;
    assert_eq!(ours.tool(&one, "count").await, "1", "and goes again where another call needs the room");
}

#[tokio::test]
async fn a_stream_that_nobody_uses_is_closed_and_opened_again_for_the_next_call() {
    let served = SseServed::start(&["--mcp-connection-idle", "1s"]).await;
    let client = served.client();
    let session = client.open_as(json!({"sampling": {}})).await;
    assert_eq!([client.tool(&session, "count").await, client.tool(&session, "count").await], ["1", "2"]);
    eventually("the stream is closed", || async { (served.server.open() == 0).then_some(()) }).await;
    assert!(served.gateway.metrics().await.contains(r#"gateway_mcp_kept{table="connections"} 0"#));
    assert_eq!(client.tool(&session, "count").await, "1");
    let opened = served.server.heard("initialize").pop().expect("an opening").json();
    assert!(opened["params"]["capabilities"]["sampling"].is_object(), "as the client opened it: {opened}");
    let changed = json!({"configurations": {"custom_headers": {"authorization": "Bearer another-secret-99"}}});
    served.gateway.admin().put("/mcp-integrations/events-int", &changed).await.expect(200);
    assert_eq!(client.tool(&session, "count").await, "1", "what was opened as somebody else is not used any more");
    let heard = served.server.heard("tools/call").pop().expect("a call");
    assert_eq!(heard.header("authorization"), Some("Bearer another-secret-99"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_at_another_node_over_a_stream_of_its_own() {
    let database = tokio::task::spawn_blocking(|| (Postgres::shared(), Postgres::shared().create("mcp_sse"))).await;
    let (_postgres, url) = database.expect("no panic");
    let served = SseServed::start(&["--database-url", &url]).await;
    let master = served.gateway.folder().join("data/master.key").display().to_string();
    let other = Gateway::with(&["--database-url", &url, "--master-key-file", &master]).await;
    let first = served.client();
    let session = first.open().await;
    assert_eq!(first.tool(&session, "count").await, "1");
    let second = McpClient { gateway: &other, ..first };
    eventually("the other node serves it", || async {
        let answer = second.post(Some(&session), &request("tools/list", json!({}))).await;
        (answer.status == 200).then_some(())
    })
    .await;
    assert_eq!(second.tool(&session, "count").await, "1");
    assert_eq!(first.tool(&session, "count").await, "2");
}

#[tokio::test]
async fn a_server_over_sse_is_a_member_of_others() {
    let served = SseServed::start(&[]).await;
    let files = ScriptedMcp::start(Script::default()).await;
    let admin = served.gateway.admin();
    let integration =
        json!({"name": "F", "slug": "f-int", "url": files.upstream.url(), "auth_type": "none", "transport": "http"});
    admin.post("/mcp-integrations", &integration).await.expect(200);
    admin
        .post("/mcp-servers", &json!({"name": "Files", "slug": "files", "mcp_integration_id": "f-int"}))
        .await
        .expect(200);
    let all =
        json!({"name": "All", "slug": "all", "members": [{"mcp_server_id": "files"}, {"mcp_server_id": "events"}]});
    admin.post("/mcp-servers", &all).await.expect(200);
    let client = McpClient { path: "/all/mcp", ..served.client() };
    let session = client.open().await;
    let listed = client.post(Some(&session), &request("tools/list", json!({}))).await.expect(200).text();
    assert!(["files__echo", "events__echo", "events__last"].iter().all(|name| listed.contains(name)), "{listed}");
    let counted = [client.tool(&session, "events__count").await, client.tool(&session, "events__count").await];
    assert_eq!(counted, ["1", "2"]);
    assert!(client.tool(&session, "events__die").await.contains("502"));
    assert_eq!(client.tool(&session, "events__count").await, "1");
    client.call("DELETE", Some(&session)).send().await.expect(204);
    eventually("all streams are closed", || async { (served.server.open() == 0).then_some(()) }).await;
}
