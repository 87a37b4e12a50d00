//! Streams put together as the SDKs of clients do it, and what was meant by an answer.

use super::SampleReply;
use gateway_domain::Operation;
use serde_json::{Map, Value, json};

/// The whole answer that a stream stands for.
pub(super) fn heard(operation: Operation, stream: &str) -> Value {
    let events = stream.split("\n\n").filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")));
    let events: Vec<Value> =
        events.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).expect(data)).collect();
    match operation {
        Operation::Messages => message(&events),
        Operation::Responses => response(&events),
        _ => {
            assert!(stream.ends_with("data: [DONE]\n\n"), "{stream}");
            completion(&events)
        }
    }
}

/// A whole answer without what only a stream cannot tell apart.
pub(super) fn settled(operation: Operation, mut whole: Value) -> Value {
    if operation == Operation::ChatCompletions {
        whole["object"] = json!("chat.completion.chunk");
        for choice in whole["choices"].as_array_mut().expect("choices") {
            let content = &mut choice["message"]["content"];
            *content = json!(content.as_str().unwrap_or_default());
            if choice["message"]["content_blocks"] == json!([]) {
                choice["message"].as_object_mut().expect("a message").remove("content_blocks");
            }
        }
    }
    whole
}

fn append(text: &mut Value, more: &Value) {
    let joined = [text.as_str().unwrap_or_default(), more.as_str().unwrap_or_default()].concat();
    *text = json!(joined);
}

fn completion(chunks: &[Value]) -> Value {
    let mut whole = chunks[0].clone();
    let mut choices: Vec<Value> = Vec::new();
    for chunk in chunks {
        if chunk["usage"].is_object() {
            whole["usage"] = chunk["usage"].clone();
        }
        for said in chunk["choices"].as_array().expect("choices") {
            let index = usize::try_from(said["index"].as_u64().expect("an index")).expect("small");
            while choices.len() <= index {
                let n = choices.len();
                choices.push(json!({ "index": n, "message": {}, "logprobs": null, "finish_reason": null }));
            }
            let choice = &mut choices[index];
            if said["finish_reason"].is_string() {
                choice["finish_reason"] = said["finish_reason"].clone();
            }
            delta(&mut choice["message"], &said["delta"]);
        }
    }
    for choice in &mut choices {
        // SDKs merge pieces by their index; gaps between those are not told in a whole answer.
        if let Some(blocks) = choice["message"]["content_blocks"].as_object() {
            choice["message"]["content_blocks"] = json!(blocks.values().collect::<Vec<_>>());
        }
    }
    whole["choices"] = json!(choices);
    whole
}

fn delta(message: &mut Value, delta: &Value) {
    for (key, more) in delta.as_object().expect("a delta") {
        match key.as_str() {
            "role" => message["role"] = more.clone(),
            "tool_calls" => more.as_array().expect("calls").iter().for_each(|call| tool_call(message, call)),
            "content_blocks" => more.as_array().expect("pieces").iter().for_each(|piece| block(message, piece)),
            key => append(&mut message[key], more),
        }
    }
}

fn tool_call(message: &mut Value, call: &Value) {
    let index = usize::try_from(call["index"].as_u64().expect("an index")).expect("small");
    let calls = message.as_object_mut().expect("a message").entry("tool_calls").or_insert_with(|| json!([]));
    let calls = calls.as_array_mut().expect("calls");
    if calls.len() == index {
        let mut opened = call.clone();
        opened.as_object_mut().expect("a call").remove("index");
        calls.push(opened);
    } else {
        append(&mut calls[index]["function"]["arguments"], &call["function"]["arguments"]);
    }
}

fn block(message: &mut Value, piece: &Value) {
    let index = format!("{:06}", piece["index"].as_u64().expect("an index"));
    let blocks = message.as_object_mut().expect("a message").entry("content_blocks").or_insert_with(|| json!({}));
    let block = blocks.as_object_mut().expect("by index").entry(index).or_insert_with(|| json!({}));
    for (key, more) in piece["delta"].as_object().expect("a delta") {
        if key == "type" { block["type"] = more.clone() } else { append(&mut block[key], more) }
    }
}

fn message(events: &[Value]) -> Value {
    assert_eq!(events.last().expect("events")["type"], "message_stop");
    let mut whole = events[0]["message"].clone();
    let mut blocks: Vec<(Value, String)> = Vec::new();
    for event in events {
        let at = usize::try_from(event["index"].as_u64().unwrap_or(0)).expect("small");
        match event["type"].as_str().expect("a type") {
            "content_block_start" => {
                assert_eq!(at, blocks.len(), "blocks come one by one");
                blocks.push((event["content_block"].clone(), String::new()));
            }
            "content_block_delta" => match event["delta"]["type"].as_str().expect("a type") {
                "text_delta" => append(&mut blocks[at].0["text"], &event["delta"]["text"]),
                "thinking_delta" => append(&mut blocks[at].0["thinking"], &event["delta"]["thinking"]),
                "signature_delta" => blocks[at].0["signature"] = event["delta"]["signature"].clone(),
                "input_json_delta" => blocks[at].1.push_str(event["delta"]["partial_json"].as_str().expect("text")),
                other => panic!("unexpected {other}"),
            },
            "message_delta" => {
                whole["usage"] = event["usage"].clone();
                let ended = event["delta"].as_object().expect("a delta").clone();
                whole.as_object_mut().expect("a message").extend(ended);
            }
            _ => {}
        }
    }
    let settle = |(mut block, input): (Value, String)| {
        if !input.is_empty() {
            block["input"] = serde_json::from_str(&input).expect("arguments are JSON");
        }
        block
    };
    whole["content"] = blocks.into_iter().map(settle).collect();
    whole
}

/// The last event holds the whole response; what the others said must be in it.
fn response(events: &[Value]) -> Value {
    let whole = events.last().expect("events")["response"].clone();
    let (mut items, mut deltas) = (Map::new(), Map::new());
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
        let place = event["output_index"].to_string();
        match event["type"].as_str().expect("a type") {
            "response.output_item.done" => drop(items.insert(place, event["item"].clone())),
            kind if kind.ends_with(".delta") => append(deltas.entry(place).or_insert(Value::Null), &event["delta"]),
            _ => {}
        }
    }
    for (place, item) in whole["output"].as_array().expect("output").iter().enumerate() {
        assert_eq!(&items[&place.to_string()], item);
        let said = [&item["content"][0]["text"], &item["summary"][0]["text"], &item["arguments"]];
        let said = said.into_iter().find_map(Value::as_str).unwrap_or_default();
        assert_eq!(deltas.get(&place.to_string()).and_then(Value::as_str).unwrap_or_default(), said);
    }
    whole
}

/// Text, reasoning and calls of a whole answer, in one form for all clients.
pub(super) fn said(operation: Operation, whole: &Value) -> Value {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let joined = |values: Vec<Value>| values.iter().filter_map(Value::as_str).collect::<String>();
    let of = |all: &[Value], kind: &str, key: &str| {
        joined(all.iter().filter(|part| part["type"] == kind).map(|part| part[key].clone()).collect())
    };
    let parsed = |text: &Value| -> Value { serde_json::from_str(text.as_str().expect("text")).expect("JSON") };
    match operation {
        Operation::Messages => {
            let content = list(&whole["content"]);
            let calls = content.iter().filter(|b| b["type"] == "tool_use");
            let calls: Vec<Value> = calls.map(|b| json!([b["id"], b["name"], b["input"]])).collect();
            let (text, thought) = (of(&content, "text", "text"), of(&content, "thinking", "thinking"));
            json!([{ "text": text, "thought": thought, "calls": calls }])
        }
        Operation::Responses => {
            let output = list(&whole["output"]);
            let parts = |kind: &str, key: &str| -> Vec<Value> {
                output.iter().filter(|i| i["type"] == kind).flat_map(|i| list(&i[key])).collect()
            };
            let calls = output.iter().filter(|i| i["type"] == "function_call");
            let calls: Vec<Value> = calls.map(|i| json!([i["call_id"], i["name"], parsed(&i["arguments"])])).collect();
            let text = of(&parts("message", "content"), "output_text", "text");
            let thought = of(&parts("reasoning", "summary"), "summary_text", "text");
            json!([{ "text": text, "thought": thought, "calls": calls }])
        }
        _ => {
            let choice = |choice: &Value| {
                let message = &choice["message"];
                let call = |c: &Value| json!([c["id"], c["function"]["name"], parsed(&c["function"]["arguments"])]);
                let calls: Vec<Value> = list(&message["tool_calls"]).iter().map(call).collect();
                let text = message["content"].as_str().unwrap_or_default();
                json!({ "text": text, "thought": message["reasoning_content"].as_str().unwrap_or_default(), "calls": calls })
            };
            list(&whole["choices"]).iter().map(choice).collect()
        }
    }
}

/// Text, reasoning and calls of an answer that was made up, in the form of [`said`].
pub(super) fn meant(operation: Operation, made: &SampleReply) -> Value {
    let all = if operation == Operation::ChatCompletions { &made.choices[..] } else { &made.choices[..1] };
    let choice = |said: &super::SampleChoice| {
        let calls: Vec<Value> = said.calls.iter().map(|c| json!([c.id, c.name, c.arguments])).collect();
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        json!({ "text": text(&said.text), "thought": text(&said.thought), "calls": calls })
    };
    all.iter().map(choice).collect()
}
