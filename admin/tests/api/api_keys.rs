//! Gateway keys: shown once, found by hash, bounded by their maker.

use crate::harness::{House, in_seconds, list, pass_seconds, text};
use gateway_domain::keys::looks_minted;
use serde_json::{Value, json};

#[tokio::test]
async fn a_key_lives_from_create_to_delete() {
    let house = House::new().await;
    let admin = house.as_admin();
    let body = json!({"name": "app", "description": "d", "scopes": ["completions.write", "logs:view"],
        "defaults": {"metadata": {"_team": "a"}, "allow_config_override": false}});
    let made = admin.post("/api-keys/workspace/service", body).await.expect(200);
    assert_eq!(made["object"], "api-key");
    let (id, key) = (text(&made["id"]), text(&made["key"]));
    assert!(looks_minted(&key) && key.starts_with("gw_svc_"), "{key}");
    assert!(house.in_force(&key), "a client reads its own writes on the proxy at once");

    let path = format!("/api-keys/{id}");
    let read = admin.get(&path).await.expect(200);
    for (field, value) in [
        ("object", json!("api-key")),
        ("type", json!("workspace-service")),
        ("status", json!("active")),
        ("creation_mode", json!("api")),
        ("scopes", json!(["completions.write", "logs:view"])),
        ("defaults", json!({"metadata": {"_team": "a"}, "config_id": null, "allow_config_override": false})),
        ("allow_config_override", json!(0)),
        ("workspace_id", json!(house.default_workspace())),
        ("rate_limits", json!([])),
        ("expires_at", Value::Null),
        ("key", json!(format!("****{}", &key[key.len() - 4..]))),
    ] {
        assert_eq!(read[field], value, "{field}");
    }
    assert!(!read.to_string().contains(&key));
    assert!(list(&admin.get("/api-keys").await.expect(200), "id").contains(&id));
    let change =
        json!({"name": "renamed", "description": null, "defaults": {"metadata": null}, "expires_at": in_seconds(60)});
    assert_eq!(admin.put(&path, change).await.expect(200), json!({}));
    let read = admin.get(&path).await.expect(200);
    assert_eq!((&read["name"], &read["description"]), (&json!("renamed"), &Value::Null));
    assert_eq!(read["defaults"], json!({"metadata": {}, "config_id": null, "allow_config_override": false}));
    assert_eq!(read["scopes"], json!(["completions.write", "logs:view"]), "absent keeps");
    assert!(house.in_force(&key));

    admin.delete(&path).await.expect(200);
    assert!(!house.in_force(&key));
    admin.get(&path).await.refused(404, "AB08");
}

#[tokio::test]
async fn broken_bodies_are_named() {
    let house = House::new().await;
    let admin = house.as_admin();
    let service = "workspace/service";
    for (kind, fields, says) in [
        (service, json!({"scopes": null}), "scopes must be an array"),
        (service, json!({"scopes": ["logs.view", "logs:view"]}), "scopes holds `logs:view` twice"),
        (service, json!({"type": "organisation"}), "type must be what the path says"),
        (service, json!({"sub-type": "user"}), "sub-type must be what the path says"),
        (service, json!({"scopes": ["no.such"]}), "scopes holds `no.such`, which is not a scope"),
        (service, json!({"scopes": ["workspaces.create"]}), "which is not available to workspace-service keys"),
        (
            "organisation/service",
            json!({"scopes": ["completions.write"]}),
            "which is not available to organisation-service keys",
        ),
        (
            "workspace/user",
            json!({"scopes": ["workspace_user_api_keys.list"]}),
            "which is not available to workspace-user keys",
        ),
        ("organisation/user", json!({}), "sub-type must be service"),
        ("planet/service", json!({}), "type and sub-type must be"),
        (service, json!({"expires_at": in_seconds(-1)}), "expires_at must be in the future"),
        (service, json!({"expires_at": 5}), "expires_at must be a string"),
        (
            service,
            json!({"user_id": "0194f1f2-0000-7000-8000-000000000000"}),
            "user_id belongs to workspace user keys only",
        ),
        ("workspace/user", json!({"user_id": "me"}), "user_id must be a UUID"),
        (service, json!({"defaults": {"config_id": "pc-none"}}), "defaults.config_id names `pc-none`"),
        (service, json!({"defaults": {"colour": 1}}), "defaults.colour is not a known field"),
        (service, json!({"defaults": {"metadata": {"a": "x".repeat(129)}}}), "defaults.metadata.a must be at most 128"),
        (service, json!({"alert_emails": ["a@example.com", "b"]}), "alert_emails[1] must be an e-mail address"),
        (service, json!({"alert_emails": vec!["a@example.com"; 21]}), "alert_emails must hold at most 20"),
        (service, json!({"alert_emails": "a@example.com"}), "alert_emails must be"),
        (
            "organisation/service",
            json!({"workspace_id": "default"}),
            "workspace_id would not bound an organisation key",
        ),
        (service, json!({"name": ""}), "name must not be empty"),
        (service, json!({"key": "mine"}), "key is not a known field"),
    ] {
        let mut body = json!({"name": "k", "scopes": ["configs.list"]});
        crate::harness::merge(&mut body, fields);
        let said = admin.post(&format!("/api-keys/{kind}"), body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
    let said = admin.post("/api-keys/workspace/service", json!({"name": "k"})).await.refused(400, "AB01");
    assert_eq!(said, "scopes is required");
    let nobodys = json!({"name": "k", "scopes": []});
    let said = admin.post("/api-keys/workspace/user", nobodys).await.refused(400, "AB01");
    assert!(said.starts_with("user_id is required"), "{said}");
    let elsewhere = json!({"name": "k", "scopes": [], "workspace_id": "nowhere"});
    admin.post("/api-keys/workspace/service", elsewhere).await.refused(404, "AB08");
    let elsewhere = json!({"name": "k", "scopes": [], "organisation_id": "0194f1f2-0000-7000-8000-000000000000"});
    admin.post("/api-keys/workspace/service", elsewhere).await.refused(404, "AB08");
}

#[tokio::test]
async fn no_key_makes_one_that_may_more_than_itself() {
    let house = House::new().await;
    let scopes = json!(["workspace_service_api_keys.create", "workspace_service_api_keys.update", "configs.list"]);
    let (id, maker) = house.key("workspace/service", json!({"scopes": scopes})).await;
    let maker = house.with(&maker);
    let wide = json!({"name": "k", "scopes": ["configs.list", "configs.create"]});
    let said = maker.post("/api-keys/workspace/service", wide).await.refused(403, "AB03");
    assert!(said.contains("configs.create") && !said.contains("configs.list"), "{said}");
    maker.post("/api-keys/workspace/service", json!({"name": "k", "scopes": ["configs.list"]})).await.expect(200);
    // It cannot widen itself either, nor make keys of kinds that it has no scope for.
    maker.put(&format!("/api-keys/{id}"), json!({"scopes": ["configs.create"]})).await.refused(403, "AB03");
    maker.post("/api-keys/workspace/user", json!({"name": "k", "scopes": []})).await.refused(403, "AB03");
    maker.post("/api-keys/organisation/service", json!({"name": "k", "scopes": []})).await.refused(403, "AB03");
    // An Admin key cannot hold data-plane scopes, but gives them.
    let scopes = json!({"scopes": ["workspace_service_api_keys.create"]});
    let (_, admin) = house.key("organisation/service", scopes).await;
    let give = json!({"name": "k", "scopes": ["completions.write"]});
    house.with(&admin).post("/api-keys/workspace/service", give).await.expect(200);
    let over = json!({"name": "k", "scopes": ["configs.list"]});
    house.with(&admin).post("/api-keys/workspace/service", over).await.refused(403, "AB03");
}

#[tokio::test]
async fn lists_show_what_the_actor_may_list() {
    let house = House::new().await;
    let other = house.workspace("other").await;
    let (org, _) = house.key("organisation/service", json!({"scopes": ["configs.list"]})).await;
    let (user, _) = house.key("workspace/user", json!({"scopes": ["configs.list"]})).await;
    let (far, _) = house.key("workspace/service", json!({"scopes": [], "workspace_id": other})).await;
    let all = list(&house.as_admin().get("/api-keys").await.expect(200), "id");
    assert_eq!(all.len(), 5, "with the two of the first start");
    assert_eq!(all[..3], [far.clone(), user.clone(), org.clone()], "newest first");
    assert_eq!(list(&house.as_admin().get("/api-keys?workspace_id=other").await.expect(200), "id"), [far.as_str()]);
    let asked = list(&house.as_admin().get(&format!("/v2/api-keys?ids={org},{far}")).await.expect(200), "id");
    assert_eq!(asked, [far.clone(), org.clone()]);
    house.as_admin().get("/api-keys?ids=x").await.refused(400, "AB01");

    let scopes = json!(["workspace_service_api_keys.list", "workspace_service_api_keys.read"]);
    let (narrow, key) = house.key("workspace/service", json!({"scopes": scopes})).await;
    let mine = house.with(&key).get("/api-keys").await.expect(200);
    assert!(mine["total"] == 2 && list(&mine, "id")[0] == narrow, "neither user nor organisation keys: {mine}");
    let page = house.with(&key).get("/api-keys?page_size=1&current_page=1").await.expect(200);
    assert_eq!((page["total"].as_u64(), list(&page, "id").len()), (Some(2), 1));
    assert_eq!(list(&house.with(&key).get("/api-keys?current_page=7").await.expect(200), "id"), [""; 0]);
    assert_eq!(
        list(&house.with(&key).get(&format!("/api-keys?ids={user},{narrow}")).await.expect(200), "id"),
        [narrow.as_str()]
    );
    house.with(&key).get(&format!("/api-keys/{narrow}")).await.expect(200);
    house.with(&key).get(&format!("/api-keys/{user}")).await.refused(403, "AB03");
    house.with(&key).get(&format!("/api-keys/{far}")).await.refused(404, "AB08");
    house.with(&key).get(&format!("/api-keys/{org}")).await.refused(404, "AB08");
    house.as_admin().get(&format!("/api-keys/{far}")).await.expect(200);
}

#[tokio::test]
async fn expired_keys_open_nothing() {
    let house = House::new().await;
    let fields = json!({"scopes": ["configs.list"], "expires_at": in_seconds(60)});
    let (id, key) = house.key("workspace/service", fields).await;
    house.with(&key).get("/configs").await.expect(200);
    pass_seconds(61);
    house.with(&key).get("/configs").await.refused(401, "AB05");
    assert_eq!(house.as_admin().get(&format!("/api-keys/{id}")).await.expect(200)["status"], "expired");
    house.as_admin().put(&format!("/api-keys/{id}"), json!({"expires_at": null})).await.expect(200);
    house.with(&key).get("/configs").await.expect(200);
}
