//! A new gateway and its first answers: the built-in provider, managed ones, keys and where they stand.

use crate::harness::{ADMIN_KEY, Answer, Gateway, Upstream, WORKSPACE_KEY, hello, reply, with};
use serde_json::json;

#[tokio::test]
async fn the_built_in_mock_answers_without_any_setup() {
    let gateway = Gateway::start().await;
    let answer = gateway.chat().provider("mock").json(&hello()).send().await.expect(200);
    assert_eq!(answer.said(), "You said: hello there");
    assert_eq!(answer.json()["object"], "chat.completion");
    for (name, value) in [
        ("x-gateway-provider", "mock"),
        ("x-gateway-retry-attempt-count", "0"),
        ("x-gateway-last-used-option-index", "config"),
        ("x-gateway-cache-status", "DISABLED"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    assert!(answer.header("x-gateway-trace-id").is_some_and(|id| !id.is_empty()));
}

#[tokio::test]
async fn the_built_in_mock_streams() {
    let gateway = Gateway::start().await;
    let asked = with(hello(), json!({ "stream": true }));
    let answer = gateway.chat().provider("mock").json(&asked).send().await.expect(200);
    assert!(answer.header("content-type").is_some_and(|t| t.starts_with("text/event-stream")));
    assert_eq!(answer.said(), "You said: hello there");
    assert_eq!(answer.events().last().map(String::as_str), Some("[DONE]"));
}

#[tokio::test]
async fn the_built_in_mock_speaks_every_inference_route() {
    let gateway = Gateway::start().await;
    let message = with(hello(), json!({ "max_tokens": 50 }));
    let answer = gateway.post("/v1/messages").provider("mock").json(&message).send().await.expect(200);
    assert_eq!(answer.json()["content"][0]["text"], "You said: hello there");
    let asked = json!({ "model": "m", "prompt": "once upon" });
    let answer = gateway.post("/v1/completions").provider("mock").json(&asked).send().await.expect(200);
    assert_eq!(answer.json()["choices"][0]["text"], "You said: once upon");
    let asked = json!({ "model": "m", "input": "a" });
    let answer = gateway.post("/v1/embeddings").provider("mock").json(&asked).send().await.expect(200);
    assert_eq!(answer.json()["data"][0]["embedding"].as_array().map(Vec::len), Some(8));
    let answer = gateway.get("/v1/models").provider("mock").send().await.expect(200);
    assert_eq!(answer.json()["object"], "list");
}

#[tokio::test]
async fn a_trace_id_that_is_given_comes_back() {
    let gateway = Gateway::start().await;
    let call = gateway.chat().provider("mock").header("x-gateway-trace-id", "trace-1");
    assert_eq!(call.json(&hello()).send().await.expect(200).header("x-gateway-trace-id"), Some("trace-1"));
}

#[tokio::test]
async fn the_gateway_key_may_stand_in_three_places() {
    let gateway = Gateway::start().await;
    let bearer = format!("Bearer {WORKSPACE_KEY}");
    for (name, value) in
        [("x-gateway-api-key", WORKSPACE_KEY), ("authorization", bearer.as_str()), ("x-api-key", WORKSPACE_KEY)]
    {
        let call = gateway.chat().without("x-gateway-api-key").header(name, value).provider("mock");
        assert_eq!(call.json(&hello()).send().await.status, 200, "{name}");
    }
}

fn is_refused(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert!(!answer.error().is_empty(), "an SDK finds a message: {}", answer.text());
    assert_eq!(answer.json()["data"]["errorCode"], code, "{}", answer.text());
    assert_eq!(answer.json()["success"], false);
}

#[tokio::test]
async fn keys_that_may_not_are_refused() {
    let gateway = Gateway::start().await;
    let ask = |call: crate::harness::call::Call| call.provider("mock").json(&hello()).send();
    is_refused(&ask(gateway.chat().key("gw_svc_0123456789abcdefghijklmnopqrstuv_abcdef")).await, 401, "AB05");
    is_refused(&ask(gateway.chat().without("x-gateway-api-key")).await, 401, "AB05");
    is_refused(&ask(gateway.chat().key(ADMIN_KEY)).await, 403, "AB03");
    // A good key in another place does not mend a bad one in the first.
    let bearer = format!("Bearer {WORKSPACE_KEY}");
    is_refused(&ask(gateway.chat().key("unknown").header("authorization", &bearer)).await, 401, "AB05");
}

#[tokio::test]
async fn a_deleted_key_is_refused_at_once() {
    let gateway = Gateway::start().await;
    let (id, key) = gateway.admin().workspace_key("short-lived", json!({})).await;
    gateway.chat().key(&key).provider("mock").json(&hello()).send().await.expect(200);
    gateway.admin().delete(&format!("/api-keys/{id}")).await.expect(200);
    is_refused(&gateway.chat().key(&key).provider("mock").json(&hello()).send().await, 401, "AB05");
}

#[tokio::test]
async fn a_managed_provider_is_chosen_by_its_slug() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    gateway.admin().provider("main", "openai", Some(&upstream.url())).await;
    let by_header = gateway.chat().provider("@main").json(&hello());
    let by_virtual_key = gateway.chat().header("x-gateway-virtual-key", "main").json(&hello());
    let by_model = gateway.chat().json(&with(hello(), json!({ "model": "@main/gpt-4o-mini" })));
    for call in [by_header, by_virtual_key, by_model] {
        let answer = call.send().await.expect(200);
        assert_eq!(answer.said(), "hi");
        assert_eq!(answer.header("x-gateway-provider"), Some("openai"));
    }
    let seen = upstream.seen();
    assert_eq!(seen.len(), 3);
    for seen in seen {
        assert_eq!((seen.method.as_str(), seen.target.as_str()), ("POST", "/v1/chat/completions"));
        assert_eq!(seen.header("authorization"), Some("Bearer sk-managed"));
        assert_eq!(seen.json()["model"], "gpt-4o-mini");
    }
}

#[tokio::test]
async fn nothing_of_the_gateways_own_reaches_the_upstream() {
    let gateway = Gateway::start().await;
    let upstream = Upstream::replying(|_| reply::chat("hi")).await;
    let call = gateway.chat_through(&upstream).header("x-gateway-metadata", r#"{"_user":"ann"}"#);
    let call = call.header("x-gateway-trace-id", "t").header("cookie", "session=1").header("x-other", "1");
    call.json(&hello()).send().await.expect(200);
    // The gateway's key stands where an upstream's credential belongs: it is dropped, not forwarded.
    let bearer = format!("Bearer {WORKSPACE_KEY}");
    let custom = gateway.chat().provider("openai").header("x-gateway-custom-host", &upstream.url());
    let _ = custom.header("authorization", &bearer).header("x-api-key", WORKSPACE_KEY).json(&hello()).send().await;
    for seen in upstream.seen() {
        for (name, value) in &seen.headers {
            assert!(!name.to_lowercase().starts_with("x-gateway"), "{name} went upstream");
            assert!(!value.contains(WORKSPACE_KEY), "the gateway key went upstream in {name}");
            assert!(!["cookie", "x-other"].contains(&name.to_lowercase().as_str()), "{name} was not asked to go");
        }
    }
    assert_eq!(upstream.seen()[0].header("authorization"), Some("Bearer sk-upstream"));
}

#[tokio::test]
async fn a_request_that_names_no_provider_is_told_how() {
    let gateway = Gateway::start().await;
    let answer = gateway.chat().json(&hello()).send().await.expect(400);
    assert!(answer.error().contains("x-gateway-provider") && answer.error().contains("x-gateway-config"));
    assert_eq!(answer.json()["status"], "failure");
    gateway.chat().provider("no-such-provider").json(&hello()).send().await.expect(400);
    let answer = gateway.chat().provider("@no-such-slug").json(&hello()).send().await.expect(400);
    assert!(answer.error().contains("no-such-slug"), "{}", answer.error());
    gateway.chat().json(&with(hello(), json!({ "model": "@no-such-slug/m" }))).send().await.expect(400);
}

#[tokio::test]
async fn a_header_alias_is_accepted_and_answered() {
    let gateway = Gateway::with(&["--header-alias", "x-acme-"]).await;
    let call = gateway.chat().without("x-gateway-api-key").header("x-acme-api-key", WORKSPACE_KEY);
    let call = call.header("x-acme-provider", "mock").header("x-acme-trace-id", "t-1");
    let answer = call.json(&hello()).send().await.expect(200);
    for name in ["x-acme-provider", "x-gateway-provider"] {
        assert_eq!(answer.header(name), Some("mock"), "{name}");
    }
    assert_eq!(answer.header("x-acme-trace-id"), Some("t-1"));
    let bad = gateway.chat().provider("mock").header("x-acme-request-timeout", "soon").json(&hello());
    let bad = bad.send().await.expect(400);
    assert!(bad.error().contains("x-acme-request-timeout"), "{}", bad.error());
}

#[tokio::test]
async fn without_bootstrap_keys_new_ones_are_printed_once() {
    let gateway = Gateway::bare(&[]).await;
    let printed = gateway.process.output();
    let keys: Vec<&str> = printed
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("gw_") && word.len() > 32)
        .collect();
    let mut statuses = Vec::new();
    for key in &keys {
        statuses.push(gateway.chat().key(key).provider("mock").json(&hello()).send().await.status);
    }
    statuses.sort_unstable();
    statuses.dedup();
    assert_eq!(statuses, [200, 403], "one key calls models, the other administers: {printed}");
    let again = gateway.restart().await;
    let after = &again.process.output()[printed.len()..];
    assert!(!keys.iter().any(|key| after.contains(key)), "keys were printed again");
    assert!(!after.contains("gw_"), "new keys at the second start: {after}");
}

#[tokio::test]
async fn routes_that_are_none_are_404() {
    let gateway = Gateway::start().await;
    let answer = gateway.get("/no/such/thing").send().await.expect(404);
    assert_eq!(answer.json()["ok"], false);
    gateway.get("/").send().await.expect(200);
    gateway.get("/v1/health").without("x-gateway-api-key").send().await.expect(200);
}
