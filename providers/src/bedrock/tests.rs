//! A whole answer and the stream that brings the same content must leave a client with the same message; errors say
//! what AWS says in a header.

use super::Bedrock;
use crate::adapter::{Adapter, Call};
use crate::frames::tests::frame;
use bytes::Bytes;
use gateway_domain::cloud::CloudSettings;
use gateway_domain::{Dialect, Operation};
use http::{HeaderMap, Method};
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
enum ConverseSampleBlock {
    Text(Vec<String>),
    Thought(Vec<String>, Option<String>),
    Redacted(String),
    Call(String, Value),
}

fn block() -> impl Strategy<Value = ConverseSampleBlock> {
    let words = || prop::collection::vec("[a-z\"\\\\\n\u{e9}\u{1F600} ]{1,8}", 1..4);
    let args = prop::collection::vec(("[a-c]{1,2}", "[a-z\"\u{e9}]{0,5}"), 0..3)
        .prop_map(|all| Value::Object(all.into_iter().map(|(k, v)| (k, Value::from(v))).collect()));
    prop_oneof![
        words().prop_map(ConverseSampleBlock::Text),
        (words(), prop::option::of("[A-Za-z0-9]{1,9}")).prop_map(|(w, s)| ConverseSampleBlock::Thought(w, s)),
        "[A-Za-z0-9]{4}".prop_map(ConverseSampleBlock::Redacted),
        ("[a-z]{1,5}", args).prop_map(|(n, a)| ConverseSampleBlock::Call(n, a)),
    ]
}

impl ConverseSampleBlock {
    fn whole(&self, i: usize) -> Value {
        match self {
            Self::Text(words) => json!({ "text": words.concat() }),
            Self::Thought(words, signature) => {
                let mut said = json!({ "text": words.concat() });
                if let Some(signature) = signature {
                    said["signature"] = signature.as_str().into();
                }
                json!({ "reasoningContent": { "reasoningText": said } })
            }
            Self::Redacted(data) => json!({ "reasoningContent": { "redactedContent": data } }),
            Self::Call(name, input) => {
                json!({ "toolUse": { "toolUseId": format!("tooluse_{i}"), "name": name, "input": input } })
            }
        }
    }

    fn streamed(&self, i: usize) -> Vec<(&'static str, Value)> {
        let delta = |delta: Value| ("contentBlockDelta", json!({ "contentBlockIndex": i, "delta": delta }));
        let mut out = match self {
            Self::Text(words) => words.iter().map(|w| delta(json!({ "text": w }))).collect(),
            Self::Thought(words, signature) => {
                let said = words.iter().map(|w| delta(json!({ "reasoningContent": { "text": w } })));
                let signed = signature.iter().map(|s| delta(json!({ "reasoningContent": { "signature": s } })));
                said.chain(signed).collect()
            }
            Self::Redacted(data) => vec![delta(json!({ "reasoningContent": { "redactedContent": data } }))],
            Self::Call(name, input) => {
                let start = json!({ "toolUse": { "toolUseId": format!("tooluse_{i}"), "name": name } });
                let mut all = vec![("contentBlockStart", json!({ "contentBlockIndex": i, "start": start }))];
                let text: Vec<char> = input.to_string().chars().collect();
                let pieces = text.chunks(3).map(|piece| piece.iter().collect::<String>());
                all.extend(pieces.map(|piece| delta(json!({ "toolUse": { "input": piece } }))));
                all
            }
        };
        out.push(("contentBlockStop", json!({ "contentBlockIndex": i })));
        out
    }
}

fn call<'a>(body: &'a Bytes, operation: Operation, stream: bool) -> Call<'a> {
    Call {
        operation,
        dialect: if operation == Operation::Messages { Dialect::Anthropic } else { Dialect::OpenAi },
        method: &Method::POST,
        tail: "/chat/completions",
        query: None,
        body,
        model: Some("us.amazon.nova-pro-v1:0"),
        form: None,
        sound_ms: None,
        model_span: None,
        stream,
        wants_usage: false,
        strict: false,
        now_ms: 1_750_000_000_000,
        dice: 0,
        origin: 1,
        settings: CloudSettings::none(),
        keeps: None,
    }
}

/// What a client of chat puts together from chunks.
fn chat(sse: &str) -> Value {
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

/// What a client of Messages puts together from events: its blocks and why it ended.
fn messages(sse: &str) -> Value {
    let (mut blocks, mut inputs, mut stop) = (Vec::<Value>::new(), Vec::<String>::new(), Value::Null);
    let add = |field: &mut Value, more: &Value| {
        *field = format!("{}{}", field.as_str().unwrap_or_default(), more.as_str().unwrap_or_default()).into();
    };
    for line in sse.lines().filter_map(|l| l.strip_prefix("data: ")) {
        let event: Value = serde_json::from_str(line).expect("JSON");
        let delta = &event["delta"];
        match event["type"].as_str().expect("a type") {
            "content_block_start" => {
                blocks.push(event["content_block"].clone());
                inputs.push(String::new());
            }
            "content_block_delta" => {
                let (block, input) = (blocks.last_mut().expect("open"), inputs.last_mut().expect("open"));
                match delta["type"].as_str().expect("a type") {
                    "text_delta" => add(&mut block["text"], &delta["text"]),
                    "thinking_delta" => add(&mut block["thinking"], &delta["thinking"]),
                    "signature_delta" => add(&mut block["signature"], &delta["signature"]),
                    _ => input.push_str(delta["partial_json"].as_str().unwrap_or_default()),
                }
            }
            "message_delta" => stop = delta["stop_reason"].clone(),
            _ => {}
        }
    }
    for (block, input) in blocks.iter_mut().zip(inputs).filter(|(_, input)| !input.is_empty()) {
        block["input"] = serde_json::from_str(&input).expect("JSON");
    }
    json!([blocks, stop])
}

proptest! {
    #[test]
    fn whole_and_streamed_say_the_same(
        said in prop::collection::vec(block(), 0..6),
        stop in prop::sample::select(vec!["end_turn", "max_tokens", "tool_use", "guardrail_intervened", "invented"]),
        size in 1_usize..200,
    ) {
        let usage = json!({ "inputTokens": 9, "outputTokens": 7, "totalTokens": 21, "cacheReadInputTokens": 5 });
        let blocks: Vec<Value> = said.iter().enumerate().map(|(i, s)| s.whole(i)).collect();
        let answer = json!({ "output": { "message": { "role": "assistant", "content": blocks } },
                             "stopReason": stop, "usage": usage, "metrics": { "latencyMs": 1 } });
        let mut events = vec![("messageStart", json!({ "role": "assistant" }))];
        events.extend(said.iter().enumerate().flat_map(|(i, s)| s.streamed(i)));
        events.push(("messageStop", json!({ "stopReason": stop })));
        events.push(("metadata", json!({ "usage": usage, "metrics": { "latencyMs": 1 } })));
        let frames: Vec<u8> = events.iter().flat_map(|(n, e)| frame("event", n, e.to_string().as_bytes())).collect();

        let empty = Bytes::from_static(b"{}");
        let body = Bytes::from(answer.to_string());
        for operation in [Operation::ChatCompletions, Operation::Messages] {
            let mut stream = Bedrock.stream(&call(&empty, operation, true));
            let mut out = Vec::new();
            for chunk in frames.chunks(size) {
                out.extend_from_slice(&stream.push(Bytes::copy_from_slice(chunk)).expect("no error"));
            }
            out.extend_from_slice(&stream.finish());
            prop_assert!(stream.ending().complete);
            let out = std::str::from_utf8(&out).expect("UTF-8");

            let reply = Bedrock.response(&call(&empty, operation, false), &body).expect("an answer");
            let whole: Value = serde_json::from_slice(&reply.body).expect("JSON");
            if operation == Operation::Messages {
                prop_assert_eq!(messages(out), json!([whole["content"], whole["stop_reason"]]));
            } else {
                let message = &whole["choices"][0]["message"];
                let calls: Vec<Value> = message["tool_calls"].as_array().into_iter().flatten()
                    .map(|c| json!([c["id"], c["function"]["name"], c["function"]["arguments"]])).collect();
                let text = |key: &str| message[key].as_str().unwrap_or_default();
                let finish = &whole["choices"][0]["finish_reason"];
                prop_assert_eq!(chat(out), json!([text("content"), text("reasoning_content"), calls, finish]));
            }
            prop_assert_eq!(stream.ending().usage, reply.usage);
        }
    }
}

#[test]
fn the_type_of_an_error_stands_in_a_header() {
    let empty = Bytes::new();
    let mut head = HeaderMap::new();
    head.insert("x-amzn-errortype", "ThrottlingException:http://internal.amazon.com/coral/".parse().expect("a value"));
    let body = Bytes::from_static(br#"{"message":"Too many requests"}"#);
    let told = Bedrock.failed(&call(&empty, Operation::ChatCompletions, false), 429, &head, &body);
    let told: Value = serde_json::from_slice(&told.body).expect("JSON");
    assert_eq!((&told["error"]["type"], &told["provider"]), (&json!("ThrottlingException"), &json!("bedrock")));
    let told = Bedrock.failed(&call(&empty, Operation::Messages, false), 429, &head, &body);
    let told: Value = serde_json::from_slice(&told.body).expect("JSON");
    assert_eq!(told["error"]["type"], "rate_limit_error");
    assert_eq!(told["error"]["provider_type"], "ThrottlingException");
}

#[test]
fn what_aws_repeats_of_a_request_is_not_told() {
    let body = Bytes::from_static(
        br#"{"message":"The request signature we calculated does not match.\n\nThe Canonical String for this request should have been\n'POST\nx-amz-security-token:IQoJ'"}"#,
    );
    let told = Bedrock.failure(&call(&Bytes::new(), Operation::ChatCompletions, false), 403, &body);
    assert_eq!(told.message, "The request signature we calculated does not match.");
}
