//! Clients of one dialect, providers of another: through the real binary, with what only it can show (paths, heads,
//! fallback between families, records). The bodies themselves are golden cases of the `providers` crate.

use crate::harness::{Gateway, Upstream, WORKSPACE_KEY, gateway::target, reply, with};
use serde_json::{Value, json};

fn messages(more: Value) -> Value {
    let body =
        json!({ "model": "m", "max_tokens": 50, "messages": [{ "role": "user", "content": "Say hello in French" }] });
    with(body, more)
}

/// `target` of Anthropic's family.
fn claude(upstream: &Upstream, key: &str) -> Value {
    with(target(upstream), json!({ "provider": "anthropic", "api_key": key }))
}

fn thoughtful() -> Value {
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": "end_turn",
        "content": [
            { "type": "thinking", "thinking": "They greet.", "signature": "EqQB" },
            { "type": "text", "text": "Bonjour" },
        ],
        "usage": { "input_tokens": 9, "output_tokens": 7 },
    })
}

/// Events by name, in order.
fn events(text: &str) -> Vec<(String, Value)> {
    let of = |event: &str| {
        let name = event.lines().find_map(|l| l.strip_prefix("event: "))?.to_owned();
        let data = event.lines().find_map(|l| l.strip_prefix("data: "))?;
        Some((name, serde_json::from_str(data).unwrap_or_else(|e| panic!("{data}: {e}"))))
    };
    text.split("\n\n").filter_map(of).collect()
}

#[tokio::test]
async fn a_messages_client_falls_back_from_one_family_to_another() {
    let gateway = Gateway::start().await;
    let busy = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } });
    let first = Upstream::replying(move |_| reply::json(529, &busy)).await;
    let second = Upstream::replying(|_| reply::stream(&["Bon", "jour"])).await;
    let targets = [claude(&first, "sk-a"), target(&second)];
    let config = json!({ "strategy": { "mode": "fallback" }, "targets": targets });
    let body = messages(json!({ "stream": true, "top_k": 3 }));
    let answer = gateway.post("/v1/messages").config(&config).json(&body).send().await.expect(200);
    let names: Vec<String> = events(&answer.text()).into_iter().map(|(name, _)| name).collect();
    let expected = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names, expected);
    assert_eq!(answer.header("x-gateway-adjusted-params"), Some("top_k"));
    let seen = second.only();
    assert_eq!(seen.target, "/v1/chat/completions");
    assert_eq!(seen.header("authorization"), Some("Bearer sk-upstream"));
    assert_eq!(seen.json()["stream_options"]["include_usage"], true, "usage is asked for though the client cannot");
    assert_eq!(first.only().target, "/v1/messages");
}

#[tokio::test]
async fn errors_come_in_the_words_of_the_client() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::error(429, &[("retry-after", "7")])).await;
    let call = gateway.post("/v1/messages").config(&target(&upstream)).json(&messages(json!({})));
    let answer = call.send().await.expect(429);
    let body = answer.json();
    assert_eq!((body["type"].as_str(), body["error"]["type"].as_str()), (Some("error"), Some("rate_limit_error")));
    assert_eq!((body["provider"].as_str(), answer.header("retry-after")), (Some("openai"), Some("7")));

    let late = [reply::STREAM, &reply::role(), &reply::delta("Hel"), reply::LAST_CHUNK].concat();
    let upstream = Upstream::replying(move |_| late.clone()).await;
    let body = json!({ "model": "m", "input": "Hi", "stream": true });
    let config = with(target(&upstream), json!({ "provider": "deepseek" }));
    let answer = gateway.post("/v1/responses").config(&config).json(&body).send().await.expect(200);
    let all = events(&answer.text());
    let kinds: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(kinds[kinds.len() - 2..], ["error", "response.failed"], "{kinds:?}");
    let numbers: Vec<u64> = all.iter().filter_map(|(_, event)| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..all.len() as u64).collect::<Vec<_>>());
}

#[tokio::test]
async fn opaque_reasoning_goes_back_to_the_credential_that_made_it_and_to_no_other() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::json(200, &thoughtful())).await;
    let ask = async |key: &str, input: Value| {
        let body = json!({ "model": "claude-sonnet-4-5", "input": input });
        gateway.post("/v1/responses").config(&claude(&upstream, key)).json(&body).send().await.expect(200)
    };
    let output = ask("sk-a", json!("Hi")).await.json()["output"].clone();
    assert_eq!(output[0]["type"], "reasoning");
    let stamped = output[0]["encrypted_content"].as_str().expect("it is always included").to_owned();
    assert!(!stamped.contains("sk-a"), "a stamp tells no key");
    let mut history = vec![json!({ "role": "user", "content": "Hi" })];
    history.extend(output.as_array().expect("items").iter().cloned());
    history.push(json!({ "role": "user", "content": "Again" }));

    let own = ask("sk-a", json!(history)).await;
    assert_eq!(own.header("x-gateway-adjusted-params"), None);
    let foreign = ask("sk-b", json!(history)).await;
    assert_eq!(foreign.header("x-gateway-adjusted-params"), Some("input.reasoning"));
    let sent: Vec<Value> = upstream.seen().iter().map(|seen| seen.json()["messages"][1]["content"].clone()).collect();
    assert_eq!(sent[1][0], json!({ "type": "thinking", "thinking": "They greet.", "signature": "EqQB" }));
    assert_eq!(sent[2], json!([{ "type": "text", "text": "Bonjour" }]));
}

#[tokio::test]
async fn kept_responses_are_asked_for_where_they_are_kept() {
    let gateway = Gateway::start().await;
    let kept = json!({
        "id": "resp_1", "object": "response", "model": "gpt-4o-mini",
        "usage": { "input_tokens": 3, "output_tokens": 4, "total_tokens": 7 },
    });
    let upstream = Upstream::replying(move |_| reply::json(200, &kept)).await;
    for (method, path) in [
        ("GET", "/v1/responses/resp_1?include=x"),
        ("DELETE", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1/input_items?limit=2"),
        ("POST", "/v1/responses/resp_1/cancel"),
    ] {
        let answer = gateway.call(method, path).config(&target(&upstream)).send().await.expect(200);
        assert_eq!(answer.json()["id"], "resp_1");
        let seen = upstream.seen().pop().expect("it went up");
        assert_eq!((seen.method.as_str(), seen.target.as_str()), (method, path));
        let refused = gateway.call(method, path).config(&claude(&upstream, "sk-a")).send().await.expect(400);
        assert!(refused.error().contains("anthropic keeps no responses"), "{}", refused.text());
    }
    assert_eq!(upstream.seen().len(), 4, "what is refused goes nowhere");
}

#[tokio::test]
async fn tokens_are_counted_here_when_the_provider_cannot() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::json(200, &json!({ "input_tokens": 77 }))).await;
    let count = async |config: &Value| {
        let call = gateway.post("/v1/messages/count_tokens").key(WORKSPACE_KEY).config(config);
        call.json(&messages(json!({}))).send().await.expect(200).json()
    };
    let counted = count(&target(&upstream)).await;
    assert_eq!(counted["estimated"], true);
    let tokens = counted["input_tokens"].as_u64().expect("a number");
    assert!((5..=12).contains(&tokens), "{tokens} tokens for four words");
    assert!(upstream.seen().is_empty());
    assert_eq!(count(&claude(&upstream, "sk-a")).await, json!({ "input_tokens": 77 }));
}
