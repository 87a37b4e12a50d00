//! Organisations that are made over the API: what they begin with, who may make them, how they end, and that each is
//! alone in the world, whatever its keys ask for.

use crate::access::{Things, call, guarded, is_everybodys};
use crate::harness::{ADMIN, Answer, House, text};
use crate::logs::record;
use gateway_domain::WorkspaceId;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const ALL: &str = "/admin/organisations";

async fn made(house: &House, body: Value) -> (String, String) {
    let made = house.as_admin().post(ALL, body).await.expect(200);
    (text(&made["id"]), text(&made["admin_key"]["key"]))
}

#[tokio::test]
async fn an_organisation_lives_from_create_to_delete() {
    let house = House::new().await;
    let body = json!({"name": "Rival Works", "owners": ["Ann@Example.org"]});
    let (id, key) = made(&house, body.clone()).await;
    let one = format!("{ALL}/{id}");
    let own = house.with(&key).get("/admin/organisation").await.expect(200);
    assert_eq!((&own["id"], &own["slug"], &own["name"]), (&json!(id), &json!("rival-works"), &json!("Rival Works")));
    let shown = house.as_admin().get(&one).await.expect(200);
    assert_eq!((&shown["owners"], &shown["is_first"]), (&json!(["ann@example.org"]), &json!(false)));
    assert_eq!(house.as_admin().get(&format!("{ALL}/rival-works")).await.expect(200), shown);
    let users = house.with(&key).get("/admin/users").await.expect(200);
    assert_eq!((&users["total"], &users["data"][0]["role"]), (&json!(1), &json!("owner")));
    let listed = house.as_admin().get(ALL).await.expect(200);
    assert_eq!((&listed["total"], &listed["data"][0]["is_first"]), (&json!(2), &json!(true)));
    assert_eq!(house.as_admin().get(&format!("{ALL}?search=rival")).await.expect(200)["data"][0], shown);
    // Slugs are of the whole installation.
    let taken = json!({"name": "x", "slug": "rival-works"});
    house.as_admin().post(ALL, taken).await.refused(409, "AB07");
    let (second, _) = made(&house, body).await;
    let slug = text(&house.as_admin().get(&format!("{ALL}/{second}")).await.expect(200)["slug"]);
    assert!(slug.starts_with("rival-works-"), "{slug}");
    house.as_admin().delete(&format!("{ALL}/{second}")).await.expect(200);
    // Owners are told all at once; who is left out is an admin.
    let change = json!({"name": "Rivals", "owners": ["bob@example.org"]});
    let changed = house.as_admin().put(&one, change).await.expect(200);
    assert_eq!((&changed["owners"], &changed["name"]), (&json!(["bob@example.org"]), &json!("Rivals")));
    let ann = house.with(&key).get("/admin/users/ann@example.org").await.expect(200);
    assert_eq!(ann["role"], "admin");
    let told = house.as_admin().put(&one, json!({"owners": ["bob"]})).await.refused(400, "AB01");
    assert!(told.starts_with("owners[0]"), "{told}");
    house.with(&key).put("/admin/users/bob@example.org", json!({"role": "member"})).await.refused(403, "AB03");
    // Whoever lost all keys is given another.
    let given = house.as_admin().post(&format!("{one}/admin-keys"), json!({"name": "another"})).await.expect(200);
    house.with(&text(&given["key"])).get("/admin/organisation").await.expect(200);
    let first = house.org().id;
    house.as_admin().post(&format!("{ALL}/{first}/admin-keys"), json!({"name": "own"})).await.refused(400, "AB01");
    // It ends once nothing is in it that somebody could miss.
    house.with(&key).post("/configs", json!({"name": "c", "config": {"provider": "openai"}})).await.expect(200);
    let workspace = house.with(&key).post("/admin/workspaces", json!({"name": "more"})).await.expect(200);
    let told = house.as_admin().delete(&one).await.refused(409, "AB07");
    for held in ["1 workspaces beside the default one", "1 configs", "1 users beside its owners"] {
        assert!(told.contains(held), "{told}");
    }
    let config = text(&house.with(&key).get("/configs").await.expect(200)["data"][0]["slug"]);
    house.with(&key).delete(&format!("/configs/{config}")).await.expect(200);
    house.with(&key).delete(&format!("/admin/workspaces/{}", text(&workspace["id"]))).await.expect(200);
    house.with(&key).delete("/admin/users/ann@example.org").await.expect(200);
    house.as_admin().delete(&one).await.expect(200);
    house.with(&key).get("/admin/organisation").await.refused(401, "AB05");
    house.as_admin().get(&one).await.refused(404, "AB08");
    assert_eq!(house.as_admin().get(ALL).await.expect(200)["total"], 1);
    house.as_admin().delete(&format!("{ALL}/{first}")).await.refused(409, "AB07");
    let elsewhere = house.elsewhere().await;
    elsewhere.with(&key).get("/admin/organisation").await.refused(401, "AB05");
    assert_eq!(elsewhere.as_admin().get(ALL).await.expect(200)["total"], 1);
    made(&house, json!({"name": "x", "slug": "rival-works"})).await;
}

#[tokio::test]
async fn only_the_first_organisation_makes_others_and_knows_of_them() {
    let house = House::new().await;
    let (id, key) = made(&house, json!({"name": "Rival"})).await;
    let rival = house.with(&key);
    let own = rival.get("/api-keys/self/details").await.expect(200);
    assert!(!own["scopes"].to_string().contains("organisations."), "{own}");
    for path in [ALL.to_owned(), format!("{ALL}/{id}"), format!("{ALL}/{}", house.org().id)] {
        rival.get(&path).await.refused(403, "AB03");
    }
    rival.post(ALL, json!({"name": "x"})).await.refused(403, "AB03");
    rival.post(&format!("{ALL}/{}/admin-keys", house.org().id), json!({"name": "x"})).await.refused(403, "AB03");
    for scope in ["organisations.list", "organisations.create"] {
        let body = json!({"name": "k", "scopes": [scope]});
        rival.post("/api-keys/organisation/service", body).await.refused(403, "AB03");
    }
    // Even one that has the scopes, as a row written by other means might.
    let (_, all) = (house.org().id, house.organisation("sneaky").await);
    house.with(&all).get(ALL).await.refused(403, "AB03");
    house.with(&all).post(ALL, json!({"name": "x"})).await.refused(403, "AB03");
    house.with(&all).get(&format!("{ALL}/{id}")).await.refused(404, "AB08");
    house.with(&all).delete(&format!("{ALL}/{id}")).await.refused(404, "AB08");
    // What runs the gateway is no business of theirs.
    rival.get("/nodes").await.refused(403, "AB03");
    rival.get("/nodes/settings").await.refused(403, "AB03");
    house.as_admin().get("/nodes").await.expect(200);
}

#[tokio::test]
async fn the_trails_of_both_tell_of_a_new_organisation() {
    let house = House::new().await;
    let (id, key) = made(&house, json!({"name": "Rival", "owners": ["ann@example.org"]})).await;
    let span = "start_time=2020-01-01&end_time=2100-01-01&page_size=100";
    let trail = |org: String| format!("/audit-logs?organisation_id={org}&{span}");
    let theirs = house.with(&key).get(&trail(id.clone())).await.expect(200);
    let records = theirs["records"].as_array().expect("rows");
    assert_eq!(records.len(), 4, "{theirs}");
    let first = house.org().id.to_string();
    let known = house.app.live.snapshot().keys().find(|key| key.org == house.org().id).expect("a key").id.to_string();
    assert!(!theirs.to_string().contains(&first) && !theirs.to_string().contains(&known), "{theirs}");
    assert!(!theirs.to_string().contains(&key) && !theirs.to_string().contains("Bootstrap"), "{theirs}");
    let ours = house.as_admin().get(&format!("{}&resource_type=organisation", trail(first))).await.expect(200);
    let row = ours["records"].as_array().expect("rows").iter().find(|row| row["resource_id"] == json!(id));
    let row = row.expect("a row of the new organisation");
    assert_eq!((&row["action"], row["request_body"].to_string().contains("Rival")), (&json!("create"), true), "{row}");
    assert!(!ours.to_string().contains(&key), "a secret is in one answer only");
}

/// All scopes that a key of the default workspace of somebody can have.
async fn workspace_key(house: &House, admin: &str) -> String {
    let own = house.with(crate::harness::SERVICE).get("/api-keys/self/details").await.expect(200);
    let body = json!({"name": "k", "scopes": own["scopes"]});
    text(&house.with(admin).post("/api-keys/workspace/service", body).await.expect(200)["key"])
}

/// Every by-id read of the first organisation, as it stands.
async fn state(house: &House, things: &Things) -> BTreeMap<String, Value> {
    let mut state = BTreeMap::new();
    for route in guarded().iter().filter(|r| r.method == "GET" && r.path.contains("{id}") && !is_everybodys(r.path)) {
        let mut body = call(house, Some(ADMIN), route, things).await.json();
        if let Some(body) = body.as_object_mut() {
            body.remove("request_id");
        }
        state.insert(route.path.to_owned(), body);
    }
    state
}

fn plain(answer: &Answer) -> (u16, Value) {
    let mut body = answer.json();
    if let Some(body) = body.as_object_mut() {
        body.remove("request_id");
    }
    (answer.status.as_u16(), body)
}

#[tokio::test]
async fn no_key_of_another_organisation_sees_reads_changes_or_deletes_anything() {
    const CANARY: &str = "canary-of-the-first";
    let house = House::new().await;
    let things = Things::of(&house, ADMIN, CANARY).await;
    let (org, home) = (house.org().id, house.default_workspace());
    let log = record(org, home, 0, CANARY);
    let logged = format!("/logs/{}", log.id);
    house.logs().append(&[log]).await.expect("appended");
    house.as_admin().get(&logged).await.expect(200);
    let wanted = json!({"filters": {}, "requested_data": ["id"], "description": CANARY});
    let export = text(&house.as_admin().post("/logs/exports", wanted).await.expect(200)["id"]);
    let (_, admin) = made(&house, json!({"name": "Rival", "slug": "rival"})).await;
    let service = workspace_key(&house, &admin).await;
    let before = state(&house, &things).await;
    assert!(before.values().any(|body| body.to_string().contains(CANARY)), "there is something to be found");
    let nothing = Things::none();
    let secrets = things.names().into_iter().chain([CANARY.to_owned(), org.to_string(), home.to_string()]);
    let secrets: Vec<String> = secrets.collect();
    let mut answered = 0;
    for key in [&admin, &service] {
        for path in [logged.clone(), format!("/logs/exports/{export}"), format!("/logs/exports/{export}/download")] {
            let status = house.with(key).get(&path).await.status;
            assert!(matches!(status.as_u16(), 403 | 404), "GET {path}: {status}");
        }
        for route in guarded() {
            let what = format!("{} {}", route.method, route.path);
            if route.path.contains("{id}") && !is_everybodys(route.path) {
                // What belongs to others is answered word for word like what does not exist.
                let theirs = call(&house, Some(key), &route, &things).await;
                let missing = call(&house, Some(key), &route, &nothing).await;
                assert!(matches!(theirs.status.as_u16(), 403 | 404), "{what}: {} {}", theirs.status, theirs.text);
                assert_eq!(plain(&theirs), plain(&missing), "{what}");
            } else if route.method == "GET" {
                answered += looks(&house, key, route.path, &secrets, home).await;
            }
        }
    }
    assert!(answered > 60, "{answered} questions had an answer");
    assert_eq!(state(&house, &things).await, before, "nothing of it has changed");
}

/// Lists and questions, plain and with the workspace of others named; how many had an answer.
async fn looks(house: &House, key: &str, path: &str, secrets: &[String], home: WorkspaceId) -> usize {
    let range = "time_of_generation_min=2020-01-01T00:00:00Z&time_of_generation_max=2029-01-01T00:00:00Z";
    let of_records = path.starts_with("/analytics") || path.starts_with("/logs/groups");
    let filled = path.replace("{group_by}", "users").replace("{key}", "team").replace("{entity}", "e0");
    let first = house.org().id;
    let mut asked = vec![filled.clone(), format!("{filled}?workspace_id={home}"), format!("{filled}?workspace_id=*")];
    if of_records {
        asked = asked.iter().map(|p| format!("{p}{}{range}", if p.contains('?') { "&" } else { "?" })).collect();
    }
    asked.push(format!("{filled}?organisation_id={first}"));
    if path == "/audit-logs" {
        asked.push(format!("{filled}?organisation_id={first}&start_time=2020-01-01&end_time=2100-01-01"));
    }
    let mut answered = 0;
    for asked in asked {
        let answer = house.with(key).get(&asked).await;
        let found = secrets.iter().find(|secret| answer.text.contains(&***secret));
        assert!(found.is_none(), "GET {asked} tells {found:?}: {}", answer.text);
        answered += usize::from(answer.status == 200);
    }
    answered
}

#[tokio::test]
async fn bodies_that_name_things_of_others_find_nothing() {
    let house = House::new().await;
    let things = Things::of(&house, ADMIN, "first").await;
    let (_, admin) = made(&house, json!({"name": "Rival"})).await;
    let rival = house.with(&admin);
    let integration = house.integration_id("first");
    let home = house.default_workspace();
    let user = things.user;
    for (path, body) in [
        ("/providers", json!({"name": "p", "integration_id": integration})),
        ("/providers", json!({"name": "p", "integration_id": "first"})),
        ("/configs", json!({"name": "c", "config": {"provider": "@first-p"}, "workspace_id": home})),
        ("/configs", json!({"name": "c", "config": {"input_guardrails": [things.guardrail]}})),
        ("/api-keys/workspace/user", json!({"name": "k", "scopes": ["configs.list"], "user_id": user})),
        ("/api-keys/workspace/service", json!({"name": "k", "scopes": ["configs.list"], "workspace_id": home})),
        (
            "/api-keys/workspace/service",
            json!({"name": "k", "scopes": ["configs.list"], "defaults": {"config_id": things.config}}),
        ),
        ("/mcp-servers", json!({"name": "s", "slug": "s", "mcp_integration_id": "first-int"})),
        ("/agent-servers", json!({"name": "s", "slug": "s", "agent_integration_id": "first-agi"})),
        (
            "/admin/users/invites",
            json!({"email": "a@example.org", "role": "member", "workspaces": [{"id": home, "role": "admin"}]}),
        ),
        ("/scim/workspaces", json!({"workspace_id": home, "scim_group_name": "first", "role": "member"})),
        ("/scim/workspaces", json!({"workspace_id": "default", "scim_group_name": "first", "role": "member"})),
        (
            "/policies/rate-limits",
            json!({"type": "requests", "unit": "rpm", "value": 1, "workspace_id": home,
            "conditions": [{"key": "api_key", "value": "*"}]}),
        ),
    ] {
        let answer = rival.post(path, body.clone()).await;
        assert!(matches!(answer.status.as_u16(), 400 | 404), "POST {path} {body}: {} {}", answer.status, answer.text);
    }
    let group = json!({"schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": "g", "members": [{"value": user}]});
    assert!(rival.post("/scim/Groups", group).await.status.is_client_error());
    let own = json!({"users": [{"id": user, "role": "admin"}]});
    rival.post("/admin/workspaces/default/users", own).await.refused(400, "AB01");
}
