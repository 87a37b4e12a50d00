//! Servers that speak both eras of MCP: each client is answered in its own. And arguments that a tool wants repeated in
//! headers, which is of the modern era alone.

use crate::harness::{Gateway, Upstream, eventually, reply};
use crate::mcp_script::{Script, ScriptedMcp, Served, code, initialize, modern_call, request, tool_call};
use serde_json::{Value, json};

async fn of_both() -> Served {
    Served::start(Script { both: true, ..Script::default() }).await
}

#[tokio::test]
async fn a_server_of_both_eras_is_spoken_with_as_its_client_speaks() {
    let served = of_both().await;
    let told = served.gateway.admin().get("/mcp-servers/files/metadata").await.expect(200).json();
    assert_eq!(told["protocol_version"], "2026-07-28");

    // In a session the server can ask its client for something, so that session is the server's own.
    let session = served.open().await;
    let answer = served.tool(&session, "echo", 7).await.expect(200).json();
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"say":"hi"}"#);
    served.post(Some(&session), &request("logging/setLevel", json!({"level": "info"}))).await.expect(200);
    let heard = served.mcp.heard("tools/call");
    assert!(heard[0].header("mcp-session-id").is_some() && heard[0].json()["params"]["_meta"].is_null());
    assert_eq!(served.mcp.heard("logging/setLevel").len(), 1);

    // Who has none is asked for nothing, and needs none.
    let answer = served.post(None, &tool_call("echo", 8)).await.expect(200).json();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(8), &json!(r#"{"say":"hi"}"#)));
    let modern = modern_call(&served, "tools/call", json!({"name": "echo", "arguments": {"say": "hi"}}));
    assert_eq!(modern.send().await.expect(200).json()["result"]["resultType"], "complete");
    for heard in &served.mcp.heard("tools/call")[1..] {
        assert!(heard.header("mcp-session-id").is_none());
        assert_eq!(heard.json()["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    }

    served.call("DELETE").header("mcp-session-id", &session).send().await.expect(204);
    served.tool(&session, "echo", 9).await.expect(404);
}

#[tokio::test]
async fn a_server_that_opens_no_sessions_is_asked_for_one_once() {
    let served = Served::start(Script { modern: true, ..Script::default() }).await;
    for _ in 0..3 {
        let opened = served.post(None, &initialize("2025-06-18")).await.expect(200);
        assert!(opened.header("mcp-session-id").is_none());
    }
    assert_eq!(served.mcp.heard("initialize").len(), 1);
    let metrics = served.gateway.metrics().await;
    assert!(metrics.contains(r#"gateway_mcp_kept{table="sessionless_servers"} 1"#), "{metrics}");
    let answer = served.post(None, &tool_call("echo", 1)).await.expect(200).json();
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"say":"hi"}"#);
}

#[tokio::test]
async fn members_of_both_eras_keep_the_sessions_of_the_whole() {
    let served = of_both().await;
    let mail = ScriptedMcp::start(Script { modern: true, ..Script::default() }).await;
    let body = json!({"name": "Mail", "slug": "mail-int", "url": mail.upstream.url(), "auth_type": "none", "transport": "http"});
    served.gateway.admin().post("/mcp-integrations", &body).await.expect(200);
    let server = json!({"name": "Mail", "slug": "mail", "mcp_integration_id": "mail-int"});
    served.gateway.admin().post("/mcp-servers", &server).await.expect(200);
    let members = json!([{"mcp_server_id": "files"}, {"mcp_server_id": "mail"}]);
    let body = json!({"name": "Suite", "slug": "suite", "members": members});
    served.gateway.admin().post("/mcp-servers", &body).await.expect(200);
    let served = Served { path: "/suite/mcp", ..served };
    let session = served.open().await;
    served.tool(&session, "files__echo", 1).await.expect(200);
    served.tool(&session, "mail__echo", 2).await.expect(200);
    assert!(served.mcp.heard("tools/call")[0].header("mcp-session-id").is_some());
    assert!(mail.heard("tools/call")[0].header("mcp-session-id").is_none());
    let modern = modern_call(&served, "tools/call", json!({"name": "files__echo", "arguments": {}}));
    modern.send().await.expect(200);
    assert!(served.mcp.heard("tools/call")[1].header("mcp-session-id").is_none());
}

fn annotated() -> Value {
    let region = json!({"type": "string", "x-mcp-header": "Region"});
    let twice = json!({"a": region, "b": {"type": "string", "x-mcp-header": "region"}});
    json!([
        {"name": "route", "inputSchema": {"type": "object", "properties": {"region": region, "n": {"type": "integer", "x-mcp-header": "N"}}}},
        {"name": "broken", "inputSchema": {"type": "object", "properties": twice}},
        {"name": "echo", "inputSchema": {"type": "object"}},
    ])
}

#[tokio::test]
async fn arguments_in_headers_must_say_what_the_body_says() {
    let served = Served::start(Script { modern: true, ..Script::default() }).await;
    *served.mcp.tools.lock().expect("no panic") = Some(annotated());
    served.gateway.admin().post("/mcp-integrations/files-int/test", &json!({})).await.expect(200);

    let call = |arguments: Value| modern_call(&served, "tools/call", json!({"name": "route", "arguments": arguments}));
    let good = call(json!({"region": "wörld", "n": 42}));
    let good = good.header("mcp-param-region", "=?base64?d8O2cmxk?=").header("Mcp-Param-N", "42.0");
    good.header("mcp-param-other", "7").send().await.expect(200);
    let heard = served.mcp.heard("tools/call");
    assert_eq!(heard[0].header("mcp-param-region"), Some("=?base64?d8O2cmxk?="));
    assert_eq!(heard[0].header("mcp-param-n"), Some("42"));
    assert_eq!(heard[0].header("mcp-param-other"), None);
    call(json!({"region": null})).send().await.expect(200);
    assert_eq!(served.mcp.heard("tools/call")[1].header("mcp-param-region"), None);

    for (arguments, headers) in [
        (json!({"region": "eu"}), vec![]),
        (json!({"region": "eu"}), vec!["us"]),
        (json!({"region": "eu"}), vec!["=?base64?!!?="]),
        (json!({}), vec!["eu"]),
    ] {
        let bad = headers.iter().fold(call(arguments.clone()), |call, value| call.header("mcp-param-region", value));
        assert_eq!(code(&bad.send().await.expect(400)), -32020, "{arguments} {headers:?}");
    }
    assert_eq!(served.mcp.heard("tools/call").len(), 2);

    // Clients of earlier versions know nothing of it; the server hears it all the same.
    let old = request("tools/call", json!({"name": "route", "arguments": {"region": "eu"}}));
    served.post(None, &old).await.expect(200);
    assert_eq!(served.mcp.heard("tools/call")[2].header("mcp-param-region"), Some("eu"));
}

#[tokio::test]
async fn a_tool_whose_headers_break_the_rules_is_none() {
    let served = Served::start(Script { modern: true, ..Script::default() }).await;
    *served.mcp.tools.lock().expect("no panic") = Some(annotated());
    let listed = modern_call(&served, "tools/list", json!({})).send().await.expect(200).json();
    let names: Vec<&str> =
        listed["result"]["tools"].as_array().expect("tools").iter().filter_map(|t| t["name"].as_str()).collect();
    assert_eq!(names, ["route", "echo"]);
    served.gateway.admin().post("/mcp-integrations/files-int/test", &json!({})).await.expect(200);
    let called = modern_call(&served, "tools/call", json!({"name": "broken", "arguments": {}})).send().await;
    assert_eq!(code(&called.expect(200)), -32602);
    assert!(served.mcp.heard("tools/call").is_empty());
}

/// Its connection says it all: neither the server nor anybody else is told besides.
#[tokio::test]
async fn a_client_of_the_modern_era_that_leaves_ends_the_call() {
    let upstream = Upstream::scripted(|mut peer| async move {
        while let Some(seen) = peer.request().await {
            let body = seen.json();
            let answer = |result: Value| json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
            if body["method"] == "tools/call" {
                let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "on it"}});
                peer.send([reply::STREAM, &reply::chunk(format!("data: {note}\n\n"))].concat()).await;
                peer.gone().await;
                return;
            }
            let found = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete",
                "serverInfo": {"name": "modern", "version": "2"}});
            peer.send(reply::json(200, &answer(found))).await;
        }
    })
    .await;
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let integration =
        json!({"name": "M", "slug": "m", "url": upstream.url(), "auth_type": "none", "transport": "http"});
    admin.post("/mcp-integrations", &integration).await.expect(200);
    let server = json!({"name": "Modern", "slug": "modern", "mcp_integration_id": "m"});
    admin.post("/mcp-servers", &server).await.expect(200);
    let (_, key) = admin.workspace_key("mcp", json!({"scopes": ["mcp.invoke"]})).await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let call = gateway.call("POST", "/modern/mcp").key(&key).header("mcp-protocol-version", "2026-07-28");
    let call = call.header("mcp-method", "tools/call").header("mcp-name", "slow");
    let call = call.header("accept", "application/json, text/event-stream");
    let mut call = call.json(&request("tools/call", json!({"name": "slow", "_meta": meta}))).open().await;
    call.chunk().await.expect("a piece").expect("more");
    let (open, heard) = (upstream.open(), upstream.seen().len());
    drop(call);
    eventually("the call ends upstream", || async { (upstream.open() < open).then_some(()) }).await;
    assert_eq!(upstream.seen().len(), heard, "nothing else is said");
}
