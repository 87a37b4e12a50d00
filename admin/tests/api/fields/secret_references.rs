//! References to secrets of managers, and what is filled from them.

use super::Story;
use serde_json::{Value, json};

pub(super) async fn round_trip(story: &mut Story<'_>) {
    let org = story.house.org().id.to_string();
    let team = story.house.as_admin().get("/admin/workspaces/team").await.expect(200)["id"].clone();
    let auth = json!({"vault_auth_type": "approle", "vault_addr": "https://vault.example.com", "vault_role_id": "r",
        "vault_secret_id": "quite-a-long-secret-7777", "vault_namespace": "house"});
    let body = json!({"name": "Vaulted", "slug": "vaulted", "description": "d", "manager_type": "hashicorp_vault",
        "auth_config": auth, "secret_path": "secret/data/a", "secret_key": "key", "allow_all_workspaces": false,
        "allowed_workspaces": ["team"], "tags": {"a": "b"}, "organisation_id": org});
    story.send("POST /secret-references", "/secret-references", body.clone()).await;
    let mut want = body;
    want["auth_config"]["vault_secret_id"] = json!("****7777");
    want["allowed_workspaces"] = json!([team]);
    let path = "/secret-references/vaulted";
    story.shows(path, want.clone()).await;
    let id = story.house.as_admin().get(path).await.expect(200)["id"].clone();
    let mapping = |target: &str, key: &str| {
        json!([{"target_field": target, "secret_reference_id": "vaulted",
        "secret_key": key, "value_format": "string"}])
    };
    let shown = |target: &str, key: &str| {
        let mut shown = mapping(target, key);
        shown[0]["secret_reference_id"] = id.clone();
        json!({"masked_key": null, "secret_mappings": shown})
    };
    let body = json!({"name": "Filled", "slug": "filled", "ai_provider_id": "openai", "workspace_id": "team",
        "create_default_provider": false, "secret_mappings": mapping("key", "one")});
    story.send("POST /integrations", "/integrations", body).await;
    story.shows("/integrations/filled", shown("key", "one")).await;
    story.holds_elsewhere().await;
    let header = "configurations.custom_headers.x-team";
    let body = json!({"secret_mappings": mapping(header, "two")});
    story.send("PUT /integrations/{id}", "/integrations/filled", body).await;
    story.shows("/integrations/filled", shown(header, "two")).await;
    let body = json!({"name": "Veiled", "provider": "bedrock", "workspace_id": "team",
        "key": "sk-quite-a-long-secret-7777", "secret_mappings": mapping("model_config.awsRegion", "one")});
    story.send("POST /virtual-keys", "/virtual-keys", body).await;
    let there = "/virtual-keys/veiled?workspace_id=team";
    let filled = |target: &str, key: &str| json!({"secret_mappings": shown(target, key)["secret_mappings"]});
    story.shows(there, filled("model_config.awsRegion", "one")).await;
    let body = json!({"workspace_id": "team", "key": "sk-quite-a-long-secret-8888",
        "secret_mappings": mapping("model_config.awsRegion", "two")});
    story.send("PUT /virtual-keys/{id}", "/virtual-keys/veiled", body).await;
    story.shows(there, filled("model_config.awsRegion", "two")).await;
    let body = json!({"name": "Filled", "slug": "filled-mcp", "url": "https://mcp.example.com/", "auth_type": "headers",
        "transport": "http", "workspace_id": "team", "secret_mappings": mapping(header, "one")});
    story.send("POST /mcp-integrations", "/mcp-integrations", body).await;
    story.shows("/mcp-integrations/filled-mcp", filled(header, "one")).await;
    story.holds_elsewhere().await;
    let body = json!({"secret_mappings": mapping(header, "two")});
    story.send("PUT /mcp-integrations/{id}", "/mcp-integrations/filled-mcp", body).await;
    story.shows("/mcp-integrations/filled-mcp", filled(header, "two")).await;
    let body = json!({"name": "Filled", "slug": "filled-agent", "url": "https://agent.example.com/", "auth_type": "headers",
        "workspace_id": "team", "secret_mappings": mapping(header, "one")});
    story.send("POST /agent-integrations", "/agent-integrations", body).await;
    story.shows("/agent-integrations/filled-agent", filled(header, "one")).await;
    let body = json!({"secret_mappings": mapping(header, "two")});
    story.send("PUT /agent-integrations/{id}", "/agent-integrations/filled-agent", body).await;
    story.shows("/agent-integrations/filled-agent", filled(header, "two")).await;
    let auth = json!({"vault_role_id": "s", "vault_namespace": null});
    let body = json!({"name": "Safe", "description": "e", "auth_config": auth, "secret_path": "kv/b", "secret_key": null,
        "allow_all_workspaces": true, "tags": {"c": "d"}});
    story.send("PUT /secret-references/{id}", path, body).await;
    for (name, value) in [
        ("name", json!("Safe")),
        ("description", json!("e")),
        ("secret_path", json!("kv/b")),
        ("secret_key", Value::Null),
        ("allow_all_workspaces", json!(true)),
        ("allowed_workspaces", json!([])),
        ("tags", json!({"c": "d"})),
    ] {
        want[name] = value;
    }
    // What is not given again of the way to sign in stays.
    (want["auth_config"]["vault_role_id"], want["auth_config"]["vault_namespace"]) = (json!("s"), Value::Null);
    story.shows(path, want.clone()).await;
    story.send("PUT /secret-references/{id}", path, json!({"allowed_workspaces": ["team", team]})).await;
    (want["allow_all_workspaces"], want["allowed_workspaces"]) = (json!(false), json!([team]));
    story.shows(path, want).await;
}
