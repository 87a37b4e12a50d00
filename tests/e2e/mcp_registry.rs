//! The registry of MCP servers, which tells whoever asks of what they may use; and servers that are asked again by
//! themselves what they offer.

use crate::harness::{Answer, eventually};
use crate::mcp_client::{PUBLIC, person};
use crate::mcp_script::{Script, Served, code, tool_call};
use serde_json::{Value, json};

const LIST: &str = "mcp_servers.list";

async fn registry() -> Served {
    let served = Served::with(Script::default(), &["--public-url", PUBLIC]).await;
    for (slug, name) in [("mail", "Mail"), ("wiki", "Wiki")] {
        let server = json!({"name": name, "slug": slug, "description": format!("{name} of the team"), "mcp_integration_id": "files-int"});
        served.gateway.admin().post("/mcp-servers", &server).await.expect(200);
    }
    let (_, key) = served.gateway.admin().workspace_key("reader", json!({"scopes": [LIST]})).await;
    Served { key, ..served }
}

async fn ask(served: &Served, path: &str) -> Answer {
    served.gateway.get(path).key(&served.key).send().await
}

fn names(list: &Value) -> Vec<&str> {
    list["servers"].as_array().expect("servers").iter().map(|s| s["server"]["name"].as_str().expect("a name")).collect()
}

#[tokio::test]
async fn a_client_finds_the_servers_that_there_are_page_by_page() {
    let served = registry().await;
    let all = ask(&served, "/v0.1/servers").await.expect(200);
    assert_eq!(all.header("access-control-allow-origin"), Some("*"));
    let all = all.json();
    assert_eq!(names(&all), ["com.example.ai/wiki", "com.example.ai/mail", "com.example.ai/files"], "newest first");
    assert_eq!(all["metadata"], json!({"count": 3}));
    let mail = &all["servers"][1];
    assert_eq!(mail["server"]["remotes"], json!([{"type": "streamable-http", "url": format!("{PUBLIC}/mail/mcp")}]));
    assert_eq!(
        (&mail["server"]["description"], &mail["server"]["title"]),
        (&json!("Mail of the team"), &json!("Mail"))
    );
    let meta = &mail["_meta"]["io.modelcontextprotocol.registry/official"];
    assert_eq!((&meta["status"], &meta["isLatest"]), (&json!("active"), &json!(true)));
    assert!(meta["publishedAt"].is_string() && meta["updatedAt"].is_string(), "{meta}");
    let mut seen = Vec::new();
    let mut path = "/v0.1/servers?limit=2".to_owned();
    loop {
        let page = ask(&served, &path).await.expect(200).json();
        seen.extend(names(&page).into_iter().map(str::to_owned));
        let Some(next) = page["metadata"]["nextCursor"].as_str() else { break };
        path = format!("/v0.1/servers?limit=2&cursor={next}");
    }
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert_eq!(names(&ask(&served, "/v0.1/servers?search=MAIL").await.expect(200).json()), ["com.example.ai/mail"]);
    assert!(
        names(&ask(&served, "/v0.1/servers?updated_since=2100-01-01T00:00:00Z").await.expect(200).json()).is_empty()
    );
    let version = mail["server"]["version"].as_str().expect("a version");
    for path in [
        "/v0.1/servers/com.example.ai%2Fmail/versions/latest".to_owned(),
        format!("/v0.1/servers/com.example.ai%2Fmail/versions/{version}"),
        format!("/v0.1/servers/com.example.ai/mail/versions/{version}"),
    ] {
        assert_eq!(&ask(&served, &path).await.expect(200).json(), mail, "{path}");
    }
    let versions = ask(&served, "/v0.1/servers/com.example.ai%2Fmail/versions").await.expect(200).json();
    assert_eq!((&versions["metadata"]["count"], names(&versions)), (&json!(1), vec!["com.example.ai/mail"]));
    // A change is another version.
    served.gateway.admin().put("/mcp-servers/mail", &json!({"description": "Post"})).await.expect(200);
    let now = ask(&served, "/v0.1/servers/com.example.ai%2Fmail/versions/latest").await.expect(200).json();
    assert!(now["server"]["version"] != json!(version) && now["server"]["description"] == "Post", "{now}");
    assert_eq!(
        names(&ask(&served, &format!("/v0.1/servers?search=mail&version={version}")).await.expect(200).json()),
        [""; 0]
    );
    for (path, status) in [
        ("/v0.1/servers/com.example.ai%2Fnobody/versions", 404),
        ("/v0.1/servers/com.example.ai%2Fmail/versions/9.9.9", 404),
        ("/v0.1/servers/com.example.ai%2Fmail", 404),
        ("/v0.1/servers?limit=0", 400),
        ("/v0.1/servers?limit=101", 400),
        ("/v0.1/servers?cursor=abc", 400),
        ("/v0.1/servers?updated_since=then", 400),
        ("/v0.1/servers?workspace_id=nowhere", 404),
    ] {
        let refused = ask(&served, path).await.expect(status);
        assert!(refused.json()["error"].is_string(), "{path}: {}", refused.text());
    }
    for (method, path) in [
        ("POST", "/v0.1/publish"),
        ("PUT", "/v0.1/servers/com.example.ai%2Fmail/versions/1.0.1"),
        ("DELETE", "/v0.1/servers/com.example.ai%2Fmail/versions/1.0.1"),
    ] {
        served.gateway.call(method, path).key(&served.key).json(&json!({})).send().await.expect(501);
    }
}

#[tokio::test]
async fn whoever_asks_sees_what_they_may_use_and_nothing_else() {
    let served = registry().await;
    let admin = served.gateway.admin();
    served.gateway.get("/v0.1/servers").without("x-gateway-api-key").send().await.expect(401);
    served.gateway.get("/v0.1/servers").key("unknown").send().await.expect(401);
    let (_, other) = admin.workspace_key("other", json!({"scopes": ["mcp.invoke"]})).await;
    served.gateway.get("/v0.1/servers").key(&other).send().await.expect(403);
    let cookie = served
        .gateway
        .get("/v0.1/servers")
        .without("x-gateway-api-key")
        .header("cookie", &format!("__Host-gateway_session={}", served.key));
    cookie.send().await.expect(401);
    let held = json!({"scopes": [LIST], "mcp_access": {"allow": ["mail", "files/echo"], "deny": ["wiki"]}});
    let (_, held) = admin.workspace_key("held", held).await;
    let seen = served.gateway.get("/v0.1/servers").key(&held).send().await.expect(200).json();
    assert_eq!(names(&seen), ["com.example.ai/mail", "com.example.ai/files"]);
    let hidden = served.gateway.get("/v0.1/servers/com.example.ai%2Fwiki/versions").key(&held).send().await;
    assert_eq!(hidden.expect(404).json(), json!({"error": "Server not found"}));
    // People who are shut out of a server do not find it.
    let (ann, _) = person(&served.gateway, "ann@example.com").await;
    let body = json!({"name": "anns", "user_id": ann, "scopes": [LIST]});
    let anns = admin.post("/api-keys/workspace/user", &body).await.expect(200).json();
    let anns = anns["key"].as_str().expect("a key").to_owned();
    let shut = json!({"user_access": [{"user_id": ann, "enabled": false}]});
    admin.put("/mcp-servers/mail/user-access", &shut).await.expect(200);
    let seen = served.gateway.get("/v0.1/servers").key(&anns).send().await.expect(200).json();
    assert_eq!(names(&seen), ["com.example.ai/wiki", "com.example.ai/files"]);
    assert_eq!(names(&ask(&served, "/v0.1/servers").await.expect(200).json()).len(), 3);
    // A workspace that the integration is shut to sees none either.
    let closed = json!({"workspaces": [], "global_workspace_access": {"enabled": false}});
    admin.put("/mcp-integrations/files-int/workspaces", &closed).await.expect(200);
    assert!(names(&ask(&served, "/v0.1/servers").await.expect(200).json()).is_empty());
    let without = Served::start(Script::default()).await;
    let (_, key) = without.gateway.admin().workspace_key("reader", json!({"scopes": [LIST]})).await;
    let refused = without.gateway.get("/v0.1/servers").key(&key).send().await.expect(404);
    assert!(refused.json()["error"].as_str().is_some_and(|told| told.contains("--public-url")), "{}", refused.text());
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "d", "inputSchema": {"type": "object"}})
}

#[tokio::test]
async fn a_server_is_asked_again_by_itself_and_its_standing_is_shown() {
    let served = Served::with(Script::default(), &["--mcp-sync-interval", "1s"]).await;
    let admin = served.gateway.admin();
    let metadata = async || admin.get("/mcp-integrations/files-int/metadata").await.expect(200).json();
    let row = || async { admin.get("/mcp-integrations/files-int").await.expect(200).json()["last_updated_at"].clone() };
    admin.put("/mcp-integrations/files-int", &json!({"pin_definitions": true})).await.expect(200);
    let before = row().await;
    let first = metadata().await["last_checked_at"].clone();
    eventually("it was asked again, twice", || async {
        let now = metadata().await;
        let asked = now["last_checked_at"].as_str() > first.as_str() && now["sync_status"] == "ok";
        let metrics = served.gateway.metrics().await;
        let twice = metrics.lines().find_map(|l| l.strip_prefix(r#"gateway_mcp_syncs_total{outcome="same"} "#));
        (asked && twice.is_some_and(|count| count.parse::<u64>().is_ok_and(|count| count >= 2))).then_some(())
    })
    .await;
    assert_eq!(row().await, before, "a server that says the same changes nothing");
    // What it offers anew is found, and what changed is hidden, without anybody's doing.
    *served.mcp.tools.lock().expect("no panic") = Some(json!([tool("echo"), tool("fresh")]));
    let session = served.open().await;
    eventually("the change is found", || async {
        let all = admin.get("/mcp-integrations/files-int/capabilities?type=tool").await.expect(200).json();
        all.to_string().contains("fresh").then_some(())
    })
    .await;
    assert_eq!(code(&served.tool(&session, "echo", 1).await.expect(200)), -32602, "it is no longer what was accepted");
    served.post(Some(&session), &tool_call("fresh", 2)).await.expect(200);
    // One that is away keeps what was known of it.
    let Served { gateway, mcp, .. } = served;
    drop(mcp.upstream);
    let admin = gateway.admin();
    let stale = eventually("the failure is shown", || async {
        let now = admin.get("/mcp-servers/files/metadata").await.expect(200).json();
        (now["failures_in_a_row"].as_u64() >= Some(2)).then_some(now)
    })
    .await;
    assert_eq!((&stale["sync_status"], &stale["server_name"]), (&json!("stale"), &json!("scripted")), "{stale}");
    assert!(stale["sync_error"].is_string() && stale["last_synced_at"].as_str() < stale["last_checked_at"].as_str());
    let metrics = gateway.metrics().await;
    assert!(metrics.contains("gateway_mcp_integrations 1"), "it is planned");
    // A job of what is gone ends.
    admin.delete("/mcp-servers/files").await.expect(200);
    admin.delete("/mcp-integrations/files-int").await.expect(200);
    eventually("nothing is planned", || async {
        gateway.metrics().await.contains("gateway_mcp_integrations 0").then_some(())
    })
    .await;
}
