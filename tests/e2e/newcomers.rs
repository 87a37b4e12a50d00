//! What people do wrong in their first hour, and what the gateway tells them: each message says what would be right,
//! where the client's own SDK looks for it.

use crate::harness::{Gateway, Upstream, hello, reply};
use serde_json::{Value, json};

#[tokio::test]
async fn a_first_mistake_is_told_with_what_would_be_right() {
    let gateway = Gateway::start().await;
    let hello = hello().to_string();
    let chat = || gateway.chat().provider("mock");
    for (call, status, told) in [
        (
            gateway.chat().provider("my-openai").json(&serde_json::from_str(&hello).expect("JSON")),
            400,
            "is `@my-openai`",
        ),
        (chat().body("application/x-www-form-urlencoded", hello.clone()), 400, "takes application/json"),
        (chat().header("content-encoding", "gzip").body("application/json", "?"), 400, "send the body as it is"),
        (chat().body("application/json", ""), 400, "it is empty"),
        (gateway.call("POST", "/chat/completions").body("application/json", hello.clone()), 404, "begins with /v1"),
    ] {
        let answer = call.send().await.expect(status);
        assert!(answer.error().contains(told), "{told} in {}", answer.text());
    }
    let lost = gateway.call("GET", "/nowhere").send().await.expect(404).json();
    assert_eq!((&lost["message"], &lost["ok"]), (&json!("Not Found"), &json!(false)), "as the contract has it");
}

#[tokio::test]
async fn a_base_url_with_the_version_in_a_client_that_adds_it_is_understood() {
    let up = Upstream::replying(|_| reply::chat("hello")).await;
    let gateway = Gateway::start().await;
    gateway.admin().provider("up", "openai", Some(&up.url())).await;
    let call = gateway.call("POST", "/v1/v1/chat/completions").provider("@up").json(&hello());
    call.send().await.expect(200);
    assert_eq!(up.only().target, "/v1/chat/completions");
}

/// What chose the provider means nothing to it; the rest of what passes through keeps its bytes.
#[tokio::test]
async fn a_model_that_names_its_provider_passes_through_by_its_own_name() {
    let up = Upstream::replying(|_| reply::json(200, &json!({ "id": "c" }))).await;
    let gateway = Gateway::start().await;
    gateway.admin().provider("co", "cohere", Some(up.url().trim_end_matches("/v1"))).await;
    let through = |body: &str| gateway.post("/v1/proxy/v2/chat").bytes(body.to_owned());
    through(r#"{ "stream":false , "model" : "@co/command-a", "temperature":1.50}"#).send().await.expect(200);
    assert_eq!(up.only().text(), r#"{ "stream":false , "model" : "command-a", "temperature":1.50}"#);
    // Named by the header; what the model looks like is the provider's business.
    let other = r#"{"model":"@else/command-a"}"#;
    through(other).provider("@co").send().await.expect(200);
    assert_eq!(up.seen()[1].text(), other);
}

/// A part that is wrong is quoted by readers of JSON; one of a megabyte must not come back whole.
#[tokio::test]
async fn what_is_wrong_is_not_sent_back_by_the_megabyte() {
    let gateway = Gateway::start().await;
    gateway.admin().provider("claude", "anthropic", Some("http://127.0.0.1:9/v1")).await;
    let content = json!([{ "type": "text", "text": "look" }, "x".repeat(1 << 20)]);
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": content }] });
    let answer = gateway.chat().provider("@claude").json(&body).send().await.expect(400);
    assert!(answer.body.len() < 4096 && !answer.error().is_empty(), "{} bytes: {}", answer.body.len(), answer.error());
}

/// Google's, Amazon's and Cohere's SDKs read errors of their own APIs, also where the gateway makes them.
#[tokio::test]
async fn errors_of_the_gateway_are_read_by_sdks_of_native_apis() {
    let gateway = Gateway::start().await;
    let told = |answer: &Value| answer["message"].as_str().unwrap_or_default().to_owned();
    let native = |path: &str| gateway.call("POST", path).key("nobody").json(&json!({}));
    for path in ["/v1/proxy/v2/chat", "/v1/proxy/model/m/converse"] {
        let answer = native(path).send().await.expect(401).json();
        assert!(told(&answer).contains("key"), "{answer}");
    }
    for path in ["/v1/proxy/v1beta/models/gemini-2.5-flash:generateContent", "/v1/models/gemini-2.5-flash:countTokens"]
    {
        let answer = native(path).send().await.expect(401).json();
        assert_eq!((&answer["error"]["code"], &answer["error"]["status"]), (&json!(401), &json!("UNAUTHENTICATED")));
        let unnamed = gateway.call("POST", path).json(&json!({})).send().await.expect(400).json();
        assert_eq!((&unnamed["error"]["status"], &unnamed["status"]), (&json!("INVALID_ARGUMENT"), &Value::Null));
    }
}
