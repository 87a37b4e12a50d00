//! A whole answer and the stream that brings the same content must leave a client with the same message.

use crate::adapter::{Adapter, Call};
use crate::anthropic::Anthropic;
use bytes::Bytes;
use gateway_domain::{Dialect, Operation};
use http::Method;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

#[derive(Clone, Debug)]
enum AnthropicSampleBlock {
    Text(Vec<String>),
    Thinking(Vec<String>, String),
    Redacted(String),
    /// The arguments and where the provider cuts them.
    Tool(String, Value, Vec<usize>),
    Server(Value),
}

fn block() -> impl Strategy<Value = AnthropicSampleBlock> {
    let words = || prop::collection::vec("[a-z\"\\\\\n\u{e9}\u{1F600} ]{0,8}", 0..4);
    let input = || {
        prop::collection::vec(("[a-c]{1,2}", "[a-z\"\u{e9}]{0,5}"), 0..3)
            .prop_map(|all| Value::Object(all.into_iter().map(|(k, v)| (k, Value::from(v))).collect()))
    };
    prop_oneof![
        words().prop_map(AnthropicSampleBlock::Text),
        (words(), "[A-Za-z0-9+/]{1,9}").prop_map(|(w, s)| AnthropicSampleBlock::Thinking(w, s)),
        "[A-Za-z0-9+/]{1,9}".prop_map(AnthropicSampleBlock::Redacted),
        ("[a-z]{1,5}", input(), prop::collection::vec(1_usize..6, 0..4))
            .prop_map(|(n, i, c)| AnthropicSampleBlock::Tool(n, i, c)),
        input().prop_map(AnthropicSampleBlock::Server),
    ]
}

impl AnthropicSampleBlock {
    fn whole(&self, i: usize) -> Value {
        match self {
            Self::Text(words) => json!({ "type": "text", "text": words.concat() }),
            Self::Thinking(words, sign) => json!({ "type": "thinking", "thinking": words.concat(), "signature": sign }),
            Self::Redacted(data) => json!({ "type": "redacted_thinking", "data": data }),
            Self::Tool(name, input, _) => {
                json!({ "type": "tool_use", "id": format!("toolu_{i}"), "name": name, "input": input })
            }
            Self::Server(input) => {
                json!({ "type": "server_tool_use", "id": format!("srv_{i}"), "name": "web_search", "input": input })
            }
        }
    }

    fn events(&self, i: usize) -> Vec<Value> {
        let delta = |delta: Value| json!({ "type": "content_block_delta", "index": i, "delta": delta });
        let json_deltas = |input: &Value, cuts: &[usize]| {
            let text: Vec<char> = if *input == json!({}) { Vec::new() } else { input.to_string().chars().collect() };
            let (mut at, mut all) = (0_usize, vec![delta(json!({ "type": "input_json_delta", "partial_json": "" }))]);
            for size in cuts.iter().copied().chain([usize::MAX]) {
                let end = text.len().min(size.saturating_add(at));
                let part: String = text[at..end].iter().collect();
                all.push(delta(json!({ "type": "input_json_delta", "partial_json": part })));
                at = end;
            }
            all
        };
        let (mut start, deltas) = (
            self.whole(i),
            match self {
                Self::Text(words) => words.iter().map(|w| delta(json!({ "type": "text_delta", "text": w }))).collect(),
                Self::Thinking(words, sign) => {
                    let thinking = words.iter().map(|w| delta(json!({ "type": "thinking_delta", "thinking": w })));
                    thinking.chain([delta(json!({ "type": "signature_delta", "signature": sign }))]).collect()
                }
                Self::Redacted(_) => Vec::new(),
                Self::Tool(_, input, cuts) => json_deltas(input, cuts),
                Self::Server(input) => json_deltas(input, &[3]),
            },
        );
        for (key, empty) in
            [("text", json!("")), ("thinking", json!("")), ("signature", json!("")), ("input", json!({}))]
        {
            if let Some(field) = start.get_mut(key) {
                *field = empty;
            }
        }
        let mut all = vec![json!({ "type": "content_block_start", "index": i, "content_block": start })];
        all.extend(deltas);
        all.push(json!({ "type": "content_block_stop", "index": i }));
        all
    }
}

fn call<'a>(body: &'a Bytes, strict: bool) -> Call<'a> {
    Call {
        operation: Operation::ChatCompletions,
        dialect: Dialect::OpenAi,
        method: &Method::POST,
        tail: "/chat/completions",
        query: None,
        body,
        model: None,
        form: None,
        sound_ms: None,
        model_span: None,
        stream: false,
        wants_usage: false,
        strict,
        now_ms: 1_750_000_000_000,
        dice: 0,
        origin: 0,
        settings: gateway_domain::cloud::CloudSettings::none(),
        keeps: None,
    }
}

/// What an SDK puts together from chunks: strings grow, entries with an index merge, `type` and the rest are set.
fn merge(into: &mut Value, delta: &Value) {
    match (into, delta) {
        (Value::String(text), Value::String(more)) => text.push_str(more),
        (Value::Object(map), Value::Object(more)) => {
            for (key, value) in more {
                match map.get_mut(key) {
                    Some(known) if !matches!(key.as_str(), "type" | "index" | "id" | "role") => merge(known, value),
                    _ => {
                        map.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(all), Value::Array(more)) => {
            for entry in more {
                match all.iter_mut().find(|e| e.get("index").is_some() && e["index"] == entry["index"]) {
                    Some(known) => merge(known, entry),
                    None => all.push(entry.clone()),
                }
            }
        }
        (into, delta) => *into = delta.clone(),
    }
}

/// The message of a whole completion, in the form that merged chunks have.
fn normal(mut message: Map<String, Value>) -> Value {
    if message.get("content").is_none_or(Value::is_null) {
        message.insert("content".into(), "".into());
    }
    if let Some(Value::Array(calls)) = message.get_mut("tool_calls") {
        calls.iter_mut().for_each(|call| {
            call.as_object_mut().expect("object").remove("index");
        });
    }
    if let Some(Value::Array(blocks)) = message.get_mut("content_blocks") {
        for block in blocks.iter_mut() {
            if let Some(delta) = block.get("delta").cloned() {
                *block = delta;
            }
            let block = block.as_object_mut().expect("object");
            if let Some(Value::String(input)) = block.remove("partial_json") {
                block.insert("input".into(), serde_json::from_str(&input).expect("whole JSON"));
            }
        }
    }
    message.retain(|_, v| *v != json!([]));
    Value::Object(message)
}

fn streamed(sse: &[u8], size: usize, strict: bool) -> (Value, Value, Value) {
    let body = Bytes::new();
    let mut stream = Anthropic::HOME.stream(&call(&body, strict));
    let mut out = Vec::new();
    for chunk in sse.chunks(size) {
        out.extend_from_slice(&stream.push(Bytes::copy_from_slice(chunk)).expect("no error"));
    }
    out.extend_from_slice(&stream.finish());
    assert!(stream.ending().complete);
    let text = String::from_utf8(out).expect("UTF-8");
    assert!(text.ends_with("data: [DONE]\n\n"));
    let (mut message, mut finish, mut usage) = (json!({}), Value::Null, Value::Null);
    for line in text.lines().filter_map(|l| l.strip_prefix("data: ")).filter(|l| *l != "[DONE]") {
        let chunk: Value = serde_json::from_str(line).expect("JSON");
        merge(&mut message, &chunk["choices"][0]["delta"]);
        finish = chunk["choices"][0]["finish_reason"].clone();
        usage = chunk["usage"].clone();
    }
    let Value::Object(message) = message else { unreachable!("starts as one") };
    (normal(message), finish, usage)
}

proptest! {
    #[test]
    fn whole_and_streamed_say_the_same(
        said in prop::collection::vec(block(), 0..6),
        stop in prop::sample::select(vec!["end_turn", "tool_use", "max_tokens", "refusal", "stop_sequence", "later_invention"]),
        size in 1_usize..200,
        strict in any::<bool>(),
        spaced in any::<bool>(),
    ) {
        let content: Vec<Value> = said.iter().enumerate().map(|(i, s)| s.whole(i)).collect();
        let usage = json!({ "input_tokens": 9, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2, "output_tokens": 7 });
        let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": content,
                              "stop_reason": stop, "stop_sequence": null, "usage": usage });
        let mut shell = message.clone();
        shell["content"] = json!([]);
        shell["stop_reason"] = Value::Null;
        let mut events = vec![json!({ "type": "message_start", "message": shell }), json!({ "type": "ping" })];
        events.extend(said.iter().enumerate().flat_map(|(i, s)| s.events(i)));
        events.push(json!({ "type": "message_delta", "delta": { "stop_reason": stop }, "usage": { "output_tokens": 7 } }));
        events.push(json!({ "type": "message_stop" }));
        let sse: String = events.iter().map(|e| {
            let name = e["type"].as_str().expect("named");
            let gap = if spaced { " " } else { "" };
            format!("event:{gap}{name}\ndata:{gap}{e}\n\n")
        }).collect();

        let body = Bytes::from(message.to_string());
        let empty = Bytes::new();
        let reply = Anthropic::HOME.response(&call(&empty, strict), &body).expect("a message");
        let whole: Value = serde_json::from_slice(&reply.body).expect("JSON");
        let (merged, finish, counts) = streamed(sse.as_bytes(), size, strict);
        let Value::Object(said) = whole["choices"][0]["message"].clone() else { unreachable!("an object") };
        prop_assert_eq!(merged, normal(said));
        prop_assert_eq!(&finish, &whole["choices"][0]["finish_reason"]);
        prop_assert_eq!(&counts, &whole["usage"]);
    }
}
