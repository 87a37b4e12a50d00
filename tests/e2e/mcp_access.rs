//! What of MCP servers a key or a token is held to (`mcp_access`): in lists and calls alike, and at once.

use crate::harness::issuer::{FIRST, Issuer, in_seconds};
use crate::mcp_script::{Script, Served, code, modern_call, request, tool_call};
use serde_json::{Value, json};

async fn key(served: &Served, access: Value) -> (String, String) {
    let extra = json!({"scopes": ["mcp.invoke"], "mcp_access": access});
    served.gateway.admin().workspace_key("held", extra).await
}

/// The server as it is called with another key.
fn held(served: Served, key: String) -> Served {
    Served { key, ..served }
}

#[tokio::test]
async fn a_key_uses_what_it_is_held_to_in_lists_and_calls_alike() {
    let served = Served::start(Script::default()).await;
    let access = json!({"allow": ["files/e*", "files/greet", "files/file:///*"], "deny": ["files/file:///b"]});
    let (id, key) = key(&served, access).await;
    let served = held(served, key);
    let session = served.open().await;
    assert_eq!(served.names(&session, "tools/list", "tools").await, ["echo"]);
    assert_eq!(served.names(&session, "prompts/list", "prompts").await, ["greet"]);
    assert_eq!(served.names(&session, "resources/list", "resources").await, ["file:///a"]);
    served.tool(&session, "echo", 1).await.expect(200);
    let before = served.mcp.upstream.seen().len();
    let missing = served.tool(&session, "nobody", 1).await.expect(200).json();
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
    let hidden = served.tool(&session, "secret", 1).await.expect(200).text();
    assert_eq!(hidden.replace("secret", "nobody"), missing.to_string(), "what is hidden is told as what is missing");
    let modern =
        modern_call(&served, "tools/call", json!({"name": "secret", "arguments": {}})).send().await.expect(200);
    assert_eq!(code(&modern), -32602, "in the other era too");
    // A change is in force at once, in the session that is open.
    let admin = served.gateway.admin();
    admin.put(&format!("/api-keys/{id}"), &json!({"mcp_access": null})).await.expect(200);
    assert_eq!(served.names(&session, "tools/list", "tools").await, ["echo", "secret"]);
}

#[tokio::test]
async fn a_server_that_a_key_is_not_let_to_is_not_there() {
    let served = Served::start(Script::default()).await;
    let list = request("tools/list", json!({}));
    let elsewhere = served.gateway.call("POST", "/nobody/mcp").key(&served.key).json(&list).send().await.expect(404);
    for access in [json!({"allow": []}), json!({"allow": ["filesystem", "mail/*"]}), json!({"deny": ["file*"]})] {
        let (_, key) = key(&served, access.clone()).await;
        let answer = served.call("POST").key(&key).json(&list).send().await.expect(404);
        assert_eq!(answer.text(), elsewhere.text(), "{access}");
    }
    assert!(served.mcp.heard("tools/list").len() <= 2, "asked by nobody but the gateway itself");
}

#[tokio::test]
async fn a_token_says_what_it_is_held_to() {
    let issuer = Issuer::publishing(&[&FIRST]).await;
    let served = Served::start(Script::default()).await;
    let admin = served.gateway.admin();
    admin.put("/admin/organisation", &json!({"jwks_uris": issuer.uri()})).await.expect(200);
    let token = |access: Value| {
        FIRST.sign(&json!({"scope": "mcp.invoke", "sub": "ann", "exp": in_seconds(3600), "mcp_access": access}))
    };
    let call = |token: &str, tool: &str| served.call("POST").key(token).json(&tool_call(tool, 1)).send();
    let some = token(json!({"allow": ["files/echo"]}));
    let opened = served.call("POST").key(&some).json(&crate::mcp_script::initialize("2025-06-18")).send().await;
    let session = opened.expect(200).header("mcp-session-id").expect("a session").to_owned();
    let called = served.call("POST").key(&some).header("mcp-session-id", &session).json(&tool_call("echo", 1));
    called.send().await.expect(200);
    assert_eq!(code(&call(&some, "last").await.expect(200)), -32602);
    call(&token(json!({"deny": ["files"]})), "echo").await.expect(404);
    for bad in [json!({"allow": "files"}), json!({"only": []}), json!({"deny": ["a*b"]}), json!(["files"])] {
        let refused = call(&token(bad), "echo").await.expect(401);
        assert!(refused.text().contains("mcp_access"), "{}", refused.text());
    }
}

#[tokio::test]
async fn what_means_nothing_is_refused_and_nobody_gives_more_than_he_has() {
    let served = Served::start(Script::default()).await;
    let admin = served.gateway.admin();
    let made = |access: Value| json!({"name": "k", "scopes": ["mcp.invoke"], "mcp_access": access});
    for (access, field) in [
        (json!({"allow": ["fi*les"]}), "mcp_access.allow[0]"),
        (json!({"deny": ["files", "/echo"]}), "mcp_access.deny[1]"),
        (json!({"deny": vec!["files"; 201]}), "mcp_access.deny"),
        (json!({"only": ["files"]}), "mcp_access.only"),
        (json!({"allow": "files"}), "mcp_access.allow"),
    ] {
        let answer = admin.post("/api-keys/workspace/service", &made(access)).await.expect(400);
        assert!(answer.text().contains(field), "{field}: {}", answer.text());
    }
    let of_organisation = json!({"name": "k", "scopes": ["logs.list"], "mcp_access": {"allow": []}});
    let answer = admin.post("/api-keys/organisation/service", &of_organisation).await.expect(400);
    assert!(answer.text().contains("mcp_access"), "{}", answer.text());
    let scopes = json!([
        "mcp.invoke",
        "workspace_service_api_keys.create",
        "workspace_service_api_keys.read",
        "workspace_service_api_keys.update",
        "workspace_service_api_keys.rotate"
    ]);
    let own = json!({"allow": ["files/echo"]});
    let (id, key) = admin.workspace_key("held", json!({"scopes": scopes, "mcp_access": own})).await;
    let (free, _) = admin.workspace_key("free", json!({"scopes": ["mcp.invoke"]})).await;
    let by = admin.with_key(&key);
    by.post("/api-keys/workspace/service", &made(json!({"allow": ["files"]}))).await.expect(403);
    let child = json!({"name": "child", "scopes": ["mcp.invoke"]});
    let child = by.post("/api-keys/workspace/service", &child).await.expect(200).json();
    let child = child["id"].as_str().expect("an id").to_owned();
    let shown = admin.get(&format!("/api-keys/{child}")).await.expect(200).json();
    assert_eq!(shown["mcp_access"], own, "a key that it makes is held to the same");
    for target in [&id, &child] {
        by.put(&format!("/api-keys/{target}"), &json!({"mcp_access": null})).await.expect(403);
    }
    by.post(&format!("/api-keys/{free}/rotate"), &json!({})).await.expect(403);
}
