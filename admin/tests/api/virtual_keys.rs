//! Virtual keys: a provider and its credential in one.

use crate::harness::{House, in_seconds, list, text};
use gateway_domain::snapshot::Upstream;
use serde_json::{Value, json};
use std::sync::Arc;

fn behind(house: &House, slug: &str) -> Option<Arc<Upstream>> {
    let snapshot = house.app.live.snapshot();
    let provider = snapshot.workspace(house.default_workspace())?.provider(slug)?.clone();
    snapshot.upstream(provider.integration).cloned()
}

#[tokio::test]
async fn a_virtual_key_lives_from_create_to_delete() {
    let house = House::new().await;
    let (_, key) = house
        .key(
            "workspace/service",
            json!({"scopes": ["virtual_keys.create", "virtual_keys.read", "virtual_keys.list",
            "virtual_keys.update", "virtual_keys.delete"]}),
        )
        .await;
    let user = house.with(&key);
    let body = json!({"name": "Main Line", "provider": "openai", "key": "sk-first-secret", "note": "n"});
    let made = user.post("/virtual-keys", body).await.expect(200);
    assert_eq!((&made["success"], &made["data"]["slug"]), (&json!(true), &json!("main-line")));
    let credential = || behind(&house, "main-line").and_then(|u| u.credential.as_ref().map(|c| c.expose().clone()));
    assert_eq!(credential().as_deref(), Some("sk-first-secret"));
    let path = "/virtual-keys/main-line";
    let read = user.get(path).await.expect(200);
    for (field, value) in [
        ("object", json!("virtual-key")),
        ("name", json!("Main Line")),
        ("note", json!("n")),
        ("status", json!("active")),
        ("secret_mappings", json!([])),
        ("usage_limits", Value::Null),
    ] {
        assert_eq!(read[field], value, "{field}");
    }
    assert!(!read.to_string().contains("sk-first-secret"));
    assert_eq!(list(&user.get("/virtual-keys").await.expect(200), "slug"), ["main-line"]);
    let change = json!({"key": "sk-second-secret", "note": null, "expires_at": in_seconds(60)});
    assert_eq!(user.put(path, change).await.expect(200), json!({}));
    assert_eq!(credential().as_deref(), Some("sk-second-secret"));
    let read = user.get(path).await.expect(200);
    assert!(read["note"].is_null() && read["expires_at"].is_string() && read["name"] == "Main Line", "{read}");
    let config = json!({"name": "c", "config": {"provider": "@main-line"}});
    let config = text(&house.as_admin().post("/configs", config).await.expect(200)["slug"]);
    user.delete(path).await.refused(409, "AB07");
    house.as_admin().delete(&format!("/configs/{config}")).await.expect(200);
    user.delete(path).await.expect(200);
    assert!(house.app.live.snapshot().upstreams().next().is_none(), "its integration went with it");
    user.get(path).await.refused(404, "AB08");
}

#[tokio::test]
async fn broken_bodies_are_named() {
    let house = House::new().await;
    for (fields, says) in [
        (json!({"name": null}), "name must be a string"),
        (json!({"name": ""}), "name must not be empty"),
        (json!({"provider": "nobody"}), "provider is not a known provider"),
        (json!({"key": ""}), "key must be"),
        (json!({"expires_at": in_seconds(-5)}), "expires_at must be in the future"),
        (json!({"usage_limits": {"credit_limit": 0}}), "usage_limits.credit_limit must be at least 1"),
        (json!({"deploymentName": "d"}), "deploymentName has no meaning for `openai`"),
        (json!({"colour": 1}), "colour is not a known field"),
    ] {
        let mut body = json!({"name": "k", "provider": "openai", "key": "sk-x"});
        crate::harness::merge(&mut body, fields);
        let said = house.as_admin().post("/virtual-keys", body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
    assert_eq!(house.as_admin().get("/integrations").await.expect(200)["total"], 0, "nothing half-written");
    // The credential of a shared integration is not changed through one of its borrowers.
    let shared = json!({"name": "oa", "ai_provider_id": "openai", "key": "sk-shared"});
    house.as_admin().post("/integrations", shared).await.expect(200);
    house.as_admin().put("/virtual-keys/oa", json!({"key": "sk-mine"})).await.refused(400, "AB01");
    house.as_admin().put("/virtual-keys/oa", json!({"name": "renamed"})).await.expect(200);
    house.as_admin().delete("/virtual-keys/oa").await.expect(200);
    assert_eq!(house.as_admin().get("/integrations").await.expect(200)["total"], 1);
}

#[tokio::test]
async fn a_resource_of_azure_is_said_in_the_names_of_virtual_keys() {
    let house = House::new().await;
    let admin = house.as_admin();
    let body = json!({"name": "Azure", "provider": "azure-openai", "key": "az-secret-key", "resourceName": "myres",
        "apiVersion": "2024-10-21", "deploymentName": "gpt-4o"});
    admin.post("/virtual-keys", body).await.expect(200);
    let path = "/virtual-keys/azure";
    let read = admin.get(path).await.expect(200);
    let wanted = json!({"resourceName": "myres", "apiVersion": "2024-10-21", "deploymentName": "gpt-4o"});
    assert_eq!(read["model_config"], wanted);
    assert_eq!(admin.get("/virtual-keys").await.expect(200)["data"][0]["model_config"], wanted);
    let upstream = behind(&house, "azure").expect("in force");
    assert_eq!(upstream.base.as_ref().map(|b| b.host.to_string()).as_deref(), Some("myres.openai.azure.com"));

    // Names may be spelled like in one of the vendor's SDKs or like in its documents; what is not named stays.
    let several = json!([{"deploymentName": "four", "apiVersion": "2025-01-01", "alias": "gpt-4", "is_default": true}]);
    let change = json!({"resource_name": "other", "deploymentName": null, "deploymentConfig": several});
    admin.put(path, change).await.expect(200);
    let read = admin.get(path).await.expect(200);
    let wanted = json!({"resourceName": "other", "apiVersion": "2024-10-21", "deploymentConfig": several});
    assert_eq!(read["model_config"], wanted);

    for (fields, says) in [
        (json!({"resourceName": "a/b"}), "resourceName must be of 1..63 letters"),
        (json!({"resourceName": 5}), "resourceName must be a string"),
        (json!({"deploymentConfig": "x"}), "deploymentConfig must be an array of objects"),
        (json!({"deploymentConfig": [{"apiVersion": "1"}]}), "deploymentConfig[0].deploymentName is required"),
        (
            json!({"deploymentConfig": [{"apiVersion": "1", "deploymentName": "d", "x": 1}]}),
            "[0].x is not a known field",
        ),
        (json!({"deploymentConfig": [{"apiVersion": "a b", "deploymentName": "d"}]}), "deploymentConfig [0]: `a b`"),
        (json!({"resourceName": null, "resource_name": "r"}), "resourceName is given twice, in two spellings"),
    ] {
        let said = admin.put(path, fields.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{fields}: {said}");
    }
    let without = json!({"name": "k", "provider": "azure-openai", "key": "k"});
    let said = admin.post("/virtual-keys", without).await.refused(400, "AB01");
    assert!(said.starts_with("resourceName "), "{said}");
    assert_eq!(admin.get(path).await.expect(200)["model_config"], wanted, "nothing half-written");

    // Who always sends the names sends them as null for other families.
    let other = json!({"name": "Plain", "provider": "openai", "key": "k", "apiVersion": null, "resourceName": null});
    admin.post("/virtual-keys", other).await.expect(200);
    let borrowed = json!({"name": "lent", "ai_provider_id": "azure-openai", "key": "k",
        "configurations": {"azure_resource_name": "r"}});
    admin.post("/integrations", borrowed).await.expect(200);
    let said = admin.put("/virtual-keys/lent", json!({"apiVersion": "1"})).await.refused(400, "AB01");
    assert_eq!(said, "apiVersion belongs to the integration that this virtual key borrows from");
}
