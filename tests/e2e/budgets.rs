//! Budgets on the proxy port: what is held at which price, who is refused, and what still passes.

use crate::harness::{Answer, Gateway, Upstream, eventually, gateway::target, reply, stand_at_noon, with};
use serde_json::{Value, json};

/// Answers that use up whatever they may, of a model that costs a cent for each thousand tokens that come out.
async fn greedy() -> Upstream {
    Upstream::replying(|seen| {
        let asked: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
        let most = asked["max_tokens"].as_u64().unwrap_or(3);
        let mut body = reply::completion("hi");
        body["usage"] = json!({ "prompt_tokens": 0, "completion_tokens": most, "total_tokens": most });
        reply::whole(200, &[("content-type", "application/json")], body.to_string())
    })
    .await
}

fn cents(most: u64) -> Value {
    json!({ "model": "gpt-4o", "max_tokens": most * 1_000, "messages": [{ "role": "user", "content": "hi" }] })
}

async fn usage_policy(gateway: &Gateway, fields: Value) -> String {
    let base = json!({ "name": "Spend", "conditions": [{ "key": "api_key", "value": "*" }] });
    let answer = gateway.admin().post("/policies/usage-limits", &with(base, fields)).await.expect(200).json();
    answer["id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn money_is_held_before_it_is_spent() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let upstream = greedy().await;
    let config = target(&upstream);
    let limits = json!({ "usage_limits": { "type": "cost", "credit_limit": 1 } });
    let (_, key) = gateway.admin().workspace_key("spender", limits).await;
    let ask = async |most| -> Answer { gateway.chat().key(&key).config(&config).json(&cents(most)).send().await };
    ask(60).await.expect(200);
    let refused = ask(60).await.expect(412);
    assert!(
        refused
            .error()
            .starts_with("budget exhausted: API key \"spender\" allows $1; $0.4 are left and this call may cost $0.6"),
        "{}",
        refused.error()
    );
    let error = refused.json()["error"].clone();
    assert_eq!((&error["type"], &error["code"]), (&json!("insufficient_quota"), &json!("budget_exhausted")));
    assert_eq!(refused.header("x-should-retry"), Some("false"));
    assert_eq!((refused.header("retry-after"), refused.header("x-gateway-ratelimit-limit-requests")), (None, None));
    ask(39).await.expect(200);
    let refused = ask(1).await.expect(412);
    assert!(refused.error().contains("it does not start anew by itself"), "{}", refused.error());
}

/// A target that fails costs nothing, and the next is asked at its own price.
#[tokio::test]
async fn a_failed_target_gives_its_money_back_to_the_next() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let broken = Upstream::replying(|_| reply::error(500, &[])).await;
    let well = greedy().await;
    gateway.admin().provider("broken", "openai", Some(&broken.url())).await;
    gateway.admin().provider("well", "openai", Some(&well.url())).await;
    let config = json!({
        "strategy": { "mode": "fallback", "on_status_codes": [500, 412] },
        "targets": [{ "provider": "@broken" }, { "provider": "@well", "override_params": { "max_tokens": 30_000 } }],
    });
    usage_policy(&gateway, json!({ "type": "cost", "credit_limit": 1 })).await;
    let ask = async |most| gateway.chat().config(&config).json(&cents(most)).send().await.status;
    assert_eq!(ask(90).await, 200);
    assert_eq!(ask(60).await, 200, "the first target still fits into seventy cents");
    assert_eq!(ask(90).await, 200, "the first target is too dear by now, the second is not");
    assert_eq!((broken.seen().len(), well.seen().len()), (2, 3));
    assert_eq!(ask(90).await, 412);
}

#[tokio::test]
async fn an_exhausted_budget_still_serves_what_is_cached() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let upstream = greedy().await;
    let config = with(target(&upstream), json!({ "cache": { "mode": "simple" } }));
    usage_policy(&gateway, json!({ "type": "requests", "credit_limit": 1 })).await;
    let ask = async |most| gateway.chat().config(&config).json(&cents(most)).send().await;
    ask(1).await.expect(200);
    let refused = ask(2).await.expect(412);
    assert!(refused.error().contains("policy \"Spend\" (spend) allows 1 requests"), "{}", refused.error());
    let kept = ask(1).await.expect(200);
    assert_eq!(kept.header("x-gateway-cache-status"), Some("HIT"));
    // Looking at files is no use of a budget.
    gateway.get("/v1/files").config(&config).send().await.expect(200);
}

#[tokio::test]
async fn a_targets_exhausted_budget_falls_back() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let (one, two) = (greedy().await, greedy().await);
    let admin = gateway.admin();
    admin.provider("one", "openai", Some(&one.url())).await;
    admin.provider("two", "openai", Some(&two.url())).await;
    admin
        .put("/providers/one", &json!({ "usage_limits": { "type": "tokens", "credit_limit": 1_500 } }))
        .await
        .expect(200);
    let config = json!({
        "strategy": { "mode": "fallback", "on_status_codes": [412] },
        "targets": [{ "provider": "@one" }, { "provider": "@two" }],
    });
    for _ in 0..3 {
        gateway.chat().config(&config).json(&cents(1)).send().await.expect(200);
    }
    assert_eq!((one.seen().len(), two.seen().len()), (1, 2));
    let refused = gateway.chat().provider("@one").json(&cents(1)).send().await.expect(412);
    assert!(refused.error().contains("provider \"one\" allows 1500 tokens"), "{}", refused.error());
}

/// Each group spends for itself, and what is spent under way counts: as many pass as there is money for.
#[tokio::test]
async fn groups_spend_apart_and_never_more_than_allowed() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let upstream = greedy().await;
    let config = target(&upstream);
    usage_policy(&gateway, json!({ "type": "cost", "credit_limit": 1, "group_by": [{ "key": "metadata._user" }] }))
        .await;
    let mut calls = tokio::task::JoinSet::new();
    for at in 0..48 {
        let user = json!({ "_user": if at % 2 == 0 { "ann" } else { "bob" } }).to_string();
        let call = gateway.chat().config(&config).header("x-gateway-metadata", &user).json(&cents(9));
        calls.spawn(async move { (at % 2, call.send().await.status) });
    }
    let mut passed = [0, 0];
    while let Some(called) = calls.join_next().await {
        let (user, status) = called.expect("no client failed");
        assert!(matches!(status, 200 | 412), "{status}");
        passed[user] += usize::from(status == 200);
    }
    assert_eq!(passed, [11, 11], "nine cents each of a dollar");
}

/// A plain check lets calls through while anything is left.
#[tokio::test]
async fn a_check_asks_only_whether_anything_is_left() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let upstream = greedy().await;
    let config = target(&upstream);
    let id = usage_policy(&gateway, json!({ "type": "cost", "credit_limit": 1, "enforcement": "check" })).await;
    let ask = async |most| gateway.chat().config(&config).json(&cents(most)).send().await.status;
    assert_eq!((ask(60).await, ask(60).await, ask(1).await), (200, 200, 412));
    let read = gateway.admin().get(&format!("/policies/usage-limits/{id}")).await.expect(200).json();
    assert_eq!(read["enforcement"], "check", "{read}");
    let change = json!({ "credit_limit": 2, "enforcement": "reserve" });
    gateway.admin().put(&format!("/policies/usage-limits/{id}"), &change).await.expect(200);
    assert_eq!((ask(81).await, ask(79).await), (412, 200));
}

async fn entities(gateway: &Gateway, id: &str, query: &str) -> Vec<Value> {
    let path = format!("/policies/usage-limits/{id}/entities?{query}");
    gateway.admin().get(&path).await.expect(200).json()["data"].as_array().expect("a list").clone()
}

/// Once the record of the last call is with the counts: that takes a moment, and calls do not wait for it.
async fn used(gateway: &Gateway, id: &str, value_key: &str, usage: &Value) -> Value {
    eventually("what was used", || async {
        let all = entities(gateway, id, "").await;
        all.into_iter().find(|e| e["value_key"] == value_key && e["current_usage"] == *usage)
    })
    .await
}

#[tokio::test]
async fn what_groups_used_is_told_and_set_back() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let upstream = greedy().await;
    let config = target(&upstream);
    let fields = json!({ "type": "cost", "credit_limit": 1, "alert_threshold": 1, "periodic_reset": "weekly",
        "group_by": [{ "key": "metadata._user" }, { "key": "model" }] });
    let refused = gateway
        .admin()
        .post(
            "/policies/usage-limits",
            &with(json!({"conditions": [{"key": "api_key", "value": "*"}]}), fields.clone()),
        )
        .await;
    assert_eq!(refused.status, 400, "a threshold must be below its limit");
    let id = usage_policy(&gateway, with(fields, json!({ "alert_threshold": null }))).await;
    let ask = async |user: &str, most| {
        let call = gateway.chat().config(&config).header("x-gateway-metadata", &json!({ "_user": user }).to_string());
        call.json(&cents(most)).send().await.status
    };
    assert_eq!((ask("ann", 98).await, ask("ann", 5).await, ask("bob", 25).await), (200, 412, 200));
    let ann = used(&gateway, &id, "model:gpt-4o,metadata._user:ann", &json!(0.98)).await;
    assert_eq!((&ann["status"], &ann["last_reset_at"]), (&json!("active"), &Value::Null));
    assert_eq!(ask("ann", 1).await, 200);
    used(&gateway, &id, "model:gpt-4o,metadata._user:bob", &json!(0.25)).await;
    assert_eq!(entities(&gateway, &id, "search=_user:a").await.len(), 1);

    // Lowered below what was used it is exhausted at once, raised it is active again.
    let path = format!("/policies/usage-limits/{id}");
    let key = ann["id"].as_str().expect("an id");
    assert_eq!(ask("bob", 74).await, 200);
    used(&gateway, &id, "model:gpt-4o,metadata._user:bob", &json!(0.99)).await;
    assert_eq!((ask("bob", 2).await, entities(&gateway, &id, "status=exhausted").await.len()), (412, 0));
    gateway.admin().put(&path, &json!({ "credit_limit": 1.5 })).await.expect(200);
    assert_eq!(ask("bob", 50).await, 200);
    gateway.admin().put(&path, &json!({ "credit_limit": 1 })).await.expect(200);
    let exhausted = eventually("bob is exhausted", || async {
        Some(entities(&gateway, &id, "status=exhausted").await).filter(|all| all.len() == 1)
    })
    .await;
    assert_eq!(exhausted[0]["value_key"], "model:gpt-4o,metadata._user:bob");
    gateway.admin().put(&path, &json!({ "credit_limit": 2 })).await.expect(200);
    assert_eq!(entities(&gateway, &id, "status=exhausted").await.len(), 0, "raising the limit re-activates");
    assert_eq!(ask("bob", 40).await, 200);

    gateway.admin().put(&path, &json!({ "credit_limit": 1 })).await.expect(200);
    assert_eq!(ask("ann", 5).await, 412);
    gateway.admin().put(&format!("{path}/entities/{key}/reset"), &json!({})).await.expect(200);
    let ann = used(&gateway, &id, "model:gpt-4o,metadata._user:ann", &json!(0)).await;
    assert!(ann["last_reset_at"].is_string(), "{ann}");
    assert_eq!((ask("ann", 99).await, ask("bob", 1).await), (200, 412));
    let value = json!({ "reset_usage_for_value": "model:gpt-4o,metadata._user:bob" });
    gateway.admin().put(&path, &value).await.expect(200);
    assert_eq!(ask("bob", 99).await, 200);
}

/// The record of the last call is still on its way to where usage is kept when its value is set back.
#[tokio::test]
async fn what_was_used_a_moment_ago_is_set_back_too() {
    let gateway = Gateway::start().await;
    let upstream = greedy().await;
    let config = target(&upstream);
    let fields = json!({ "type": "cost", "credit_limit": 1, "group_by": [{ "key": "metadata._user" }] });
    let id = usage_policy(&gateway, fields).await;
    let path = format!("/policies/usage-limits/{id}");
    for user in ["ann", "bob", "cleo", "dan"] {
        let ask = async || {
            let call = gateway.chat().config(&config);
            let call = call.header("x-gateway-metadata", &json!({ "_user": user }).to_string());
            call.json(&cents(98)).send().await.status
        };
        assert_eq!((ask().await, ask().await), (200, 412));
        let value = json!({ "reset_usage_for_value": format!("metadata._user:{user}") });
        gateway.admin().put(&path, &value).await.expect(200);
        assert_eq!((ask().await, ask().await), (200, 412), "{user}");
        used(&gateway, &id, &format!("metadata._user:{user}"), &json!(0.98)).await;
    }
}

#[tokio::test]
async fn a_keys_budget_is_exhausted_and_active_again() {
    stand_at_noon();
    let gateway = Gateway::start().await;
    let upstream = greedy().await;
    let config = target(&upstream);
    let limits = json!({ "usage_limits": { "type": "tokens", "credit_limit": 1_000 } });
    let (id, key) = gateway.admin().workspace_key("spender", limits).await;
    let ask = async || gateway.chat().key(&key).config(&config).json(&cents(1)).send().await.status;
    assert_eq!((ask().await, ask().await), (200, 412));
    let path = format!("/api-keys/{id}");
    let read = async || gateway.admin().get(&path).await.expect(200).json();
    let shown =
        eventually("exhausted", || async { Some(read().await).filter(|key| key["status"] == "exhausted") }).await;
    assert_eq!((&shown["status"], &shown["usage_limits"]["current_usage"]), (&json!("exhausted"), &json!(1_000)));
    gateway.admin().put(&path, &json!({ "usage_limits": { "credit_limit": 2_100 } })).await.expect(200);
    assert_eq!(read().await["status"], "active");
    assert_eq!((ask().await, ask().await), (200, 412));
    gateway.admin().put(&path, &json!({ "reset_usage": true })).await.expect(200);
    assert_eq!(read().await["usage_limits"]["current_usage"], 0);
    assert_eq!(ask().await, 200);
}

/// Killed at any moment after the record is on disk, before or after it is in the database: nothing is forgotten and
/// nothing counted twice.
#[tokio::test]
async fn counts_survive_a_kill_and_a_restart() {
    stand_at_noon();
    let mut gateway = Gateway::start().await;
    let upstream = greedy().await;
    let config = target(&upstream);
    let id = usage_policy(&gateway, json!({ "type": "cost", "credit_limit": 1 })).await;
    for round in 1..=3_u64 {
        let before = gateway.journal_bytes();
        gateway.chat().config(&config).json(&cents(20)).send().await.expect(200);
        // More than the head of a new segment.
        eventually("a record on disk", || async { Some(()).filter(|()| gateway.journal_bytes() > before + 128) }).await;
        gateway = gateway.restart_after_kill(&[]).await;
        used(&gateway, &id, "", &json!((20 * round) as f64 / 100.0)).await;
    }
    // Once more when everything is in the database, and by a stop that lets the process say its last word.
    gateway = gateway.restart_after_kill(&[]).await;
    gateway.chat().config(&config).json(&cents(20)).send().await.expect(200);
    gateway = gateway.restart_with(&[]).await;
    used(&gateway, &id, "", &json!(0.8)).await;
    let refused = gateway.chat().config(&config).json(&cents(21)).send().await.expect(412);
    assert!(refused.error().contains("$0.2 are left"), "{}", refused.error());
    gateway.chat().config(&config).json(&cents(19)).send().await.expect(200);
}

#[tokio::test]
async fn thresholds_are_told_once_in_the_audit_trail_and_to_a_webhook() {
    stand_at_noon();
    let hook = Upstream::replying(|_| reply::whole(204, &[], String::new())).await;
    let gateway = Gateway::with(&["--alert-webhook", &hook.url()]).await;
    let upstream = greedy().await;
    let config = target(&upstream);
    usage_policy(
        &gateway,
        json!({ "type": "cost", "credit_limit": 2, "alert_threshold": 1.5, "enforcement": "check" }),
    )
    .await;
    let ask = async |most| gateway.chat().config(&config).json(&cents(most)).send().await.expect(200);
    ask(140).await;
    ask(20).await;
    let heard = async |number: usize| {
        eventually("an alert", || async { hook.seen().get(number).map(crate::harness::Seen::json) }).await
    };
    let first = heard(0).await;
    assert_eq!(
        (&first["event"], &first["current_usage"], &first["subject"]["slug"]),
        (&json!("budget.threshold_reached"), &json!(1.6), &json!("spend")),
        "{first}"
    );
    ask(50).await;
    assert_eq!(heard(1).await["event"], "budget.exhausted");
    assert_eq!(gateway.chat().config(&config).json(&cents(1)).send().await.status, 412);
    let org = first["subject"]["organisation_id"].as_str().expect("an id");
    let path = format!("/audit-logs?organisation_id={org}&start_time=2020-01-01&end_time=2100-01-01&user_type=system");
    let trail = gateway.admin().get(&path).await.expect(200).json();
    let actions: Vec<_> = trail["records"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row["action"].clone())
        .filter(|a| *a != "create")
        .collect();
    assert_eq!(actions, ["budget_exhausted", "budget_threshold_reached"], "{trail}");
    assert_eq!(hook.seen().len(), 2);
}

#[tokio::test]
async fn a_webhook_hears_whom_to_mail() {
    let hook = Upstream::replying(|_| reply::whole(204, &[], String::new())).await;
    let gateway = Gateway::with(&["--alert-webhook", &hook.url()]).await;
    let upstream = greedy().await;
    let config = target(&upstream);
    let budget = json!({ "type": "cost", "credit_limit": 1 });
    let fields = json!({ "usage_limits": budget, "alert_emails": ["Ann@Example.com", "bo@example.com"] });
    let (_, key) = gateway.admin().workspace_key("spender", fields).await;
    gateway.chat().key(&key).config(&config).json(&cents(100)).send().await.expect(200);
    let heard = eventually("an alert", || async { hook.seen().first().map(crate::harness::Seen::json) }).await;
    assert_eq!(
        (&heard["event"], &heard["alert_emails"]),
        (&json!("budget.exhausted"), &json!(["ann@example.com", "bo@example.com"])),
        "{heard}"
    );
}

#[tokio::test]
async fn mail_is_promised_only_where_somebody_sends_it() {
    let gateway = Gateway::start().await;
    let body = json!({ "name": "k", "scopes": ["completions.write"], "workspace_id": "default",
        "alert_emails": ["ann@example.com"] });
    let refused = gateway.admin().post("/api-keys/workspace/service", &body).await.expect(400).text();
    assert!(refused.contains("alert_emails needs --alert-webhook"), "{refused}");
}
