//! What admins say of keys and providers, and organisations of their workspaces, is in force on the proxy: a status, an
//! end, a cadence, and what each may decide for itself.

use crate::harness::{Gateway, Upstream, WORKSPACE_KEY, eventually, gateway::target, hello, reply};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

pub(crate) async fn upstream() -> Upstream {
    Upstream::replying(|_| reply::chat("hi")).await
}

/// The time as RFC 3339 writes it.
fn written(at: SystemTime) -> String {
    let micros = at.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_micros();
    gateway_domain::Timestamp(i64::try_from(micros).expect("in range")).to_string()
}

#[tokio::test]
async fn a_blocked_key_opens_nothing_until_it_is_active_again() {
    let gateway = Gateway::start().await;
    let upstream = upstream().await;
    gateway.admin().provider("up", "openai", Some(&upstream.url())).await;
    let (id, key) = gateway.admin().workspace_key("k", json!({"scopes": ["completions.write", "configs.list"]})).await;
    let path = format!("/api-keys/{id}");
    for (status, expected) in [("active", 200), ("blocked", 401), ("active", 200)] {
        gateway.admin().put(&path, &json!({ "status": status })).await.expect(200);
        let read = gateway.admin().get(&path).await.expect(200).json();
        assert_eq!(read["status"], status);
        gateway.chat().key(&key).provider("@up").json(&hello()).send().await.expect(expected);
        gateway.get("/v1/configs").key(&key).send().await.expect(expected);
    }
    let refused = gateway.admin().put(&path, &json!({ "status": "exhausted" })).await.expect(400);
    assert!(refused.text().contains("must be active or blocked"), "{}", refused.text());
}

#[tokio::test]
async fn what_expires_ends_by_itself() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = upstream().await;
    admin.provider("short", "openai", Some(&upstream.url())).await;
    let (id, key) = admin.workspace_key("short", json!({})).await;
    let ask = async |key: &str, provider: &str| gateway.chat().key(key).provider(provider).json(&hello()).send().await;
    ask(&key, "@short").await.expect(200);
    let lasts = async |until: SystemTime, key: &str, provider: &str| {
        let answer = ask(key, provider).await;
        assert!(answer.status == 200 || SystemTime::now() >= until, "it ended too soon: {}", answer.text());
    };
    let until = SystemTime::now() + Duration::from_millis(1500);
    admin.put(&format!("/api-keys/{id}"), &json!({ "expires_at": written(until) })).await.expect(200);
    lasts(until, &key, "mock").await;
    eventually("the key ends", || async { (ask(&key, "mock").await.status == 401).then_some(()) }).await;
    assert_eq!(admin.get(&format!("/api-keys/{id}")).await.expect(200).json()["status"], "expired");
    let own = WORKSPACE_KEY;
    let until = SystemTime::now() + Duration::from_millis(1500);
    admin.put("/providers/short", &json!({ "expires_at": written(until) })).await.expect(200);
    lasts(until, own, "@short").await;
    eventually("the provider ends", || async { (ask(own, "@short").await.status == 400).then_some(()) }).await;
    admin.put("/providers/short", &json!({ "expires_at": null })).await.expect(200);
    ask(own, "@short").await.expect(200);
}

/// Invited, accepted: id and key.
async fn person(gateway: &Gateway, scopes: Value) -> (String, String) {
    let invite = json!({ "email": "ann@example.com", "role": "member", "workspaces": [{ "id": "default", "role": "member" }],
        "workspace_api_key_details": { "scopes": scopes } });
    let made = gateway.admin().post("/admin/users/invites", &invite).await.expect(200).json();
    let token = made["invite_link"].as_str().and_then(|l| l.split_once('#')).expect("a token").1;
    let accept = json!({ "token": token, "first_name": "Ann", "last_name": "Lee" });
    let user = gateway.admin().call("POST", "/invites/accept").without("x-gateway-api-key").json(&accept).send().await;
    let key = user.expect(200).json()["api_keys"][0].clone();
    let text = |name: &str| key[name].as_str().expect("text").to_owned();
    (text("id"), text("key"))
}

#[tokio::test]
async fn an_enforced_cadence_is_kept_and_both_secrets_open() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    admin.put("/admin/organisation", &json!({ "user_api_key_rotation_period": "weekly" })).await.expect(200);
    let (id, key) = person(&gateway, json!(["completions.write"])).await;
    let path = format!("/api-keys/{id}");
    assert_eq!(admin.get(&path).await.expect(200).json()["rotation_policy"]["rotation_period_days"], 7);
    admin.put("/workspaces/default", &json!({ "user_api_key_rotation_period": "monthly" })).await.expect(200);
    let other = json!({ "rotation_policy": { "rotation_period_days": 9 } });
    admin.put(&path, &other).await.expect(400);
    let rotated = admin.post(&format!("{path}/rotate"), &json!({})).await.expect(200).json();
    for key in [key.as_str(), rotated["key"].as_str().expect("a key")] {
        gateway.chat().key(key).provider("mock").json(&hello()).send().await.expect(200);
    }
}

#[tokio::test]
async fn a_workspace_decides_for_itself_where_it_may() {
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let (_, key) = person(&gateway, json!(["virtual_keys.list"])).await;
    let models = async || gateway.get("/v1/models").key(&key).send().await.status;
    assert_eq!(models().await, 200);
    let org = "/admin/organisation";
    admin.put(org, &json!({ "security_settings": { "members_view_virtual_keys": false } })).await.expect(200);
    assert_eq!(models().await, 403);
    let mut own = admin.get("/workspaces/default").await.expect(200).json()["security_settings"].clone();
    own["members_view_virtual_keys"] = json!(true);
    let own = json!({ "security_settings": own });
    admin.put("/workspaces/default", &own).await.expect(400);
    admin.put(org, &json!({ "overridable_sections": ["virtual_keys"] })).await.expect(200);
    admin.put("/workspaces/default", &own).await.expect(200);
    assert_eq!(models().await, 200);
    admin.put(org, &json!({ "overridable_sections": [] })).await.expect(200);
    assert_eq!(models().await, 403);
    let one = json!({ "rate_limits": [{ "type": "requests", "unit": "rpd", "value": 1 }] });
    admin.put("/workspaces/default", &one).await.expect(200);
    gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    gateway.chat().provider("mock").json(&hello()).send().await.expect(429);
}

#[tokio::test]
async fn managers_set_limits_where_the_organisation_says_so() {
    let gateway = Gateway::start().await;
    let lift = async |wanted: u16| {
        let admin = gateway.admin();
        let (path, body) = (
            "/admin/workspaces/default",
            json!({ "rate_limits": [
            { "type": "requests", "unit": "rpm", "value": 9 }] }),
        );
        let call = admin.call("PUT", path).json(&body).header("x-gateway-api-key", WORKSPACE_KEY);
        call.send().await.expect(wanted);
    };
    lift(403).await;
    gateway.admin().put("/admin/organisation", &json!({ "managers_set_limits": true })).await.expect(200);
    lift(200).await;
}

#[tokio::test]
async fn a_misspelt_route_goes_nowhere_where_only_known_ones_are_open() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let ask = async |path: &str, wanted: u16| {
        let answer = gateway.post(path).config(&target(&upstream)).json(&hello()).send().await;
        assert_eq!(answer.status, wanted, "{path}: {}", answer.text());
        answer
    };
    // While the flag is off, whatever is below /v1 is the provider's to know, and the answer says whose it is.
    let passed = ask("/v1/chat/completion", 200).await;
    assert_eq!(passed.header("x-gateway-provider"), Some("openai"));
    gateway.admin().put("/admin/organisation", &json!({ "known_routes_only": true })).await.expect(200);
    let before = upstream.seen().len();
    for path in ["/v1/chat/completion", "/v1/proxy/chat/completion", "/v1/Chat/completions", "/v1/brand/new"] {
        let refused = ask(path, 404).await;
        assert!(refused.error().contains("known_routes_only"), "{path}: {}", refused.error());
    }
    assert_eq!(upstream.seen().len(), before, "nothing went up");
    for path in ["/v1/chat/completions", "/v1/chat/completions/", "/v1/proxy/chat/completions"] {
        ask(path, 200).await;
    }
}
