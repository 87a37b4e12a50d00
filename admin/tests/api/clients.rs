//! What clients that exist send beside what is asked for: the path once more in the body, names in camelCase, pages
//! under two names. And what nobody asks for, which is refused wherever it stands.

use crate::access::is_of_workspaces;
use crate::harness::{House, list, text};
use gateway_admin::routes;
use http::Method;
use serde_json::{Value, json};

/// A key, a config, an integration with its provider, a user with a seat, an invite: with their paths.
async fn furnished(house: &House) -> (String, String, String) {
    let admin = house.as_admin();
    let (key, _) = house.key("workspace/service", json!({"scopes": ["configs.list"]})).await;
    let config = json!({"name": "c", "config": {"provider": "mock"}});
    let config = text(&admin.post("/configs", config).await.expect(200)["slug"]);
    let lent = json!({"name": "oa", "ai_provider_id": "openai", "key": "sk-1"});
    admin.post("/integrations", lent).await.expect(200);
    let (user, _) = house.user("ann@example.com", "member", json!([{"id": "default", "role": "member"}]), None).await;
    (key, config, user)
}

#[tokio::test]
async fn the_path_once_more_in_the_body_is_taken_if_it_says_the_same() {
    let house = House::new().await;
    let (key, config, user) = furnished(&house).await;
    let admin = house.as_admin();
    let seat = format!("/admin/workspaces/default/users/{user}");
    for (path, body, again, other) in [
        (format!("/api-keys/{key}"), json!({"name": "n"}), ("id", key.as_str()), json!("another")),
        (format!("/api-keys/{key}"), json!({"name": "n"}), ("api_key_id", key.as_str()), json!(7)),
        (format!("/configs/{config}"), json!({"name": "n"}), ("slug", config.as_str()), json!("pc-other")),
        ("/integrations/oa".into(), json!({"name": "n"}), ("slug", "oa"), json!({"is": "oa"})),
        ("/integrations/oa/workspaces".into(), json!({"workspaces": []}), ("slug", "oa"), json!("ob")),
        ("/integrations/oa/models".into(), json!({"models": []}), ("slug", "oa"), json!("ob")),
        ("/providers/oa".into(), json!({"name": "n"}), ("slug", "oa"), json!("ob")),
        ("/virtual-keys/oa".into(), json!({"name": "n"}), ("slug", "oa"), json!("ob")),
        ("/admin/workspaces/default".into(), json!({"name": "n"}), ("workspace_id", "default"), json!("other")),
        ("/admin/workspaces/default".into(), json!({"name": "n"}), ("workspaceId", "default"), json!("other")),
        (seat.clone(), json!({"role": "manager"}), ("user_id", user.as_str()), json!("somebody")),
        (seat, json!({"role": "manager"}), ("workspace_id", "default"), json!("other")),
        (format!("/admin/users/{user}"), json!({"role": "member"}), ("userId", user.as_str()), json!("x")),
    ] {
        let with = |value: Value| {
            let mut body = body.clone();
            body[again.0] = value;
            body
        };
        let said = admin.put(&path, with(other)).await.refused(400, "AB01");
        assert_eq!(said, format!("{} must be what the path says", again.0), "{path}");
        admin.put(&path, with(json!(again.1))).await.expect(200);
        admin.put(&path, with(Value::Null)).await.expect(200);
    }
    let made = json!({"name": "k", "type": "workspace", "sub-type": "service", "scopes": ["configs.list"]});
    let made = admin.post("/api-keys/workspace/service", made).await.expect(200);
    assert_eq!(admin.get(&format!("/api-keys/{}", text(&made["id"]))).await.expect(200)["type"], "workspace-service");
    let more = json!({"workspace_id": "default", "users": [{"id": user, "role": "member"}]});
    admin.post("/admin/workspaces/default/users", more).await.refused(409, "AB07");
    house.workspace("spare").await;
    let gone = json!({"workspace_id": "default"});
    admin.ask(Method::DELETE, "/admin/workspaces/spare", Some(gone)).await.refused(400, "AB01");
    let gone = json!({"workspace_id": "spare", "name": "spare"});
    admin.ask(Method::DELETE, "/admin/workspaces/spare", Some(gone)).await.expect(200);
}

#[tokio::test]
async fn camel_case_of_a_known_name_is_taken() {
    let house = House::new().await;
    furnished(&house).await;
    let admin = house.as_admin();
    house.workspace("team").await;
    let body = json!({"name": "k", "scopes": [], "workspaceId": "team", "expiresAt": "2100-01-01T00:00:00Z",
        "defaults": {"allowConfigOverride": false}});
    let made = admin.post("/api-keys/workspace/service", body).await.expect(200);
    let read = admin.get(&format!("/api-keys/{}", text(&made["id"]))).await.expect(200);
    assert_eq!(read["expires_at"], "2100-01-01T00:00:00.000Z");
    assert_eq!(read["defaults"]["allow_config_override"], false);
    assert_ne!(read["workspace_id"], json!(house.default_workspace()));
    let config = json!({"name": "d", "config": {"provider": "mock"}, "is_default": 1});
    let config = text(&admin.post("/configs", config).await.expect(200)["slug"]);
    let read = admin.get("/configs").await.expect(200);
    let of = |slug: &str| read["data"].as_array().expect("rows").iter().find(|c| c["slug"] == *slug).cloned();
    assert_eq!(of(&config).expect("listed")["is_default"], 1);
    let twice = json!({"name": "n", "rateLimits": [], "rate_limits": []});
    let said = admin.put("/admin/workspaces/team", twice).await.refused(400, "AB01");
    assert_eq!(said, "rate_limits is given twice, in two spellings");
    // What is somebody's own keeps its spelling, and a credential goes by one name only.
    let own = json!({"defaults": {"metadata": {"teamName": "a"}}});
    admin.put("/admin/workspaces/team", own.clone()).await.expect(200);
    assert_eq!(
        admin.get("/admin/workspaces/team").await.expect(200)["defaults"]["metadata"],
        own["defaults"]["metadata"]
    );
    let lent = json!({"name": "x", "ai_provider_id": "openai", "Key": "sk-2"});
    assert_eq!(admin.post("/integrations", lent).await.refused(400, "AB01"), "Key is not a known field");
}

#[tokio::test]
async fn what_a_route_does_not_ask_for_is_refused() {
    let house = House::new().await;
    let (key, config, user) = furnished(&house).await;
    let mut tried = 0;
    for route in routes().into_iter().filter(|r| r.versioned) {
        let first = route.path.split('/').find(|s| !s.is_empty() && *s != "admin").unwrap_or_default();
        let id = match first {
            "api-keys" => &key,
            "configs" => &config,
            "users" => &user,
            "workspaces" => "default",
            _ => "oa",
        };
        let path = route.path.replace("{type}", "workspace").replace("{sub_type}", "service").replace("{id}", id);
        let body = (route.method != Method::GET).then(|| json!({}));
        for name in ["colour", "dryRun", "workspace-idd"] {
            // No Admin key acts on the data plane.
            let asker = if is_of_workspaces(&path) { house.as_service() } else { house.as_admin() };
            let answer = asker.ask(route.method.clone(), &format!("{path}?{name}=red"), body.clone()).await;
            let said = answer.refused(400, "AB01");
            assert_eq!(said, format!("{name} is not a known parameter of the query"), "{} {path}", route.method);
            tried += 1;
        }
    }
    assert!(tried > 200, "{tried}");
    let admin = house.as_admin();
    let long = format!("/configs?{}=1", "x".repeat(500));
    assert!(admin.get(&long).await.refused(400, "AB01").len() < 150);
    assert!(admin.get("/configs?=1").await.refused(400, "AB01").contains("without a name"));
    let path = "/analytics/graphs/feedbacks?span_id=x";
    let said = admin.get(path).await.refused(400, "AB01");
    assert_eq!(said, "span_id is not available in this version");
    let said = admin.get("/configs?workspace_id=a&workspaceId=b").await.refused(400, "AB01");
    assert_eq!(said, "workspace_id is given twice, in two spellings");
    // Whoever may not use a route is told so first.
    let bare = house.key("workspace/service", json!({"scopes": []})).await.1;
    house.with(&bare).get("/configs?colour=red").await.refused(403, "AB03");
}

#[tokio::test]
async fn pages_go_by_two_names_everywhere() {
    let house = House::new().await;
    house.workspace("one").await;
    house.workspace("two").await;
    let admin = house.as_admin();
    for names in ["pageSize=1&currentPage=1", "page_size=1&current_page=1"] {
        for path in ["/admin/workspaces", "/workspaces", "/api-keys"] {
            let page = admin.get(&format!("{path}?{names}")).await.expect(200);
            assert_eq!(page["data"].as_array().map(Vec::len), Some(1), "{path}?{names}");
            assert_ne!(page["total"], 1, "{path}?{names}");
        }
        for path in [
            "/configs",
            "/providers",
            "/virtual-keys",
            "/integrations",
            "/logs",
            "/admin/users",
            "/admin/users/invites",
            "/policies/rate-limits",
            "/policies/usage-limits",
            "/admin/workspaces/default/users",
        ] {
            admin.get(&format!("{path}?{names}")).await.expect(200);
        }
    }
}

#[tokio::test]
async fn a_workspace_named_in_camel_case_is_the_one_acted_on() {
    let house = House::new().await;
    house.workspace("team").await;
    let admin = house.as_admin();
    admin.post("/integrations", json!({"name": "same", "ai_provider_id": "openai", "key": "sk-1"})).await.expect(200);
    let own = json!({"name": "same", "slug": "same", "integration_id": "same", "workspaceId": "team"});
    admin.post("/providers", own).await.expect(200);
    admin.delete("/providers/same?workspaceId=team").await.expect(200);
    assert_eq!(list(&admin.get("/providers").await.expect(200), "slug"), ["same"]);
    assert!(list(&admin.get("/providers?workspaceId=team").await.expect(200), "slug").is_empty());
    // Beside a path that names it, it says the same or is refused.
    let members = "/admin/workspaces/team/users";
    admin.get(&format!("{members}?workspaceId=team")).await.expect(200);
    let said = admin.get(&format!("{members}?workspaceId=default")).await.refused(400, "AB01");
    assert_eq!(said, "workspaceId must be what the path says");
}
