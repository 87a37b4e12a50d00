//! All MCP servers of a workspace as one, at `/mcp`: what the caller may use of them, and nothing else.

use crate::mcp_client::{access, signing_in};
use crate::mcp_script::{Script, ScriptedMcp, Served, code, initialize, request, tool_call};
use serde_json::{Value, json};

async fn server(served: &Served, slug: &str, integration: &str) {
    let server = json!({"name": slug, "slug": slug, "mcp_integration_id": integration});
    served.gateway.admin().post("/mcp-servers", &server).await.expect(200);
}

/// `files`, `mail`, and `suite` made of both; calls go to all as one.
async fn all() -> (Served, ScriptedMcp) {
    let (served, mail) = (Served::start(Script::default()).await, ScriptedMcp::start(Script::default()).await);
    let integration = json!({"name": "Mail", "slug": "mail-int", "url": mail.upstream.url(), "auth_type": "none",
        "transport": "http"});
    served.gateway.admin().post("/mcp-integrations", &integration).await.expect(200);
    server(&served, "mail", "mail-int").await;
    let suite =
        json!({"name": "Suite", "slug": "suite", "members": [{"mcp_server_id": "files"}, {"mcp_server_id": "mail"}]});
    served.gateway.admin().post("/mcp-servers", &suite).await.expect(200);
    (Served { path: "/mcp", ..served }, mail)
}

fn tools(of: &[&str]) -> Vec<String> {
    of.iter().flat_map(|slug| ["echo", "secret", "fail", "last"].map(|name| format!("{slug}__{name}"))).collect()
}

async fn list(served: &Served, key: &str) -> Value {
    let call = served.call("POST").key(key).json(&request("tools/list", json!({})));
    call.send().await.expect(200).json()["result"].clone()
}

fn names(list: &Value) -> Vec<String> {
    let all = list["tools"].as_array().expect("tools").iter();
    all.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

#[tokio::test]
async fn everything_that_a_caller_may_use_is_one_server() {
    let (served, mail) = all().await;
    let admin = served.gateway.admin();
    let session = served.open().await;
    assert_eq!(
        served.names(&session, "tools/list", "tools").await,
        tools(&["files", "mail"]),
        "and none of them twice"
    );
    served.tool(&session, "mail__echo", 1).await.expect(200);
    assert_eq!((mail.heard("tools/call").len(), served.mcp.heard("tools/call").len()), (1, 0));
    // Its session is no other server's, and no other's is one here.
    for (path, session) in [("/suite/mcp", &session), ("/files/mcp", &session)] {
        let call = served.gateway.call("POST", path).key(&served.key).header("mcp-session-id", session);
        assert_eq!(code(&call.json(&tool_call("echo", 1)).send().await.expect(404)), -32600, "{path}");
    }
    // What a key is held to is all that it sees, and nobody else is asked.
    let held = async |access: Value| {
        admin.workspace_key("held", json!({"scopes": ["mcp.invoke"], "mcp_access": access})).await.1
    };
    let before = mail.upstream.seen().len();
    assert_eq!(names(&list(&served, &held(json!({"allow": ["files"]})).await).await), tools(&["files"]));
    assert_eq!(names(&list(&served, &held(json!({"allow": ["files/e*"]})).await).await), ["files__echo"]);
    assert_eq!(names(&list(&served, &held(json!({"deny": ["mail"]})).await).await), tools(&["files"]));
    assert_eq!(mail.upstream.seen().len(), before);
    assert_eq!(names(&list(&served, &held(json!({"allow": ["mcp/files__l*"]})).await).await), ["files__last"]);
    for access in [json!({"deny": ["mcp"]}), json!({"allow": []}), json!({"allow": ["nobody"]})] {
        let call = served.call("POST").key(&held(access).await).json(&request("tools/list", json!({})));
        call.send().await.expect(404);
    }
    // A change is seen at once.
    admin.put("/mcp-servers/mail/user-access", &json!({"default_user_access": "deny"})).await.expect(200);
    assert_eq!(served.names(&session, "tools/list", "tools").await, tools(&["files"]));
    server(&served, "again", "files-int").await;
    assert_eq!(served.names(&session, "tools/list", "tools").await, tools(&["again", "files"]));
    admin.delete("/mcp-servers/suite").await.expect(200);
    for slug in ["files", "mail", "again"] {
        admin.delete(&format!("/mcp-servers/{slug}")).await.expect(200);
    }
    served.post(None, &initialize("2025-06-18")).await.expect(404);
}

#[tokio::test]
async fn more_servers_than_one_can_be_made_of_are_told_and_so_are_names_that_are_no_prefix() {
    let served = Served { path: "/mcp", ..Served::start(Script { modern: true, ..Script::default() }).await };
    server(&served, "bad__name", "files-int").await;
    for n in 0..20 {
        server(&served, &format!("more-{n:02}"), "files-int").await;
    }
    let told = list(&served, &served.key).await;
    assert_eq!(told["_meta"]["gateway/unavailable"], json!(["bad__name", "more-19"]), "{}", told["_meta"]);
    let mut all = names(&told);
    assert_eq!(all.len(), 80);
    all.dedup_by_key(|name| name.split("__").next().expect("a prefix").to_owned());
    assert_eq!(all.len(), 20);
}

#[tokio::test]
async fn a_token_for_one_server_does_not_open_all() {
    let here = signing_in(&[]).await;
    let client = here.register(crate::mcp_client::BACK).await;
    let tokens = here.tokens(&client, "mcp").await;
    assert_eq!(here.opens(access(&tokens)).await, 200);
    let before = here.served.mcp.upstream.seen().len();
    let refused = here.call("/mcp", access(&tokens), &initialize("2025-06-18")).await.expect(401);
    assert!(refused.text().contains("aud"), "{}", refused.text());
    assert_eq!(here.served.mcp.upstream.seen().len(), before);
}
