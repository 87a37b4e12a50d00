//! How full the tables are that a process keeps for MCP servers: each row of the metric moves with what it counts.

use crate::harness::Gateway;
use crate::mcp_script::{Script, ScriptedMcp, Served, modern_call, request};
use serde_json::json;

async fn kept(gateway: &Gateway, table: &str) -> u64 {
    let metrics = gateway.metrics().await;
    let row = format!("gateway_mcp_kept{{table=\"{table}\"}} ");
    let found = metrics.lines().find_map(|line| line.strip_prefix(row.as_str()));
    found.unwrap_or_else(|| panic!("no {table}: {metrics}")).parse().expect("a number")
}

#[tokio::test]
async fn what_is_kept_for_servers_is_told_by_table() {
    let served = Served::start(Script::default()).await;
    let (gateway, admin) = (&served.gateway, served.gateway.admin());
    let tables = ["broken_servers", "changed_tools", "ended_sessions", "list_bytes", "lists", "sessions_of_callers"];
    for table in tables {
        assert_eq!(kept(gateway, table).await, 0, "{table}");
    }
    // A caller who has no session, before a server that keeps some.
    modern_call(&served, "tools/call", json!({"name": "echo"})).send().await.expect(200);
    assert_eq!(kept(gateway, "sessions_of_callers").await, 1);
    let session = served.open().await;
    served.call("DELETE").header("mcp-session-id", &session).send().await.expect(204);
    assert_eq!(kept(gateway, "ended_sessions").await, 1);
    admin.put("/mcp-integrations/files-int", &json!({"pin_definitions": true})).await.expect(200);
    let other = json!([{"name": "echo", "description": "another", "inputSchema": {"type": "object"}}]);
    *served.mcp.tools.lock().expect("no panic") = Some(other);
    let session = served.open().await;
    assert!(served.names(&session, "tools/list", "tools").await.is_empty(), "what changed is hidden");
    assert_eq!(kept(gateway, "changed_tools").await, 1);
    // A server without sessions has its lists kept, and one that cannot be reached is counted.
    let plain = ScriptedMcp::start(Script { modern: true, ..Script::default() }).await;
    let integration = json!({"name": "Plain", "slug": "plain-int", "url": plain.upstream.url(), "auth_type": "none",
        "transport": "http"});
    admin.post("/mcp-integrations", &integration).await.expect(200);
    let server = json!({"name": "Plain", "slug": "plain", "mcp_integration_id": "plain-int"});
    admin.post("/mcp-servers", &server).await.expect(200);
    let list = |method: &str| gateway.call("POST", "/plain/mcp").key(&served.key).json(&request(method, json!({})));
    list("tools/list").send().await.expect(200);
    assert_eq!(kept(gateway, "lists").await, 1);
    assert!(kept(gateway, "list_bytes").await > 0);
    drop(plain);
    list("prompts/list").send().await.expect(503);
    assert_eq!(kept(gateway, "broken_servers").await, 1);
}
