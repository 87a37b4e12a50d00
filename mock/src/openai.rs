//! OpenAI's bodies: chat, legacy completions, embeddings, models. Pure: JSON in, answers out.

use super::answer::{MockDialect, MockEvents, MockResponse};
use super::behaviour::Behaviour;
use super::reply::{self, MockCompletion, Say};
use super::request::{self, MockRequest, words};
use base64::Engine;
use serde_json::{Value, json};

const CREATED: u64 = 1_700_000_000;
const MODELS: [&str; 4] = ["mock-large", "mock-small", "mock-embedding", "mock-instruct"];
/// OpenAI's own default for `text-embedding-3-small` is 1536; a short vector is easier to read.
const DIMENSIONS: u64 = 8;

pub(super) fn chat(body: &Value, behaviour: &Behaviour) -> MockResponse {
    let mut ask = match request::openai(body) {
        Ok(ask) => ask,
        Err(refusal) => return MockResponse::error(MockDialect::OpenAi, 400, &refusal),
    };
    if behaviour.unasked_usage {
        if !body["stream_options"].is_null() {
            return MockResponse::error(MockDialect::OpenAi, 422, "stream_options: Extra inputs are not permitted");
        }
        ask.include_usage = true;
    }
    let reply = reply::compose(&ask, behaviour);
    if ask.stream {
        MockResponse::stream(MockDialect::OpenAi, chat_events(&ask, &reply, behaviour))
    } else {
        MockResponse::json(MockDialect::OpenAi, &chat_object(&ask, &reply))
    }
}

fn chat_object(ask: &MockRequest, reply: &MockCompletion) -> Value {
    let message = match &reply.say {
        Say::Text(text) => json!({ "role": "assistant", "content": text, "refusal": null, "annotations": [] }),
        Say::Call { name, arguments } => json!({
            "role": "assistant", "content": null, "refusal": null,
            "tool_calls": [{
                "id": "call_mock_1", "type": "function",
                "function": { "name": name, "arguments": arguments.to_string() },
            }],
        }),
    };
    let choices = (0..ask.n)
        .map(|index| json!({ "index": index, "message": message, "logprobs": null, "finish_reason": finish(reply) }));
    json!({
        "id": "chatcmpl-mock", "object": "chat.completion", "created": CREATED, "model": ask.model,
        "choices": choices.collect::<Vec<_>>(), "usage": usage(ask, reply), "system_fingerprint": "fp_mock",
    })
}

fn finish(reply: &MockCompletion) -> &'static str {
    match reply.say {
        Say::Call { .. } => "tool_calls",
        Say::Text(_) if reply.cut => "length",
        Say::Text(_) => "stop",
    }
}

fn usage(ask: &MockRequest, reply: &MockCompletion) -> Value {
    let completion = reply.tokens * ask.n;
    json!({
        "prompt_tokens": ask.prompt_tokens, "completion_tokens": completion,
        "total_tokens": ask.prompt_tokens + completion,
        "prompt_tokens_details": { "cached_tokens": 0, "audio_tokens": 0 },
        "completion_tokens_details": {
            "reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
        },
    })
}

fn chat_events(ask: &MockRequest, reply: &MockCompletion, behaviour: &Behaviour) -> MockEvents {
    let choice = |index: usize, delta: Value, finish: Option<&str>| json!([{ "index": index, "delta": delta, "logprobs": null, "finish_reason": finish }]);
    let mut events = MockEvents { end: "data: [DONE]\n\n".to_owned(), ..MockEvents::default() };
    for index in 0..ask.n {
        let role = json!({ "role": "assistant", "content": "", "refusal": null });
        match &reply.say {
            Say::Text(text) => {
                events.opening.push(chunk(ask, &choice(index, role, None), &Value::Null));
                for piece in reply::pieces(text, behaviour.chunks) {
                    events.content.push(chunk(ask, &choice(index, json!({ "content": piece }), None), &Value::Null));
                }
            }
            Say::Call { name, arguments } => {
                let call = json!([{
                    "index": 0, "id": "call_mock_1", "type": "function", "function": { "name": name, "arguments": "" },
                }]);
                let opening = json!({ "role": "assistant", "content": null, "tool_calls": call });
                events.opening.push(chunk(ask, &choice(index, opening, None), &Value::Null));
                for piece in reply::pieces(&arguments.to_string(), Some(behaviour.chunks.unwrap_or(3))) {
                    let delta = json!({ "tool_calls": [{ "index": 0, "function": { "arguments": piece } }] });
                    events.content.push(chunk(ask, &choice(index, delta, None), &Value::Null));
                }
            }
        }
        events.closing.push(chunk(ask, &choice(index, json!({}), Some(finish(reply))), &Value::Null));
    }
    if ask.include_usage {
        events.closing.push(chunk(ask, &json!([]), &usage(ask, reply)));
    }
    events
}

fn chunk(ask: &MockRequest, choices: &Value, usage: &Value) -> String {
    let mut chunk = json!({
        "id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": CREATED, "model": ask.model,
        "system_fingerprint": "fp_mock", "choices": choices,
    });
    if ask.include_usage {
        chunk["usage"] = usage.clone();
    }
    format!("data: {chunk}\n\n")
}

pub(super) fn completions(body: &Value, behaviour: &Behaviour) -> MockResponse {
    let prompt = match &body["prompt"] {
        Value::String(s) => s.clone(),
        Value::Array(all) => all.first().map(request::string).unwrap_or_default(),
        _ => return MockResponse::error(MockDialect::OpenAi, 400, "prompt: must be a string or an array"),
    };
    let said = json!({ "model": body["model"], "messages": [{ "role": "user", "content": prompt }],
        "max_tokens": body["max_tokens"], "stream": body["stream"], "stream_options": body["stream_options"] });
    let Ok(ask) = request::openai(&said) else {
        return MockResponse::error(MockDialect::OpenAi, 400, "prompt: cannot be read");
    };
    let reply = reply::compose(&ask, behaviour);
    let Say::Text(text) = &reply.say else {
        return MockResponse::error(MockDialect::OpenAi, 500, "no text to complete with");
    };
    let object = |text: &str, finish: Option<&str>, usage: Option<Value>| {
        let choices = match &usage {
            Some(_) if ask.stream => json!([]),
            _ => json!([{ "text": text, "index": 0, "logprobs": null, "finish_reason": finish }]),
        };
        let mut object = json!({ "id": "cmpl-mock", "object": "text_completion", "created": CREATED,
            "model": ask.model, "choices": choices });
        if let Some(usage) = usage {
            object["usage"] = usage;
        }
        object
    };
    if !ask.stream {
        return MockResponse::json(MockDialect::OpenAi, &object(text, Some(finish(&reply)), Some(usage(&ask, &reply))));
    }
    let content = reply::pieces(text, behaviour.chunks);
    let content = content.iter().map(|p| format!("data: {}\n\n", object(p, None, None)));
    let mut closing = vec![format!("data: {}\n\n", object("", Some(finish(&reply)), None))];
    if ask.include_usage {
        closing.push(format!("data: {}\n\n", object("", None, Some(usage(&ask, &reply)))));
    }
    let end = "data: [DONE]\n\n".to_owned();
    MockResponse::stream(
        MockDialect::OpenAi,
        MockEvents { opening: Vec::new(), content: content.collect(), closing, end },
    )
}

pub(super) fn embeddings(body: &Value) -> MockResponse {
    let inputs: Vec<String> = match &body["input"] {
        Value::String(s) => vec![s.clone()],
        Value::Array(all) if all.iter().all(Value::is_u64) => vec![body["input"].to_string()],
        Value::Array(all) => all.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), ToOwned::to_owned)).collect(),
        _ => return MockResponse::error(MockDialect::OpenAi, 400, "input: must be a string or an array"),
    };
    let dimensions = body["dimensions"].as_u64().unwrap_or(DIMENSIONS).clamp(1, 4096);
    let packed = body["encoding_format"] == "base64";
    let data = inputs.iter().enumerate().map(|(index, input)| {
        let vector = vector(input, dimensions);
        let embedding = if packed { json!(pack(&vector)) } else { json!(vector) };
        json!({ "object": "embedding", "index": index, "embedding": embedding })
    });
    let tokens = inputs.iter().map(|i| words(i)).sum::<usize>().max(1);
    let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
    let data = data.collect::<Vec<_>>();
    MockResponse::json(
        MockDialect::OpenAi,
        &json!({ "object": "list", "data": data, "model": body["model"], "usage": usage }),
    )
}

/// Makes numbers that the same text always gives again, exact in 32 bits, between -1 and 1.
fn vector(text: &str, dimensions: u64) -> Vec<f32> {
    let seed = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let at = |i: u64| {
        let mixed = (seed ^ i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let eleven = u16::try_from(mixed >> 53).unwrap_or_default();
        f32::from(eleven) / 1024.0 - 1.0
    };
    (1..=dimensions).map(at).collect()
}

fn pack(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|f| f.to_le_bytes()).collect();
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

pub(super) fn models() -> MockResponse {
    let data: Vec<Value> = MODELS.iter().map(|id| model_object(id)).collect();
    MockResponse::json(MockDialect::OpenAi, &json!({ "object": "list", "data": data }))
}

pub(super) fn model(id: &str) -> MockResponse {
    match MODELS.iter().find(|m| **m == id) {
        Some(id) => MockResponse::json(MockDialect::OpenAi, &model_object(id)),
        None => MockResponse::error(MockDialect::OpenAi, 404, &format!("The model `{id}` does not exist")),
    }
}

fn model_object(id: &str) -> Value {
    json!({ "id": id, "object": "model", "created": CREATED, "owned_by": "mock" })
}
