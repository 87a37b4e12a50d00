//! A whole answer and the stream that brings the same content must leave a client with the same message.

use super::Gemini;
use crate::adapter::{Adapter, Call};
use bytes::Bytes;
use gateway_domain::{Dialect, Operation};
use http::Method;
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
enum GeminiSamplePart {
    Text(Vec<String>),
    Thought(Vec<String>),
    Call(String, Value, bool),
}

fn part() -> impl Strategy<Value = GeminiSamplePart> {
    let words = || prop::collection::vec("[a-z\"\\\\\n\u{e9}\u{1F600} ]{1,8}", 1..4);
    let args = prop::collection::vec(("[a-c]{1,2}", "[a-z\"\u{e9}]{0,5}"), 0..3)
        .prop_map(|all| Value::Object(all.into_iter().map(|(k, v)| (k, Value::from(v))).collect()));
    prop_oneof![
        words().prop_map(GeminiSamplePart::Text),
        words().prop_map(GeminiSamplePart::Thought),
        ("[a-z]{1,5}", args, any::<bool>()).prop_map(|(n, a, id)| GeminiSamplePart::Call(n, a, id)),
    ]
}

impl GeminiSamplePart {
    /// Each inner list is what one event of a stream brings.
    fn parts(&self, i: usize) -> Vec<Value> {
        match self {
            Self::Text(words) => words.iter().map(|w| json!({ "text": w })).collect(),
            Self::Thought(words) => words.iter().map(|w| json!({ "text": w, "thought": true })).collect(),
            Self::Call(name, args, id) => {
                let mut call = json!({ "name": name, "args": args });
                if *id {
                    call["id"] = format!("id-{i}").into();
                }
                vec![json!({ "functionCall": call })]
            }
        }
    }
}

fn call<'a>(body: &'a Bytes, stream: bool) -> Call<'a> {
    Call {
        operation: Operation::ChatCompletions,
        dialect: Dialect::OpenAi,
        method: &Method::POST,
        tail: "/chat/completions",
        query: None,
        body,
        model: Some("gemini-2.5-flash"),
        form: None,
        sound_ms: None,
        model_span: None,
        stream,
        wants_usage: false,
        strict: true,
        now_ms: 1_750_000_000_000,
        dice: 0,
        origin: 1,
        settings: gateway_domain::cloud::CloudSettings::none(),
        keeps: None,
    }
}

fn answer(parts: &[Value], finish: Option<&str>) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    let usage = json!({ "promptTokenCount": 9, "candidatesTokenCount": 7, "thoughtsTokenCount": 3 });
    json!({ "candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini", "responseId": "r" })
}

/// What a client puts together from chunks.
fn collect(sse: &str) -> Value {
    let (mut content, mut reasoning, mut calls) = (String::new(), String::new(), Vec::<Value>::new());
    let mut finish = Value::Null;
    for line in sse.lines().filter_map(|l| l.strip_prefix("data: ")).filter(|l| *l != "[DONE]") {
        let chunk: Value = serde_json::from_str(line).expect("JSON");
        let delta = &chunk["choices"][0]["delta"];
        content += delta["content"].as_str().unwrap_or_default();
        reasoning += delta["reasoning_content"].as_str().unwrap_or_default();
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            if call["id"].is_string() {
                calls.push(json!([call["id"], call["function"]["name"], ""]));
            }
            let last = calls.last_mut().expect("opened");
            let more =
                format!("{}{}", last[2].as_str().expect("text"), call["function"]["arguments"].as_str().unwrap_or(""));
            last[2] = more.into();
        }
        if chunk["choices"][0]["finish_reason"].is_string() {
            finish = chunk["choices"][0]["finish_reason"].clone();
        }
    }
    json!([content, reasoning, calls, finish])
}

proptest! {
    #[test]
    fn whole_and_streamed_say_the_same(
        said in prop::collection::vec(part(), 0..6),
        stop in prop::sample::select(vec!["STOP", "MAX_TOKENS", "SAFETY", "LATER_INVENTION"]),
        size in 1_usize..200,
    ) {
        let parts: Vec<Value> = said.iter().enumerate().flat_map(|(i, s)| s.parts(i)).collect();
        let events = parts.iter().map(|part| answer(std::slice::from_ref(part), None));
        let sse: String = events.chain([answer(&[], Some(stop))]).map(|e| format!("data: {e}\r\n\r\n")).collect();

        let empty = Bytes::new();
        let mut stream = Gemini.stream(&call(&empty, true));
        let mut out = Vec::new();
        for chunk in sse.as_bytes().chunks(size) {
            out.extend_from_slice(&stream.push(Bytes::copy_from_slice(chunk)).expect("no error"));
        }
        out.extend_from_slice(&stream.finish());
        prop_assert!(stream.ending().complete);
        let streamed = collect(std::str::from_utf8(&out).expect("UTF-8"));

        let body = Bytes::from(answer(&parts, Some(stop)).to_string());
        let reply = Gemini.response(&call(&empty, false), &body).expect("an answer");
        let whole: Value = serde_json::from_slice(&reply.body).expect("JSON");
        let message = &whole["choices"][0]["message"];
        let calls: Vec<Value> = message["tool_calls"].as_array().into_iter().flatten()
            .map(|c| json!([c["id"], c["function"]["name"], c["function"]["arguments"]])).collect();
        let text = |key: &str| message[key].as_str().unwrap_or_default();
        prop_assert_eq!(
            streamed,
            json!([text("content"), text("reasoning_content"), calls, whole["choices"][0]["finish_reason"]])
        );
        prop_assert_eq!(stream.ending().usage, reply.usage);
    }
}
