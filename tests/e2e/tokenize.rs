//! Tokens counted for who asks (`/gateway/tokenize`), on either port, without a call to anybody.

use crate::harness::Gateway;
use serde_json::{Value, json};

#[tokio::test]
async fn texts_and_requests_are_counted_and_estimates_are_called_so() {
    let gateway = Gateway::start().await;
    let (_, key) = gateway.admin().workspace_key("app", json!({})).await;
    let count = async |body: Value| {
        let here = gateway.post("/v1/gateway/tokenize").key(&key).json(&body).send().await.expect(200).json();
        let there = gateway.admin().with_key(&key).post("/gateway/tokenize", &body).await.expect(200).json();
        assert_eq!(here, there, "on either port");
        here
    };
    let told = count(json!({ "model": "@main/gpt-4o", "text": "hello world" })).await;
    let expected = json!({ "object": "tokenization", "model": "gpt-4o", "tokens": 2, "tokenizer": "o200k_base",
                           "estimated": false });
    assert_eq!(told, expected);
    let told = count(json!({ "model": "gpt-4", "text": "hello world" })).await;
    assert_eq!(
        (&told["tokens"], &told["tokenizer"], &told["estimated"]),
        (&json!(2), &json!("cl100k_base"), &json!(false))
    );
    let told = count(json!({ "model": "claude-sonnet-4", "text": "hello world" })).await;
    assert_eq!((&told["tokens"], &told["estimated"]), (&json!(2), &json!(true)));
    let messages = json!([{ "role": "user", "content": "hello world" }]);
    let alone = count(json!({ "model": "gpt-4o", "messages": messages })).await;
    assert!(alone["tokens"].as_u64() > Some(2) && alone["estimated"] == true, "{alone}");
    let tool =
        json!({ "type": "function", "function": { "name": "weather", "description": "Tells the weather of a town" } });
    for (field, value) in
        [("tools", json!([tool])), ("functions", json!([tool["function"]])), ("system", json!("Be brief."))]
    {
        let mut body = json!({ "messages": messages });
        body[field] = value;
        let more = count(body).await;
        assert!(more["tokens"].as_u64() > alone["tokens"].as_u64(), "{field}: {more}");
    }
}

#[tokio::test]
async fn what_cannot_be_counted_is_refused_by_name() {
    let gateway = Gateway::start().await;
    let (_, key) = gateway.admin().workspace_key("app", json!({})).await;
    let ask = |body: &Value| gateway.post("/v1/gateway/tokenize").key(&key).json(body).send();
    for (body, field) in [
        (json!({}), "text"),
        (json!({ "text": 1 }), "text"),
        (json!({ "text": "a", "messages": [] }), "text"),
        (json!({ "tools": [] }), "messages"),
        (json!({ "text": "a", "model": "" }), "model"),
        (json!({ "text": "a", "other": 1 }), "other"),
    ] {
        let refused = ask(&body).await.expect(400);
        assert!(refused.text().contains(field), "{body}: {}", refused.text());
    }
    ask(&json!({ "text": "x".repeat(5 << 20) })).await.expect(413);
    let (_, other) = gateway.admin().workspace_key("other", json!({ "scopes": ["logs.list"] })).await;
    let refused = gateway.post("/v1/gateway/tokenize").key(&other).json(&json!({ "text": "a" })).send().await;
    refused.expect(403);
}
