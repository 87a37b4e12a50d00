//! Bodies of OpenAI's Responses and their streams. Pure: JSON in, answers out. Nothing is kept: a response is known by
//! its id alone, and any id that this module gave is known.

use super::answer::{MockDialect, MockEvents, MockResponse};
use super::behaviour::Behaviour;
use super::reply::{self, MockCompletion, Say};
use super::request::{self, MockRequest};
use serde_json::{Value, json};

const CREATED: u64 = 1_700_000_000;
const ID: &str = "resp_mock";

pub(super) fn create(body: &Value, behaviour: &Behaviour) -> MockResponse {
    let ask = match request::responses(body) {
        Ok(ask) => ask,
        Err(refusal) => return MockResponse::error(MockDialect::Responses, 400, &refusal),
    };
    let reply = reply::compose(&ask, behaviour);
    if ask.stream {
        return MockResponse::stream(MockDialect::Responses, events(body, &ask, &reply, behaviour));
    }
    MockResponse::json(MockDialect::Responses, &ended(body, &ask, &reply))
}

/// What a kept response is asked for: `GET`, `DELETE`, its `input_items`, `POST` to `cancel`.
pub(super) fn kept(method: &str, path: &str) -> MockResponse {
    let (id, verb) = path.split_once('/').unwrap_or((path, ""));
    if id != ID {
        return MockResponse::error(MockDialect::Responses, 404, &format!("Response with id '{id}' not found."));
    }
    let response = |status: &str| object(&Value::Null, status, &json!([]), &Value::Null);
    let body = match (method, verb) {
        ("GET", "") => response("completed"),
        ("DELETE", "") => json!({ "id": ID, "object": "response", "deleted": true }),
        ("GET", "input_items") => {
            let said = json!([{ "type": "input_text", "text": "hello there" }]);
            let item = json!({ "id": "msg_mock_in", "type": "message", "role": "user", "status": "completed", "content": said });
            json!({ "object": "list", "data": [item], "first_id": "msg_mock_in", "last_id": "msg_mock_in", "has_more": false })
        }
        ("POST", "cancel") => response("cancelled"),
        _ => {
            return MockResponse::error(
                MockDialect::Responses,
                404,
                &format!("Invalid URL ({method} /v1/responses/{path})"),
            );
        }
    };
    MockResponse::json(MockDialect::Responses, &body)
}

fn object(asked: &Value, status: &str, output: &Value, usage: &Value) -> Value {
    let or = |key: &str, or: Value| if asked[key].is_null() { or } else { asked[key].clone() };
    json!({
        "id": ID, "object": "response", "created_at": CREATED, "status": status, "background": false, "error": null,
        "incomplete_details": null, "instructions": asked["instructions"], "max_output_tokens": asked["max_output_tokens"],
        "model": or("model", json!("mock-large")), "output": output, "parallel_tool_calls": true,
        "previous_response_id": asked["previous_response_id"], "reasoning": { "effort": null, "summary": null },
        "store": or("store", json!(true)), "temperature": 1.0, "text": { "format": { "type": "text" } },
        "tool_choice": or("tool_choice", json!("auto")), "tools": or("tools", json!([])), "top_p": 1.0,
        "truncation": "disabled", "usage": usage, "metadata": or("metadata", json!({})),
    })
}

fn ended(asked: &Value, ask: &MockRequest, reply: &MockCompletion) -> Value {
    let usage = json!({
        "input_tokens": ask.prompt_tokens, "input_tokens_details": { "cached_tokens": 0 }, "output_tokens": reply.tokens,
        "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": ask.prompt_tokens + reply.tokens,
    });
    let item = item(reply, if reply.cut { "incomplete" } else { "completed" });
    let mut whole = object(asked, if reply.cut { "incomplete" } else { "completed" }, &json!([item]), &usage);
    if reply.cut {
        whole["incomplete_details"] = json!({ "reason": "max_output_tokens" });
    }
    whole
}

fn item(reply: &MockCompletion, status: &str) -> Value {
    match &reply.say {
        Say::Text(text) => {
            json!({ "id": "msg_mock", "type": "message", "role": "assistant", "status": status, "content": [part(text)] })
        }
        Say::Call { name, arguments } => json!({
            "id": "fc_mock", "type": "function_call", "call_id": "call_mock_1", "name": name,
            "arguments": arguments.to_string(), "status": status,
        }),
    }
}

fn part(text: &str) -> Value {
    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
}

/// Events are numbered in the order in which they leave.
struct Numbered(usize);

impl Numbered {
    fn event(&mut self, kind: &str, fields: Value) -> String {
        let made = event(kind, self.0, fields);
        self.0 += 1;
        made
    }
}

pub(super) fn event(kind: &str, number: usize, fields: Value) -> String {
    let mut body = json!({ "type": kind, "sequence_number": number });
    if let (Some(body), Value::Object(fields)) = (body.as_object_mut(), fields) {
        body.extend(fields);
    }
    format!("event: {kind}\ndata: {body}\n\n")
}

fn events(asked: &Value, ask: &MockRequest, reply: &MockCompletion, behaviour: &Behaviour) -> MockEvents {
    let mut next = Numbered(0);
    let begun = object(asked, "in_progress", &json!([]), &Value::Null);
    let mut all = MockEvents {
        opening: vec![
            next.event("response.created", json!({ "response": begun })),
            next.event("response.in_progress", json!({ "response": begun })),
        ],
        ..MockEvents::default()
    };
    match &reply.say {
        Say::Text(text) => said(text, reply, behaviour, &mut next, &mut all),
        Say::Call { .. } => called(reply, behaviour, &mut next, &mut all),
    }
    let item = item(reply, if reply.cut { "incomplete" } else { "completed" });
    all.closing.push(next.event("response.output_item.done", json!({ "output_index": 0, "item": item })));
    let last = if reply.cut { "response.incomplete" } else { "response.completed" };
    all.end = next.event(last, json!({ "response": ended(asked, ask, reply) }));
    all
}

fn said(text: &str, reply: &MockCompletion, behaviour: &Behaviour, next: &mut Numbered, all: &mut MockEvents) {
    let at = |fields: Value| {
        let mut at = json!({ "item_id": "msg_mock", "output_index": 0, "content_index": 0 });
        if let (Some(at), Value::Object(fields)) = (at.as_object_mut(), fields) {
            at.extend(fields);
        }
        at
    };
    let mut item = item(reply, "in_progress");
    item["content"] = json!([]);
    all.opening.push(next.event("response.output_item.added", json!({ "output_index": 0, "item": item })));
    all.opening.push(next.event("response.content_part.added", at(json!({ "part": part("") }))));
    for piece in reply::pieces(text, behaviour.chunks) {
        let delta = at(json!({ "delta": piece, "logprobs": [] }));
        all.content.push(next.event("response.output_text.delta", delta));
    }
    all.closing.push(next.event("response.output_text.done", at(json!({ "text": text, "logprobs": [] }))));
    all.closing.push(next.event("response.content_part.done", at(json!({ "part": part(text) }))));
}

fn called(reply: &MockCompletion, behaviour: &Behaviour, next: &mut Numbered, all: &mut MockEvents) {
    let Say::Call { name, arguments } = &reply.say else { return };
    let arguments = arguments.to_string();
    let mut item = item(reply, "in_progress");
    item["arguments"] = json!("");
    all.opening.push(next.event("response.output_item.added", json!({ "output_index": 0, "item": item })));
    for piece in reply::pieces(&arguments, Some(behaviour.chunks.unwrap_or(3))) {
        let delta = json!({ "item_id": "fc_mock", "output_index": 0, "delta": piece });
        all.content.push(next.event("response.function_call_arguments.delta", delta));
    }
    let done = json!({ "item_id": "fc_mock", "output_index": 0, "name": name, "arguments": arguments });
    all.closing.push(next.event("response.function_call_arguments.done", done));
}
