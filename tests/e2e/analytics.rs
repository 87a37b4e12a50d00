//! Who spent what, asked of the real program: calls go in at the proxy port, sums come out at the admin port, and are
//! the same after a kill.

use crate::harness::{Gateway, Upstream, eventually, gateway::target, hello, reply};
use serde_json::{Value, json};

async fn asked(gateway: &Gateway, path: &str) -> Value {
    let range = "time_of_generation_min=2025-01-01&time_of_generation_max=2034-01-01";
    gateway.admin().get(&format!("/analytics/{path}?{range}")).await.expect(200).json()
}

/// Waits until as many calls are counted.
async fn counted(gateway: &Gateway, calls: u64) {
    eventually("the calls are counted", || async {
        (asked(gateway, "graphs/requests").await["summary"]["total"] == calls).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_was_spent_is_told_by_key_user_model_and_named_metadata() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    gateway.admin().put("/admin/organisation", &json!({ "analytics_metadata_keys": ["team"] })).await.expect(200);
    let (id, key) = gateway.admin().workspace_key("spender", json!({})).await;
    let config = target(&upstream);
    let ask = async |key: Option<&str>, metadata: &str| {
        let call = gateway.chat().config(&config).header("x-gateway-metadata", metadata).json(&hello());
        let call = if let Some(key) = key { call.key(key) } else { call };
        call.send().await.expect(200);
    };
    ask(Some(&key), r#"{"_user":"ann","team":"red"}"#).await;
    ask(Some(&key), r#"{"_user":"ann","team":"blue"}"#).await;
    ask(None, r#"{"_user":"bob","team":"red"}"#).await;
    counted(&gateway, 3).await;
    let row = async |path: &str, label: &str, value: &str| {
        let told = asked(&gateway, path).await;
        let found = told["data"].as_array().and_then(|rows| rows.iter().find(|row| row[label] == value));
        found.unwrap_or_else(|| panic!("no {value} in {told}")).clone()
    };
    assert_eq!(row("groups/api_key", "api_key", &id).await["requests"], 2);
    assert_eq!(row("groups/users", "user", "bob").await["requests"], "1");
    assert_eq!(row("groups/metadata/team", "metadata_value", "red").await["requests"], 2);
    let model = row("groups/model", "model", "gpt-4o-mini").await;
    let cost = asked(&gateway, "graphs/cost").await["summary"]["total"].clone();
    assert!(model["cost"] == cost && cost.as_f64() > Some(0.0), "{model} {cost}");
    assert_eq!(asked(&gateway, "graphs/users").await["summary"]["total"], 2);
}

#[tokio::test]
async fn sums_are_the_same_after_a_kill() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let config = target(&upstream);
    for _ in 0..5 {
        gateway.chat().config(&config).json(&hello()).send().await.expect(200);
    }
    counted(&gateway, 5).await;
    let before = asked(&gateway, "groups/model").await;
    let gateway = gateway.restart_after_kill(&[]).await;
    assert_eq!(asked(&gateway, "groups/model").await, before);
    gateway.chat().config(&config).json(&hello()).send().await.expect(200);
    counted(&gateway, 6).await;
}

#[tokio::test]
async fn guardrails_say_what_calls_are_worth() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("a cat")).await;
    let check = json!({ "id": "default.contains", "parameters": { "words": ["cat"], "operator": "none" } });
    let actions = json!({
        "deny": false, "async": false,
        "on_fail": { "feedback": { "value": -5, "weight": 0.5 } }, "on_success": { "feedback": { "value": 3, "weight": 1 } },
    });
    let guardrail = json!({ "name": "no cats", "checks": [check], "actions": actions });
    let made = gateway.admin().post("/guardrails", &guardrail).await.expect(200).json();
    let mut config = target(&upstream);
    config["output_guardrails"] = json!([made["slug"]]);
    let call = gateway.chat().config(&config).header("x-gateway-trace-id", "judged").json(&hello());
    call.send().await.expect(246);
    eventually("the guardrail's feedback", || async {
        let told = asked(&gateway, "graphs/feedbacks/ai-models").await;
        let wanted = json!([{ "ai_model": "gpt-4o-mini", "total": 1, "avg_weighted_feedback": -5.0 }]);
        (told["data_points"] == wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn clients_say_what_calls_are_worth() {
    let gateway = Gateway::start().await;
    for (value, weight) in [(10, 0.5), (-5, 1.0)] {
        let told = json!({ "trace_id": "rated", "value": value, "weight": weight, "metadata": { "by": "ann" } });
        gateway.post("/v1/feedback").json(&told).send().await.expect(200);
    }
    let told = asked(&gateway, "graphs/feedbacks/weighted").await;
    assert_eq!(told["summary"]["avg"], 0.0);
    assert_eq!(asked(&gateway, "graphs/feedbacks").await["summary"]["total"], 2);
}
