//! Anthropic's Messages bodies: messages, their streams, token counts. Pure: JSON in, answers out.

use super::answer::{MockDialect, MockEvents, MockResponse};
use super::behaviour::Behaviour;
use super::reply::{self, MockCompletion, Say};
use super::request::{self, MockRequest};
use serde_json::{Value, json};

pub(super) fn messages(body: &Value, behaviour: &Behaviour) -> MockResponse {
    let ask = match request::anthropic(body) {
        Ok(ask) if ask.max_tokens.is_some() => ask,
        Ok(_) => return MockResponse::error(MockDialect::Anthropic, 400, "max_tokens: Field required"),
        Err(refusal) => return MockResponse::error(MockDialect::Anthropic, 400, &refusal),
    };
    let reply = reply::compose(&ask, behaviour);
    if ask.stream {
        MockResponse::stream(MockDialect::Anthropic, message_events(&ask, &reply, behaviour))
    } else {
        let usage = usage(&ask, reply.tokens);
        MockResponse::json(
            MockDialect::Anthropic,
            &message(&ask, &json!([block(&reply)]), &json!(finish(&reply)), &usage),
        )
    }
}

pub(super) fn count_tokens(body: &Value) -> MockResponse {
    match request::anthropic(body) {
        Ok(ask) => MockResponse::json(MockDialect::Anthropic, &json!({ "input_tokens": ask.prompt_tokens })),
        Err(refusal) => MockResponse::error(MockDialect::Anthropic, 400, &refusal),
    }
}

pub(super) fn models() -> MockResponse {
    let model =
        |id: &str| json!({ "type": "model", "id": id, "display_name": id, "created_at": "2023-11-14T22:13:20Z" });
    let data = [model("mock-large"), model("mock-small")];
    let ends = json!({ "data": data, "has_more": false, "first_id": "mock-large", "last_id": "mock-small" });
    MockResponse::json(MockDialect::Anthropic, &ends)
}

fn message(ask: &MockRequest, content: &Value, stop_reason: &Value, usage: &Value) -> Value {
    json!({
        "id": "msg_mock", "type": "message", "role": "assistant", "model": ask.model, "content": content,
        "stop_reason": stop_reason, "stop_sequence": null, "usage": usage,
    })
}

fn block(reply: &MockCompletion) -> Value {
    match &reply.say {
        Say::Text(text) => json!({ "type": "text", "text": text }),
        Say::Call { name, arguments } => {
            json!({ "type": "tool_use", "id": "toolu_mock_1", "name": name, "input": arguments })
        }
    }
}

fn finish(reply: &MockCompletion) -> &'static str {
    match reply.say {
        Say::Call { .. } => "tool_use",
        Say::Text(_) if reply.cut => "max_tokens",
        Say::Text(_) => "end_turn",
    }
}

fn usage(ask: &MockRequest, output: usize) -> Value {
    json!({
        "input_tokens": ask.prompt_tokens, "output_tokens": output,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
    })
}

fn message_events(ask: &MockRequest, reply: &MockCompletion, behaviour: &Behaviour) -> MockEvents {
    let (empty, deltas): (Value, Vec<Value>) = match &reply.say {
        Say::Text(text) => {
            let deltas = reply::pieces(text, behaviour.chunks).into_iter();
            (
                json!({ "type": "text", "text": "" }),
                deltas.map(|t| json!({ "type": "text_delta", "text": t })).collect(),
            )
        }
        Say::Call { name, arguments } => {
            let pieces = reply::pieces(&arguments.to_string(), Some(behaviour.chunks.unwrap_or(3)));
            let deltas = pieces.into_iter().map(|p| json!({ "type": "input_json_delta", "partial_json": p }));
            (json!({ "type": "tool_use", "id": "toolu_mock_1", "name": name, "input": {} }), deltas.collect())
        }
    };
    let start = message(ask, &json!([]), &Value::Null, &usage(ask, 1));
    let delta = json!({ "stop_reason": finish(reply), "stop_sequence": null });
    MockEvents {
        opening: vec![
            event("message_start", json!({ "message": start })),
            event("content_block_start", json!({ "index": 0, "content_block": empty })),
            event("ping", json!({})),
        ],
        content: deltas.into_iter().map(|d| event("content_block_delta", json!({ "index": 0, "delta": d }))).collect(),
        closing: vec![
            event("content_block_stop", json!({ "index": 0 })),
            event("message_delta", json!({ "delta": delta, "usage": { "output_tokens": reply.tokens } })),
        ],
        end: event("message_stop", json!({})),
    }
}

fn event(kind: &str, fields: Value) -> String {
    let mut body = json!({ "type": kind });
    if let (Some(body), Value::Object(fields)) = (body.as_object_mut(), fields) {
        body.extend(fields);
    }
    format!("event: {kind}\ndata: {body}\n\n")
}
