//! The audit trail as Admin keys read it.

use crate::harness::{ADMIN, House, SERVICE, in_seconds, text};
use gateway_domain::keys::KeyHash;
use serde_json::{Value, json};

async fn filled() -> (House, String) {
    let house = House::new().await;
    let made = house.as_service().post("/configs", json!({"name": "c", "config": {"provider": "openai"}})).await;
    let slug = text(&made.expect(200)["slug"]);
    house.as_admin().put(&format!("/configs/{slug}?workspace_id=default"), json!({"name": "d"})).await.expect(200);
    house.as_admin().delete(&format!("/configs/{slug}")).await.expect(200);
    let org = house.app.live.snapshot().orgs().next().expect("one").id.to_string();
    let from = in_seconds(-60);
    let to = in_seconds(60);
    (house, format!("/audit-logs?organisation_id={org}&start_time={from}&end_time={to}"))
}

#[tokio::test]
async fn what_was_done_is_told_with_its_request() {
    let (house, path) = filled().await;
    let all = house.as_admin().get(&path).await.expect(200);
    assert_eq!(all["total"], 7, "four of the first start, three since: {all}");
    let updated = &all["records"][1];
    let snapshot = house.app.live.snapshot();
    let admin = snapshot.key(&KeyHash::of(ADMIN)).expect("in force").id;
    for (field, value) in [
        ("method", json!("PUT")),
        ("action", json!("update")),
        ("resource_type", json!("config")),
        ("user_id", json!(admin)),
        ("user_type", json!("api_key")),
        ("client_ip", json!("203.0.113.9")),
        ("query_params", json!("workspace_id=default")),
        ("request_body", json!(r#"{"name":"d"}"#)),
        ("response_status_code", json!(200)),
        ("workspace_id", json!(house.default_workspace())),
    ] {
        assert_eq!(updated[field], value, "{field}");
    }
    assert!(text(&updated["request_id"]).len() == 36);
    let headers: Value = serde_json::from_str(&text(&updated["request_headers"])).expect("JSON");
    assert_eq!(headers["user-agent"], "suite");
    assert_ne!(headers["x-gateway-api-key"], Value::Null, "told, masked: {headers}");
    assert!(!all.to_string().contains(ADMIN));
}

async fn newest(house: &House) -> Value {
    let org = house.org().id;
    let (from, to) = (in_seconds(-60), in_seconds(60));
    let path = format!("/audit-logs?organisation_id={org}&start_time={from}&end_time={to}&page_size=1");
    house.as_admin().get(&path).await.expect(200)["records"][0].clone()
}

#[tokio::test]
async fn what_it_was_before_is_told_with_who_changed_it() {
    let house = House::new().await;
    let seats = json!([{"id": "default", "role": "admin"}]);
    let (ann, key) = house.user("ann@example.com", "member", seats, Some(json!(["configs.update"]))).await;
    let config = json!({"provider": "openai", "api_key": "sk-the-first-secret-1111", "retry": {"attempts": 1}});
    let made = house.as_admin().post("/configs", json!({"name": "c", "config": config})).await.expect(200);
    let told = newest(&house).await;
    assert_eq!((&told["changes"], &told["user_type"]), (&Value::Null, &json!("api_key")), "there was nothing before");
    let path = format!("/configs/{}", text(&made["slug"]));
    let config = json!({"provider": "openai", "api_key": "sk-the-second-secret-2222", "retry": {"attempts": 3}});
    house.with(&key).put(&path, json!({"name": "d", "config": config})).await.expect(200);
    let told = newest(&house).await;
    let changes = told["changes"].as_array().expect("changes").clone();
    let at =
        |path: &str| changes.iter().find(|c| c["path"] == path).unwrap_or_else(|| panic!("no {path}: {changes:?}"));
    assert_eq!(at("/name"), &json!({"op": "replace", "path": "/name", "before": "c", "after": "d"}));
    let attempts = at("/config/retry/attempts");
    assert_eq!((&attempts["before"], &attempts["after"]), (&json!(1), &json!(3)));
    assert_eq!((&at("/config/api_key")["before"], &at("/config/api_key")["after"]), (&json!("****"), &json!("****")));
    assert!(!changes.iter().any(|c| c["path"] == "/config/provider"), "it is as it was");
    // Who it was, by the name of that day.
    let by_key = house.app.live.snapshot().key(&KeyHash::of(&key)).expect("in force").id;
    assert_eq!((&told["user_id"], &told["user_type"]), (&json!(ann), &json!("user")));
    assert_eq!((&told["user_name"], &told["user_email"]), (&json!("Ann Lee"), &json!("ann@example.com")));
    assert_eq!(told["api_key_id"], json!(by_key));
    house.as_admin().delete(&path).await.expect(200);
    let gone = newest(&house).await;
    assert_eq!((&gone["changes"][0]["op"], &gone["changes"][0]["before"]["name"]), (&json!("remove"), &json!("d")));
    // The person is gone, and both ways of asking for what they did still find it.
    house.as_admin().delete(&format!("/admin/users/{ann}")).await.expect(200);
    let org = house.org().id;
    let (from, to) = (in_seconds(-60), in_seconds(60));
    for query in [format!("user_id={ann}"), format!("user_id={by_key}"), "user_type=user&action=update".to_owned()] {
        let path =
            format!("/audit-logs?organisation_id={org}&start_time={from}&end_time={to}&{query}&resource_type=config");
        let found = house.as_admin().get(&path).await.expect(200);
        assert_eq!(
            (&found["total"], &found["records"][0]["user_email"]),
            (&json!(1), &json!("ann@example.com")),
            "{query}"
        );
    }
}

/// Every kind of write to every place that holds secrets.
#[tokio::test]
async fn no_secret_is_told_of_what_was_before() {
    let house = House::new().await;
    let admin = house.as_admin();
    let secret = |n: u32| format!("canary-of-the-trail-{n}-{n}{n}{n}{n}");
    let integration =
        |n| json!({"name": "i", "key": secret(n), "configurations": {"custom_headers": {"x-token": secret(n + 100)}}});
    let mut new = integration(1);
    new["slug"] = json!("i");
    new["ai_provider_id"] = json!("openai");
    admin.post("/integrations", new).await.expect(200);
    admin.put("/integrations/i", integration(2)).await.expect(200);
    let (id, key) = house.key("workspace/service", json!({"scopes": ["configs.list"]})).await;
    let rotated = admin.post(&format!("/api-keys/{id}/rotate"), json!({})).await.expect(200);
    admin.delete("/integrations/i?force=1").await;
    let org = house.org().id;
    let (from, to) = (in_seconds(-60), in_seconds(60));
    let path = format!("/audit-logs?organisation_id={org}&start_time={from}&end_time={to}&page_size=100");
    let all = admin.get(&path).await.expect(200);
    let changed = all["records"].as_array().expect("rows").iter().filter(|r| !r["changes"].is_null()).count();
    assert!(changed >= 2, "{all}");
    let all = all.to_string();
    for secret in [secret(1), secret(2), secret(101), secret(102), key.clone(), text(&rotated["key"])] {
        assert!(!all.contains(&secret), "{secret}");
    }
    for digest in [KeyHash::of(&key), KeyHash::of(&text(&rotated["key"]))] {
        assert!(!all.contains(&digest.to_string()), "a digest is told");
    }
    assert!(!all.contains("sealed:"), "what is sealed is told");
}

#[tokio::test]
async fn large_changes_are_told_by_their_places() {
    let house = House::new().await;
    let long = json!({"provider": "mock", "override_params": {"user": "u".repeat(900)}});
    let targets = |n: usize| json!({"strategy": {"mode": "fallback"}, "targets": vec![long.clone(); n]});
    let made = house.as_admin().post("/configs", json!({"name": "c", "config": targets(1)})).await.expect(200);
    let path = format!("/configs/{}", text(&made["slug"]));
    house.as_admin().put(&path, json!({"name": "c".repeat(200), "config": targets(60)})).await.expect(200);
    let told = newest(&house).await;
    let changes = told["changes"].as_array().expect("changes");
    assert!(changes.len() <= 100 && changes.iter().all(|c| c.get("before").is_none()), "{changes:?}");
}

#[tokio::test]
async fn the_list_is_filtered() {
    let (house, path) = filled().await;
    let service = house.app.live.snapshot().key(&KeyHash::of(SERVICE)).expect("in force").id;
    let total = async |query: &str| {
        house.as_admin().get(&format!("{path}&{query}")).await.expect(200)["total"].as_u64().expect("a number")
    };
    for (query, expected) in [
        ("method=PUT", 1),
        ("action=create", 5),
        ("resource_type=config", 3),
        ("resource_type=config&action=delete", 1),
        ("user_type=api_key", 3),
        ("user_type=system", 4),
        ("client_ip=203.0.113.9", 3),
        ("client_ip=203.0.113.8", 0),
        ("workspace_id=default", 4),
        ("uri=/v1/configs", 1),
        ("response_status_code=200", 7),
        ("response_status_code=403", 0),
        ("country=DE", 0),
        ("request_id=0194f1f2-0000-7000-8000-000000000000", 0),
    ] {
        assert_eq!(total(query).await, expected, "{query}");
    }
    assert_eq!(total(&format!("user_id={service}")).await, 1);
    let all = house.as_admin().get(&path).await.expect(200);
    assert_eq!(total(&format!("request_id={}", text(&all["records"][0]["request_id"]))).await, 1);
    let page = house.as_admin().get(&format!("{path}&page_size=2&current_page=3")).await.expect(200);
    assert_eq!((&page["total"], page["records"].as_array().map(Vec::len)), (&json!(7), Some(1)));
}

#[tokio::test]
async fn what_was_refused_is_told_without_its_body() {
    let (house, path) = filled().await;
    let revision = house.app.live.snapshot().revision;
    let secret = "sk-quite-a-long-secret-9999";
    let (id, narrow) = house.key("workspace/service", json!({"scopes": ["configs.update"]})).await;
    let broken = json!([{"config": {"api_key": secret}}]);
    house.with(&narrow).put("/configs/pc-none", broken).await.refused(400, "AB01");
    house.with(&narrow).delete(&format!("/providers/some?token={secret}")).await.refused(403, "AB03");
    house.with(&narrow).put("/v2/configs/pc-none", json!({"name": "n"})).await.refused(404, "AB08");
    house
        .as_admin()
        .post("/admin/workspaces", json!({"name": "Default", "slug": "default"}))
        .await
        .refused(409, "AB07");
    // Who only looks, and who is nobody, changes nothing.
    house.with(&narrow).get("/providers").await.refused(403, "AB03");
    house.nobody().post("/configs", json!({})).await.refused(401, "AB05");
    let told = async |query: &str| house.as_admin().get(&format!("{path}&{query}")).await.expect(200);
    let all = told("").await;
    assert_eq!(all["total"], 7 + 1 + 4, "{all}");
    assert!(!all.to_string().contains(secret), "{all}");
    let mut seen = Vec::new();
    for (status, kind, action, target) in [
        (400, "config", "update", "pc-none"),
        (403, "provider", "delete", "some"),
        (404, "config", "update", "pc-none"),
        (409, "workspace", "create", ""),
    ] {
        let found = told(&format!("response_status_code={status}")).await;
        assert_eq!(found["total"], 1, "{status}: {found}");
        let record = &found["records"][0];
        assert_eq!((&record["resource_type"], &record["action"]), (&json!(kind), &json!(action)), "{record}");
        assert_eq!((&record["resource_id"], &record["client_ip"]), (&json!(target), &json!("203.0.113.9")), "{record}");
        assert!(record["refused"].as_str().is_some_and(|why| !why.is_empty()), "{record}");
        assert_eq!(record["request_body"], "");
        seen.push(record["user_id"].clone());
    }
    assert_eq!(seen[..3], [json!(id), json!(id), json!(id)]);
    // No other node hears of refusals: the one revision since is the key's.
    assert_eq!(house.app.live.snapshot().revision, revision + 1);
}

#[tokio::test]
async fn broken_filters_are_named() {
    let (house, path) = filled().await;
    for (query, says) in [
        ("colour=red", "colour is not a known parameter of the query"),
        ("request_id=x", "request_id must be a UUID"),
        ("method=GET", "method must be one of POST, PUT, DELETE"),
        ("page_size=101", "page_size must be at most 100"),
        ("response_status_code=ok", "response_status_code must be a status code"),
    ] {
        let said = house.as_admin().get(&format!("{path}&{query}")).await.refused(400, "AB01");
        assert!(said.contains(says), "{query}: {said}");
    }
    for (path, says) in [
        ("/audit-logs", "organisation_id is required"),
        ("/audit-logs?organisation_id=ORG", "start_time is required"),
        ("/audit-logs?organisation_id=ORG&start_time=soon", "start_time must be an RFC 3339"),
        ("/audit-logs?organisation_id=ORG&start_time=2026-01-02&end_time=2026-01-01", "end_time must not be before"),
    ] {
        let org = house.app.live.snapshot().orgs().next().expect("one").id.to_string();
        let said = house.as_admin().get(&path.replace("ORG", &org)).await.refused(400, "AB01");
        assert!(said.contains(says), "{path}: {said}");
    }
    let foreign = path.replace("organisation_id=", "organisation_id=0");
    house.as_admin().get(&foreign).await.refused(404, "AB08");
    house.as_service().get(&path).await.refused(403, "AB03");
    let rival = house.organisation("rival").await;
    assert_eq!(house.with(&rival).get(&path).await.status, 404, "{}", Value::Null);
}
