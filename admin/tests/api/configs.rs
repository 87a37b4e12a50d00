//! Saved configs: forms of answers, versions, references, credentials.

use crate::harness::{House, list, text};
use gateway_domain::ports::Batch;
use serde_json::{Value, json};

fn openai(key: &str) -> Value {
    json!({"provider": "openai", "api_key": key})
}

async fn save(house: &House, config: Value) -> Value {
    house.as_admin().post("/configs", json!({"name": "routes", "config": config})).await.expect(200)
}

#[tokio::test]
async fn a_config_lives_from_create_to_delete() {
    let house = House::new().await;
    let admin = house.as_admin();
    let made = save(&house, openai("sk-0123456789abcdef")).await;
    assert_eq!(made["success"], true);
    for field in ["id", "slug", "version_id"] {
        assert_eq!(made[field], made["data"][field], "flat and enveloped alike");
    }
    let slug = text(&made["slug"]);
    assert!(slug.starts_with("pc-"), "{slug}");
    let read = admin.get(&format!("/configs/{slug}")).await.expect(200);
    assert_eq!(read["data"]["config"], json!({"provider": "openai", "api_key": "****cdef"}));
    assert_eq!((&read["is_default"], &read["status"], &read["format"]), (&json!(0), &json!("active"), &json!("json")));
    assert_eq!(read["workspace_id"], json!(house.default_workspace()));
    assert_eq!(admin.get(&format!("/configs/{}", text(&made["id"]))).await.expect(200)["slug"], slug);

    let listed = admin.get("/configs").await.expect(200);
    assert_eq!((&listed["success"], &listed["object"], &listed["total"]), (&json!(true), &json!("list"), &json!(1)));
    assert_eq!(list(&listed, "slug"), [slug.as_str()]);

    assert_eq!(admin.delete(&format!("/configs/{slug}")).await.expect(200), json!({}));
    admin.get(&format!("/configs/{slug}")).await.refused(404, "AB08");
    admin.delete(&format!("/configs/{slug}")).await.refused(404, "AB08");
    assert_eq!(admin.get("/configs").await.expect(200)["total"], 0);
}

#[tokio::test]
async fn updates_keep_what_is_absent_and_version_the_document() {
    let house = House::new().await;
    let admin = house.as_admin();
    let made = save(&house, openai("sk-0123456789abcdef")).await;
    let path = format!("/configs/{}", text(&made["slug"]));
    let renamed = admin.put(&path, json!({"name": "other", "isDefault": 0})).await.expect(200);
    assert_eq!(renamed["version_id"], made["version_id"], "a name is no new version");
    let changed = json!({"provider": "openai", "api_key": "****cdef", "request_timeout": 5000});
    let changed = admin.put(&path, json!({"config": changed.to_string(), "status": "active"})).await.expect(200);
    assert_ne!(changed["data"]["version_id"], made["version_id"]);
    let read = admin.get(&path).await.expect(200);
    assert_eq!((&read["name"], &read["is_default"]), (&json!("other"), &json!(0)));
    assert_eq!(read["config"]["request_timeout"], 5000);

    let versions = admin.get(&format!("{path}/versions")).await.expect(200);
    assert_eq!((&versions["object"], &versions["total"]), (&json!("list"), &json!(2)));
    assert_eq!(versions["data"][0]["version_id"], changed["version_id"], "newest first");
    let oldest: Value = serde_json::from_str(versions["data"][1]["config"].as_str().expect("text")).expect("JSON");
    assert_eq!(oldest, json!({"provider": "openai", "api_key": "****cdef"}));

    // The mask stood for the stored credential: the hot path still has it.
    let snapshot = house.app.live.snapshot();
    let workspace = snapshot.workspace(house.default_workspace()).expect("the default one");
    let saved = workspace.config(&text(&made["slug"])).expect("in force");
    assert!(format!("{:?}", saved.config).contains("openai"));
    assert_eq!(secret_of(&saved.config).as_deref(), Some("sk-0123456789abcdef"));
}

fn secret_of(config: &gateway_domain::config::Config) -> Option<String> {
    use gateway_domain::config::ProviderRef;
    config.leaves().find_map(|leaf| match &leaf.provider {
        ProviderRef::Family { key, .. } => key.as_ref().map(|k| k.expose().clone()),
        _ => None,
    })
}

#[tokio::test]
async fn broken_bodies_are_named() {
    let house = House::new().await;
    let admin = house.as_admin();
    for (body, says) in [
        (json!({"config": {}}), "name is required"),
        (json!({"name": "x"}), "config is required"),
        (json!({"name": " ", "config": {}}), "name must not be empty"),
        (json!({"name": "x".repeat(256), "config": {}}), "name must be at most 255 characters"),
        (json!({"name": "x", "config": 5}), "config must be an object or the JSON text of one"),
        (json!({"name": "x", "config": "{"}), "config must be an object or the JSON text of one"),
        (json!({"name": "x", "config": {}, "colour": 1}), "colour is not a known field"),
        (json!({"name": "x", "config": {}, "isDefault": 2}), "isDefault must be true or false"),
        (json!({"name": "x", "config": {"provider": "openai", "api_key": "****cdef"}}), "stands for no stored one"),
        (json!({"name": "x", "config": {"provider": "openai", "api_key": ""}}), "api_key"),
        (
            json!({"name": "x", "config": {"cache": {"mode": "semantic"}}}),
            "path: cache,mode, message: `semantic` is not available in this version",
        ),
    ] {
        let said = admin.post("/configs", body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
    let made = text(&save(&house, openai("k")).await["slug"]);
    for (body, says) in [
        (json!({"name": null}), "name must not be null"),
        (json!({"config": null}), "config must not be null"),
        (json!({"status": "archived"}), "status must be active"),
        (json!({"slug": "mine"}), "slug must be what the path says"),
    ] {
        let said = admin.put(&format!("/configs/{made}"), body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
}

#[tokio::test]
async fn every_problem_is_listed_at_once_with_its_path() {
    let house = House::new().await;
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [
        {"provider": "nobody"}, {"provider": "openai", "retry": {"attempts": 9}},
    ]});
    let answer = house.as_admin().post("/configs", json!({"name": "x", "config": config})).await;
    answer.refused(400, "AB01");
    let errors = answer.json()["data"]["errors"].clone();
    assert_eq!(errors.as_array().map(Vec::len), Some(2), "{errors}");
    assert!(errors[0].as_str().expect("a line").starts_with("path: targets,0,provider"), "{errors}");
}

#[tokio::test]
async fn managed_providers_must_exist_and_stay() {
    let house = House::new().await;
    let admin = house.as_admin();
    let named = json!({"strategy": {"mode": "fallback"}, "targets": [{"provider": "@main"}, {"virtual_key": "spare"}]});
    let said = admin.post("/configs", json!({"name": "x", "config": named})).await.refused(400, "AB01");
    assert!(said.contains("`@main`") && said.contains("`@spare`"), "{said}");

    let integration =
        json!({"name": "Main", "ai_provider_id": "openai", "key": "sk-x", "create_default_provider": false});
    let integration = admin.post("/integrations", integration).await.expect(200);
    for slug in ["main", "spare"] {
        let provider = json!({"name": slug, "slug": slug, "integration_id": integration["id"]});
        admin.post("/providers", provider).await.expect(200);
    }
    let config = text(&save(&house, named).await["slug"]);
    let said = admin.delete("/providers/spare").await.refused(409, "AB07");
    assert!(said.contains(&config), "{said}");
    admin.put(&format!("/configs/{config}"), json!({"config": {"provider": "@main"}})).await.expect(200);
    admin.delete("/providers/spare").await.expect(200);
    admin.delete("/providers/main").await.refused(409, "AB07");
}

#[tokio::test]
async fn the_default_of_a_key_is_not_deleted() {
    let house = House::new().await;
    let config = save(&house, openai("k")).await;
    for named in [&config["id"], &config["slug"]] {
        let fields = json!({"scopes": ["completions.write"], "defaults": {"config_id": named}});
        let (id, _) = house.key("workspace/service", fields).await;
        let path = format!("/configs/{}", text(&config["slug"]));
        let said = house.as_admin().delete(&path).await.refused(409, "AB07");
        assert!(said.contains(&id), "{said}");
        house.as_admin().put(&format!("/api-keys/{id}"), json!({"defaults": {"config_id": null}})).await.expect(200);
    }
    house.as_admin().delete(&format!("/configs/{}", text(&config["slug"]))).await.expect(200);
}

#[tokio::test]
async fn a_workspace_has_one_default_at_most() {
    let house = House::new().await;
    let admin = house.as_admin();
    let team = house.workspace("team").await;
    let in_force = |workspace| {
        let snapshot = house.app.live.snapshot();
        let found = snapshot.workspace(workspace).expect("in force").default_config().map(|c| c.slug.to_string());
        found.unwrap_or_default()
    };
    let own = house.default_workspace();
    let save = async |name: &str, flag: u8| {
        let body = json!({"name": name, "config": {"provider": "mock"}, "isDefault": flag});
        text(&admin.post("/configs", body).await.expect(200)["slug"])
    };
    let (first, second) = (save("a", 1).await, save("b", 0).await);
    assert_eq!(in_force(own), first);
    let elsewhere = json!({"name": "c", "config": {"provider": "mock"}, "isDefault": 1, "workspace_id": "team"});
    let elsewhere = text(&admin.post("/configs", elsewhere).await.expect(200)["slug"]);
    assert_eq!((in_force(own), in_force(team)), (first.clone(), elsewhere), "each workspace has its own");
    let third = save("d", 1).await;
    assert_eq!(in_force(own), third);
    assert_eq!(admin.get(&format!("/configs/{first}")).await.expect(200)["is_default"], 0);
    admin.put(&format!("/configs/{second}"), json!({"isDefault": 1})).await.expect(200);
    assert_eq!(in_force(own), second);
    let said = admin.delete(&format!("/configs/{second}")).await.refused(409, "AB07");
    assert!(said.contains("the default of its workspace"), "{said}");
    admin.put(&format!("/configs/{second}"), json!({"isDefault": 0})).await.expect(200);
    assert_eq!(in_force(own), "");
    admin.delete(&format!("/configs/{second}")).await.expect(200);
    // A config of another workspace than the one that the key acts on, named by its id.
    let found = admin.get("/configs?workspace_id=team").await.expect(200);
    let id = text(&found["data"][0]["id"]);
    admin.put(&format!("/configs/{id}"), json!({"isDefault": null})).await.expect(200);
    assert_eq!(in_force(team), "");
    admin.put(&format!("/configs/{id}"), json!({"isDefault": true})).await.expect(200);
    assert_ne!(in_force(team), "");
}

#[tokio::test]
async fn versions_are_told_apart_and_gone_back_to() {
    let house = House::new().await;
    let admin = house.as_admin();
    let config = json!({"strategy": {"mode": "fallback"}, "targets": [
        {"provider": "openai", "api_key": "sk-0123456789abcdef"}, {"provider": "mock", "weight": 2}]});
    let path = format!("/configs/{}", text(&save(&house, config).await["slug"]));
    let second = json!({"strategy": {"mode": "loadbalance"}, "request_timeout": 5000, "targets": [
        {"provider": "openai", "api_key": "sk-9999999999abcdef"}, {"provider": "mock"}, {"provider": "mock"}]});
    admin.put(&path, json!({"config": second})).await.expect(200);

    let diff = admin.get(&format!("{path}/diff")).await.expect(200);
    assert_eq!((&diff["from"]["version"], &diff["to"]["version"]), (&json!(1), &json!(2)));
    assert_eq!(
        diff["changes"],
        json!([
            {"op": "replace", "path": "/strategy/mode", "before": "fallback", "after": "loadbalance"},
            {"op": "remove", "path": "/targets/1/weight", "before": 2},
            {"op": "add", "path": "/targets/2", "after": {"provider": "mock"}},
            {"op": "add", "path": "/request_timeout", "after": 5000},
        ])
    );
    assert_eq!(diff["credentials_changed"], true, "though their masks look alike");
    let same = admin.get(&format!("{path}/diff?from=2&to=2")).await.expect(200);
    assert_eq!((&same["changes"], &same["credentials_changed"]), (&json!([]), &json!(false)));

    let one = admin.get(&format!("{path}/versions/1")).await.expect(200);
    assert!(text(&one["config"]).contains("fallback"), "{one}");
    let by_id = admin.get(&format!("{path}/versions/{}", text(&one["version_id"]))).await.expect(200);
    assert_eq!(by_id["version"], 1);
    admin.get(&format!("{path}/versions/9")).await.refused(404, "AB08");
    admin.get(&format!("{path}/diff?from=9")).await.refused(400, "AB01");
    let page = admin.get(&format!("{path}/versions?page_size=1&current_page=1")).await.expect(200);
    assert_eq!((&page["total"], &page["data"][0]["version"]), (&json!(2), &json!(1)));

    for body in [json!({}), json!({"version": 9}), json!({"version": null}), json!({"version": 1, "to": 2})] {
        admin.post(&format!("{path}/rollback"), body).await.refused(400, "AB01");
    }
    let back = admin.post(&format!("{path}/rollback"), json!({"version": 1})).await.expect(200);
    assert_ne!(back["version_id"], one["version_id"], "the way back is a version of its own");
    assert_eq!(admin.get(&format!("{path}/diff?from=1&to=3")).await.expect(200)["changes"], json!([]));
    let snapshot = house.app.live.snapshot();
    let workspace = snapshot.workspace(house.default_workspace()).expect("the default one");
    let saved = workspace.configs().next().expect("in force");
    assert_eq!(secret_of(&saved.config).as_deref(), Some("sk-0123456789abcdef"), "credentials come back too");
}

#[tokio::test]
async fn nobody_goes_back_to_what_would_not_be_saved() {
    let house = House::new().await;
    let admin = house.as_admin();
    let integration = json!({"name": "Main", "slug": "main", "ai_provider_id": "openai", "key": "sk-x"});
    admin.post("/integrations", integration).await.expect(200);
    let path = format!("/configs/{}", text(&save(&house, json!({"provider": "@main"})).await["slug"]));
    admin.put(&path, json!({"config": {"provider": "mock"}})).await.expect(200);
    admin.delete("/providers/main").await.expect(200);
    let said = admin.post(&format!("{path}/rollback"), json!({"version": 1})).await.refused(400, "AB01");
    assert!(said.contains("`@main` is not a provider of this workspace"), "{said}");
    assert_eq!(admin.get(&path).await.expect(200)["config"]["provider"], "mock");
}

/// A node of an older version keeps what it had in force rather than skip a rule, and takes nothing out.
#[tokio::test]
async fn a_rule_that_this_node_does_not_know_is_neither_skipped_nor_lost() {
    let house = House::new().await;
    let slug = text(&save(&house, openai("sk-quite-a-long-secret-1111")).await["slug"]);
    let path = format!("/configs/{slug}");
    let stored = async || {
        let rows = house.app.store.load().await.expect("readable").rows;
        rows.into_iter().find(|row| row.slug == slug).expect("stored")
    };
    let mut row = stored().await;
    let mut doc: Value = serde_json::from_str(&row.doc).expect("JSON");
    doc["config"] = json!({"strategy": {"mode": "from_the_future", "by": "moon"}, "targets": [{"provider": "openai"}]});
    (row.doc, row.version) = (doc.to_string(), row.version + 1);
    let batch = Batch { rows: vec![row], ..Batch::default() };
    let changes = house.app.store.write(0, Box::new(|_| Ok(batch))).await.expect("written");
    assert_eq!(house.app.live.publish(&changes).len(), 1, "told, since it cannot be read here");
    let home = house.app.live.snapshot().workspace(house.default_workspace()).expect("there").clone();
    assert!(home.config(&slug).is_some(), "what was in force stays");
    let said = house.as_admin().put(&path, json!({"name": "renamed"})).await.refused(400, "AB01");
    assert!(said.contains("from_the_future") || said.contains("mode"), "{said}");
    assert!(stored().await.doc.contains("moon"));
    // A field beside those that it knows stays where it is.
    let mut row = stored().await;
    doc["config"] = json!({"provider": "openai", "x_from_the_future": {"by": "moon"}});
    (row.doc, row.version) = (doc.to_string(), row.version + 1);
    let batch = Batch { rows: vec![row], ..Batch::default() };
    let seen = house.app.live.snapshot().revision;
    let changes = house.app.store.write(seen, Box::new(|_| Ok(batch))).await.expect("written");
    house.app.live.publish(&changes);
    house.as_admin().put(&path, json!({"name": "renamed"})).await;
    assert!(stored().await.doc.contains("moon"));
}
