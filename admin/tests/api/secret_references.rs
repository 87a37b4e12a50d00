//! References to secrets of managers on the Admin API: what is refused, what is masked, what stays. What managers are
//! asked is tested with the whole program.

use crate::harness::{House, text};
use gateway_domain::secret_source::SecretOpenings;
use serde_json::{Value, json};
use std::sync::Arc;

fn vault() -> Value {
    json!({"name": "V", "slug": "v", "manager_type": "hashicorp_vault", "secret_path": "secret/data/a", "auth_config": {
        "vault_auth_type": "token", "vault_addr": "https://vault.example.com", "vault_token": "hvs.quite-a-long-canary"}})
}

fn with(mut body: Value, field: &str, value: Value) -> Value {
    match field.split_once('.') {
        None => body[field] = value,
        Some((outer, inner)) => body[outer][inner] = value,
    }
    body
}

#[tokio::test]
async fn what_no_manager_could_be_asked_is_refused_by_field_and_rule() {
    let house = House::new().await;
    let admin = house.as_admin();
    let wrong = [
        ("manager_type", json!("gcp_sm"), "manager_type must be one of aws_sm, azure_kv, hashicorp_vault"),
        ("manager_type", json!("aws_sm"), "is no field of `aws_sm`"),
        ("secret_path", json!("secret/../sys"), "secret_path must be a path without"),
        ("secret_path", json!("x".repeat(1025)), "secret_path must be of 1..1024"),
        ("secret_key", json!(""), "secret_key must be of 1..255"),
        ("name", json!(" "), "name must not be empty"),
        ("description", json!("x".repeat(1025)), "description must be at most 1024"),
        ("slug", json!("a b"), "slug may hold"),
        ("tags", json!({"a": "x".repeat(256)}), "tags.a must be at most 255"),
        ("allowed_workspaces", json!([]), "allowed_workspaces must name 1..1000"),
        ("allowed_workspaces", json!(["nowhere"]), "allowed_workspaces[0] names no workspace"),
        ("allow_all_workspaces", json!(false), "allowed_workspaces is required"),
        ("auth_config.vault_addr", json!("http://10.0.0.1"), "auth_config.vault_addr is a private"),
        ("auth_config.vault_token", json!("a\nb"), "auth_config.vault_token must be of"),
        ("auth_config.vault_token", json!("****anary"), "auth_config.vault_token is a masked value"),
        ("auth_config.vault_token", json!(7), "auth_config.vault_token must be a string"),
        ("auth_config.vault_token", Value::Null, "auth_config.vault_token is required"),
        ("auth_config.vault_role", json!("r"), "auth_config.vault_role has no meaning for `token`"),
        ("auth_config.vault_auth_type", json!("ldap"), "auth_config.vault_auth_type must be one of"),
        ("auth_config.other", json!("x"), "auth_config.other is no field"),
        ("secret", json!("x"), "secret is not a known field"),
    ];
    for (field, value, rule) in wrong {
        let answer = admin.post("/secret-references", with(vault(), field, value)).await;
        assert_eq!(answer.status, 400, "{field}: {}", answer.text);
        assert!(answer.text.contains(rule) && !answer.text.contains("canary"), "{field}: {}", answer.text);
    }
    let both = with(with(vault(), "allow_all_workspaces", json!(true)), "allowed_workspaces", json!(["default"]));
    admin.post("/secret-references", both).await.expect(400);
    // No address, no path and no variable of the machine is a tenant's to name.
    let machine = [
        json!({"manager_type": "environment", "secret_path": "GATEWAY_DATABASE_URL", "name": "n"}),
        json!({"manager_type": "file", "secret_path": "etc/passwd", "name": "n"}),
        json!({"manager_type": "aws_sm", "secret_path": "a", "name": "n",
            "auth_config": {"aws_auth_type": "serviceRole", "aws_region": "us-east-1"}}),
        json!({"manager_type": "azure_kv", "secret_path": "a", "name": "n",
            "auth_config": {"azure_auth_mode": "managed", "azure_vault_url": "https://a.vault.azure.net"}}),
        json!({"manager_type": "hashicorp_vault", "secret_path": "a", "name": "n",
            "auth_config": {"vault_auth_type": "kubernetes", "vault_addr": "https://vault.example.com", "vault_role": "r"}}),
    ];
    for body in machine {
        let answer = admin.post("/secret-references", body.clone()).await;
        assert!(answer.status == 400 && answer.text.contains("operator"), "{body}: {}", answer.text);
    }
    assert_eq!(admin.get("/secret-references").await.expect(200)["total"], 0);
}

#[tokio::test]
async fn secrets_are_masked_merged_and_not_shown_to_another_address() {
    let house = House::new().await;
    let admin = house.as_admin();
    let made = admin.post("/secret-references", vault()).await.expect(200);
    assert_eq!((&made["slug"], &made["object"]), (&json!("v"), &json!("secret-reference")));
    let path = format!("/secret-references/{}", text(&made["id"]));
    let shown = admin.get(&path).await.expect(200);
    assert_eq!(shown["auth_config"]["vault_token"], "****nary", "{shown}");
    assert_eq!((&shown["status"], &shown["allow_all_workspaces"]), (&json!("ACTIVE"), &json!(true)));
    assert_eq!(admin.get("/secret-references/v").await.expect(200), shown, "by slug as by id");
    // The mask stands for what is stored, and a field alone changes that field.
    let masked = json!({"auth_config": {"vault_token": "****nary", "vault_namespace": "n"}});
    admin.put(&path, masked).await.expect(200);
    let shown = admin.get(&path).await.expect(200);
    assert_eq!(
        (&shown["auth_config"]["vault_namespace"], &shown["auth_config"]["vault_token"]),
        (&json!("n"), &json!("****nary"))
    );
    // A token is shown to the vault that it was given for.
    let elsewhere = json!({"auth_config": {"vault_addr": "https://vault.attacker.example"}});
    let refused = admin.put(&path, elsewhere).await;
    assert!(refused.status == 400 && refused.text.contains("auth_config.vault_token is required"), "{}", refused.text);
    let moved =
        json!({"auth_config": {"vault_addr": "https://other.example.com", "vault_token": "hvs.another-long-canary"}});
    admin.put(&path, moved).await.expect(200);
    // Another way of signing in leaves nothing of the one before.
    let approle =
        json!({"auth_config": {"vault_auth_type": "approle", "vault_role_id": "r", "vault_secret_id": "s-canary"}});
    admin.put(&path, approle).await.expect(200);
    let shown = admin.get(&path).await.expect(200);
    assert_eq!(shown["auth_config"]["vault_token"], Value::Null, "{shown}");
    admin.put(&path, json!({"auth_config": {"vault_secret_id": null}})).await.expect(400);
    let org = house.org().id;
    let trail = format!("/audit-logs?organisation_id={org}&start_time=2020-01-01&end_time=2100-01-01");
    let trail = admin.get(&trail).await.expect(200).to_string();
    assert!(trail.contains("secret_reference") && !trail.contains("canary"), "{trail}");
    for body in [json!({"allowed_workspaces": []}), json!({"name": null}), json!({"auth_config": null})] {
        admin.put(&path, body).await.expect(400);
    }
}

#[tokio::test]
async fn references_are_listed_by_manager_tags_and_name() {
    let mut house = House::new().await;
    house.equip(|app| {
        let open = SecretOpenings { environment: Some("T_".to_owned()), ..SecretOpenings::default() };
        app.openings = Arc::new(open);
    });
    let admin = house.as_admin();
    for n in 0..3 {
        let body = json!({"name": format!("Env {n}"), "manager_type": "environment", "secret_path": format!("T_{n}"),
            "tags": {"n": n.to_string(), "all": "x"}});
        admin.post("/secret-references", body).await.expect(200);
    }
    admin.post("/secret-references", vault()).await.expect(200);
    for (query, count) in [
        ("", 4),
        ("?manager_type=environment", 3),
        ("?manager_type=hashicorp_vault", 1),
        ("?tags=%7B%22all%22%3A%22x%22%7D", 3),
        ("?tags=%7B%22all%22%3A%22x%22%2C%22n%22%3A%221%22%7D", 1),
        ("?search=env%202", 1),
    ] {
        assert_eq!(admin.get(&format!("/secret-references{query}")).await.expect(200)["total"], count, "{query}");
    }
    let second = admin.get("/secret-references?page_size=3&current_page=1").await.expect(200);
    assert_eq!((&second["total"], second["data"].as_array().map(Vec::len)), (&json!(4), Some(1)));
    for query in ["?manager_type=gcp", "?tags=x", "?page_size=101"] {
        admin.get(&format!("/secret-references{query}")).await.expect(400);
    }
    admin.post("/secret-references", vault()).await.expect(409);
    let unnamed = json!({"name": "Env 0", "manager_type": "environment", "secret_path": "T_9"});
    let made = admin.post("/secret-references", unnamed).await.expect(200);
    assert!(text(&made["slug"]).starts_with("env-0-"), "{made}");
    let outside = json!({"name": "o", "manager_type": "environment", "secret_path": "PATH"});
    let refused = admin.post("/secret-references", outside).await;
    assert!(refused.status == 400 && refused.text.contains("secret_path must begin with `T_`"), "{}", refused.text);
    for n in 0..20 {
        let body = json!({"name": format!("more {n}"), "manager_type": "environment", "secret_path": "T_9"});
        let status = admin.post("/secret-references", body).await.status;
        assert_eq!(status, if n < 15 { 200 } else { 409 }, "{n}");
    }
}

#[tokio::test]
async fn what_fills_an_integration_is_held_to_its_rules() {
    let house = House::new().await;
    let admin = house.as_admin();
    admin.post("/secret-references", vault()).await.expect(200);
    let of = |mappings: Value| json!({"name": "i", "ai_provider_id": "openai", "secret_mappings": mappings});
    let one = |target: &str| json!([{"target_field": target, "secret_reference_id": "v"}]);
    let wrong = [
        (one("name"), "secret_mappings[0].target_field must be `key`"),
        (one("configurations.custom_host"), "secret_mappings[0].target_field must be `key`"),
        (one("configurations.oauth_token_endpoint"), "is an address, which cannot come from a secret"),
        (one("configurations.aws_region"), "secret_mappings[0].target_field has no meaning for `openai`"),
        (one("configurations.custom_headers.host"), "secret_mappings[0].target_field"),
        (json!([{"target_field": "key", "secret_reference_id": "none"}]), "names no secret reference"),
        (json!([{"target_field": "key"}]), "secret_mappings[0].secret_reference_id is required"),
        (
            json!([{"target_field": "key", "secret_reference_id": "v", "value_format": "yaml"}]),
            "secret_mappings[0].value_format",
        ),
        (json!([{"target_field": "key", "secret_reference_id": "v", "more": 1}]), "secret_mappings[0].more"),
        (json!([one("key")[0], one("key")[0]]), "secret_mappings[1].target_field is filled twice"),
        (Value::Array(vec![one("key")[0].clone(); 21]), "secret_mappings must hold at most 20"),
    ];
    for (mappings, rule) in wrong {
        let answer = admin.post("/integrations", of(mappings.clone())).await;
        assert!(answer.status == 400 && answer.text.contains(rule), "{mappings}: {}", answer.text);
    }
    // A cloud that has all it needs, some of it in a manager; and one that lacks something that no manager has.
    let bedrock = |configurations: Value| {
        json!({"name": "b", "ai_provider_id": "bedrock", "configurations": configurations,
        "secret_mappings": [one("configurations.aws_access_key_id")[0], one("configurations.aws_secret_access_key")[0]]})
    };
    admin.post("/integrations", bedrock(json!({"aws_region": "us-east-1"}))).await.expect(200);
    let refused = admin.post("/integrations", bedrock(json!({}))).await;
    assert!(refused.status == 400 && refused.text.contains("configurations.aws_region"), "{}", refused.text);
    // A literal goes where a reference comes.
    let literal = json!({"name": "l", "slug": "l", "ai_provider_id": "openai", "key": "sk-quite-a-long-literal"});
    admin.post("/integrations", literal).await.expect(200);
    admin.put("/integrations/l", json!({"secret_mappings": one("key")})).await.expect(200);
    assert_eq!(admin.get("/integrations/l").await.expect(200)["masked_key"], Value::Null);
    let refused = admin.put("/integrations/l", json!({"key": "sk-again"})).await;
    assert!(refused.status == 400 && refused.text.contains("key is filled by secret_mappings"), "{}", refused.text);
    admin.delete("/secret-references/v").await.expect(409);
    admin.put("/integrations/l", json!({"secret_mappings": null, "key": "sk-again"})).await.expect(200);
    // Another organisation's reference does not exist.
    let other = house.organisation("other").await;
    let refused = house.with(&other).post("/integrations", of(one("key"))).await;
    assert!(refused.status == 400 && refused.text.contains("names no secret reference"), "{}", refused.text);
}
