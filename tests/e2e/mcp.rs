//! MCP servers through the gateway: versions, sessions, what may be used of a server, limits of tools, and what neither
//! side may learn of the other. The server behind it is scripted, so that what reaches it can be read.

use crate::harness::{Answer, Gateway, Upstream, eventually, gateway::target, reply, stand_at_noon};
use crate::mcp_script::{JSON, Script, Served, code, initialize, modern_call, request, tool_call};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

#[tokio::test]
async fn initialize_echoes_each_known_version_and_offers_the_newest_for_another() {
    let served = Served::start(Script::default()).await;
    for (asked, told) in [
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1900-01-01", "2025-11-25"),
    ] {
        let answer = served.post(None, &initialize(asked)).await.expect(200);
        let result = &answer.json()["result"];
        assert_eq!(result["protocolVersion"], told);
        assert_eq!(result["serverInfo"]["name"], "scripted");
        assert!(result["capabilities"].get("tasks").is_none(), "tasks are not told of: {result}");
        assert!(
            answer.header("mcp-session-id").is_some_and(|id| !id.contains("up-")),
            "a session of the gateway's own"
        );
    }
}

#[tokio::test]
async fn a_session_reaches_the_server_under_the_servers_own_id() {
    let served = Served::start(Script::default()).await;
    let session = served.open().await;
    let answer = served.tool(&session, "echo", "call-7").await.expect(200).json();
    assert_eq!(answer["id"], "call-7");
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"say":"hi"}"#);
    let heard = served.mcp.heard("tools/call").pop().expect("a call");
    assert!(heard.header("mcp-session-id").is_some_and(|id| id.starts_with("up-")), "{heard:?}");
    assert_eq!(heard.header("mcp-protocol-version"), Some("2025-06-18"));
    assert_eq!(heard.header("authorization"), Some("Bearer upstream-secret-1234"));
}

#[tokio::test]
async fn nothing_of_the_callers_credentials_goes_to_the_server() {
    let served = Served::start(Script::default()).await;
    let session = served.open().await;
    let call = served.call("POST").header("mcp-session-id", &session).json(&tool_call("echo", 1));
    call.header("authorization", "Bearer canary-token").header("cookie", "canary=cookie").send().await.expect(200);
    for seen in served.mcp.upstream.seen() {
        let text = format!("{:?} {}", seen.headers, seen.text());
        assert!(!text.contains("canary") && !text.contains(&served.key), "{text}");
    }
}

#[tokio::test]
async fn all_pages_of_a_list_pass() {
    let served = Served::start(Script::default()).await;
    let session = served.open().await;
    let first = served.post(Some(&session), &request("tools/list", json!({}))).await.expect(200);
    assert!(first.text().contains(r#""x-kept":1.5"#), "members that nobody knows stay: {}", first.text());
    assert_eq!(first.json()["result"]["nextCursor"], "more");
    let second = served.post(Some(&session), &request("tools/list", json!({"cursor": "more"}))).await.expect(200);
    assert_eq!(second.json()["result"]["tools"][1]["name"], "last");
}

#[tokio::test]
async fn what_is_switched_off_is_missing_in_lists_and_calls_alike() {
    let served = Served::start(Script::default()).await;
    let admin = served.gateway.admin();
    let session = served.open().await;
    assert_eq!(served.names(&session, "tools/list", "tools").await, ["echo", "secret"]);
    let off = |kind: &str, name: &str| json!({"capabilities": [{"name": name, "type": kind, "enabled": false}]});
    admin.put("/mcp-integrations/files-int/capabilities", &off("tool", "secret")).await.expect(200);
    admin.put("/mcp-servers/files/capabilities", &off("prompt", "scold")).await.expect(200);
    admin.put("/mcp-servers/files/capabilities", &off("resource", "file:///b")).await.expect(200);
    assert_eq!(served.names(&session, "tools/list", "tools").await, ["echo"], "in force in a session that was open");
    assert_eq!(served.names(&session, "prompts/list", "prompts").await, ["greet"]);
    assert_eq!(served.names(&session, "resources/list", "resources").await, ["file:///a"]);
    let before = served.mcp.upstream.seen().len();
    for (method, params, expected) in [
        ("tools/call", json!({"name": "secret", "arguments": {}}), -32602),
        ("prompts/get", json!({"name": "scold"}), -32602),
        ("resources/read", json!({"uri": "file:///b"}), -32002),
        ("resources/subscribe", json!({"uri": "file:///b"}), -32002),
        ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "scold"}, "argument": {}}), -32602),
    ] {
        let answer = served.post(Some(&session), &request(method, params)).await.expect(200);
        assert_eq!(code(&answer), expected, "{method}: {}", answer.text());
    }
    assert_eq!(served.mcp.upstream.seen().len(), before, "the server heard nothing of it");
    let on = json!({"capabilities": [{"name": "secret", "type": "tool", "enabled": true}]});
    admin.put("/mcp-integrations/files-int/capabilities", &on).await.expect(200);
    served.tool(&session, "secret", 1).await.expect(200);
}

#[tokio::test]
async fn a_tool_at_its_limit_is_a_429_in_json_rpc_and_another_tool_is_free() {
    stand_at_noon();
    let served = Served::start(Script::default()).await;
    let policy = json!({
        "name": "One Echo", "target": "mcp_tools", "type": "requests", "unit": "rph", "value": 1,
        "conditions": [{"key": "mcp_server", "value": "files"}, {"key": "mcp_tool", "value": "echo"}],
        "group_by": [{"key": "mcp_tool"}],
    });
    served.gateway.admin().post("/policies/rate-limits", &policy).await.expect(200);
    let session = served.open().await;
    served.tool(&session, "echo", 1).await.expect(200);
    let refused = served.tool(&session, "echo", "second").await.expect(429);
    let body = refused.json();
    assert_eq!((&body["id"], &body["error"]["code"]), (&json!("second"), &json!(429)), "{body}");
    assert!(body["error"]["message"].as_str().is_some_and(|m| m.contains("One Echo")), "{body}");
    assert_eq!(body["error"]["data"]["type"], "rate_limit_error");
    assert!(refused.header("retry-after").is_some());
    served.tool(&session, "last", 3).await.expect(200);
    assert_eq!(served.mcp.heard("tools/call").len(), 2, "what was refused reached nobody");
}

#[tokio::test]
async fn as_many_tool_calls_as_allowed_reach_the_server_under_concurrency() {
    stand_at_noon();
    let served = Served::start(Script::default()).await;
    let policy = json!({
        "name": "Ten", "target": "mcp_tools", "type": "requests", "unit": "rph", "value": 10,
        "conditions": [{"key": "mcp_server", "value": "*"}], "group_by": [{"key": "api_key"}],
    });
    served.gateway.admin().post("/policies/rate-limits", &policy).await.expect(200);
    let session = served.open().await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..50 {
        let call = served.call("POST").header("mcp-session-id", &session).json(&tool_call("echo", n));
        calls.spawn(call.send());
    }
    let mut passed = 0;
    while let Some(answer) = calls.join_next().await {
        let answer = answer.expect("no client failed");
        assert!(matches!(answer.status, 200 | 429), "{}", answer.text());
        passed += usize::from(answer.status == 200);
    }
    assert_eq!((passed, served.mcp.heard("tools/call").len()), (10, 10));
}

#[tokio::test]
async fn a_batch_counts_each_call_and_only_the_oldest_version_has_batches() {
    stand_at_noon();
    let served = Served::start(Script { stateless: true, ..Script::default() }).await;
    let policy = json!({
        "name": "Two", "target": "mcp_tools", "type": "requests", "unit": "rph", "value": 2,
        "conditions": [{"key": "mcp_server", "value": "*"}], "group_by": [{"key": "api_key"}],
    });
    served.gateway.admin().post("/policies/rate-limits", &policy).await.expect(200);
    let batch = json!([tool_call("echo", 1), tool_call("echo", 2), tool_call("echo", 3)]);
    let call = |version: &str| served.call("POST").header("mcp-protocol-version", version).json(&batch);
    let answers = call("2025-03-26").send().await.expect(200).json();
    let answers = answers.as_array().expect("a batch");
    let refused: Vec<_> = answers.iter().filter(|a| a["error"]["code"] == 429).collect();
    assert_eq!((answers.len(), refused.len(), &refused[0]["id"]), (3, 1, &json!(3)));
    for version in ["2025-06-18", "2025-11-25"] {
        assert_eq!(code(&call(version).send().await.expect(400)), -32600, "{version}");
    }
}

#[tokio::test]
async fn a_session_is_of_one_key_and_of_one_server_and_has_an_end() {
    let served = Served::start(Script::default()).await;
    let session = served.open().await;
    let admin = served.gateway.admin();
    let (_, other) = admin.workspace_key("other", json!({"scopes": ["mcp.invoke"]})).await;
    let twin = json!({"name": "Twin", "slug": "twin", "mcp_integration_id": "files-int"});
    admin.post("/mcp-servers", &twin).await.expect(200);
    let list = request("tools/list", json!({}));
    let before = served.mcp.upstream.seen().len();
    let flipped = {
        let mut bytes = session.clone().into_bytes();
        let middle = bytes.len() / 2;
        bytes[middle] = if bytes[middle] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).expect("text")
    };
    let stolen = served.call("POST").key(&other).header("mcp-session-id", &session).json(&list).send().await;
    let elsewhere = served.gateway.call("POST", "/twin/mcp").key(&served.key).header("mcp-session-id", &session);
    let elsewhere = elsewhere.json(&list).send().await;
    let changed = served.post(Some(&flipped), &list).await;
    let made_up = served.post(Some("up-0"), &list).await;
    for answer in [stolen, elsewhere, changed, made_up] {
        assert_eq!((answer.status, code(&answer)), (404, -32600), "{}", answer.text());
    }
    assert_eq!(served.mcp.upstream.seen().len(), before, "the server heard of none of them");
    served.call("DELETE").header("mcp-session-id", &session).send().await.expect(204);
    served.post(Some(&session), &list).await.expect(404);
    assert!(served.mcp.sessions.lock().expect("no panic").is_empty(), "the server's session is gone too");
}

#[tokio::test]
async fn a_session_that_is_over_is_as_unknown_as_any() {
    let served = Served::with(Script::default(), &["--mcp-session-ttl", "1s"]).await;
    let session = served.open().await;
    served.tool(&session, "echo", 1).await.expect(200);
    tokio::time::sleep(Duration::from_millis(2100)).await;
    let before = served.mcp.upstream.seen().len();
    let over = served.tool(&session, "echo", 2).await.expect(404);
    assert_eq!((code(&over), served.mcp.upstream.seen().len()), (-32600, before), "{}", over.text());
}

#[tokio::test]
async fn a_session_survives_a_restart_of_the_gateway() {
    let served = Served::start(Script::default()).await;
    let session = served.open().await;
    let served = Served { gateway: served.gateway.restart_with(&[]).await, ..served };
    served.tool(&session, "echo", 1).await.expect(200);
    let used: BTreeSet<_> =
        served.mcp.heard("tools/call").iter().map(|s| s.header("mcp-session-id").map(str::to_owned)).collect();
    assert_eq!(used.len(), 1);
}

#[tokio::test]
async fn a_session_that_the_server_forgot_is_a_404() {
    let served = Served::start(Script::default()).await;
    let session = served.open().await;
    served.mcp.sessions.lock().expect("no panic").clear();
    let answer = served.tool(&session, "echo", 5).await.expect(404);
    assert_eq!((code(&answer), &answer.json()["id"]), (-32600, &json!(5)));
}

#[tokio::test]
async fn events_pass_as_they_come_and_a_client_of_json_gets_the_answer_alone() {
    let served = Served::start(Script { streams: true, ..Script::default() }).await;
    let session = served.open().await;
    let answer = served.tool(&session, "echo", 9).await.expect(200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let text = answer.text();
    let events: Vec<&str> = text.split("\n\n").filter(|e| e.contains("event: message")).collect();
    assert_eq!(events.len(), 2, "{text}");
    assert!(events[0].contains("on it") && events[0].contains("id: 2") && events[1].contains(r#""id":9"#), "{text}");
    let call = served.call("POST").header("accept", "application/json").header("mcp-session-id", &session);
    let alone = call.json(&tool_call("echo", 10)).send().await.expect(200);
    assert_eq!((alone.header("content-type"), &alone.json()["id"]), (Some("application/json"), &json!(10)));
}

#[tokio::test]
async fn a_modern_client_calls_a_server_that_keeps_sessions() {
    let served = Served::start(Script::default()).await;
    let found = modern_call(&served, "server/discover", json!({})).send().await.expect(200).json();
    assert_eq!(found["result"]["resultType"], "complete");
    assert_eq!(found["result"]["supportedVersions"][0], "2026-07-28");
    assert!(found["result"]["capabilities"].get("tasks").is_none());
    let list = modern_call(&served, "tools/list", json!({})).send().await.expect(200).json();
    assert_eq!((&list["result"]["cacheScope"], &list["id"]), (&json!("private"), &json!(1)), "{list}");
    let params = json!({"name": "echo", "arguments": {"say": "hi"}});
    let called = modern_call(&served, "tools/call", params.clone()).send().await.expect(200).json();
    assert_eq!((&called["result"]["resultType"], &called["id"]), (&json!("complete"), &json!(1)), "{called}");
    let heard = served.mcp.heard("tools/call").pop().expect("a call");
    assert!(heard.json()["params"].get("_meta").is_none(), "{heard:?}");
    assert!(heard.header("mcp-method").is_none());
    served.mcp.sessions.lock().expect("no panic").clear();
    modern_call(&served, "tools/call", params).send().await.expect(200);
}

#[tokio::test]
async fn callers_before_a_server_that_keeps_sessions_never_share_one() {
    let served = Served::start(Script::default()).await;
    let (_, other) = served.gateway.admin().workspace_key("other", json!({"scopes": ["mcp.invoke"]})).await;
    for key in [&served.key, &other] {
        modern_call(&served, "tools/call", json!({"name": "echo"})).key(key).send().await.expect(200);
    }
    let used: BTreeSet<_> =
        served.mcp.heard("tools/call").iter().map(|s| s.header("mcp-session-id").map(str::to_owned)).collect();
    assert_eq!(used.len(), 2);
}

#[tokio::test]
async fn a_legacy_client_calls_a_server_of_the_modern_era() {
    let served = Served::start(Script { modern: true, ..Script::default() }).await;
    let opened = served.post(None, &initialize("2025-06-18")).await.expect(200);
    assert!(opened.header("mcp-session-id").is_none());
    assert_eq!(opened.json()["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(opened.json()["result"]["serverInfo"]["name"], "modern");
    let list = served.post(None, &request("tools/list", json!({}))).await.expect(200).json();
    assert!(list["result"].get("resultType").is_none() && list["result"].get("ttlMs").is_none(), "{list}");
    served.post(None, &tool_call("echo", 4)).await.expect(200);
    served.call("GET").header("accept", "text/event-stream").send().await.expect(405);
    let direct = modern_call(&served, "tools/list", json!({})).send().await.expect(200).json();
    assert_eq!((&direct["result"]["ttlMs"], &direct["result"]["cacheScope"]), (&json!(30_000), &json!("private")));
}

#[tokio::test]
async fn headers_of_the_modern_era_say_what_the_body_says() {
    let served = Served::start(Script::default()).await;
    let params = || json!({"name": "echo"});
    let before = served.mcp.upstream.seen().len();
    let other_name = modern_call(&served, "tools/call", params()).header("mcp-name", "secret");
    assert_eq!(code(&other_name.send().await.expect(400)), -32020);
    let no_version = modern_call(&served, "tools/call", params()).without("mcp-protocol-version");
    assert_eq!(code(&no_version.send().await.expect(400)), -32020);
    let bare = served.call("POST").header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/list");
    assert_eq!(code(&bare.json(&request("tools/list", json!({}))).send().await.expect(400)), -32602);
    let version = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
    let lacking = served.call("POST").header("mcp-protocol-version", "2026-07-28").header("mcp-method", "tools/list");
    let refused = lacking.json(&request("tools/list", version)).send().await.expect(400);
    assert_eq!((code(&refused), &refused.json()["id"]), (-32602, &json!(1)), "it says nothing of what it can do");
    let unknown = served.call("POST").header("mcp-protocol-version", "2099-01-01").header("mcp-method", "tools/list");
    let meta = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2099-01-01",
        "io.modelcontextprotocol/clientCapabilities": {}}});
    let refused = unknown.json(&request("tools/list", meta)).send().await.expect(400);
    assert_eq!((code(&refused), &refused.json()["error"]["data"]["requested"]), (-32022, &json!("2099-01-01")));
    assert_eq!(code(&modern_call(&served, "ping", json!({})).send().await.expect(404)), -32601);
    assert_eq!(served.mcp.upstream.seen().len(), before);
    let coded = modern_call(&served, "tools/call", params()).header("mcp-name", "=?base64?ZWNobw==?=");
    coded.send().await.expect(200);
}

#[tokio::test]
async fn bad_messages_are_told_what_is_wrong_with_them() {
    let served = Served::start(Script::default()).await;
    let before = served.mcp.upstream.seen().len();
    for (body, status, expected) in [
        ("{", 400, -32700),
        ("", 400, -32700),
        ("[]", 400, -32600),
        ("7", 400, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, 200, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","name":"secret"}}"#, 200, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t"}}"#, 200, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"nobody/knows"}"#, 200, -32601),
    ] {
        let answer = served.call("POST").bytes(body).send().await.expect(status);
        assert_eq!(code(&answer), expected, "{body}: {}", answer.text());
    }
    let version =
        served.call("POST").header("mcp-protocol-version", "2020-01-01").json(&request("tools/list", json!({})));
    assert_eq!(code(&version.send().await.expect(400)), -32022);
    let deep =
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{}{}}}"#, "[".repeat(5000), "]".repeat(5000));
    served.call("POST").bytes(deep).send().await.expect(400);
    served.call("POST").body("text/plain", "{}").send().await.expect(415);
    served.call("POST").header("accept", "text/html").json(&request("ping", json!({}))).send().await.expect(406);
    assert_eq!(served.mcp.upstream.seen().len(), before, "none of it reached the server");
    let pong = served.post(None, &request("ping", json!({}))).await.expect(200);
    assert_eq!(pong.json(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
}

#[tokio::test]
async fn who_may_not_call_hears_so_and_what_is_elsewhere_is_missing() {
    let served = Served::start(Script::default()).await;
    let admin = served.gateway.admin();
    let list = request("tools/list", json!({}));
    served.call("POST").without("x-gateway-api-key").json(&list).send().await.expect(401);
    let (_, models) = admin.workspace_key("models", json!({"scopes": ["completions.write"]})).await;
    served.call("POST").key(&models).json(&list).send().await.expect(403);
    for path in ["/nobody/mcp", "/files-int/mcp"] {
        served.gateway.call("POST", path).key(&served.key).json(&list).send().await.expect(404);
    }
    let id = admin.get("/mcp-servers/files").await.expect(200).json()["id"].as_str().expect("an id").to_owned();
    served.gateway.call("POST", &format!("/{id}/mcp")).key(&served.key).json(&list).send().await.expect(404);
    admin.put("/mcp-servers/files/user-access", &json!({"default_user_access": "deny"})).await.expect(200);
    served.post(None, &list).await.expect(403);
    admin.put("/mcp-servers/files/user-access", &json!({"default_user_access": "allow"})).await.expect(200);
    let shut = json!({"workspaces": [], "global_workspace_access": {"enabled": false}});
    admin.put("/mcp-integrations/files-int/workspaces", &shut).await.expect(200);
    served.post(None, &list).await.expect(404);
    let chat = served.gateway.chat().key(&served.key).config(&target(&served.mcp.upstream)).json(&json!({}));
    chat.send().await.expect(403);
}

#[tokio::test]
async fn pages_of_other_origins_may_not_call() {
    let served = Served::with(Script::default(), &["--mcp-allowed-origins", "https://app.example.com"]).await;
    let ask = |origin: &str| served.call("POST").header("origin", origin).json(&request("ping", json!({})));
    ask("https://app.example.com").send().await.expect(200);
    ask("http://localhost:6274").send().await.expect(200);
    for evil in ["https://evil.example.com", "http://localhost.evil.example", "null"] {
        ask(evil).send().await.expect(403);
    }
    let host = served.call("POST").header("host", "evil.example.com").json(&request("ping", json!({})));
    host.send().await.expect(403);
    let host = served.call("POST").header("host", "app.example.com").json(&request("ping", json!({})));
    host.send().await.expect(200);
}

#[tokio::test]
async fn a_servers_own_challenge_and_failures_stay_behind_the_gateway() {
    let gateway = Gateway::start().await;
    let failing = Upstream::replying(|seen| {
        let status = match seen.json()["method"].as_str() {
            Some("tools/list") => 401,
            Some("prompts/list") => 500,
            _ => return reply::whole(200, &[JSON], "not json"),
        };
        reply::whole(status, &[("www-authenticate", "Bearer realm=upstream-canary")], "upstream-canary")
    })
    .await;
    let admin = gateway.admin();
    let integration = json!({"name": "F", "slug": "f", "url": failing.url(), "auth_type": "none", "transport": "http"});
    admin.post("/mcp-integrations", &integration).await.expect(200);
    let server = json!({"name": "Failing", "slug": "failing", "mcp_integration_id": "f"});
    admin.post("/mcp-servers", &server).await.expect(200);
    let (_, key) = admin.workspace_key("mcp", json!({"scopes": ["mcp.invoke"]})).await;
    for method in ["tools/list", "prompts/list", "resources/list"] {
        let call = gateway.call("POST", "/failing/mcp").key(&key).json(&request(method, json!({})));
        let answer = call.send().await.expect(502);
        assert!(answer.header("www-authenticate").is_none() && !answer.text().contains("canary"), "{}", answer.text());
    }
    drop(failing);
    let call = gateway.call("POST", "/failing/mcp").key(&key).json(&request("tools/list", json!({})));
    assert_eq!(code(&call.send().await.expect(503)), 503);
}

#[tokio::test]
async fn a_call_is_recorded_with_its_server_and_its_tool() {
    let served = Served::start(Script::default()).await;
    let session = served.open().await;
    served.tool(&session, "echo", 1).await.expect(200);
    served.tool(&session, "fail", 2).await.expect(200);
    let admin = served.gateway.admin();
    let found = eventually("both calls are recorded", || async {
        let logs = admin.get("/logs?page_size=100").await.expect(200).json();
        let all: Vec<Value> = logs["data"].as_array().expect("logs").clone();
        let calls: Vec<Value> = all.into_iter().filter(|r| r.to_string().contains("mcp.tools/call")).collect();
        (calls.len() == 2).then_some(calls)
    })
    .await;
    for record in &found {
        let text = record.to_string();
        assert!(text.contains("files") && !text.contains("upstream-secret"), "{text}");
        let (tool, metrics) = (&record["tool"], &record["metrics"]);
        assert_eq!((&record["kind"], record.get("batch"), &tool["protocol"]), (&json!("tool"), None, &json!("mcp")));
        assert_eq!((&tool["method"], &tool["server"]), (&json!("tools/call"), &json!("files")));
        assert_eq!((&tool["name"], &tool["task_state"]), (&metrics["ai_model"], &Value::Null));
        assert_eq!((&metrics["usage"], &metrics["cache_status"]), (&Value::Null, &json!("disabled")));
    }
    assert!(
        found.iter().any(|r| r.to_string().contains("mcp_tool_error")),
        "a tool that failed is a failure: {found:?}"
    );
    let metrics = served.gateway.metrics().await;
    assert!(metrics.contains("mcp.tools/call"), "it is counted");
}

#[tokio::test]
async fn guardrails_judge_arguments_and_results_and_a_denial_is_a_result() {
    let served = Served::start(Script { streams: true, ..Script::default() }).await;
    let admin = served.gateway.admin();
    let guardrail =
        |name: &'static str, check: Value| json!({"name": name, "checks": [check], "actions": {"deny": true}});
    let mut slugs = Vec::new();
    for (name, check) in [
        ("words", json!({"id": "default.contains", "parameters": {"words": ["forbidden"], "operator": "none"}})),
        (
            "redact",
            json!({"id": "default.regexReplace", "parameters": {"rule": "card-[0-9]+", "redactText": "[gone]"}}),
        ),
    ] {
        let made = admin.post("/guardrails", &guardrail(name, check)).await.expect(200).json();
        slugs.push(made["slug"].clone());
    }
    let defaults = json!({"defaults": {"input_guardrails": slugs, "output_guardrails": slugs}});
    admin.put("/admin/workspaces/default", &defaults).await.expect(200);
    let session = served.open().await;
    let say = |name: &str, say: &str| {
        let params = json!({"name": name, "arguments": {"deep": [{"say": say}], "n": 1}});
        request("tools/call", params)
    };
    let last = |answer: &Answer| -> Value {
        let text = answer.text();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).rfind(|d| d.contains("\"id\":1"));
        serde_json::from_str(data.unwrap_or(&text)).expect("a message")
    };
    let denied = served.post(Some(&session), &say("echo", "a forbidden word")).await.expect(200);
    let result = &last(&denied)["result"];
    assert_eq!(result["isError"], true, "{result}");
    let told = &result["_meta"]["gateway/hook_results"]["before_request_hooks"];
    assert!(told.as_array().is_some_and(|hooks| !hooks.is_empty()), "{result}");
    assert!(served.mcp.heard("tools/call").is_empty(), "the server was not called");
    let passed = served.post(Some(&session), &say("echo", "pay by card-1234 now")).await.expect(200);
    let text = last(&passed)["result"]["content"][0]["text"].as_str().expect("a text").to_owned();
    assert_eq!(text, r#"{"deep":[{"say":"pay by [gone] now"}],"n":1}"#);
    let heard = served.mcp.heard("tools/call").pop().expect("a call").text();
    assert!(heard.contains("[gone]") && !heard.contains("card-1234"), "{heard}");
    let spoken =
        served.post(Some(&session), &request("tools/call", json!({"name": "leak", "arguments": {}}))).await.expect(200);
    let result = &last(&spoken)["result"];
    assert!(result["isError"] == true && !spoken.text().contains("forbidden thing"), "{result}");
    let statuses = eventually("what was denied is recorded as such", || async {
        let logs = admin.get("/logs?page_size=100").await.expect(200).json();
        let all = logs["data"].as_array().expect("logs").clone();
        let denied =
            all.iter().filter(|r| r.to_string().contains("446") && r.to_string().contains("hooks_failed")).count();
        (denied == 2).then_some(denied)
    })
    .await;
    assert_eq!(statuses, 2);
}

#[tokio::test]
async fn the_admin_api_tells_what_a_server_offers() {
    let served = Served::start(Script::default()).await;
    let admin = served.gateway.admin();
    let told = admin.get("/mcp-servers/files/metadata").await.expect(200).json();
    assert_eq!((&told["server_name"], &told["sync_status"]), (&json!("scripted"), &json!("ok")), "{told}");
    assert_eq!(told["protocol_version"], "2025-11-25");
    let all = admin.get("/mcp-servers/files/capabilities?type=tool").await.expect(200).json();
    assert_eq!((&all["total"], &all["data"][3]["name"]), (&json!(4), &json!("last")), "every page was asked: {all}");
    let tried = admin.post("/mcp-servers/files/test", &json!({})).await.expect(200).json();
    assert_eq!((&tried["success"], &tried["status_code"]), (&json!(true), &json!(200)), "{tried}");
    let shown = admin.get("/mcp-integrations/files-int").await.expect(200).text();
    assert!(!shown.contains("upstream-secret-1234"), "{shown}");
    assert!(served.mcp.sessions.lock().expect("no panic").is_empty(), "no session is left behind");
}

#[tokio::test]
async fn addresses_that_may_not_be_called_are_refused_when_they_are_saved() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    for url in [
        "http://169.254.169.254/mcp",
        "http://10.1.2.3/mcp",
        "http://[fd00::1]/mcp",
        "http://metadata.google.internal/",
        "http://0x7f000001.nip.io/",
        "ftp://example.com/",
        "https://user:pass@example.com/mcp",
        "https://example.com/mcp#part",
        "stdio:ls",
    ] {
        let body = json!({"name": "x", "url": url, "auth_type": "none", "transport": "http"});
        let answer = admin.post("/mcp-integrations", &body).await.expect(400);
        assert!(answer.text().contains("url"), "{url}: {}", answer.text());
        admin
            .post("/mcp-integrations/test", &json!({"url": url, "auth_type": "none", "transport": "http"}))
            .await
            .expect(400);
    }
    for (field, value) in [
        ("transport", json!("tcp")),
        ("auth_type", json!("oauth_auto")),
        ("secret_mappings", json!([{}])),
        ("configurations", json!({"passthrough_header": {"a": "b"}})),
        ("configurations", json!({"custom_headers": {"host": "x"}})),
        ("configurations", json!({"custom_headers": {"mcp-session-id": "x"}})),
        ("configurations", json!({"custom_headers": {"x-a": "1"}})),
        ("command", json!("ls")),
    ] {
        let mut body = json!({"name": "x", "url": "https://example.com/mcp", "auth_type": "none", "transport": "http"});
        body[field] = value;
        let answer = admin.post("/mcp-integrations", &body).await.expect(400);
        assert!(answer.text().contains(field), "{}", answer.text());
    }
}
