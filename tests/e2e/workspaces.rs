//! Walls between workspaces: what belongs to another is answered exactly like what does not exist.

use crate::harness::{Answer, Gateway, Upstream, gateway::target, hello, reply, with};
use serde_json::{Value, json};

/// Id of a second workspace.
async fn second(gateway: &Gateway) -> String {
    let made = gateway.admin().post("/admin/workspaces", &json!({ "name": "Second" })).await.expect(200).json();
    made["id"].as_str().unwrap_or_else(|| panic!("no id: {made}")).to_owned()
}

/// Status and body, less what differs from answer to answer.
fn blank(answer: &Answer, slug: &str) -> (u16, Value) {
    let mut body: Value = serde_json::from_str(&answer.text().replace(slug, "X")).unwrap_or_default();
    if let Some(fields) = body.as_object_mut() {
        fields.remove("request_id");
    }
    (answer.status, body)
}

#[tokio::test]
async fn the_proxy_port_tells_nothing_of_anothers_things() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("mine")).await;
    let slug = gateway.admin().config("main", &target(&upstream)).await;
    gateway.admin().provider("hidden-one", "openai", Some(&upstream.url())).await;
    let (_, key) = gateway.admin().workspace_key("k", json!({ "workspace_id": second(&gateway).await })).await;
    let with_config = |slug: &str| gateway.chat().key(&key).header("x-gateway-config", slug).json(&hello()).send();
    let foreign = with_config(&slug).await.expect(400);
    assert_eq!(blank(&foreign, &slug), blank(&with_config("pc-none").await, "pc-none"));
    let with_provider = |slug: &str| gateway.chat().key(&key).provider(&format!("@{slug}")).json(&hello()).send();
    let foreign = with_provider("hidden-one").await.expect(400);
    assert_eq!(blank(&foreign, "hidden-one"), blank(&with_provider("none").await, "none"));
    assert_eq!(upstream.connections(), 0);
}

#[tokio::test]
async fn the_admin_api_tells_nothing_of_anothers_things() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let slug = admin.config("mine", &json!({ "provider": "openai", "api_key": "k" })).await;
    admin.provider("hidden-one", "openai", None).await;
    let scopes = json!([
        "configs.list",
        "configs.read",
        "configs.update",
        "configs.delete",
        "providers.list",
        "providers.read",
        "providers.update",
        "providers.delete",
        "logs.list",
        "logs.view",
    ]);
    let fields = json!({ "workspace_id": second(&gateway).await, "scopes": scopes });
    let (_, key) = admin.workspace_key("foreign", fields).await;
    let foreign = admin.with_key(&key);
    for (path, slug) in [("configs", slug.as_str()), ("providers", "hidden-one")] {
        for method in ["GET", "PUT", "DELETE"] {
            let ask =
                |slug: &str| foreign.call(method, &format!("/{path}/{slug}")).json(&json!({ "name": "n" })).send();
            let (theirs, missing) = (ask(slug).await, ask("none-0").await);
            assert_eq!(blank(&theirs, slug), blank(&missing, "none-0"), "{method} {path}");
            assert!(matches!(theirs.status, 403 | 404), "{method} {path}: {}", theirs.text());
        }
        let list = foreign.get(&format!("/{path}")).await.expect(200).json();
        assert_eq!(list["data"].as_array().map(Vec::len), Some(0), "{path}: {list}");
        admin.get(&format!("/{path}/{slug}")).await.expect(200);
    }
}

#[tokio::test]
async fn records_and_limits_stay_with_their_workspace() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let second = second(&gateway).await;
    let fields = json!({ "workspace_id": second, "scopes": ["completions.write", "logs.list", "logs.view"] });
    let (_, other) = admin.workspace_key("other", fields).await;
    let (_, mine) =
        admin.workspace_key("mine", json!({ "scopes": ["completions.write", "logs.list", "logs.view"] })).await;
    let policy = json!({
        "name": "one", "type": "requests", "unit": "rpw", "value": 1, "workspace_id": second,
        "conditions": [{ "key": "api_key", "value": "*" }], "group_by": [{ "key": "api_key" }],
    });
    admin.post("/policies/rate-limits", &policy).await.expect(200);
    let ask = async |key: &str, trace: &str| {
        let call = gateway.chat().key(key).provider("mock").header("x-gateway-trace-id", trace);
        call.json(&hello()).send().await.status
    };
    assert_eq!((ask(&other, "o1").await, ask(&other, "o2").await), (200, 429));
    assert_eq!((ask(&mine, "m1").await, ask(&mine, "m2").await), (200, 200));
    let seen = async |key: &str, trace: &str| {
        let list = admin.with_key(key).get(&format!("/logs?trace_id={trace}")).await.expect(200).json();
        list["data"].as_array().map_or(0, Vec::len)
    };
    crate::harness::eventually("both records", || async {
        (seen(&mine, "m1").await == 1 && seen(&other, "o1").await == 1).then_some(())
    })
    .await;
    assert_eq!((seen(&mine, "o1").await, seen(&other, "m1").await), (0, 0));
}

#[tokio::test]
async fn a_rotated_key_keeps_both_secrets_until_the_old_one_ends() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let (id, old) = admin.workspace_key("k", json!({})).await;
    let ask = async |key: &str| gateway.chat().key(key).provider("mock").json(&hello()).send().await.status;
    let path = format!("/api-keys/{id}/rotate");
    admin.post(&path, &json!({ "key_transition_period_ms": 1000 })).await.expect(400);
    let rotated = admin.post(&path, &json!({ "key_transition_period_ms": 1_800_000 })).await.expect(200).json();
    let new = rotated["key"].as_str().expect("a new secret").to_owned();
    assert_eq!((&rotated["id"], rotated["key_transition_expires_at"].is_string()), (&json!(id), true), "{rotated}");
    assert_ne!(new, old);
    assert_eq!((ask(&old).await, ask(&new).await), (200, 200));
    let again = admin.post(&path, &json!({ "key_transition_period_ms": 1_800_000 })).await;
    assert!(matches!(again.status, 400 | 409), "a third secret: {}", again.text());
    admin.delete(&format!("/api-keys/{id}")).await.expect(200);
    assert_eq!((ask(&old).await, ask(&new).await), (401, 401));
}

#[tokio::test]
async fn metadata_of_workspace_and_key_beats_the_requests() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let workspace = json!({ "name": "Meta", "defaults": { "metadata": { "_team": "workspace" } } });
    let made = admin.post("/admin/workspaces", &workspace).await.expect(200).json();
    let defaults = json!({ "metadata": { "_team": "key", "_environment": "key" } });
    let fields = json!({ "workspace_id": made["id"], "defaults": defaults });
    let (_, key) = admin.workspace_key("k", fields).await;
    let policy = |key: &str, value: &str| {
        json!({
            "name": format!("{key} {value}"), "type": "requests", "unit": "rpw", "value": 1, "workspace_id": made["id"],
            "conditions": [{ "key": format!("metadata.{key}"), "value": value }], "group_by": [{ "key": "api_key" }],
        })
    };
    admin.post("/policies/rate-limits", &policy("_team", "workspace")).await.expect(200);
    let asked = with(json!({ "_team": "request" }), json!({ "_user": "ann" })).to_string();
    let ask = async || {
        let call = gateway.chat().key(&key).provider("mock").header("x-gateway-metadata", &asked);
        call.json(&hello()).send().await.status
    };
    assert_eq!((ask().await, ask().await), (200, 429), "the workspace's word counts");
}
