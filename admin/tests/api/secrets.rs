//! One canary per secret: none may appear in an answer, in the audit trail or in the database's files.

use crate::harness::{House, text};
use gateway_domain::keys::KeyHash;
use gateway_domain::resource::AuditQuery;
use serde_json::{Value, json};

const CREDENTIAL: &str = "canary-credential-4c1d9e";
const HEADER: &str = "canary-header-77ab02";
const IN_CONFIG: &str = "canary-config-e19f55";
const IN_GUARDRAIL: &str = "canary-guardrail-51c7be";
const IN_HOOK: &str = "https://hooks.example.com/canary-hook-77b1e0";
const IN_ALERT: &str = "canary-alert-5c90d2";
const IN_MCP: &str = "canary-mcp-2f6a91";
const IN_AGENT: &str = "canary-agent-5b3c08";
const IN_PLUGIN: &str = "canary-plugin-aa3f08";
const REFUSED: &str = "canary-refused-0b3d7a";

/// A secret in each place that a guardrail has for one.
fn guarded(secret: &str) -> Value {
    json!([
        {"id": "default.webhook", "parameters": {"webhookURL": format!("https://a.example/x?sig={secret}"),
            "headers": {"x-token": secret}}},
        {"id": "default.log", "parameters": {"logURL": "https://a.example", "headers": format!("{{\"a\":\"{secret}\"}}")}},
        {"id": "patronus.isPolite", "parameters": {"credentials": {"apiKey": secret}}},
    ])
}

async fn answers(house: &House) -> Vec<String> {
    let admin = house.as_admin();
    let mut seen = Vec::new();
    let integration = json!({"name": "i", "slug": "i", "ai_provider_id": "openai", "key": CREDENTIAL,
        "configurations": {"custom_headers": {"x-team": HEADER}}});
    let config = json!({"provider": "openai", "api_key": IN_CONFIG});
    let mut kept = async |path: &str, body: Value| {
        let answer = admin.post(path, body).await;
        seen.push(answer.text.clone());
        answer.expect(200)
    };
    kept("/integrations", integration).await;
    kept("/configs", json!({"name": "c", "config": config.to_string()})).await;
    let slug = text(&kept("/configs", json!({"name": "c", "config": config})).await["slug"]);
    kept("/plugins", json!({"partner": "patronus", "credentials": {"apiKey": IN_PLUGIN}})).await;
    let channels = |secret: &str| {
        json!([{"type": "slack", "url": format!("{IN_HOOK}{secret}")},
            {"type": "webhook", "url": "https://a.example", "headers": {"x-token": secret}}])
    };
    let alert = json!({"name": "a", "type": "spend", "threshold": 1, "channels": channels(IN_ALERT)});
    let alert = text(&kept("/alerts", alert).await["slug"]);
    let guardrail = text(&kept("/guardrails", json!({"name": "g", "checks": guarded(IN_GUARDRAIL)})).await["slug"]);
    let checks = guarded(IN_GUARDRAIL);
    let inline = json!({"provider": "openai", "beforeRequestHooks": [{"id": "h", "checks": checks}]});
    let hooked = text(&kept("/configs", json!({"name": "c", "config": inline})).await["slug"]);
    for (path, body) in [
        ("/integrations", json!({"name": "x", "ai_provider_id": "openai", "key": {"deep": REFUSED}})),
        ("/integrations", json!({"name": "x", "ai_provider_id": "openai", "key": format!("{REFUSED}\n")})),
        (
            "/integrations",
            json!({"name": "x", "ai_provider_id": "openai", "configurations": {"custom_headers": REFUSED}}),
        ),
        ("/configs", json!({"name": "x", "config": {"provider": "openai", "api_key": [REFUSED]}})),
        (
            "/guardrails",
            json!({"name": "x", "checks": [{"id": "default.webhook", "parameters": {"headers": {"a": REFUSED}}}]}),
        ),
        (
            "/guardrails",
            json!({"name": "x", "checks": [{"id": "patronus.isPolite",
            "parameters": {"credentials": {"apiKey": format!("{REFUSED}\u{7}x")}}}]}),
        ),
        ("/plugins", json!({"partner": "patronus", "credentials": {"apiKey": [REFUSED]}})),
        ("/plugins", json!({"partner": "azure", "credentials": {"apiKey": REFUSED}})),
        ("/alerts", json!({"name": "a", "type": "spend", "threshold": 0, "channels": channels(REFUSED)})),
        ("/alerts", json!({"name": "a", "type": "spend", "threshold": 1, "channels": [REFUSED]})),
        ("/configs", json!({"name": "x", "config": format!("{{\"api_key\": \"{REFUSED}\"")})),
        ("/api-keys/workspace/service", json!({"name": "x", "scopes": REFUSED})),
    ] {
        let answer = admin.post(path, body).await;
        answer.refused(400, "AB01");
        seen.push(answer.text);
    }
    let change = json!({"key": format!("{CREDENTIAL}-2"), "configurations": {"custom_headers": {"x-team": format!("{HEADER}-2")}}});
    let answer = admin.put("/integrations/i", change).await;
    answer.expect(200);
    seen.push(answer.text);
    let models = json!({"models": [{"slug": "m", "enabled": true, "custom_headers": {"x-team": HEADER},
        "configurations": {"custom_headers": {"x-team": format!("{HEADER}-3")}}}]});
    let answer = admin.put("/integrations/i/models", models).await;
    answer.expect(200);
    seen.push(answer.text);
    let broken =
        json!({"models": [{"slug": "m", "enabled": true, "custom_headers": {"x-team": format!("{REFUSED}\n")}}]});
    let answer = admin.put("/integrations/i/models", broken).await;
    answer.refused(400, "AB01");
    seen.push(answer.text);
    seen.push(admin.get("/integrations/i/models").await.text);
    let change = json!({"config": {"provider": "openai", "api_key": format!("{IN_CONFIG}-2")}});
    let answer = admin.put(&format!("/configs/{slug}"), change).await;
    answer.expect(200);
    seen.push(answer.text);
    for (path, change) in [
        ("/plugins/patronus".to_owned(), json!({"credentials": {"apiKey": format!("{IN_PLUGIN}-2")}})),
        (format!("/guardrails/{guardrail}"), json!({"checks": guarded(&format!("{IN_GUARDRAIL}-2"))})),
        (format!("/alerts/{alert}"), json!({"channels": channels(&format!("{IN_ALERT}-2"))})),
    ] {
        let answer = admin.put(&path, change).await;
        answer.expect(200);
        seen.push(answer.text);
        seen.push(admin.get(&path).await.text);
    }
    seen.push(admin.get(&format!("/guardrails/{guardrail}/versions")).await.text);
    seen.push(admin.get(&format!("/configs/{hooked}")).await.text);
    let lists = ["/integrations", "/configs", "/providers", "/api-keys", "/guardrails", "/plugins", "/alerts"];
    for path in lists.into_iter().chain(["/integrations/i", "/providers/i"]) {
        seen.push(admin.get(path).await.text);
    }
    seen.push(admin.get(&format!("/configs/{slug}")).await.text);
    seen.push(admin.get(&format!("/configs/{slug}/versions")).await.text);
    seen.push(admin.get(&format!("/configs/{slug}/diff")).await.text);
    seen
}

/// Answers about MCP servers with secrets in their headers and in what their tokens are fetched with.
async fn mcp_answers(house: &House) -> Vec<String> {
    let admin = house.as_admin();
    let of = |slug: &str, auth: &str, configurations: Value| {
        json!({"name": slug, "slug": slug, "url": "https://mcp.example.com/mcp", "auth_type": auth, "transport": "http",
            "configurations": configurations})
    };
    let client = |url: &str| json!({"oauth": {"token_url": url, "client_id": "c", "client_secret": IN_MCP}});
    let headers = json!({"custom_headers": {"authorization": IN_MCP}});
    let known = |issuer: &str| json!({"known_client": {"issuer": issuer, "client_id": "c", "client_secret": IN_MCP}});
    let mut seen = Vec::new();
    for (body, status) in [
        (of("mcp-h", "headers", headers), 200),
        (of("mcp-o", "oauth_client_credentials", client("https://login.example.com/token")), 200),
        (of("mcp-k", "oauth_auto", known("https://login.example.com")), 200),
        (of("mcp-l", "oauth_auto", known("no address")), 400),
        (of("mcp-x", "oauth_client_credentials", client("no address")), 400),
        (of("mcp-y", "headers", json!({"custom_headers": {"authorization": [IN_MCP]}})), 400),
    ] {
        let answer = admin.post("/mcp-integrations", body).await;
        seen.push(answer.text.clone());
        assert_eq!(answer.status.as_u16(), status, "{}", answer.text);
    }
    let change = json!({"configurations": client("https://login.example.com/other")});
    seen.push(admin.put("/mcp-integrations/mcp-o", change).await.text);
    let change = json!({"configurations": known("https://other.example.com")});
    seen.push(admin.put("/mcp-integrations/mcp-k", change).await.text);
    for path in ["", "/mcp-h", "/mcp-o", "/mcp-k"].map(|which| format!("/mcp-integrations{which}")) {
        let path = path.as_str();
        let answer = admin.get(path).await;
        seen.push(answer.text.clone());
        answer.expect(200);
    }
    seen
}

/// Answers about agents with secrets in their headers, saved and only tried.
async fn agent_answers(house: &House) -> Vec<String> {
    let admin = house.as_admin();
    let url = "https://agent.example.com/";
    let headers = json!({"authorization": IN_AGENT});
    let saved = json!({"name": "a", "slug": "agent-h", "url": url, "auth_type": "headers",
        "configurations": {"custom_headers": headers}});
    let broken = json!({"name": "b", "url": url, "auth_type": "headers",
        "configurations": {"custom_headers": {"authorization": [IN_AGENT]}}});
    let mut seen = Vec::new();
    for (path, body, status) in [
        ("/agent-integrations", saved, 200),
        ("/agent-integrations", broken, 400),
        ("/agent-integrations/fetch-agent-card", json!({"url": url, "headers": headers}), 400),
        ("/agent-integrations/fetch-agent-card", json!({"url": url, "headers": {"host": IN_AGENT}}), 400),
    ] {
        let answer = admin.post(path, body).await;
        seen.push(answer.text.clone());
        assert_eq!(answer.status.as_u16(), status, "{}", answer.text);
    }
    for path in ["/agent-integrations", "/agent-integrations/agent-h"] {
        let answer = admin.get(path).await;
        seen.push(answer.text.clone());
        answer.expect(200);
    }
    seen
}

#[tokio::test]
async fn secrets_stay_where_they_belong() {
    let mut house = House::new().await;
    house.equip(|app| app.public_url = Some("https://ai.example.com".into()));
    let (id, key) = house.key("workspace/service", json!({"scopes": ["completions.write"]})).await;
    let mut seen = answers(&house).await;
    seen.extend(mcp_answers(&house).await);
    seen.extend(agent_answers(&house).await);
    seen.push(house.as_admin().get(&format!("/api-keys/{id}")).await.text);
    seen.push(house.as_admin().get("/api-keys").await.text);
    seen.push(house.as_admin().delete("/integrations/i").await.text);
    let query = AuditQuery { page_size: 100, ..AuditQuery::default() };
    let trail = house.app.history.audit(&query).await.expect("readable");
    assert!(trail.rows.iter().any(|r| r.details.contains("****")), "requests are told, masked");
    seen.extend(trail.rows.iter().map(|r| format!("{r:?}")));
    for secret in
        [CREDENTIAL, HEADER, IN_CONFIG, IN_GUARDRAIL, IN_MCP, IN_AGENT, IN_PLUGIN, IN_HOOK, IN_ALERT, REFUSED, &key]
    {
        assert!(
            seen.iter().all(|text| !text.contains(secret)),
            "{secret} in {:?}",
            seen.iter().find(|t| t.contains(secret))
        );
    }
    // Hashes open nothing, but they are nobody's business either.
    let hash = KeyHash::of(&key).to_string();
    assert!(seen.iter().all(|text| !text.contains(&hash)));

    let kept = house.at_rest().await;
    assert!(!kept.is_empty());
    for secret in [CREDENTIAL, HEADER, IN_CONFIG, IN_GUARDRAIL, IN_PLUGIN, IN_HOOK, IN_ALERT, REFUSED, &key] {
        let found = kept.windows(secret.len()).any(|w| w == secret.as_bytes());
        assert!(!found, "{secret} is in the database");
    }
}

#[tokio::test]
async fn the_trail_says_who_did_what_from_where() {
    let house = House::new().await;
    let made = house
        .as_admin()
        .post("/v2/configs", json!({"name": "c", "config": {"provider": "openai", "api_key": "k"}}))
        .await
        .expect(200);
    let slug = text(&made["slug"]);
    house.as_admin().put(&format!("/configs/{slug}"), json!({"name": "d"})).await.expect(200);
    house.as_admin().put(&format!("/configs/{slug}"), json!({"name": ""})).await.refused(400, "AB01");
    house.as_admin().delete(&format!("/configs/{slug}")).await.expect(200);
    let query = AuditQuery { resource_kind: Some("config".into()), page_size: 10, ..AuditQuery::default() };
    let mut rows = house.app.history.audit(&query).await.expect("readable").rows;
    rows.sort_by_key(|r| r.id);
    let told: Vec<(&str, &str, &str, u16)> =
        rows.iter().map(|r| (r.action.as_str(), r.method.as_str(), r.uri.as_str(), r.status)).collect();
    let path = format!("/v1/configs/{slug}");
    assert_eq!(told.len(), 4);
    for expected in [
        ("create", "POST", "/v2/configs", 200),
        ("update", "PUT", &path, 200),
        ("update", "PUT", &path, 400),
        ("delete", "DELETE", &path, 200),
    ] {
        assert!(told.contains(&expected), "{expected:?} in {told:?}");
    }
    let first = rows.iter().find(|r| r.action == "create").expect("told");
    assert_eq!((first.client_ip.as_str(), first.actor_kind.as_str()), ("203.0.113.9", "api_key"));
    assert_eq!(first.resource_id, text(&made["id"]));
    assert_eq!(first.workspace, Some(house.default_workspace().0));
    let details: Value = serde_json::from_str(&first.details).expect("JSON");
    assert_eq!(details["request"], json!({"name": "c", "config": {"provider": "openai", "api_key": "****"}}));
}

#[tokio::test]
async fn long_requests_are_told_by_their_fields() {
    let house = House::new().await;
    let config = json!({"provider": "openai", "override_params": {"user": "x".repeat(100_000)}});
    house.as_admin().post("/configs", json!({"name": "long", "config": config})).await.expect(200);
    let query = AuditQuery { resource_kind: Some("config".into()), page_size: 10, ..AuditQuery::default() };
    let rows = house.app.history.audit(&query).await.expect("readable").rows;
    let details: Value = serde_json::from_str(&rows[0].details).expect("JSON");
    assert_eq!((&details["fields"], &details["name"]), (&json!(["name", "config"]), &json!("long")));
    assert!(rows[0].details.len() < 1000);
}
