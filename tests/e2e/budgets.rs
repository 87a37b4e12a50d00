//! Budgets on the proxy port: what is held at which price, who is refused, and what still passes.

use crate::harness::{Answer, Gateway, Upstream, gateway::target, reply, with};
use serde_json::{Value, json};

/// Answers that use up whatever they may, of a model that costs a cent for each thousand tokens that come out.
async fn greedy() -> Upstream {
    Upstream::replying(|seen| {
        let most = seen.json()["max_tokens"].as_u64().unwrap_or(3);
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
