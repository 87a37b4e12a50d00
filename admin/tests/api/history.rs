//! What keys, policies and integrations were, and the way back to it: in force on every node, held to the rules of any
//! change, and without a secret that somebody could read or get back.

use crate::harness::{House, text};
use serde_json::{Value, json};

const CREDENTIAL: &str = "sk-first-credential-0001";

async fn versions(house: &House, path: &str) -> Vec<Value> {
    let listed = house.as_admin().get(&format!("{path}/versions")).await.expect(200);
    let data = listed["data"].as_array().expect("a list").clone();
    assert_eq!(listed["total"], json!(data.len()));
    data
}

#[tokio::test]
async fn policies_come_back_as_they_were() {
    let house = House::new().await;
    let admin = house.as_admin();
    let conditions = json!([{"key": "api_key", "value": "*"}]);
    let rate = json!({"name": "R", "type": "requests", "unit": "rpm", "value": 5, "conditions": conditions,
        "group_by": [{"key": "api_key"}]});
    let usage = json!({"name": "U", "type": "cost", "credit_limit": 5, "conditions": conditions,
        "group_by": [{"key": "api_key"}]});
    for (at, body, change) in [
        ("/policies/rate-limits", rate, json!({"name": "S", "value": 7})),
        ("/policies/usage-limits", usage, json!({"name": "S", "credit_limit": 7, "alert_threshold": 3})),
    ] {
        let id = text(&admin.post(at, body.clone()).await.expect(200)["id"]);
        let path = format!("{at}/{id}");
        assert_eq!(versions(&house, &path).await, Vec::<Value>::new(), "nothing has changed yet");
        admin.put(&path, change.clone()).await.expect(200);
        let all = versions(&house, &path).await;
        assert_eq!(all.iter().map(|v| &v["version"]).collect::<Vec<_>>(), [2, 1]);
        let (first, second) = (&all[1]["state"], &all[0]["state"]);
        assert_eq!((&first["name"], &second["name"]), (&body["name"], &json!("S")), "{all:?}");
        let by_id = admin.get(&format!("{path}/versions/{}", text(&all[0]["version_id"]))).await.expect(200);
        assert_eq!(by_id, all[0]);
        admin.get(&format!("{path}/versions/9")).await.refused(404, "AB08");
        for wrong in [json!({}), json!({"version": 9}), json!({"version": true}), json!({"version": 1, "x": 1})] {
            admin.post(&format!("{path}/rollback"), wrong).await.refused(400, "AB01");
        }
        // A change that changes nothing of it is no version.
        admin.put(&path, json!({"status": "archived"})).await.expect(200);
        assert_eq!(versions(&house, &path).await.len(), 2);
        admin.post(&format!("{path}/rollback"), json!({"version": 1})).await.expect(200);
        let shown = admin.get(&format!("{at}/{id}?status=archived")).await.expect(200);
        assert_eq!(
            (&shown["name"], &shown["status"]),
            (&body["name"], &json!("archived")),
            "its state is not brought back"
        );
        for field in ["value", "credit_limit", "conditions", "group_by", "alert_threshold"] {
            assert_eq!(shown[field], first[field], "{field}: {shown}");
        }
        assert_eq!(versions(&house, &path).await.len(), 3);
        let other = house.elsewhere().await;
        assert_eq!(versions(&other, &path).await, versions(&house, &path).await);
    }
}

#[tokio::test]
async fn a_key_comes_back_with_the_secret_that_it_has() {
    let house = House::new().await;
    let admin = house.as_admin();
    let scopes = json!(["configs.list", "prompts.list"]);
    let (id, old) = house.key("workspace/service", json!({"name": "k", "scopes": scopes, "max_parallel": 3})).await;
    let path = format!("/api-keys/{id}");
    let change = json!({"name": "l", "scopes": ["prompts.list"], "max_parallel": null, "allowed_models": ["gpt-*"]});
    admin.put(&path, change).await.expect(200);
    house.with(&old).get("/configs").await.refused(403, "AB03");
    let rotated = admin.post(&format!("{path}/rotate"), json!({})).await.expect(200);
    let all = versions(&house, &path).await;
    assert_eq!(all.len(), 2, "a new secret is no version");
    let told = json!(all).to_string();
    assert!(!told.contains("sealed") && !told.contains("hash"), "{told}");
    assert_eq!(all[1]["state"]["scopes"], scopes);
    admin.put(&path, json!({"status": "blocked"})).await.expect(200);
    let back = admin.post(&format!("{path}/rollback"), json!({"version": all[1]["version_id"]})).await.expect(200);
    assert_eq!(text(&back["id"]), id);
    let shown = admin.get(&path).await.expect(200);
    assert_eq!((&shown["name"], &shown["scopes"], &shown["max_parallel"]), (&json!("k"), &scopes, &json!(3)));
    assert_eq!((&shown["allowed_models"], &shown["status"]), (&Value::Null, &json!("blocked")), "nobody opened it");
    admin.put(&path, json!({"status": "active"})).await.expect(200);
    for secret in [&old, &text(&rotated["key"])] {
        house.with(secret).get("/configs").await.expect(200);
    }
}

#[tokio::test]
async fn an_integration_comes_back_with_the_credential_that_it_had() {
    let house = House::new().await;
    let admin = house.as_admin();
    let headers = json!({"custom_headers": {"x-token": "token-of-the-first-0001"}});
    let body =
        json!({"name": "I", "slug": "i", "ai_provider_id": "openai", "key": CREDENTIAL, "configurations": headers});
    admin.post("/integrations", body).await.expect(200);
    let before = admin.get("/integrations/i").await.expect(200);
    admin.put("/integrations/i", json!({"key": "sk-second-credential-0002", "configurations": null})).await.expect(200);
    let models = json!({"models": [{"slug": "m", "enabled": false}]});
    admin.put("/integrations/i/models", models).await.expect(200);
    let all = versions(&house, "/integrations/i").await;
    assert_eq!(all.len(), 3);
    let told = json!(all).to_string();
    assert!(!told.contains(CREDENTIAL) && !told.contains("token-of-the-first") && !told.contains("sealed:"), "{told}");
    assert_eq!(all[2]["state"]["masked_key"], before["masked_key"]);
    // Whom it is open to is no part of what comes back.
    admin.put("/integrations/i/workspaces", json!({"global_workspace_access": {"enabled": false}})).await.expect(200);
    assert_eq!(versions(&house, "/integrations/i").await.len(), 3);
    admin.post("/integrations/i/rollback", json!({"version": 1})).await.expect(200);
    let shown = admin.get("/integrations/i").await.expect(200);
    assert_eq!(
        (&shown["masked_key"], &shown["configurations"]),
        (&before["masked_key"], &before["configurations"]),
        "{shown}"
    );
    assert_eq!(shown["global_workspace_access_settings"]["enabled"], false);
    assert_eq!(admin.get("/integrations/i/models").await.expect(200)["total"], 0);
    let id = text(&shown["id"]).parse().expect("an id");
    admin.delete("/integrations/i").await.expect(200);
    let left = house.app.history.versions("integration", id).await.expect("a store");
    assert!(left.is_empty(), "sealed credentials go with it: {left:?}");
}

#[tokio::test]
async fn nobody_gains_by_going_back() {
    let house = House::new().await;
    let admin = house.as_admin();
    let (id, _) =
        house.key("workspace/service", json!({"name": "wide", "scopes": ["configs.list", "configs.delete"]})).await;
    let path = format!("/api-keys/{id}");
    admin.put(&path, json!({"scopes": ["configs.list"], "allowed_models": ["m"]})).await.expect(200);
    let back = json!({"version": 1});
    let scopes = |more: &[&str]| {
        let own = ["workspace_service_api_keys.update", "workspace_service_api_keys.read", "configs.list"];
        json!([&own[..], more].concat())
    };
    let (_, narrow) = house.key("workspace/service", json!({"name": "n", "scopes": scopes(&[])})).await;
    let refused = house.with(&narrow).post(&format!("{path}/rollback"), back.clone()).await;
    refused.refused(403, "AB03");
    let held = json!({"name": "h", "scopes": scopes(&["configs.delete"]), "allowed_models": ["m"]});
    let (_, held) = house.key("workspace/service", held).await;
    house.with(&held).post(&format!("{path}/rollback"), back.clone()).await.refused(403, "AB03");
    let (_, equal) = house.key("workspace/service", json!({"name": "e", "scopes": scopes(&["configs.delete"])})).await;
    house.with(&equal).get(&format!("{path}/versions")).await.expect(200);
    house.with(&equal).post(&format!("{path}/rollback"), back.clone()).await.expect(200);
    // What has come to its end meanwhile does not come back.
    let soon = crate::harness::in_seconds(60);
    admin.put(&path, json!({"expires_at": soon})).await.expect(200);
    admin.put(&path, json!({"expires_at": null})).await.expect(200);
    crate::harness::pass_seconds(120);
    let version = versions(&house, &path).await[1]["version"].clone();
    let refused = admin.post(&format!("{path}/rollback"), json!({"version": version})).await;
    assert!(refused.text.contains("expires_at"), "{}", refused.text);
    let trail = format!(
        "/audit-logs?organisation_id={}&start_time=2020-01-01&end_time=2100-01-01&resource_type=api_key&action=update",
        house.org().id
    );
    let trail = admin.get(&trail).await.expect(200).to_string();
    assert!(trail.contains("/rollback") && trail.contains("\"before\""), "{trail}");
}

#[tokio::test]
async fn so_many_versions_of_one_thing_are_kept() {
    let house = House::new().await;
    let admin = house.as_admin();
    let (id, _) = house.key("workspace/service", json!({"name": "k", "scopes": ["configs.list"]})).await;
    let path = format!("/api-keys/{id}");
    for n in 1..=60 {
        admin.put(&path, json!({"description": format!("number {n}")})).await.expect(200);
    }
    let listed = admin.get(&format!("{path}/versions?page_size=100")).await.expect(200);
    let all = listed["data"].as_array().expect("a list");
    assert_eq!((all.len(), &all[0]["version"], &all[49]["version"]), (50, &json!(61), &json!(12)));
    admin.post(&format!("{path}/rollback"), json!({"version": 11})).await.refused(400, "AB01");
    let tag = admin.get(&path).await;
    assert!(tag.text.contains("number 60"), "{}", tag.text);
}
