//! Users and the invites that make them; what their roles allow.

use crate::harness::{House, list, pass_seconds, text, token};
use serde_json::{Value, json};

const INVITES: &str = "/admin/users/invites";

fn accept(link: &Value) -> Value {
    json!({"token": token(link), "first_name": "Ann", "last_name": "Lee"})
}

async fn invite(house: &House, email: &str) -> Value {
    let body = json!({"email": email, "role": "member", "workspaces": [{"id": "default", "role": "member"}],
        "workspace_api_key_details": {"scopes": ["completions.write", "configs.list"]}});
    house.as_admin().post(INVITES, body).await.expect(200)
}

#[tokio::test]
async fn an_invite_makes_a_user_once() {
    let house = House::new().await;
    let admin = house.as_admin();
    let made = invite(&house, "Ann@Example.com").await;
    let path = format!("{INVITES}/{}", text(&made["id"]));
    let read = admin.get(&path).await.expect(200);
    assert_eq!((&read["email"], &read["status"]), (&json!("ann@example.com"), &json!("pending")));
    assert!(!read.to_string().contains(&token(&made["invite_link"])[64..]), "the secret is told once");

    let welcome = house.nobody().post("/invites/accept", accept(&made["invite_link"])).await.expect(200);
    let (user, key) = (text(&welcome["id"]), text(&welcome["api_keys"][0]["key"]));
    assert!(house.in_force(&key));
    house.with(&key).get("/configs").await.expect(200);
    house.nobody().post("/invites/accept", accept(&made["invite_link"])).await.refused(404, "AB08");
    assert_eq!(admin.get(&path).await.expect(200)["status"], "accepted");
    admin.delete(&path).await.refused(409, "AB07");
    admin.post(&format!("{path}/resend"), json!({})).await.refused(409, "AB07");
    let read = admin.get(&format!("/admin/users/{user}")).await.expect(200);
    for (field, value) in [
        ("object", json!("user")),
        ("first_name", json!("Ann")),
        ("role", json!("member")),
        ("email", json!("ann@example.com")),
        ("workspace_ids", json!([house.default_workspace()])),
    ] {
        assert_eq!(read[field], value, "{field}");
    }
    assert_eq!(admin.get("/admin/users/ann@example.com").await.expect(200)["id"], json!(user));
    let again = json!({"email": "ann@example.com", "role": "admin", "workspaces": []});
    admin.post(INVITES, again).await.refused(409, "AB07");
}

#[tokio::test]
async fn invites_end_by_time_cancel_and_resend() {
    let house = House::new().await;
    let admin = house.as_admin();
    let made = invite(&house, "a@example.com").await;
    let path = format!("{INVITES}/{}", text(&made["id"]));
    let twin = json!({"email": "A@example.com", "role": "member", "workspaces": []});
    admin.post(INVITES, twin.clone()).await.refused(409, "AB07");
    pass_seconds(7 * 86_400 + 1);
    assert_eq!(admin.get(&path).await.expect(200)["status"], "expired");
    house.nobody().post("/invites/accept", accept(&made["invite_link"])).await.refused(404, "AB08");
    let fresh = admin.post(&format!("{path}/resend"), json!({})).await.expect(200);
    assert_eq!(admin.get(&path).await.expect(200)["status"], "pending");
    house.nobody().post("/invites/accept", accept(&made["invite_link"])).await.refused(404, "AB08");
    admin.delete(&path).await.expect(200);
    house.nobody().post("/invites/accept", accept(&fresh["inviteLink"])).await.refused(404, "AB08");
    assert_eq!(admin.get(&path).await.expect(200)["status"], "cancelled");
    admin.post(INVITES, twin).await.expect(200);
    let found = async |query: &str| admin.get(&format!("{INVITES}?{query}")).await.expect(200)["total"].clone();
    assert_eq!(found("").await, 2);
    assert_eq!(found("status=cancelled").await, 1);
    assert_eq!(found("status=pending&role=member&email=a@example.com").await, 1);
    assert_eq!(found("role=admin").await, 0);
    admin.get(&format!("{INVITES}?status=lost")).await.refused(400, "AB01");
    admin.get(&format!("{INVITES}?pageSize=1001")).await.refused(400, "AB01");
    for token in ["", "x", &"0".repeat(80), &"é".repeat(40)] {
        let body = json!({"token": token, "first_name": "a", "last_name": "b"});
        let status = house.nobody().post("/invites/accept", body).await.status;
        assert!(status == 400 || status == 404, "{token}: {status}");
    }
}

#[tokio::test]
async fn broken_invites_are_named() {
    let house = House::new().await;
    for (fields, status, says) in [
        (json!({"email": "ann"}), 400, "email must be an e-mail address"),
        (json!({"role": "owner"}), 400, "role must be one of admin, member"),
        (json!({"role": "king"}), 400, "role must be one of"),
        (json!({"workspaces": null}), 400, "workspaces must be an array"),
        (json!({"workspaces": [{"id": "nowhere", "role": "member"}]}), 400, "workspaces[0].id names no workspace"),
        (json!({"workspaces": [{"id": "default", "role": "owner"}]}), 400, "workspaces[0].role must be one of"),
        (json!({"workspace_api_key_details": {"scopes": ["no.such"]}}), 400, "which is not a scope"),
        (json!({"workspace_api_key_details": {"scopes": ["configs.create"]}}), 403, "more than the role in"),
        (json!({"colour": 1}), 400, "colour is not a known field"),
    ] {
        let mut body = json!({"email": "a@example.com", "role": "member",
            "workspaces": [{"id": "default", "role": "member"}]});
        crate::harness::merge(&mut body, fields);
        let answer = house.as_admin().post(INVITES, body.clone()).await;
        let said = answer.refused(status, if status == 400 { "AB01" } else { "AB03" });
        assert!(said.contains(says), "{body}: {said}");
    }
    assert_eq!(house.as_admin().get(INVITES).await.expect(200)["total"], 0);
}

#[tokio::test]
async fn users_change_roles_and_leave_with_their_keys() {
    let house = House::new().await;
    let admin = house.as_admin();
    let other = house.workspace("other").await;
    let seats = json!([{"id": "default", "role": "manager"}]);
    let (id, key) = house.user("a@example.com", "admin", seats, Some(json!(["configs.list", "configs.create"]))).await;
    let (_, far) =
        house.key("workspace/user", json!({"scopes": ["configs.list"], "user_id": id, "workspace_id": other})).await;
    let path = format!("/admin/users/{id}");
    admin.put(&path, json!({"role": "owner"})).await.refused(400, "AB01");
    assert_eq!(admin.put(&path, json!({"role": "member"})).await.expect(200)["role"], "member");
    assert!(house.in_force(&key) && !house.in_force(&far), "no seat, no key");
    // Its keys may what the role may, from the next request on.
    let config = json!({"name": "c", "config": {"provider": "openai"}});
    house.with(&key).post("/configs", config.clone()).await.expect(200);
    let seat = format!("/admin/workspaces/default/users/{id}");
    admin.put(&seat, json!({"role": "member"})).await.expect(200);
    house.with(&key).post("/configs", config).await.refused(403, "AB03");
    house.with(&key).get("/configs").await.expect(200);
    assert_eq!(house.with(&key).get("/api-keys/self/details").await.expect(200)["scopes"], json!(["configs.list"]));
    assert_eq!(list(&admin.get("/admin/users?role=member").await.expect(200), "id"), [id.as_str()]);
    admin.delete(&path).await.expect(200);
    assert!(!house.in_force(&key));
    admin.get(&path).await.refused(404, "AB08");
    assert_eq!(admin.get("/admin/workspaces/default/users").await.expect(200)["total"], 0);
    // The address is free again.
    house.user("a@example.com", "member", json!([]), None).await;
}

#[tokio::test]
async fn keys_of_people_are_bounded_by_their_roles() {
    let house = House::new().await;
    let admin = house.as_admin();
    let (id, _) = house.user("a@example.com", "member", json!([{"id": "default", "role": "member"}]), None).await;
    let (out, _) = house.user("b@example.com", "member", json!([]), None).await;
    let key = |user: &str, scopes: Value| json!({"name": "k", "user_id": user, "scopes": scopes});
    let said = admin.post("/api-keys/workspace/user", key(&id, json!(["configs.list", "configs.create"]))).await;
    let said = said.refused(403, "AB03");
    assert!(said.contains("configs.create") && !said.contains("configs.list"), "{said}");
    admin.post("/api-keys/workspace/user", key(&out, json!([]))).await.refused(400, "AB01");
    let nobody = "0194f1f2-0000-7000-8000-000000000000";
    admin.post("/api-keys/workspace/user", key(nobody, json!([]))).await.refused(400, "AB01");
    let made = admin.post("/api-keys/workspace/user", key(&id, json!(["configs.list"]))).await.expect(200);
    let path = format!("/api-keys/{}", text(&made["id"]));
    admin.put(&path, json!({"scopes": ["configs.create"]})).await.refused(403, "AB03");
    admin.put("/admin/organisation", json!({"security_settings": {"members_write_configs": true}})).await.expect(200);
    admin.put(&path, json!({"scopes": ["configs.create"]})).await.expect(200);
}

#[tokio::test]
async fn managers_make_no_admins() {
    let house = House::new().await;
    let seat = |role: &str| json!([{"id": "default", "role": role}]);
    let scopes = json!(["workspace_users.create", "workspace_users.update", "workspace_users.delete"]);
    let (manager, key) = house.user("m@example.com", "member", seat("manager"), Some(scopes.clone())).await;
    let (boss, bosss) = house.user("b@example.com", "member", seat("admin"), Some(scopes)).await;
    let (other, _) = house.user("o@example.com", "member", json!([]), None).await;
    let path = "/admin/workspaces/default/users";
    let at = |user: &str| format!("{path}/{user}");
    let asker = house.with(&key);
    let add = |role: &str| json!({"users": [{"id": other, "role": role}]});
    asker.put(&at(&manager), json!({"role": "admin"})).await.refused(403, "AB03");
    asker.put(&at(&boss), json!({"role": "member"})).await.refused(403, "AB03");
    asker.delete(&at(&boss)).await.refused(403, "AB03");
    asker.post(path, add("admin")).await.refused(403, "AB03");
    asker.post(path, add("manager")).await.expect(200);
    house.with(&bosss).put(&at(&other), json!({"role": "admin"})).await.expect(200);
}

/// What an admin imposed on a workspace, a manager does not lift, nor does a service key, which has no role.
#[tokio::test]
async fn limits_of_a_workspace_are_for_its_admins() {
    let house = House::new().await;
    let admin = house.as_admin();
    let budget = json!({"usage_limits": [{"type": "cost", "credit_limit": 5}]});
    admin.put("/admin/workspaces/default", budget.clone()).await.expect(200);
    let policy = json!({"type": "cost", "credit_limit": 1, "conditions": [{"key": "api_key", "value": "*"}],
        "group_by": [{"key": "api_key"}]});
    let imposed = text(&admin.post("/policies/usage-limits", policy.clone()).await.expect(200)["id"]);
    let rates = json!({"type": "requests", "unit": "rpm", "value": 1, "conditions": [{"key": "api_key", "value": "*"}],
        "group_by": [{"key": "api_key"}]});
    let rated = text(&admin.post("/policies/rate-limits", rates).await.expect(200)["id"]);
    let scopes =
        json!(["workspaces.update", "workspaces.read", "policies.create", "policies.update", "policies.delete",]);
    let seat = |role: &str| json!([{"id": "default", "role": role}]);
    let (_, manager) = house.user("m@example.com", "member", seat("manager"), Some(scopes.clone())).await;
    let (_, chief) = house.user("c@example.com", "member", seat("admin"), Some(scopes)).await;
    let body = json!({"scopes": ["workspaces.update", "policies.update", "policies.delete"]});
    let (_, service) = house.key("workspace/service", body).await;
    let lifts = [
        ("/admin/workspaces/default".to_owned(), json!({"usage_limits": null})),
        (
            "/admin/workspaces/default".to_owned(),
            json!({"rate_limits": [{"type": "requests", "unit": "rpm", "value": 9}]}),
        ),
        ("/admin/workspaces/default".to_owned(), json!({"reset_usage": true})),
        (format!("/policies/usage-limits/{imposed}"), json!({"credit_limit": 1000})),
        (format!("/policies/usage-limits/{imposed}"), json!({"status": "archived"})),
        (format!("/policies/rate-limits/{rated}"), json!({"value": 1000})),
    ];
    for key in [&manager, &service] {
        for (path, body) in &lifts {
            let said = house.with(key).put(path, body.clone()).await.refused(403, "AB03");
            assert!(said.contains("managers_set_limits"), "{path} {body}: {said}");
        }
        house.with(key).delete(&format!("/policies/usage-limits/{imposed}")).await.refused(403, "AB03");
        house.with(key).delete(&format!("/policies/rate-limits/{rated}")).await.refused(403, "AB03");
        // What is no limit, and limits that are sent back as they are.
        house.with(key).put("/admin/workspaces/default", json!({"description": "d"})).await.expect(200);
        house.with(key).put("/admin/workspaces/default", budget.clone()).await.expect(200);
    }
    // A policy of one's own is one's own to change.
    let own = text(&house.with(&manager).post("/policies/usage-limits", policy).await.expect(200)["id"]);
    house.with(&manager).put(&format!("/policies/usage-limits/{own}"), json!({"credit_limit": 2})).await.expect(200);
    house.with(&manager).delete(&format!("/policies/usage-limits/{own}")).await.expect(200);
    house.with(&chief).put(&lifts[3].0, lifts[3].1.clone()).await.expect(200);
    admin.put("/admin/organisation", json!({"managers_set_limits": true})).await.expect(200);
    for key in [&manager, &service] {
        for (path, body) in &lifts[..4] {
            house.with(key).put(path, body.clone()).await.expect(200);
        }
    }
}
