//! Budgets of every holder and of policies, as admins set, change and archive them: whom they hold, what they assume
//! where nobody bounds an answer, and what they do while Redis is away.

use crate::admin_rules::upstream;
use crate::harness::{Gateway, eventually, hello, stand_at_noon, with};
use gateway_testing::Redis;
use serde_json::{Value, json};

/// What a holder's limits stand in, in a body of its route.
type Around<'a> = &'a dyn Fn(Value) -> Value;

/// Each counts eight tokens a call.
#[tokio::test]
async fn each_holder_has_a_budget_that_can_start_anew() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let upstream = upstream().await;
    admin.provider("main", "openai", Some(&upstream.url())).await;
    let older = json!({ "name": "Older", "provider": "openai", "key": "sk-older-0000000000" });
    admin.post("/virtual-keys", &older).await.expect(200);
    let host = json!({ "configurations": { "custom_host": upstream.url() } });
    admin.put("/integrations/older", &host).await.expect(200);
    let (id, key) = admin.workspace_key("spender", json!({})).await;
    let ask = async |provider: &str| gateway.chat().key(&key).provider(provider).json(&hello()).send().await.status;
    let budget = json!({ "type": "tokens", "credit_limit": 8, "periodic_reset": null });
    let plain = |fields: Value| fields;
    let seat = |fields: Value| json!({ "workspaces": [with(json!({ "id": "default", "enabled": true }), fields)] });
    let all = |fields: Value| json!({ "global_workspace_access": with(json!({ "enabled": true }), fields) });
    let holders: [(String, &str, Around<'_>); 6] = [
        (format!("/api-keys/{id}"), "@main", &plain),
        ("/providers/main".to_owned(), "@main", &plain),
        ("/virtual-keys/older".to_owned(), "@older", &plain),
        ("/integrations/main-integration/workspaces".to_owned(), "@main", &seat),
        ("/integrations/main-integration/workspaces".to_owned(), "@main", &all),
        ("/workspaces/default".to_owned(), "@main", &plain),
    ];
    for (path, provider, body) in holders {
        admin.put(&path, &body(json!({ "usage_limits": [budget] }))).await.expect(200);
        assert_eq!((ask(provider).await, ask(provider).await), (200, 412), "{path}");
        // Records of calls take a moment to the counts; calls do not wait for them.
        eventually("what was used", || async {
            admin.get(&path).await.expect(200).text().contains("\"current_usage\":8").then_some(())
        })
        .await;
        admin.put(&path, &body(json!({ "reset_usage": true }))).await.expect(200);
        assert_eq!((ask(provider).await, ask(provider).await), (200, 412), "{path}: used anew");
        admin.put(&path, &body(json!({ "usage_limits": null }))).await.expect(200);
        assert_eq!(ask(provider).await, 200, "{path}: free");
    }
}

async fn policy(gateway: &Gateway, path: &str, fields: Value) -> String {
    let base = json!({ "type": "tokens", "conditions": [{ "key": "api_key", "value": "*" }] });
    let made = gateway.admin().post(path, &with(base, fields)).await.expect(200).json();
    format!("{path}/{}", made["id"].as_str().expect("an id"))
}

#[tokio::test]
async fn what_nobody_bounds_is_held_as_each_policy_assumes() {
    stand_at_noon();
    let upstream = upstream().await;
    for (path, limit, refusal) in [
        ("/policies/rate-limits", json!({ "unit": "tph", "value": 500 }), 429),
        ("/policies/usage-limits", json!({ "credit_limit": 500 }), 412),
    ] {
        let gateway = Gateway::start().await;
        let path = policy(&gateway, path, with(limit, json!({ "assume_output": 495 }))).await;
        let ask = async || gateway.chat_through(&upstream).json(&hello()).send().await.status;
        // The first of a window always fits; of the rest, as much must be left as is assumed.
        assert_eq!((ask().await, ask().await), (200, refusal), "{path}");
        gateway.admin().put(&path, &json!({ "assume_output": 100 })).await.expect(200);
        assert_eq!(ask().await, 200, "{path}");
    }
}

#[tokio::test]
async fn a_budget_holds_whom_it_names_until_it_is_archived() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let admin = gateway.admin();
    let other = admin.post("/admin/workspaces", &json!({ "name": "Other" })).await.expect(200).json()["id"].clone();
    let (_, theirs) = admin.workspace_key("theirs", json!({ "workspace_id": other })).await;
    let (_, ours) = admin.workspace_key("ours", json!({})).await;
    let of = |user: &str| json!([{ "key": "metadata._user", "value": user }]);
    let path = "/policies/usage-limits";
    let fields = json!({ "type": "requests", "credit_limit": 1, "conditions": of("ann"), "workspace_id": other });
    let path = policy(&gateway, path, fields).await;
    let ask = async |key: &str, user: &str| {
        let metadata = json!({ "_user": user }).to_string();
        let call = gateway.chat().key(key).provider("mock").header("x-gateway-metadata", &metadata);
        call.json(&hello()).send().await.status
    };
    assert_eq!((ask(&theirs, "ann").await, ask(&theirs, "ann").await), (200, 412));
    assert_eq!((ask(&theirs, "bob").await, ask(&theirs, "bob").await), (200, 200), "the conditions name another");
    assert_eq!((ask(&ours, "ann").await, ask(&ours, "ann").await), (200, 200), "of another workspace");
    admin.put(&path, &json!({ "conditions": of("bob") })).await.expect(200);
    assert_eq!((ask(&theirs, "ann").await, ask(&theirs, "ann").await), (200, 200));
    assert_eq!((ask(&theirs, "bob").await, ask(&theirs, "bob").await), (200, 412), "who is named now");
    admin.put(&path, &json!({ "status": "archived" })).await.expect(200);
    assert_eq!(ask(&theirs, "bob").await, 200);
}

#[tokio::test]
async fn a_budget_does_as_it_says_while_redis_is_away() {
    stand_at_noon();
    let redis = tokio::task::spawn_blocking(Redis::start).await.expect("no panic");
    let gateway = Gateway::with(&["--redis-url", &redis.url()]).await;
    let mode = async |mode: &str| {
        let line = format!("gateway_limits_mode{{mode=\"{mode}\"}} 1\n");
        eventually(mode, || async { gateway.metrics().await.contains(&line).then_some(()) }).await;
    };
    for mode in ["local", "open", "closed"] {
        let conditions = json!([{ "key": "metadata._user", "value": mode }]);
        let fields = json!({ "type": "requests", "credit_limit": 1, "fail_mode": mode, "conditions": conditions });
        policy(&gateway, "/policies/usage-limits", fields).await;
    }
    mode("redis").await;
    tokio::task::spawn_blocking(move || drop(redis)).await.expect("no panic");
    let ask = async |user: &str| {
        let metadata = json!({ "_user": user }).to_string();
        let call = gateway.chat().provider("mock").header("x-gateway-metadata", &metadata);
        call.json(&hello()).send().await.status
    };
    ask("open").await;
    mode("redis-away").await;
    assert_eq!((ask("open").await, ask("open").await), (200, 200));
    assert_eq!(ask("closed").await, 503);
    assert_eq!((ask("local").await, ask("local").await), (200, 412));
}
