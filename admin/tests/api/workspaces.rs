//! Workspaces and their members: what they hold, what they give to keys, how they end.

use crate::harness::{House, list, text};
use serde_json::{Value, json};

async fn make(house: &House, name: &str) -> String {
    text(&house.as_admin().post("/admin/workspaces", json!({"name": name})).await.expect(200)["id"])
}

#[tokio::test]
async fn a_workspace_lives_from_create_to_delete() {
    let house = House::new().await;
    let admin = house.as_admin();
    let body = json!({"name": "Team A", "description": "d", "icon": "🚀", "defaults": {"metadata": {"team": "a"}}});
    let made = admin.post("/admin/workspaces", body).await.expect(200);
    for (field, value) in [
        ("name", json!("🚀 Team A")),
        ("slug", json!("team-a")),
        ("description", json!("d")),
        ("usage_limits", json!([])),
        ("rate_limits", json!([])),
    ] {
        assert_eq!(made[field], value, "{field}");
    }
    assert_eq!(made["defaults"]["metadata"], json!({"team": "a"}));
    let id = text(&made["id"]);
    let snapshot = house.app.live.snapshot();
    let in_force = snapshot.workspace(id.parse().expect("an id")).expect("in force");
    assert_eq!(in_force.metadata.get("team").map(String::as_str), Some("a"));

    let path = format!("/v2/workspaces/{id}");
    assert_eq!(admin.get(&format!("{path}?name_format=plain")).await.expect(200)["name"], "Team A");
    assert_eq!(admin.get(&format!("{path}?name_format=display")).await.expect(200)["name"], "🚀 Team A");
    admin.get(&format!("{path}?name_format=loud")).await.refused(400, "AB01");
    assert_eq!(admin.get("/admin/workspaces/team-a").await.expect(200)["users"], json!([]));
    let change = json!({"name": "Team B", "description": null, "icon": null, "defaults": {"metadata": {"team": "b"}}});
    assert_eq!(admin.put(&path, change).await.expect(200), json!({}));
    let read = admin.get(&path).await.expect(200);
    assert_eq!(
        (&read["name"], &read["description"], &read["slug"]),
        (&json!("Team B"), &Value::Null, &json!("team-a"))
    );
    assert_eq!(read["defaults"]["metadata"], json!({"team": "b"}));
    assert_eq!(admin.delete(&path).await.expect(200), json!({}));
    admin.get(&path).await.refused(404, "AB08");
}

#[tokio::test]
async fn lists_are_sifted() {
    let house = House::new().await;
    make(&house, "Red").await;
    make(&house, "Redder").await;
    let named = async |query: &str| {
        list(&house.as_admin().get(&format!("/admin/workspaces?{query}")).await.expect(200), "name")
    };
    assert_eq!(named("").await, ["Redder", "Red", "Default"]);
    assert_eq!(named("name=red").await, ["Redder", "Red"]);
    assert_eq!(named("exact_name=Red&status=active").await, ["Red"]);
    assert_eq!(named("status=archived").await, [""; 0]);
    let gone = json!({"name": "Gone"});
    let id = text(&house.as_admin().post("/admin/workspaces", gone.clone()).await.expect(200)["id"]);
    house.as_admin().ask(http::Method::DELETE, &format!("/admin/workspaces/{id}"), Some(gone)).await.expect(200);
    assert_eq!(named("status=archived").await, ["Gone"]);
    let archived = house.as_admin().get("/admin/workspaces?status=archived").await.expect(200);
    assert_eq!(archived["data"][0]["status"], "archived");
    assert_eq!(named("page_size=1&current_page=1").await, ["Red"]);
    assert_eq!(named("current_page=9").await, [""; 0]);
    house.as_admin().get("/admin/workspaces?status=gone").await.refused(400, "AB01");
    // A key of a workspace knows its own.
    assert_eq!(list(&house.as_service().get("/admin/workspaces").await.expect(200), "name"), ["Default"]);
    house.as_service().get("/admin/workspaces/red").await.refused(404, "AB08");
    house.as_service().put("/admin/workspaces/default", json!({"description": "mine"})).await.expect(200);
    house.as_service().put("/admin/workspaces/red", json!({})).await.refused(404, "AB08");
}

#[tokio::test]
async fn broken_bodies_are_named() {
    let house = House::new().await;
    make(&house, "Taken").await;
    for (body, says) in [
        (json!({}), "name is required"),
        (json!({"name": ""}), "name must not be empty"),
        (json!({"name": "x".repeat(256)}), "name must be at most 255"),
        (json!({"name": "x", "slug": "a b"}), "slug may hold"),
        (json!({"name": "x", "icon": "long long long long"}), "icon must be one emoji"),
        (json!({"name": "x", "colour": 1}), "colour is not a known field"),
        (json!({"name": "x", "workspace_id": "default"}), "workspace_id is not a known field"),
        (json!({"name": "x", "usage_limits": [{"credit_limit": 0}]}), "usage_limits.credit_limit must be at least 1"),
        (json!({"name": "x", "rate_limits": [{"value": 1}]}), "rate_limits[0].type is required"),
        (
            json!({"name": "x", "defaults": {"input_guardrails": ["pg-1"]}}),
            "defaults.input_guardrails[0] names `pg-1`, which is no guardrail in use here",
        ),
        (json!({"name": "x", "defaults": {"metadata": {"a": 1}}}), "defaults.metadata.a must be a string"),
        (json!({"name": "x", "defaults": {"user_api_key_config": "pc-1"}}), "names `pc-1`, which is no config"),
        (json!({"name": "x", "users": ["me"]}), "users must be an array of user ids"),
        (json!({"name": "x", "users": ["0194f1f2-0000-7000-8000-000000000000"]}), "which is no user"),
        (json!({"name": "x", "user_api_key_rotation_period": 0}), "user_api_key_rotation_period must be an integer of"),
        (json!({"name": "x", "user_api_key_rotation_period": "daily"}), "user_api_key_rotation_period must be"),
    ] {
        let said = house.as_admin().post("/admin/workspaces", body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
    let twin = json!({"name": "x", "slug": "taken"});
    house.as_admin().post("/admin/workspaces", twin).await.refused(409, "AB07");
    assert_eq!(house.as_admin().get("/admin/workspaces").await.expect(200)["total"], 2);
}

#[tokio::test]
async fn a_full_workspace_is_deleted_by_force_with_all_in_it() {
    let house = House::new().await;
    let admin = house.as_admin();
    let id = make(&house, "Full").await;
    let here = |mut body: Value| {
        body["workspace_id"] = json!(id);
        body
    };
    let integration = here(json!({"name": "oa", "ai_provider_id": "openai", "key": "sk-secret"}));
    admin.post("/integrations", integration).await.expect(200);
    let config = here(json!({"name": "c", "config": {"provider": "@oa"}}));
    admin.post("/configs", config).await.expect(200);
    let (_, key) = house.key("workspace/service", here(json!({"scopes": ["configs.list"]}))).await;
    let seat = json!([{"id": id, "role": "manager"}]);
    let (_, personal) = house.user("a@example.com", "member", seat, Some(json!(["configs.list"]))).await;
    assert!(house.in_force(&key) && house.in_force(&personal));
    let path = format!("/admin/workspaces/{id}");
    let said = admin.delete(&path).await.refused(409, "AB07");
    assert!(said.contains("2 API keys, 1 configs, 1 providers, 1 integrations"), "{said}");
    let delete = async |body: Value| admin.ask(http::Method::DELETE, &path, Some(body)).await;
    delete(json!({"name": "Other", "force_delete": true})).await.refused(400, "AB01");
    delete(json!({"name": "Full", "force": true})).await.refused(400, "AB01");
    let two = house.beside().await;
    delete(json!({"name": "Full", "force_delete": true})).await.expect(200);
    two.catch_up().await;
    for node in [&house, &two] {
        assert!(!node.in_force(&key) && !node.in_force(&personal));
        assert!(node.app.live.snapshot().upstreams().next().is_none());
    }
    house.with(&key).get("/configs").await.refused(401, "AB05");
    admin.get(&format!("/configs?workspace_id={id}")).await.refused(404, "AB08");
    assert_eq!(admin.get("/integrations").await.expect(200)["total"], 0);
    let default = house.default_workspace();
    let body = json!({"name": "Default", "force_delete": true});
    let kept = admin.ask(http::Method::DELETE, &format!("/admin/workspaces/{default}"), Some(body)).await;
    kept.refused(409, "AB07");
}

#[tokio::test]
async fn user_keys_inherit_a_config_that_then_cannot_be_deleted() {
    let house = House::new().await;
    let admin = house.as_admin();
    let body = json!({"name": "c", "config": {"provider": "openai"}});
    let config = admin.post("/configs", body).await.expect(200);
    let slug = text(&config["slug"]);
    let path = "/v2/workspaces/default";
    let by = |name: &Value| json!({"defaults": {"user_api_key_config": name}});
    admin.put(path, by(&json!("pc-none"))).await.refused(400, "AB01");
    for name in [&config["slug"], &config["id"]] {
        admin.put(path, by(name)).await.expect(200);
        assert_eq!(admin.get(path).await.expect(200)["defaults"]["user_api_key_config"], json!(slug));
    }
    let (user, _) = house.key("workspace/user", json!({"scopes": ["completions.write"]})).await;
    let (service, _) = house.key("workspace/service", json!({"scopes": ["completions.write"]})).await;
    let explicit = json!({"scopes": ["completions.write"], "defaults": {"config_id": null}});
    let (bare, _) = house.key("workspace/user", explicit).await;
    for (id, expected) in [(user.clone(), &config["id"]), (service, &Value::Null), (bare, &Value::Null)] {
        assert_eq!(&admin.get(&format!("/api-keys/{id}")).await.expect(200)["defaults"]["config_id"], expected);
        let in_force = house.app.live.snapshot().key_by_id(id.parse().expect("an id")).expect("in force").clone();
        assert_eq!(in_force.defaults.as_ref().and_then(|d| d.config.as_deref()), expected.as_str());
    }
    admin.delete(&format!("/api-keys/{user}")).await.expect(200);
    let said = admin.delete(&format!("/configs/{slug}")).await.refused(409, "AB07");
    assert!(said.contains("user_api_key_config"), "{said}");
    admin.put(path, by(&Value::Null)).await.expect(200);
    admin.delete(&format!("/configs/{slug}")).await.expect(200);
}

#[tokio::test]
async fn members_come_change_and_go() {
    let house = House::new().await;
    let admin = house.as_admin();
    let (ann, _) = house.user("ann@example.com", "member", json!([]), None).await;
    let (bob, _) = house.user("bob@example.com", "admin", json!([]), None).await;
    let path = "/admin/workspaces/default/users";
    let both = json!({"users": [{"id": ann, "role": "ws-member"}, {"id": bob, "role": "manager"}]});
    assert_eq!(admin.post(path, both.clone()).await.expect(200), json!({}));
    admin.post(path, both).await.refused(409, "AB07");
    let found = async |query: &str| {
        let mut ids = list(&admin.get(&format!("{path}?{query}")).await.expect(200), "id");
        ids.sort();
        ids
    };
    assert_eq!(found("").await, [ann.clone(), bob.clone()]);
    assert_eq!(found("role=manager").await, [bob.as_str()]);
    assert_eq!(found("email=ANN@example.com").await, [ann.as_str()]);
    admin.get(&format!("{path}?role=owner")).await.refused(400, "AB01");

    let one = format!("{path}/{ann}");
    let read = admin.get(&one).await.expect(200);
    for (field, value) in [
        ("object", json!("workspace-user")),
        ("role", json!("member")),
        ("org_role", json!("member")),
        ("email", json!("ann@example.com")),
        ("first_name", json!("Ann")),
        ("workspace_id", json!(house.default_workspace())),
    ] {
        assert_eq!(read[field], value, "{field}");
    }
    assert!(!read["scopes"].as_array().expect("scopes").contains(&json!("configs.create")));
    admin.put(&one, json!({"role": "king"})).await.refused(400, "AB01");
    assert_eq!(admin.put(&one, json!({"role": "manager"})).await.expect(200), json!({}));
    assert_eq!(admin.get(&one).await.expect(200)["role"], "manager");
    let view = admin.get("/admin/workspaces/default").await.expect(200);
    assert_eq!(view["users"].as_array().map(Vec::len), Some(2));

    let key = |user: &str| json!({"scopes": ["configs.list"], "user_id": user});
    let (_, anns) = house.key("workspace/user", key(&ann)).await;
    let (_, bobs) = house.key("workspace/user", key(&bob)).await;
    admin.delete(&one).await.expect(200);
    admin.delete(&format!("{path}/{bob}")).await.expect(200);
    admin.get(&one).await.refused(404, "AB08");
    assert!(!house.in_force(&anns), "a key ends with the seat of its user");
    assert!(house.in_force(&bobs), "an organisation's admin belongs everywhere");
    for users in [json!([]), json!([{"id": "me", "role": "member"}]), json!([{"id": ann}])] {
        admin.post(path, json!({"users": users})).await.refused(400, "AB01");
    }
    let nobody = json!({"users": [{"id": "0194f1f2-0000-7000-8000-000000000000", "role": "member"}]});
    admin.post(path, nobody).await.refused(400, "AB01");
}
