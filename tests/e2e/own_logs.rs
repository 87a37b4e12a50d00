//! Records that clients tell of: in the journal before they are answered, priced by the writer, and in every sum.

use crate::harness::{Gateway, eventually};
use serde_json::{Value, json};

fn external_log(span: &str) -> Value {
    json!({
        "request": {
            "url": "https://api.openai.com/v1/chat/completions",
            "method": "POST",
            "headers": {"authorization": "Bearer sk-canary-canary"},
            "body": {"model": "gpt-4o-mini", "messages": []},
        },
        "response": {
            "status": 429,
            "body": {"error": {"message": "slow down"}, "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0}},
            "response_time": 20,
        },
        "metadata": {"trace_id": "told", "span_id": span, "_user": "ann"},
    })
}

async fn summed(gateway: &Gateway, graph: &str) -> Value {
    let range = "time_of_generation_min=2025-01-01&time_of_generation_max=2034-01-01";
    let answer = gateway.admin().get(&format!("/analytics/graphs/{graph}?{range}")).await.expect(200);
    answer.json()["summary"]["total"].clone()
}

#[tokio::test]
async fn what_was_answered_is_kept_though_the_gateway_dies_and_is_kept_once() {
    let gateway = Gateway::start().await;
    let scopes = json!({"scopes": ["completions.write", "logs.write"]});
    let (_, key) = gateway.admin().workspace_key("teller", scopes).await;
    let send = async |gateway: &Gateway, spans: &[&str]| {
        let all: Vec<Value> = spans.iter().map(|span| external_log(span)).collect();
        gateway.post("/v1/logs").key(&key).json(&json!(all)).send().await.expect(200).json()["ids"].clone()
    };
    let first = send(&gateway, &["one", "two"]).await;
    let gateway = gateway.restart_after_kill(&[]).await;
    // The client heard nothing, as far as it knows, and sends again.
    assert_eq!(send(&gateway, &["one", "two"]).await, first);
    eventually("both are summed up", || async { (summed(&gateway, "requests").await == 2).then_some(()) }).await;
    send(&gateway, &["two", "three"]).await;
    eventually("the third is", || async { (summed(&gateway, "requests").await == 3).then_some(()) }).await;
    // A million tokens of the list's price, three times.
    assert_eq!(summed(&gateway, "cost").await, 45.0);
    let id = first[0].as_str().expect("an id");
    let shown = gateway.admin().get(&format!("/logs/{id}")).await.expect(200).json();
    assert_eq!(shown["response"]["body"]["error"]["message"], "slow down");
    assert!(!shown.to_string().contains("canary"), "{shown}");
    // They are no work of the gateway's own.
    let metrics = gateway.metrics().await;
    assert!(!metrics.contains("code=\"429\""), "{metrics}");
}

#[tokio::test]
async fn where_no_messages_are_kept_none_of_these_are() {
    let gateway = Gateway::with(&["--log-bodies", "none"]).await;
    let scopes = json!({"scopes": ["completions.write", "logs.write"]});
    let (_, key) = gateway.admin().workspace_key("teller", scopes).await;
    let answer = gateway.post("/v1/logs").key(&key).json(&external_log("quiet")).send().await.expect(200).json();
    let id = answer["ids"][0].as_str().expect("an id").to_owned();
    let shown = eventually("it is stored", || async {
        let answer = gateway.admin().get(&format!("/logs/{id}")).await;
        (answer.status == 200).then(|| answer.json())
    })
    .await;
    assert_eq!((&shown["request"]["body"], &shown["metrics"]["req_units"]), (&json!({}), &json!(1_000_000)));
}
