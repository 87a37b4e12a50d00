//! Made-up answers in the words of each family: whole, and as a stream of events.

use super::{End, SampleChoice, SampleReply, SampleToolCall};
use serde_json::{Value, json};

pub(super) fn written(slug: &str, made: &SampleReply) -> (Value, String) {
    match slug {
        "anthropic" => anthropic(made),
        "google" => google(made),
        "cohere" => cohere(made),
        "perplexity-ai" => responses(made),
        slug => openai(slug, made),
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn named(mut value: Value, kind: &str) -> String {
    value["type"] = json!(kind);
    format!("event: {kind}\n{}", data(&value))
}

fn openai(slug: &str, made: &SampleReply) -> (Value, String) {
    let reason = |said: &SampleChoice| match said.end {
        End::Length => "length",
        End::Filter => "content_filter",
        End::Stop if !said.calls.is_empty() => "tool_calls",
        End::Stop => "stop",
    };
    let function = |c: &SampleToolCall, arguments: &str| json!({ "name": c.name, "arguments": arguments });
    // Mistral has reasoning among the parts of the content, others in a field beside it.
    let reasoned = |text: &str| match slug {
        "mistral-ai" => json!({ "content": [{ "type": "thinking", "thinking": [{ "type": "text", "text": text }] }] }),
        "openrouter" => json!({ "reasoning": text }),
        _ => json!({ "reasoning_content": text }),
    };
    let usage = json!({
        "prompt_tokens": made.input, "completion_tokens": made.output, "total_tokens": made.input + made.output,
    });
    let shared = |object: &str| json!({ "id": "x", "object": object, "created": 1, "model": "m-1" });
    let (mut choices, mut events) = (Vec::new(), String::new());
    for (index, said) in made.choices.iter().enumerate() {
        let mut chunk = |delta: Value, finish: Option<&str>| {
            let mut chunk = shared("chat.completion.chunk");
            chunk["choices"] = json!([{ "index": index, "delta": delta, "finish_reason": finish }]);
            events.push_str(&data(&chunk));
        };
        chunk(json!({ "role": "assistant", "content": "" }), None);
        let mut message = json!({ "role": "assistant", "content": said.text });
        if let Some(thought) = &said.thought {
            match (slug, &mut message, reasoned(thought)) {
                ("mistral-ai", message, reasoned) => {
                    let mut parts = reasoned["content"].as_array().cloned().unwrap_or_default();
                    parts.extend(said.text.iter().map(|text| json!({ "type": "text", "text": text })));
                    message["content"] = json!(parts);
                }
                (_, Value::Object(message), Value::Object(reasoned)) => message.extend(reasoned),
                _ => {}
            }
            made.cut(thought).iter().for_each(|piece| chunk(reasoned(piece), None));
        }
        made.cut(said.text.as_deref().unwrap_or_default()).iter().for_each(|t| chunk(json!({ "content": t }), None));
        let mut calls = Vec::new();
        for (i, c) in said.calls.iter().enumerate() {
            let arguments = c.arguments.to_string();
            calls.push(json!({ "id": c.id, "type": "function", "function": function(c, &arguments) }));
            let start = json!({ "index": i, "id": c.id, "type": "function", "function": function(c, "") });
            chunk(json!({ "tool_calls": [start] }), None);
            for piece in made.cut(&arguments) {
                chunk(json!({ "tool_calls": [{ "index": i, "function": { "arguments": piece } }] }), None);
            }
        }
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        chunk(json!({}), Some(reason(said)));
        choices.push(json!({ "index": index, "message": message, "finish_reason": reason(said) }));
    }
    let mut last = shared("chat.completion.chunk");
    (last["choices"], last["usage"]) = (json!([]), usage.clone());
    events.push_str(&data(&last));
    events.push_str("data: [DONE]\n\n");
    let mut whole = shared("chat.completion");
    (whole["choices"], whole["usage"]) = (json!(choices), usage);
    (whole, events)
}

fn responses(made: &SampleReply) -> (Value, String) {
    let said = &made.choices[0];
    let (mut output, mut events) = (Vec::new(), String::new());
    let mut tell = |kind: &str, fields: Value| events.push_str(&named(fields, kind));
    tell(
        "response.created",
        json!({ "response": { "id": "r", "model": "m-1", "output": [], "status": "in_progress" } }),
    );
    let spoken = [("reasoning", &said.thought), ("message", &said.text)];
    for (kind, text) in spoken.into_iter().filter_map(|(kind, text)| Some((kind, text.as_ref()?))) {
        let at = output.len();
        let (delta, item) = if kind == "reasoning" {
            let summary = json!([{ "type": "summary_text", "text": text }]);
            ("response.reasoning_summary_text.delta", json!({ "type": kind, "id": "i", "summary": summary }))
        } else {
            let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
            ("response.output_text.delta", json!({ "type": kind, "role": "assistant", "id": "i", "content": content }))
        };
        made.cut(text).iter().for_each(|piece| tell(delta, json!({ "output_index": at, "delta": piece })));
        tell("response.output_item.done", json!({ "output_index": at, "item": item }));
        output.push(item);
    }
    for called in &said.calls {
        let at = output.len();
        let arguments = called.arguments.to_string();
        let call = |arguments: &str| json!({ "type": "function_call", "id": "i", "call_id": called.id, "name": called.name, "arguments": arguments });
        tell("response.output_item.added", json!({ "output_index": at, "item": call("") }));
        for piece in made.cut(&arguments) {
            tell("response.function_call_arguments.delta", json!({ "output_index": at, "delta": piece }));
        }
        tell("response.output_item.done", json!({ "output_index": at, "item": call(&arguments) }));
        output.push(call(&arguments));
    }
    let (status, why) = match said.end {
        End::Length => ("incomplete", json!({ "reason": "max_output_tokens" })),
        End::Filter => ("incomplete", json!({ "reason": "content_filter" })),
        End::Stop => ("completed", Value::Null),
    };
    let usage =
        json!({ "input_tokens": made.input, "output_tokens": made.output, "total_tokens": made.input + made.output });
    let whole = json!({ "id": "r", "object": "response", "model": "m-1", "output": output, "status": status,
                        "incomplete_details": why, "usage": usage });
    tell(&format!("response.{status}"), json!({ "response": whole }));
    (whole, events)
}

fn anthropic(made: &SampleReply) -> (Value, String) {
    let said = &made.choices[0];
    let reason = match said.end {
        End::Length => "max_tokens",
        End::Filter => "refusal",
        End::Stop if !said.calls.is_empty() => "tool_use",
        End::Stop => "end_turn",
    };
    let message = |content: Value, output: u64| {
        json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "content": content,
            "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": made.input, "output_tokens": output },
        })
    };
    let start = named(json!({ "message": message(json!([]), 1) }), "message_start");
    let (mut content, mut events) = (Vec::new(), vec![start]);
    let mut block = |whole: Value, empty: Value, deltas: Vec<Value>| {
        let index = content.len();
        content.push(whole);
        events.push(named(json!({ "index": index, "content_block": empty }), "content_block_start"));
        events.extend(
            deltas.into_iter().map(|delta| named(json!({ "index": index, "delta": delta }), "content_block_delta")),
        );
        events.push(named(json!({ "index": index }), "content_block_stop"));
    };
    if let Some(thought) = &said.thought {
        let delta = |piece| json!({ "type": "thinking_delta", "thinking": piece });
        let mut deltas: Vec<Value> = made.cut(thought).into_iter().map(delta).collect();
        deltas.push(json!({ "type": "signature_delta", "signature": made.signature }));
        let thinking =
            |text: &str, signature: &str| json!({ "type": "thinking", "thinking": text, "signature": signature });
        block(thinking(thought, &made.signature), thinking("", ""), deltas);
    }
    if let Some(text) = &said.text {
        let deltas = made.cut(text).into_iter().map(|piece| json!({ "type": "text_delta", "text": piece })).collect();
        block(json!({ "type": "text", "text": text }), json!({ "type": "text", "text": "" }), deltas);
    }
    for c in &said.calls {
        let used = |input: &Value| json!({ "type": "tool_use", "id": c.id, "name": c.name, "input": input });
        let delta = |piece| json!({ "type": "input_json_delta", "partial_json": piece });
        // A call without arguments has no deltas to speak of.
        let pieces = if c.arguments == json!({}) { vec![String::new()] } else { made.cut(&c.arguments.to_string()) };
        block(used(&c.arguments), used(&json!({})), pieces.into_iter().map(delta).collect());
    }
    let mut whole = message(json!(content), made.output);
    whole["stop_reason"] = json!(reason);
    let end =
        json!({ "delta": { "stop_reason": reason, "stop_sequence": null }, "usage": { "output_tokens": made.output } });
    events.push(named(end, "message_delta"));
    events.push(named(json!({}), "message_stop"));
    (whole, events.concat())
}

fn google(made: &SampleReply) -> (Value, String) {
    let reason = |said: &SampleChoice| match said.end {
        End::Length => "MAX_TOKENS",
        End::Filter => "SAFETY",
        End::Stop => "STOP",
    };
    let answer = |candidates: Value| {
        json!({
            "candidates": candidates, "modelVersion": "m-1", "responseId": "r",
            "usageMetadata": {
                "promptTokenCount": made.input, "candidatesTokenCount": made.output,
                "totalTokenCount": made.input + made.output,
            },
        })
    };
    let (mut whole, mut events, mut ends) = (Vec::new(), String::new(), String::new());
    for (index, said) in made.choices.iter().enumerate() {
        let candidate = |parts: Vec<Value>| json!({ "content": { "parts": parts, "role": "model" }, "index": index });
        let thoughts = |text: &str| json!({ "text": text, "thought": true });
        let calls = said.calls.iter().enumerate().map(|(i, c)| {
            let mut part = json!({ "functionCall": { "id": c.id, "name": c.name, "args": c.arguments } });
            if i == 0 {
                part["thoughtSignature"] = json!(made.signature);
            }
            part
        });
        let mut parts: Vec<Value> = said.thought.iter().map(|text| thoughts(text)).collect();
        parts.extend(said.text.iter().map(|text| json!({ "text": text })));
        parts.extend(calls.clone());
        let mut pieces: Vec<Value> =
            said.thought.iter().flat_map(|text| made.cut(text)).map(|t| thoughts(&t)).collect();
        pieces.extend(said.text.iter().flat_map(|text| made.cut(text)).map(|text| json!({ "text": text })));
        pieces.extend(calls);
        for part in pieces {
            events.push_str(&data(&answer(json!([candidate(vec![part])]))));
        }
        let (mut all, mut last) = (candidate(parts), candidate(Vec::new()));
        (all["finishReason"], last["finishReason"]) = (json!(reason(said)), json!(reason(said)));
        whole.push(all);
        ends.push_str(&data(&answer(json!([last]))));
    }
    // All choices go on before the first one ends.
    (answer(json!(whole)), events + &ends)
}

fn cohere(made: &SampleReply) -> (Value, String) {
    let said = &made.choices[0];
    let reason = match said.end {
        End::Length => "MAX_TOKENS",
        End::Filter => "ERROR_TOXIC",
        End::Stop if !said.calls.is_empty() => "TOOL_CALL",
        End::Stop => "COMPLETE",
    };
    let usage = json!({ "billed_units": { "input_tokens": made.input, "output_tokens": made.output } });
    let start = named(json!({ "id": "c", "delta": { "message": { "role": "assistant" } } }), "message-start");
    let (mut content, mut events) = (Vec::new(), vec![start]);
    for (kind, text) in [("thinking", &said.thought), ("text", &said.text)] {
        let Some(text) = text else { continue };
        let index = content.len();
        let part = |text: &str| json!({ "type": kind, kind: text });
        let event = |piece: &str| json!({ "index": index, "delta": { "message": { "content": part(piece) } } });
        events.push(named(event(""), "content-start"));
        events.extend(made.cut(text).iter().map(|piece| named(event(piece), "content-delta")));
        events.push(named(json!({ "index": index }), "content-end"));
        content.push(part(text));
    }
    let mut calls = Vec::new();
    for (index, c) in said.calls.iter().enumerate() {
        let function = |arguments: &str| json!({ "name": c.name, "arguments": arguments });
        let called = |arguments: &str| json!({ "id": c.id, "type": "function", "function": function(arguments) });
        let event = |call: Value| json!({ "index": index, "delta": { "message": { "tool_calls": call } } });
        events.push(named(event(called("")), "tool-call-start"));
        for piece in made.cut(&c.arguments.to_string()) {
            events.push(named(event(json!({ "function": { "arguments": piece } })), "tool-call-delta"));
        }
        events.push(named(json!({ "index": index }), "tool-call-end"));
        calls.push(called(&c.arguments.to_string()));
    }
    events.push(named(json!({ "delta": { "finish_reason": reason, "usage": usage } }), "message-end"));
    let message = json!({ "role": "assistant", "content": content, "tool_calls": calls });
    (json!({ "id": "c", "finish_reason": reason, "message": message, "usage": usage }), events.concat())
}
