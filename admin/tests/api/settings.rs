//! Settings of the organisation, and what of them a workspace may set for itself.

use crate::harness::{House, text};
use serde_json::{Value, json};

const ORG: &str = "/admin/organisation";

#[tokio::test]
async fn settings_come_back_and_are_in_force() {
    let house = House::new().await;
    let admin = house.as_admin();
    let read = admin.get(ORG).await.expect(200);
    assert_eq!((&read["slug"], &read["block_inline_config"]), (&json!("default"), &json!(false)));
    assert_eq!(read["security_settings"].as_object().map(serde_json::Map::len), Some(35));
    let change = json!({"name": "Acme", "block_inline_config": 1, "user_api_key_rotation_period": "weekly",
        "security_settings": {"managers_update_ws": false}, "overridable_sections": ["logs", "configs"]});
    admin.put(ORG, change).await.expect(200);
    let two = house.beside().await;
    let read = two.as_admin().get(ORG).await.expect(200);
    for (field, value) in [
        ("name", json!("Acme")),
        ("block_inline_config", json!(true)),
        ("user_api_key_rotation_period", json!(7)),
        ("overridable_sections", json!(["configs", "logs"])),
    ] {
        assert_eq!(read[field], value, "{field}");
    }
    assert_eq!(read["security_settings"]["managers_update_ws"], false);
    let snapshot = two.app.live.snapshot();
    assert!(snapshot.orgs().all(|o| o.block_inline_config), "the proxy reads it here");
    // With null the day decides on which the organisation was made: this one is new, so inline configs are blocked.
    admin.put(ORG, json!({"block_inline_config": false})).await.expect(200);
    assert_eq!(admin.get(ORG).await.expect(200)["block_inline_config"], false);
    admin.put(ORG, json!({"block_inline_config": null, "user_api_key_rotation_period": null})).await.expect(200);
    let read = admin.get(ORG).await.expect(200);
    assert_eq!((&read["block_inline_config"], &read["user_api_key_rotation_period"]), (&json!(true), &Value::Null));
    for (body, says) in [
        (json!({"name": ""}), "name must not be empty"),
        (json!({"block_inline_config": "maybe"}), "block_inline_config must be true or false"),
        (json!({"user_api_key_rotation_period": 400}), "user_api_key_rotation_period must be an integer of 1..365"),
        (json!({"security_settings": {"all": true}}), "security_settings.all is not a known field"),
        (
            json!({"security_settings": {"managers_update_ws": 1}}),
            "security_settings.managers_update_ws must be a boolean",
        ),
        (json!({"overridable_sections": ["everything"]}), "overridable_sections may hold analytics"),
        (json!({"colour": 1}), "colour is not a known field"),
    ] {
        let said = admin.put(ORG, body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
    house.as_service().get(ORG).await.refused(403, "AB03");
}

#[tokio::test]
async fn a_workspace_sets_for_itself_what_the_organisation_opened() {
    let house = House::new().await;
    let admin = house.as_admin();
    let path = "/v2/workspaces/default";
    let seat = json!([{"id": "default", "role": "member"}]);
    let scopes = json!(["configs.list", "providers.list"]);
    let (_, key) = house.user("a@example.com", "member", seat, Some(scopes)).await;
    house.with(&key).get("/configs").await.expect(200);
    admin.put(ORG, json!({"security_settings": {"members_view_configs": false}})).await.expect(200);
    house.with(&key).get("/configs").await.refused(403, "AB03");
    house.with(&key).get("/providers").await.expect(200);

    let mut all = admin.get(path).await.expect(200)["security_settings"].clone();
    all["members_view_configs"] = json!(true);
    let said = admin.put(path, json!({"security_settings": all})).await.refused(400, "AB01");
    assert!(said.contains("members_view_configs cannot be set here") && said.contains("configs"), "{said}");
    admin.put(ORG, json!({"overridable_sections": ["configs"]})).await.expect(200);
    admin.put(path, json!({"security_settings": all})).await.expect(200);
    house.with(&key).get("/configs").await.expect(200);
    let mut sparse = all.clone();
    sparse.as_object_mut().expect("an object").shift_remove("managers_update_ws");
    let said = admin.put(path, json!({"security_settings": sparse})).await.refused(400, "AB01");
    assert!(said.contains("security_settings.managers_update_ws is required"), "{said}");
    all["members_view_virtual_keys"] = json!(false);
    admin.put(path, json!({"security_settings": all})).await.refused(400, "AB01");
    // Closed again, the organisation's word counts; what the workspace wanted does not stand in its way.
    admin.put(ORG, json!({"overridable_sections": []})).await.expect(200);
    house.with(&key).get("/configs").await.refused(403, "AB03");
    admin.put(path, json!({"name": "renamed"})).await.expect(200);
    assert_eq!(text(&admin.get(path).await.expect(200)["name"]), "renamed");
    admin.put(path, json!({"security_settings": null})).await.expect(200);
}

#[tokio::test]
async fn rules_of_tokens_belong_to_issuers_that_are_trusted() {
    let house = House::new().await;
    let admin = house.as_admin();
    let path = "/admin/organisation";
    let uri = "https://login.example.com/keys";
    for (rules, says) in [
        (json!([{"jwks_uri": uri, "iss": "a"}]), "token_rules[0].jwks_uri must be one of jwks_uris"),
        (json!([{"iss": "a"}]), "token_rules[0].jwks_uri is required while jwks is empty"),
        (json!([{"jwks_uri": uri, "aud": "a"}]), "token_rules[0].aud must be an array"),
    ] {
        let said = admin.put(path, json!({"token_rules": rules})).await.refused(400, "AB01");
        assert!(said.starts_with(says), "{said}");
    }
    let rules = json!([{"jwks_uri": uri, "iss": "https://login.example.com", "aud": ["gateway"]}]);
    admin.put(path, json!({"jwks_uris": [uri], "token_rules": rules})).await.expect(200);
    assert_eq!(admin.get(path).await.expect(200)["token_rules"], rules);
    for (rules, says) in [
        (json!([{"jwks_uri": uri}]), "token_rules[0] must have iss or aud"),
        (json!([{"jwks_uri": uri, "iss": "a"}, {"jwks_uri": uri, "iss": "b"}]), "token_rules[1].jwks_uri has a rule"),
        (json!([{"jwks_uri": uri, "aud": [""]}]), "token_rules[0].aud must hold at most 16 texts"),
    ] {
        let said = admin.put(path, json!({"token_rules": rules})).await.refused(400, "AB01");
        assert!(said.starts_with(says), "{said}");
    }
    let said = admin.put(path, json!({"jwks_uris": []})).await.refused(400, "AB01");
    assert!(said.starts_with("token_rules[0].jwks_uri"), "{said}");
    admin.put(path, json!({"jwks_uris": [], "token_rules": null})).await.expect(200);
}
