//! New secrets for old keys, by hand and by policy.

use crate::harness::{House, in_seconds, pass_seconds, text};
use gateway_admin::maintain;
use gateway_domain::Timestamp;
use gateway_domain::keys::KeyHash;
use serde_json::{Value, json};

const HALF_HOUR: i64 = 1800;

/// Whether a secret opens the Admin API, which asks as the proxy does: found, active, not past its end.
async fn opens(house: &House, key: &str) -> bool {
    house.with(key).get("/configs").await.status == 200
}

fn midnight(days: i64) -> String {
    let day = crate::harness::now().secs().div_euclid(86_400) + days;
    Timestamp::from_secs(day * 86_400).to_string()
}

#[tokio::test]
async fn both_secrets_open_until_the_transition_ends() {
    let house = House::new().await;
    let (id, old) = house.key("workspace/service", json!({"scopes": ["configs.list"]})).await;
    let path = format!("/api-keys/{id}/rotate");
    let rotated = house.as_admin().post(&path, json!({})).await.expect(200);
    let new = text(&rotated["key"]);
    let ends: Timestamp = text(&rotated["key_transition_expires_at"]).parse().expect("a time");
    let left = ends.secs() - crate::harness::now().secs();
    assert!(rotated["id"] == json!(id) && (HALF_HOUR - 60..=HALF_HOUR).contains(&left), "{rotated}");
    assert!(new != old && opens(&house, &old).await && opens(&house, &new).await);
    let two = house.beside().await;
    assert!(opens(&two, &old).await && opens(&two, &new).await);
    let read = house.as_admin().get(&format!("/api-keys/{id}")).await.expect(200);
    assert_eq!(read["key"], json!(format!("****{}", &new[new.len() - 4..])));
    assert_eq!(read["id"], json!(id));
    house.as_admin().post(&path, json!({})).await.refused(409, "AB07");
    for ms in [json!(1_799_999), json!("long"), json!(-1)] {
        house.as_admin().post(&path, json!({"key_transition_period_ms": ms})).await.refused(400, "AB01");
    }
    pass_seconds(HALF_HOUR + 1);
    house.with(&old).get("/configs").await.refused(401, "AB05");
    assert!(opens(&house, &new).await);
    maintain(&house.app).await;
    assert!(house.app.live.snapshot().key(&KeyHash::of(&old)).is_none(), "gone from memory too");
    // A body may be left out, and the next one is free to come.
    let again = house.as_admin().ask(http::Method::POST, &path, None).await.expect(200);
    assert!(opens(&house, &new).await && opens(&house, &text(&again["key"])).await);
    house.as_admin().delete(&format!("/api-keys/{id}")).await.expect(200);
    assert!(!opens(&house, &new).await && !opens(&house, &text(&again["key"])).await);
}

#[tokio::test]
async fn rotation_asks_for_its_scope() {
    let house = House::new().await;
    let (id, _) = house.key("workspace/service", json!({"scopes": []})).await;
    let narrow = json!({"scopes": ["workspace_user_api_keys.rotate", "workspace_service_api_keys.update"]});
    let (_, key) = house.key("workspace/service", narrow).await;
    house.with(&key).post(&format!("/api-keys/{id}/rotate"), json!({})).await.refused(403, "AB03");
    let wide = json!({"scopes": ["workspace_service_api_keys.rotate"]});
    let (_, key) = house.key("workspace/service", wide).await;
    house.with(&key).post(&format!("/api-keys/{id}/rotate"), json!({})).await.expect(200);
    // Its secret would open more than the asker may.
    let (strong, _) = house.key("workspace/service", json!({"scopes": ["configs.delete"]})).await;
    house.with(&key).post(&format!("/api-keys/{strong}/rotate"), json!({})).await.refused(403, "AB03");
    house.as_admin().post(&format!("/api-keys/{strong}/rotate"), json!({})).await.expect(200);
}

#[tokio::test]
async fn a_policy_is_read_back_as_it_was_meant() {
    let house = House::new().await;
    let policy = async |given: Value| {
        let fields = json!({"scopes": [], "rotation_policy": given});
        let (id, _) = house.key("workspace/service", fields).await;
        (id.clone(), house.as_admin().get(&format!("/api-keys/{id}")).await.expect(200)["rotation_policy"].clone())
    };
    let (id, weekly) = policy(json!({"rotation_period": "weekly"})).await;
    let expected = json!({"rotation_period": "weekly", "rotation_period_days": 7, "next_rotation_at": midnight(7),
        "key_transition_period_ms": 1_800_000, "status": "active"});
    assert_eq!(weekly, expected);
    let path = format!("/api-keys/{id}");
    house.as_admin().put(&path, json!({"rotation_policy": weekly})).await.expect(200);
    let change = json!({"rotation_policy": {"key_transition_period_ms": 3_600_000}});
    house.as_admin().put(&path, change).await.expect(200);
    let read = house.as_admin().get(&path).await.expect(200)["rotation_policy"].clone();
    assert_eq!((&read["rotation_period"], &read["key_transition_period_ms"]), (&json!("weekly"), &json!(3_600_000)));
    house.as_admin().put(&path, json!({"rotation_policy": null})).await.expect(200);
    assert_eq!(house.as_admin().get(&path).await.expect(200)["rotation_policy"], Value::Null);
    assert_eq!(policy(json!({"rotation_period": "monthly"})).await.1["rotation_period_days"], 30);
    let days = policy(json!({"rotation_period_days": 90, "next_rotation_at": in_seconds(5 * 86_400)})).await.1;
    assert_eq!((&days["rotation_period"], &days["next_rotation_at"]), (&Value::Null, &json!(midnight(5))));
}

#[tokio::test]
async fn broken_policies_are_named() {
    let house = House::new().await;
    for (policy, says) in [
        (json!({}), "rotation_policy.rotation_period or rotation_period_days is required"),
        (json!({"rotation_period": "daily"}), "rotation_policy.rotation_period must be one of weekly, monthly"),
        (json!({"rotation_period": "weekly", "rotation_period_days": 7}), "cannot stand beside rotation_period"),
        (json!({"rotation_period_days": 0}), "rotation_policy.rotation_period_days must be in 1..365"),
        (json!({"rotation_period_days": 366}), "rotation_policy.rotation_period_days must be in 1..365"),
        (json!({"rotation_period_days": 1.5}), "rotation_policy.rotation_period_days must be an integer"),
        (
            json!({"rotation_period_days": 5, "next_rotation_at": in_seconds(-5)}),
            "next_rotation_at must be in the future",
        ),
        (
            json!({"rotation_period_days": 5, "key_transition_period_ms": 5}),
            "key_transition_period_ms must be in 1800000",
        ),
        (
            json!({"rotation_period_days": 1, "key_transition_period_ms": 86_400_000}),
            "must be shorter than the rotation",
        ),
        (json!({"rotation_period_days": 5, "colour": 1}), "rotation_policy.colour is not a known field"),
        (json!("weekly"), "rotation_policy must be an object"),
    ] {
        let body = json!({"name": "k", "scopes": [], "rotation_policy": policy});
        let said = house.as_admin().post("/api-keys/workspace/service", body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
}

#[tokio::test]
async fn a_policy_rotates_by_itself_once_among_many_nodes() {
    let house = House::new().await;
    let fields = json!({"scopes": ["configs.list"], "rotation_policy": {"rotation_period_days": 1}});
    let (id, old) = house.key("workspace/service", fields).await;
    let two = house.beside().await;
    let three = house.elsewhere().await;
    maintain(&house.app).await;
    let revision = house.app.live.snapshot().revision;
    pass_seconds(86_400);
    // All at once: whoever comes second looks again, and finds it done.
    tokio::join!(maintain(&house.app), maintain(&two.app), maintain(&three.app));
    for node in [&house, &two, &three] {
        maintain(&node.app).await;
        node.catch_up().await;
        assert_eq!(node.app.live.snapshot().revision, revision + 1);
    }
    assert!(opens(&house, &old).await);
    let path = format!("/api-keys/{id}");
    let read = two.as_admin().get(&path).await.expect(200);
    assert_eq!(read["new_key_waits"], true);
    assert_eq!(read["rotation_policy"]["next_rotation_at"], json!(midnight(1)));
    // Nobody saw the new secret yet: who may rotate fetches it, once.
    let fetched = house.as_admin().post(&format!("{path}/rotate"), json!({})).await.expect(200);
    let new = text(&fetched["key"]);
    assert!(opens(&house, &new).await && opens(&house, &old).await);
    house.as_admin().post(&format!("{path}/rotate"), json!({})).await.refused(409, "AB07");
    pass_seconds(HALF_HOUR + 1);
    assert!(opens(&house, &new).await && !opens(&house, &old).await);
}

#[tokio::test]
async fn user_keys_keep_the_enforced_cadence() {
    let house = House::new().await;
    let admin = house.as_admin();
    admin.put("/admin/organisation", json!({"user_api_key_rotation_period": "monthly"})).await.expect(200);
    assert_eq!(admin.get("/admin/organisation").await.expect(200)["user_api_key_rotation_period"], 30);
    let (id, _) = house.key("workspace/user", json!({"scopes": []})).await;
    let path = format!("/api-keys/{id}");
    let read = admin.get(&path).await.expect(200)["rotation_policy"].clone();
    assert_eq!((&read["rotation_period_days"], &read["next_rotation_at"]), (&json!(30), &json!(midnight(30))));
    for (policy, says) in [
        (json!({"rotation_period": "weekly"}), "must match the enforced cadence of 30 days"),
        (json!({"rotation_period_days": 31}), "must match the enforced cadence of 30 days"),
        (
            json!({"rotation_period_days": 30, "next_rotation_at": in_seconds(86_400)}),
            "cannot be set while rotation is",
        ),
        (Value::Null, "cannot be removed while rotation is enforced"),
    ] {
        let body = json!({"rotation_policy": policy});
        let said = admin.put(&path, body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
        let body = json!({"name": "k", "scopes": [], "rotation_policy": policy});
        let said = admin.post("/api-keys/workspace/user", body.clone()).await.refused(400, "AB01");
        assert!(said.contains(says), "{body}: {said}");
    }
    let same = json!({"rotation_policy": {"rotation_period": "monthly", "key_transition_period_ms": 3_600_000}});
    admin.put(&path, same).await.expect(200);
    // Service keys are free; a workspace may keep another cadence.
    let (service, _) = house.key("workspace/service", json!({"scopes": []})).await;
    assert_eq!(admin.get(&format!("/api-keys/{service}")).await.expect(200)["rotation_policy"], Value::Null);
    admin.put("/v2/workspaces/default", json!({"user_api_key_rotation_period": 9})).await.expect(200);
    let (other, _) = house.key("workspace/user", json!({"scopes": []})).await;
    let read = admin.get(&format!("/api-keys/{other}")).await.expect(200);
    assert_eq!(read["rotation_policy"]["rotation_period_days"], 9);
}

#[tokio::test]
async fn a_day_before_it_happens_it_is_told_once() {
    let house = House::new().await;
    let policy = json!({"rotation_period_days": 7, "key_transition_period_ms": 3 * 86_400_000});
    let (id, _) = house.key("workspace/service", json!({"scopes": ["configs.list"], "rotation_policy": policy})).await;
    let org = house.org().id;
    let path = format!("/api-keys/{id}");
    let warnings = async || {
        let trail = format!("/audit-logs?organisation_id={org}&start_time=2020-01-01&end_time=2200-01-01&action=warn");
        let told = house.as_admin().get(&trail).await.expect(200);
        let told = told["records"].as_array().expect("a list").clone();
        told.iter()
            .map(|r| text(&serde_json::from_str::<Value>(&text(&r["request_body"])).expect("JSON")["warning"]))
            .collect::<Vec<_>>()
    };
    let both = async || {
        let other = house.beside().await;
        for node in [&house, &other] {
            maintain(&node.app).await;
            maintain(&node.app).await;
        }
        house.catch_up().await;
    };
    both().await;
    assert_eq!(warnings().await, [""; 0]);
    pass_seconds(6 * 86_400);
    both().await;
    assert_eq!(warnings().await, ["rotation_is_near"]);
    house.as_admin().put(&path, json!({"name": "renamed"})).await.expect(200);
    pass_seconds(86_400);
    both().await;
    let rotated = house.as_admin().get(&path).await.expect(200);
    assert!(rotated["key_transition_expires_at"].is_string(), "{rotated}");
    assert_eq!(warnings().await.len(), 1);
    pass_seconds(2 * 86_400);
    both().await;
    assert_eq!(warnings().await, ["old_secret_ends_soon", "rotation_is_near"]);
    pass_seconds(86_400);
    both().await;
    assert_eq!(house.as_admin().get(&path).await.expect(200)["key_transition_expires_at"], Value::Null);
    assert_eq!(warnings().await.len(), 2);
}
