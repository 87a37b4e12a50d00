//! Gemini's bodies: answers to `generateContent`, their streams, token counts. Pure: JSON in, answers out.

use super::answer::{MockDialect, MockEvents, MockResponse};
use super::behaviour::Behaviour;
use super::reply::{self, MockCompletion, Say};
use super::request::{self, MockRequest};
use serde_json::{Value, json};

/// Answers `models/{model}:{verb}`.
pub(super) fn model(named: &str, body: &Value, behaviour: &Behaviour) -> MockResponse {
    let (model, verb) = named.rsplit_once(':').unwrap_or((named, ""));
    let counted = if verb == "countTokens" { &body["generateContentRequest"] } else { body };
    let ask = match request::gemini(counted, model, verb == "streamGenerateContent") {
        Ok(ask) => ask,
        Err(refusal) => return MockResponse::error(MockDialect::Gemini, 400, &refusal),
    };
    let reply = reply::compose(&ask, behaviour);
    match verb {
        "generateContent" => MockResponse::json(MockDialect::Gemini, &whole(&ask, &reply)),
        "streamGenerateContent" => MockResponse::stream(MockDialect::Gemini, events(&ask, &reply, behaviour)),
        "countTokens" => MockResponse::json(MockDialect::Gemini, &json!({ "totalTokens": ask.prompt_tokens })),
        _ => MockResponse::error(MockDialect::Gemini, 404, &format!("models/{model} is not found for {verb}")),
    }
}

fn part(reply: &MockCompletion) -> Value {
    match &reply.say {
        Say::Text(text) => json!({ "text": text }),
        Say::Call { name, arguments } => json!({ "functionCall": { "name": name, "args": arguments } }),
    }
}

fn finish(reply: &MockCompletion) -> &'static str {
    if reply.cut { "MAX_TOKENS" } else { "STOP" }
}

fn answer(ask: &MockRequest, parts: &Value, finish: Option<&str>, output: usize) -> Value {
    let mut candidate = json!({ "content": { "parts": parts, "role": "model" }, "index": 0 });
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": ask.prompt_tokens, "candidatesTokenCount": output,
            "totalTokenCount": ask.prompt_tokens + output,
        },
        "modelVersion": ask.model, "responseId": "mock",
    })
}

fn whole(ask: &MockRequest, reply: &MockCompletion) -> Value {
    answer(ask, &json!([part(reply)]), Some(finish(reply)), reply.tokens)
}

/// Calls come whole, and there is no end mark: the last event says why it is the last.
fn events(ask: &MockRequest, reply: &MockCompletion, behaviour: &Behaviour) -> MockEvents {
    let event = |parts: Value, finish: Option<&str>| format!("data: {}\n\n", answer(ask, &parts, finish, reply.tokens));
    let parts = match &reply.say {
        Say::Text(text) => reply::pieces(text, behaviour.chunks).into_iter().map(|t| json!([{ "text": t }])).collect(),
        Say::Call { .. } => vec![json!([part(reply)])],
    };
    let content = parts.into_iter().map(|parts| event(parts, None)).collect();
    MockEvents { opening: Vec::new(), content, closing: Vec::new(), end: event(json!([]), Some(finish(reply))) }
}
