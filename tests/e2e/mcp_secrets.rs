//! MCP servers that are called with secrets of managers: what a manager holds is sent to them, what it holds later too,
//! and what it held last while it is away.

use crate::harness::{Gateway, Manager, eventually};
use crate::mcp_script::{Script, ScriptedMcp, Served, tool_call};
use crate::secret_references::vault;
use serde_json::{Value, json};

const SOON: [&str; 2] = ["--secret-refresh", "1s"];

fn mapped() -> Value {
    json!([{"target_field": "configurations.custom_headers.authorization", "secret_reference_id": "vaulted"}])
}

fn integration(mcp: &ScriptedMcp) -> Value {
    json!({"name": "Files", "slug": "files-int", "url": mcp.upstream.url(), "auth_type": "headers", "transport": "http",
        "configurations": {"custom_headers": {"x-plain": "as-it-is"}}, "secret_mappings": mapped()})
}

/// A gateway with the server `files`, whose authorization lies in a manager.
async fn served(manager: &Manager) -> Served {
    let (gateway, mcp) = (Gateway::with(&SOON).await, ScriptedMcp::start(Script::default()).await);
    let admin = gateway.admin();
    admin.post("/secret-references", &vault(manager)).await.expect(200);
    admin.post("/mcp-integrations", &integration(&mcp)).await.expect(200);
    let server = json!({"name": "Files", "slug": "files", "mcp_integration_id": "files-int"});
    admin.post("/mcp-servers", &server).await.expect(200);
    let (_, key) = admin.workspace_key("mcp", json!({"scopes": ["mcp.invoke"]})).await;
    Served { gateway, mcp, key, path: "/files/mcp" }
}

/// Waits until calls of tools go up with this value.
async fn goes_up_with(served: &Served, value: &str) {
    eventually(&format!("a call with {value}"), async || {
        let session = served.post(None, &crate::mcp_script::initialize("2025-06-18")).await;
        let session = session.header("mcp-session-id")?.to_owned();
        let called = served.post(Some(&session), &tool_call("echo", 1)).await.status == 200;
        let heard = served.mcp.heard("tools/call").pop().filter(|_| called)?;
        (heard.header("authorization") == Some(value)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_server_is_called_with_what_the_manager_holds_and_held_last() {
    let manager = Manager::vault(json!({ "key": "Bearer first-canary" })).await;
    let served = served(&manager).await;
    goes_up_with(&served, "Bearer first-canary").await;
    let heard = served.mcp.heard("tools/call").pop().expect("a call");
    assert_eq!(heard.header("x-plain"), Some("as-it-is"), "beside what is stored here");
    manager.holds(json!({ "key": "Bearer second-canary" }));
    goes_up_with(&served, "Bearer second-canary").await;
    // Asked by an admin, it is asked with the secret too.
    let tried = served.gateway.admin().post("/mcp-integrations/files-int/test", &json!({})).await.expect(200).json();
    assert_eq!(tried["success"], true, "{tried}");
    assert_eq!(
        served.mcp.heard("initialize").pop().expect("asked").header("authorization"),
        Some("Bearer second-canary")
    );
    manager.holds(json!({ "other": "x" }));
    eventually("the value that does not fit was read", || async {
        served.gateway.process.output().contains("has no member `key`").then_some(())
    })
    .await;
    let session = served.open().await;
    served.tool(&session, "echo", 1).await.expect(200);
    assert_eq!(
        served.mcp.heard("tools/call").pop().expect("a call").header("authorization"),
        Some("Bearer second-canary")
    );
    // Nothing of it is shown or at rest.
    let admin = served.gateway.admin();
    let mut told = vec![served.gateway.process.output(), served.gateway.metrics().await];
    for path in ["/mcp-integrations", "/mcp-integrations/files-int", "/configuration", "/logs", "/nodes/settings"] {
        told.push(admin.get(path).await.expect(200).text());
    }
    for text in &told {
        assert!(!text.contains("-canary"), "{text}");
    }
    assert!(told[4].contains("secret_mappings") && told[4].contains("secret_reference_id: vaulted"), "{}", told[4]);
}

#[tokio::test]
async fn without_its_secret_a_server_is_a_503_that_names_the_reference_and_comes_back() {
    let manager = Manager::vault(json!({ "key": "Bearer late-canary" })).await;
    manager.refuses(500);
    let served = served(&manager).await;
    let admin = served.gateway.admin();
    let shown = admin.get("/mcp-integrations/files-int/metadata").await.expect(200).json();
    assert!(shown["sync_error"].as_str().is_some_and(|why| why.contains("`vaulted` could not be read yet")), "{shown}");
    let refused = served.post(None, &crate::mcp_script::initialize("2025-06-18")).await.expect(503);
    assert!(refused.text().contains("the secret reference `vaulted` could not be read yet"), "{}", refused.text());
    assert_eq!(served.mcp.upstream.connections(), 0, "nobody is asked without it");
    manager.holds(json!({ "key": "Bearer late-canary" }));
    goes_up_with(&served, "Bearer late-canary").await;
    // A literal stands beside no mapping, and what fills it is not deleted under it.
    let literal = json!({"configurations": {"custom_headers": {"authorization": "Bearer mine"}}});
    let told = admin.put("/mcp-integrations/files-int", &literal).await.expect(400).text();
    assert!(told.contains("is filled by secret_mappings"), "{told}");
    let told = admin.delete("/secret-references/vaulted").await.expect(409).text();
    assert!(told.contains("files-int"), "{told}");
    // Closed to the workspace, it opens nothing there any more.
    admin.post("/admin/workspaces", &json!({"name": "Team", "slug": "team"})).await.expect(200);
    admin.put("/secret-references/vaulted", &json!({"allowed_workspaces": ["team"]})).await.expect(200);
    served.post(None, &crate::mcp_script::initialize("2025-06-18")).await.expect(404);
    admin.put("/secret-references/vaulted", &json!({"allow_all_workspaces": true})).await.expect(200);
    let session = served.open().await;
    served.tool(&session, "echo", 1).await.expect(200);
    // Given by hand again, once the mapping is out.
    let by_hand =
        json!({"secret_mappings": [], "configurations": {"custom_headers": {"authorization": "Bearer mine"}}});
    admin.put("/mcp-integrations/files-int", &by_hand).await.expect(200);
    admin.delete("/secret-references/vaulted").await.expect(200);
    goes_up_with(&served, "Bearer mine").await;
}

#[tokio::test]
async fn mappings_that_mean_nothing_are_refused_by_name() {
    let manager = Manager::vault(json!({ "key": "x" })).await;
    let (gateway, mcp) = (Gateway::with(&SOON).await, ScriptedMcp::start(Script::default()).await);
    gateway.admin().post("/secret-references", &vault(&manager)).await.expect(200);
    let one = |target: &str| json!([{"target_field": target, "secret_reference_id": "vaulted"}]);
    let header = "configurations.custom_headers.x-key";
    for (fields, told) in [
        (
            json!({"secret_mappings": one("key")}),
            "secret_mappings[0].target_field must be `configurations.custom_headers",
        ),
        (json!({"secret_mappings": one("configurations.aws_region")}), "secret_mappings[0].target_field"),
        (json!({"secret_mappings": one("configurations.custom_headers.mcp-session-id")}), "is set by the protocol"),
        (json!({"secret_mappings": one("configurations.custom_headers.host")}), "secret_mappings[0].target_field"),
        (
            json!({"secret_mappings": [{"target_field": header, "secret_reference_id": "none"}]}),
            "names no secret reference",
        ),
        (
            json!({"secret_mappings": [one(header)[0], one(header)[0]]}),
            "secret_mappings[1].target_field is filled twice",
        ),
        (json!({"secret_mappings": vec![one(header)[0].clone(); 21]}), "must hold at most 20"),
        (
            json!({"auth_type": "none", "configurations": null, "secret_mappings": one(header)}),
            "secret_mappings fills headers",
        ),
    ] {
        let body = crate::harness::with(integration(&mcp), fields);
        let answer = gateway.admin().post("/mcp-integrations", &body).await.expect(400);
        assert!(answer.text().contains(told), "{told} in {}", answer.text());
    }
}
