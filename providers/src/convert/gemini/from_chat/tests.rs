//! What of a chat request becomes a Gemini request, is dropped by name, or is refused.

use super::request;
use serde_json::{Value, json};

fn made(model: &str, extra: &Value) -> (Value, Vec<&'static str>) {
    let body = with(extra).to_string();
    let made = request(body.as_bytes(), model, 1).unwrap_or_else(|f| panic!("{}", f.message()));
    (serde_json::from_slice(&made.body).expect("JSON"), made.adjusted)
}

fn with(extra: &Value) -> Value {
    let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "Hi" }] });
    for (key, value) in extra.as_object().expect("object") {
        body[key] = value.clone();
    }
    body
}

#[test]
fn what_has_no_counterpart_but_meaning_is_refused_by_name() {
    let message = |m: Value| json!({ "messages": [m] });
    let part = |p: Value| json!({ "messages": [{ "role": "user", "content": [p] }] });
    for (extra, field) in [
        (json!({ "modalities": ["image"] }), "modalities"),
        (json!({ "function_call": { "name": "f" } }), "function_call"),
        (json!({ "mcp_servers": [{}] }), "mcp_servers"),
        (json!({ "response_format": { "type": "xml" } }), "response_format"),
        (json!({ "response_format": { "type": "json_schema" } }), "response_format.json_schema.schema"),
        (json!({ "reasoning_effort": "some" }), "reasoning_effort"),
        (json!({ "thinking": { "type": "perhaps" } }), "thinking.type"),
        (json!({ "stop": 3 }), "stop"),
        (json!({ "tools": [{ "type": "function" }] }), "tools[0].function"),
        (json!({ "tools": [{ "type": "google_search" }], "tool_choice": "maybe" }), "tool_choice"),
        (message(json!({ "role": "function", "name": "f", "content": "1" })), "messages[0].role"),
        (message(json!({ "role": "tool", "content": "1" })), "messages[0].tool_call_id"),
        (message(json!({ "role": "assistant", "audio": { "id": "a" } })), "messages[0].audio"),
        (
            message(
                json!({ "role": "assistant", "tool_calls": [{ "function": { "name": "f", "arguments": "[1]" } }] }),
            ),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (part(json!({ "type": "thinking" })), "messages[0].content[0].type"),
        (part(json!({ "type": "file", "file": { "file_id": "file-1" } })), "messages[0].content[0].file.file_id"),
        (part(json!({ "type": "file", "file": { "file_data": "AA==" } })), "messages[0].content[0].file.file_data"),
    ] {
        let fault = request(with(&extra).to_string().as_bytes(), "gemini-2.5-flash", 1).expect_err(field);
        assert_eq!((fault.status(), fault.param()), (400, Some(field)), "{}", fault.message());
    }
    assert_eq!(request(b"{", "m", 1).expect_err("no JSON").status(), 400);
}

#[test]
fn effort_is_told_as_the_model_takes_it() {
    let thinks = |model: &str, effort: &str| {
        let (body, adjusted) = made(model, &json!({ "reasoning_effort": effort }));
        (body["generationConfig"]["thinkingConfig"].clone(), adjusted)
    };
    let dropped = vec!["reasoning_effort"];
    for (model, effort, expected, adjusted) in [
        ("gemini-2.5-flash", "none", json!({ "thinkingBudget": 0 }), vec![]),
        ("gemini-2.5-pro", "none", json!({ "thinkingBudget": 128 }), dropped.clone()),
        ("gemini-2.5-pro", "high", json!({ "includeThoughts": true, "thinkingBudget": 24576 }), vec![]),
        (
            "gemini-3-pro-preview",
            "medium",
            json!({ "includeThoughts": true, "thinkingLevel": "high" }),
            dropped.clone(),
        ),
        ("gemini-3.1-pro-preview", "medium", json!({ "includeThoughts": true, "thinkingLevel": "medium" }), vec![]),
        ("gemini-3-flash-preview", "none", json!({ "thinkingLevel": "minimal" }), dropped.clone()),
        ("gemini-3-flash-preview", "low", json!({ "includeThoughts": true, "thinkingLevel": "low" }), vec![]),
        ("gemini-2.0-flash", "low", Value::Null, dropped.clone()),
        ("gemma-3-27b-it", "none", Value::Null, vec![]),
    ] {
        assert_eq!(thinks(model, effort), (expected, adjusted), "{model} {effort}");
    }
}

#[test]
fn a_choice_among_tools_keeps_its_meaning() {
    let tools = json!([{ "type": "function", "function": { "name": "f" } }]);
    let config = |choice: Value| made("m", &json!({ "tools": tools, "tool_choice": choice })).0["toolConfig"].clone();
    let mode = |mode: &str, names: Value| {
        let mut config = json!({ "functionCallingConfig": { "mode": mode } });
        if names != json!([]) {
            config["functionCallingConfig"]["allowedFunctionNames"] = names;
        }
        config
    };
    let allowed = |mode: &str| {
        let named = json!([{ "type": "function", "function": { "name": "f" } }]);
        json!({ "type": "allowed_tools", "allowed_tools": { "mode": mode, "tools": named } })
    };
    assert_eq!(config(json!("auto")), mode("AUTO", json!([])));
    assert_eq!(config(json!("none")), mode("NONE", json!([])));
    assert_eq!(config(json!({ "type": "function", "function": { "name": "f" } })), mode("ANY", json!(["f"])));
    assert_eq!(config(allowed("required")), mode("ANY", json!(["f"])));
    assert_eq!(config(allowed("auto")), mode("VALIDATED", json!(["f"])));
    assert_eq!(
        made("m", &json!({ "tool_choice": "auto" })).0["toolConfig"],
        Value::Null,
        "without tools there is none"
    );
}

#[test]
fn a_signature_goes_back_to_its_maker_only() {
    let signed = |signature: &str| {
        let call = json!({ "id": "1", "function": { "name": "f", "arguments": "{}" },
                           "extra_content": { "google": { "thought_signature": signature } } });
        let messages = json!([{ "role": "user", "content": "Hi" }, { "role": "assistant", "tool_calls": [call] }]);
        made("gemini-3-pro-preview", &json!({ "messages": messages })).0["contents"][1]["parts"][0]["thoughtSignature"]
            .clone()
    };
    let stamp = |origin| crate::opaque::stamp(origin, crate::opaque::OpaqueKind::Call, "abc");
    assert_eq!(signed(&stamp(1)), "abc");
    assert_eq!(signed("from elsewhere"), "from elsewhere");
    assert_eq!(signed(&stamp(2)), "skip_thought_signature_validator");
}
