//! Bodies of Cohere's v2 chat and their streams. Pure: JSON in, answers out.

use super::answer::{MockDialect, MockEvents, MockResponse};
use super::behaviour::Behaviour;
use super::reply::{self, MockCompletion, Say};
use super::request::{self, MockRequest};
use serde_json::{Value, json};

pub(super) fn chat(body: &Value, behaviour: &Behaviour) -> MockResponse {
    let ask = match request::cohere(body) {
        Ok(ask) => ask,
        Err(refusal) => return MockResponse::error(MockDialect::Cohere, 400, &refusal),
    };
    let reply = reply::compose(&ask, behaviour);
    if ask.stream {
        return MockResponse::stream(MockDialect::Cohere, events(&ask, &reply, behaviour));
    }
    let message = match &reply.say {
        Say::Text(text) => json!({ "role": "assistant", "content": [{ "type": "text", "text": text }] }),
        Say::Call { name, arguments } => {
            json!({ "role": "assistant", "tool_plan": "", "tool_calls": [called(name, &arguments.to_string())] })
        }
    };
    let usage = usage(&ask, &reply);
    let body = json!({ "id": "mock", "finish_reason": finish(&reply), "message": message, "usage": usage });
    MockResponse::json(MockDialect::Cohere, &body)
}

fn called(name: &str, arguments: &str) -> Value {
    json!({ "id": "call_mock_1", "type": "function", "function": { "name": name, "arguments": arguments } })
}

fn finish(reply: &MockCompletion) -> &'static str {
    match reply.say {
        Say::Call { .. } => "TOOL_CALL",
        Say::Text(_) if reply.cut => "MAX_TOKENS",
        Say::Text(_) => "COMPLETE",
    }
}

fn usage(ask: &MockRequest, reply: &MockCompletion) -> Value {
    let tokens = json!({ "input_tokens": ask.prompt_tokens, "output_tokens": reply.tokens });
    json!({ "billed_units": tokens, "tokens": tokens })
}

fn events(ask: &MockRequest, reply: &MockCompletion, behaviour: &Behaviour) -> MockEvents {
    let start = json!({ "role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": [] });
    let mut opening = vec![event("message-start", json!({ "id": "mock", "delta": { "message": start } }))];
    let (content, closing) = match &reply.say {
        Say::Text(text) => {
            let said = |text: Value| json!({ "index": 0, "delta": { "message": { "content": text } } });
            opening.push(event("content-start", said(json!({ "type": "text", "text": "" }))));
            let pieces = reply::pieces(text, behaviour.chunks).into_iter();
            let deltas = pieces.map(|t| event("content-delta", said(json!({ "text": t })))).collect();
            (deltas, event("content-end", json!({ "index": 0 })))
        }
        Say::Call { name, arguments } => {
            let calls = |call: Value| json!({ "index": 0, "delta": { "message": { "tool_calls": call } } });
            opening.push(event("tool-call-start", calls(called(name, ""))));
            let pieces = reply::pieces(&arguments.to_string(), Some(behaviour.chunks.unwrap_or(3))).into_iter();
            let delta = |p: String| event("tool-call-delta", calls(json!({ "function": { "arguments": p } })));
            (pieces.map(delta).collect(), event("tool-call-end", json!({ "index": 0 })))
        }
    };
    let end = json!({ "delta": { "finish_reason": finish(reply), "usage": usage(ask, reply) } });
    MockEvents { opening, content, closing: vec![closing], end: event("message-end", end) }
}

/// Every event names itself twice.
pub(super) fn event(kind: &str, fields: Value) -> String {
    let mut body = json!({ "type": kind });
    if let (Some(body), Value::Object(fields)) = (body.as_object_mut(), fields) {
        body.extend(fields);
    }
    format!("event: {kind}\ndata: {body}\n\n")
}
