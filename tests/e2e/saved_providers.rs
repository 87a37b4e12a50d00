//! What an admin saves of a provider goes to it: settings of an integration, and credentials and deployments of a
//! virtual key.

use crate::harness::{Gateway, Upstream, hello, reply, with};
use serde_json::json;

async fn upstream() -> Upstream {
    Upstream::replying(|_| reply::chat("hi")).await
}

#[tokio::test]
async fn settings_of_an_integration_go_upstream() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    let body = json!({
        "name": "Main", "ai_provider_id": "openai", "key": "sk-managed", "default_provider_slug": "along",
        "configurations": {
            "custom_host": upstream.url(), "custom_headers": { "x-team": "ours" },
            "openai_organization": "org-1", "openai_project": "proj-1",
        },
    });
    gateway.admin().post("/integrations", &body).await.expect(200);
    gateway.chat().provider("@along").json(&hello()).send().await.expect(200);
    let seen = upstream.only();
    for (name, value) in [("x-team", "ours"), ("openai-organization", "org-1"), ("openai-project", "proj-1")] {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    let without =
        json!({ "name": "Bare", "slug": "bare", "ai_provider_id": "openai", "create_default_provider": false });
    gateway.admin().post("/integrations", &without).await.expect(200);
    gateway.chat().provider("@bare").json(&hello()).send().await.expect(400);
}

#[tokio::test]
async fn a_virtual_key_serves_with_its_own_credential() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = upstream().await;
    let body = json!({ "name": "Older", "provider": "openai", "key": "sk-older-0000000000" });
    admin.post("/virtual-keys", &body).await.expect(200);
    let to = json!({ "configurations": { "custom_host": upstream.url() } });
    admin.put("/integrations/older", &to).await.expect(200);
    let ask = async || gateway.chat().header("x-gateway-virtual-key", "older").json(&hello()).send().await;
    ask().await.expect(200);
    admin.put("/virtual-keys/older", &json!({ "key": "sk-newer-0000000000" })).await.expect(200);
    ask().await.expect(200);
    let sent: Vec<_> = upstream.seen().iter().map(|s| s.header("authorization").map(str::to_owned)).collect();
    assert_eq!(sent, [Some("Bearer sk-older-0000000000".into()), Some("Bearer sk-newer-0000000000".into())]);
    let none = json!({ "rate_limits": [{ "type": "requests", "unit": "rpd", "value": 0 }] });
    admin.put("/virtual-keys/older", &none).await.expect(200);
    ask().await.expect(429);
}

#[tokio::test]
async fn a_virtual_key_of_azure_finds_its_deployments() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = upstream().await;
    let body = json!({ "name": "Azure", "provider": "azure-openai", "key": "azure-key-0001", "resourceName": "contoso",
                       "apiVersion": "2024-10-21", "deploymentName": "mini-eu" });
    admin.post("/virtual-keys", &body).await.expect(200);
    let saved = admin.get("/integrations/azure").await.expect(200).json()["configurations"].clone();
    assert_eq!(saved["azure_resource_name"], "contoso");
    let host = json!({ "custom_host": format!("{}/openai", upstream.url()) });
    admin.put("/integrations/azure", &json!({ "configurations": with(saved, host) })).await.expect(200);
    let ask = async || gateway.chat().header("x-gateway-virtual-key", "azure").json(&hello()).send().await;
    ask().await.expect(200);
    let several =
        json!([{ "deploymentName": "big-eu", "apiVersion": "2025-01-01", "alias": "gpt-4o", "is_default": true }]);
    let change = json!({ "deploymentName": null, "deploymentConfig": several });
    admin.put("/virtual-keys/azure", &change).await.expect(200);
    ask().await.expect(200);
    let targets: Vec<String> = upstream.seen().iter().map(|seen| seen.target.clone()).collect();
    assert_eq!(
        targets,
        [
            "/v1/openai/deployments/mini-eu/chat/completions?api-version=2024-10-21",
            "/v1/openai/deployments/big-eu/chat/completions?api-version=2025-01-01",
        ]
    );
}
