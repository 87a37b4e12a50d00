//! What of a chat request becomes a Messages request, is dropped by name, or is refused.

use crate::adapter::Call;
use bytes::Bytes;
use gateway_domain::{Dialect, Fault, Operation};
use http::Method;
use serde_json::{Value, json};

fn request(body: &[u8]) -> Result<super::TranslatedBody, Fault> {
    let body = Bytes::copy_from_slice(body);
    super::request(&Call {
        operation: Operation::ChatCompletions,
        dialect: Dialect::OpenAi,
        method: &Method::POST,
        tail: "/chat/completions",
        query: None,
        body: &body,
        model: None,
        form: None,
        sound_ms: None,
        model_span: None,
        stream: false,
        wants_usage: false,
        strict: true,
        now_ms: 0,
        dice: 0,
        origin: 1,
        settings: gateway_domain::cloud::CloudSettings::none(),
        keeps: None,
    })
}

fn made(body: &Value) -> (Value, Vec<&'static str>) {
    let made = request(body.to_string().as_bytes()).unwrap_or_else(|f| panic!("{}", f.message()));
    (serde_json::from_slice(&made.body).expect("JSON"), made.adjusted)
}

fn with(extra: &Value) -> Value {
    let mut body = json!({ "model": "claude-sonnet-4-5", "messages": [{ "role": "user", "content": "Hi" }] });
    for (key, value) in extra.as_object().expect("object") {
        body[key] = value.clone();
    }
    body
}

#[test]
fn what_has_no_counterpart_but_meaning_is_refused_by_name() {
    let message = |m: Value| json!({ "messages": [m] });
    let part = |p: Value| json!({ "messages": [{ "role": "user", "content": [p] }] });
    let image = |url: &str| part(json!({ "type": "image_url", "image_url": { "url": url } }));
    for (extra, field) in [
        (json!({ "n": 2 }), "n"),
        (json!({ "modalities": ["text", "audio"] }), "modalities"),
        (json!({ "audio": { "voice": "x" } }), "audio"),
        (json!({ "functions": [{ "name": "f" }] }), "functions"),
        (json!({ "function_call": { "name": "f" } }), "function_call"),
        (json!({ "web_search_options": {} }), "web_search_options"),
        (json!({ "moderation": { "model": "m" } }), "moderation"),
        (json!({ "response_format": { "type": "xml" } }), "response_format"),
        (json!({ "response_format": { "type": "json_schema" } }), "response_format.json_schema.schema"),
        (json!({ "reasoning_effort": "some" }), "reasoning_effort"),
        (json!({ "thinking": "yes" }), "thinking"),
        (json!({ "stop": 3 }), "stop"),
        (json!({ "tools": [{ "type": "custom", "custom": { "name": "x" } }] }), "tools[0].type"),
        (json!({ "tools": [{ "type": "function" }] }), "tools[0].function"),
        (json!({ "tools": [{ "type": "web_search_20250305", "name": "w" }], "tool_choice": "maybe" }), "tool_choice"),
        (message(json!({ "role": "function", "name": "f", "content": "1" })), "messages[0].role"),
        (message(json!({ "role": "tool", "content": "1" })), "messages[0].tool_call_id"),
        (message(json!({ "role": "assistant", "function_call": { "name": "f" } })), "messages[0].function_call"),
        (message(json!({ "role": "assistant", "audio": { "id": "a" } })), "messages[0].audio"),
        (
            message(json!({ "role": "assistant", "tool_calls": [{ "id": "a", "type": "custom" }] })),
            "messages[0].tool_calls[0].type",
        ),
        (
            message(
                json!({ "role": "assistant", "tool_calls": [{ "id": "a", "function": { "name": "f", "arguments": "[1]" } }] }),
            ),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (message(json!({ "role": "user", "content": 7 })), "messages[0].content"),
        (part(json!({ "type": "video_url" })), "messages[0].content[0].type"),
        (part(json!({ "type": "input_audio", "input_audio": {} })), "messages[0].content[0]"),
        (part(json!({ "type": "file", "file": { "file_id": "file-1" } })), "messages[0].content[0].file.file_id"),
        (part(json!({ "type": "file", "file": { "file_data": "!" } })), "messages[0].content[0].file.file_data"),
        (image("ftp://x"), "messages[0].content[0].image_url.url"),
        (image("data:image/png,raw"), "messages[0].content[0].image_url.url"),
    ] {
        let refusal = request(with(&extra).to_string().as_bytes()).expect_err(field);
        assert_eq!((refusal.param(), refusal.status()), (Some(field), 400), "{}", refusal.message());
    }
    assert_eq!(request(b"{\"messages\":3}").expect_err("no list").status(), 400);
    assert_eq!(request(b"{\"messages\":[]}").expect_err("no model").param(), Some("model"));
}

#[test]
fn effort_becomes_what_the_model_takes() {
    let ask = |model: &str, extra: Value| {
        let mut body = with(&extra);
        body["model"] = model.into();
        made(&body)
    };
    for (effort, budget) in [("low", 1024), ("medium", 8192), ("high", 16_384), ("xhigh", 32_768)] {
        let (out, adjusted) = ask("claude-opus-4-1", json!({ "reasoning_effort": effort }));
        assert_eq!(out["thinking"], json!({ "type": "enabled", "budget_tokens": budget }));
        assert!(out["max_tokens"].as_u64() > out["thinking"]["budget_tokens"].as_u64(), "room for the answer");
        assert_eq!(adjusted, [""; 0]);
        let (out, _) = ask("claude-opus-4-7", json!({ "reasoning_effort": effort }));
        assert_eq!(
            (&out["thinking"], &out["output_config"]["effort"]),
            (&json!({ "type": "adaptive" }), &json!(effort))
        );
    }
    let (out, adjusted) = ask("claude-opus-4-1", json!({ "reasoning_effort": "high", "max_tokens": 6000 }));
    assert_eq!((&out["thinking"]["budget_tokens"], &out["max_tokens"]), (&json!(3000), &json!(6000)));
    assert_eq!(adjusted, ["reasoning_effort"]);
    for (model, extra) in [
        ("claude-opus-4-1", json!({ "reasoning_effort": "high", "max_tokens": 1024 })),
        ("claude-3-5-sonnet-20241022", json!({ "reasoning_effort": "high" })),
        ("claude-opus-5", json!({ "reasoning_effort": "none" })),
    ] {
        let (out, adjusted) = ask(model, extra);
        assert_eq!((out.get("thinking"), adjusted), (None, vec!["reasoning_effort"]), "{model}");
    }
    let (out, adjusted) = ask("claude-opus-4-1", json!({ "reasoning_effort": "none" }));
    assert_eq!((out.get("thinking"), adjusted.len()), (None, 0));
}

#[test]
fn sampling_as_far_as_the_model_takes_it() {
    let (out, adjusted) = made(&with(&json!({ "temperature": 1.25, "top_p": 0.9 })));
    assert_eq!((&out["temperature"], out.get("top_p"), adjusted), (&json!(1), None, vec!["temperature", "top_p"]));
    let (out, adjusted) = made(&with(&json!({ "top_p": 0.9, "top_k": 3 })));
    assert_eq!((&out["top_p"], &out["top_k"], adjusted.len()), (&json!(0.9), &json!(3), 0));
    let (out, adjusted) =
        made(&with(&json!({ "model": "claude-sonnet-5", "temperature": 1, "top_p": 0.9, "top_k": 3 })));
    assert_eq!((out.get("temperature"), out.get("top_p"), adjusted), (None, None, vec!["top_p", "top_k"]));
    let (out, _) = made(&with(&json!({ "thinking": { "type": "disabled" }, "temperature": 0.5 })));
    assert_eq!(out["temperature"], json!(0.5), "thinking that is off has no say");
}

#[test]
fn limits() {
    assert_eq!(made(&with(&json!({}))).0["max_tokens"], 16_384);
    assert_eq!(made(&with(&json!({ "model": "claude-3-haiku-20240307" }))).0["max_tokens"], 4096);
    assert_eq!(made(&with(&json!({ "max_tokens": 5, "max_completion_tokens": 6 }))).0["max_tokens"], 6);
}

#[test]
fn tool_choice_and_parallel_calls() {
    let tools = json!([{ "type": "function", "function": { "name": "f", "parameters": {} } }]);
    for (choice, parallel, expected) in [
        (json!(null), json!(null), json!(null)),
        (json!("auto"), json!(true), json!({ "type": "auto" })),
        (json!(null), json!(false), json!({ "type": "auto", "disable_parallel_tool_use": true })),
        (json!("none"), json!(false), json!({ "type": "none" })),
        (json!("required"), json!(false), json!({ "type": "any", "disable_parallel_tool_use": true })),
        (
            json!({ "type": "function", "function": { "name": "f" } }),
            json!(null),
            json!({ "type": "tool", "name": "f" }),
        ),
    ] {
        let ask = json!({ "tools": tools, "tool_choice": choice, "parallel_tool_calls": parallel });
        let (out, _) = made(&with(&ask));
        assert_eq!(out.get("tool_choice").cloned().unwrap_or_default(), expected, "{choice} {parallel}");
        assert_eq!(out["tools"][0]["input_schema"]["type"], "object");
    }
    let (out, _) = made(&with(&json!({ "tool_choice": "auto", "parallel_tool_calls": false })));
    assert_eq!(out.get("tool_choice"), None, "there is nothing to choose from");
}
