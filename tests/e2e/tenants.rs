//! People, roles, rotation and the settings of tenants as the proxy port feels them.

use crate::harness::{Gateway, Upstream, gateway::target, hello, reply};
use serde_json::{Value, json};

async fn upstream() -> Upstream {
    Upstream::replying(|_| reply::chat("hi")).await
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

#[tokio::test]
async fn a_rotated_key_opens_with_both_secrets() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = upstream().await;
    let (id, old) = admin.workspace_key("k", json!({})).await;
    let rotated = admin.post(&format!("/api-keys/{id}/rotate"), &json!({})).await.expect(200).json();
    let new = text(&rotated["key"]);
    for key in [&old, &new] {
        gateway.chat_through(&upstream).key(key).json(&hello()).send().await.expect(200);
    }
    let gateway = gateway.restart_with(&[]).await;
    for key in [&old, &new] {
        gateway.chat_through(&upstream).key(key).json(&hello()).send().await.expect(200);
    }
    gateway.admin().delete(&format!("/api-keys/{id}")).await.expect(200);
    for key in [&old, &new] {
        gateway.chat_through(&upstream).key(key).json(&hello()).send().await.expect(401);
    }
}

#[tokio::test]
async fn an_invited_user_calls_with_the_config_of_the_workspace_until_taken_out() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = upstream().await;
    let slug = admin.config("main", &target(&upstream)).await;
    let settings = json!({"defaults": {"user_api_key_config": slug, "metadata": {"team": "a"}}});
    admin.put("/admin/workspaces/default", &settings).await.expect(200);
    let invite = json!({"email": "ann@example.com", "role": "member", "workspaces": [{"id": "default", "role": "member"}],
        "workspace_api_key_details": {"scopes": ["completions.write"]}});
    let made = admin.post("/admin/users/invites", &invite).await.expect(200).json();
    let token = text(&made["invite_link"]).split_once('#').expect("a token").1.to_owned();
    let accept = json!({"token": token, "first_name": "Ann", "last_name": "Lee"});
    let user = admin.call("POST", "/invites/accept").without("x-gateway-api-key").json(&accept).send().await;
    let user = user.expect(200).json();
    let key = text(&user["api_keys"][0]["key"]);
    let ask = async || gateway.chat().key(&key).json(&hello()).send().await;
    ask().await.expect(200);
    assert_eq!(upstream.seen().len(), 1, "the workspace's config was used");
    admin.delete(&format!("/admin/workspaces/default/users/{}", text(&user["id"]))).await.expect(200);
    ask().await.expect(401);
}

#[tokio::test]
async fn a_key_of_a_person_may_no_more_than_the_role_on_the_proxy_port_too() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let invite = json!({"email": "ann@example.com", "role": "member", "workspaces": [{"id": "default", "role": "member"}],
        "workspace_api_key_details": {"scopes": ["virtual_keys.list"]}});
    let made = admin.post("/admin/users/invites", &invite).await.expect(200).json();
    let token = text(&made["invite_link"]).split_once('#').expect("a token").1.to_owned();
    let accept = json!({"token": token, "first_name": "Ann", "last_name": "Lee"});
    let user = admin.call("POST", "/invites/accept").without("x-gateway-api-key").json(&accept).send().await;
    let key = text(&user.expect(200).json()["api_keys"][0]["key"]);
    let models = async || gateway.get("/v1/models").key(&key).send().await;
    models().await.expect(200);
    gateway.chat().key(&key).provider("mock").json(&hello()).send().await.expect(403);
    let switch = async |on: bool| {
        let body = json!({"security_settings": {"members_view_virtual_keys": on}});
        admin.put("/admin/organisation", &body).await.expect(200);
    };
    switch(false).await;
    models().await.expect(403);
    switch(true).await;
    models().await.expect(200);
}

#[tokio::test]
async fn an_invite_leads_where_the_operator_says_and_opens_on_the_proxy_port() {
    let gateway = Gateway::with(&["--public-url", "https://ai.example.com/"]).await;
    let invite = json!({"email": "ann@example.com", "role": "member", "workspaces": []});
    let made = gateway.admin().post("/admin/users/invites", &invite).await.expect(200).json();
    assert!(text(&made["invite_link"]).starts_with("https://ai.example.com/invite#"), "{made}");
    let page = gateway.get("/invite").without("x-gateway-api-key").send().await.expect(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
}

#[tokio::test]
async fn a_deleted_workspace_serves_nobody() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = upstream().await;
    let made = admin.post("/admin/workspaces", &json!({"name": "Short"})).await.expect(200).json();
    let (_, key) = admin.workspace_key("k", json!({"workspace_id": made["id"]})).await;
    gateway.chat_through(&upstream).key(&key).json(&hello()).send().await.expect(200);
    let path = format!("/admin/workspaces/{}", text(&made["id"]));
    let body = json!({"name": "Short", "force_delete": true});
    admin.call("DELETE", &path).json(&body).send().await.expect(200);
    gateway.chat_through(&upstream).key(&key).json(&hello()).send().await.expect(401);
}

#[tokio::test]
async fn inline_selection_is_blocked_when_the_organisation_says_so() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = upstream().await;
    gateway.chat_through(&upstream).json(&hello()).send().await.expect(200);
    admin.put("/admin/organisation", &json!({"block_inline_config": true})).await.expect(200);
    gateway.chat_through(&upstream).json(&hello()).send().await.expect(400);
    admin.provider("main", "openai", Some(&upstream.url())).await;
    gateway.chat().provider("@main").json(&hello()).send().await.expect(200);
    for (name, value) in [
        ("huggingface-base-url", "https://a.example.com"),
        ("azure-foundry-url", "https://a.example.com"),
        ("databricks-workspace", "dbc-1.cloud.databricks.com"),
    ] {
        let name = format!("x-gateway-{name}");
        let said = gateway.chat().provider("@main").header(&name, value).json(&hello()).send().await;
        let said = said.expect(400).json();
        assert_eq!(
            (&said["error"]["code"], &said["error"]["field"]),
            (&json!("inline_provider_url_blocked"), &json!(name))
        );
    }
    admin.put("/admin/organisation", &json!({"block_inline_config": false})).await.expect(200);
    gateway.chat_through(&upstream).json(&hello()).send().await.expect(200);
}

#[tokio::test]
async fn models_and_workspaces_are_kept_from_an_integration() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = upstream().await;
    admin.provider("main", "openai", Some(&upstream.url())).await;
    let ask = async || gateway.chat().provider("@main").json(&hello()).send().await;
    ask().await.expect(200);
    let model = &hello()["model"];
    let models = "/integrations/main-integration/models";
    admin.put(models, &json!({"models": [{"slug": model, "enabled": false}]})).await.expect(200);
    let said = ask().await.expect(400).text();
    assert!(said.contains("is not enabled on the integration"), "{said}");
    let only = json!({"models": [{"slug": model, "enabled": true}], "allow_all_models": false});
    admin.put(models, &only).await.expect(200);
    ask().await.expect(200);
    let mut other = hello();
    other["model"] = json!("another-model");
    gateway.chat().provider("@main").json(&other).send().await.expect(400);
    let access = "/integrations/main-integration/workspaces";
    admin.put(access, &json!({"global_workspace_access": {"enabled": false}})).await.expect(200);
    let said = ask().await.expect(400).text();
    assert!(said.contains("not open to this workspace"), "{said}");
    admin.put(access, &json!({"workspaces": [{"id": "default", "enabled": true}]})).await.expect(200);
    ask().await.expect(200);
    assert_eq!(upstream.seen().len(), 3);
}
