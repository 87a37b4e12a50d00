//! Whole answers of the gateway's own as the streams that were asked for: one text, and nothing a provider said. Knows
//! only the bodies that the gateway makes itself.

use crate::sse;
use bytes::{Bytes, BytesMut};
use gateway_domain::Operation;
use serde_json::{Value, json};

const DONE: &[u8] = b"data: [DONE]\n\n";

/// The events of a whole answer of one text, for the clients of `operation`.
pub fn made_events(operation: Operation, body: &[u8]) -> Bytes {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return Bytes::new() };
    let mut out = BytesMut::new();
    match operation {
        Operation::Messages => message(&body, &mut out),
        Operation::Responses => response(&body, &mut out),
        Operation::Completions => {
            push(&mut out, None, &body);
            out.extend_from_slice(DONE);
        }
        _ => chat(&body, &mut out),
    }
    out.freeze()
}

fn push(out: &mut BytesMut, name: Option<&str>, event: &Value) {
    out.extend_from_slice(&sse::event(name, event.to_string().as_bytes()));
}

fn chat(body: &Value, out: &mut BytesMut) {
    let chunk = |delta: Value, finish: Value| {
        json!({
            "id": body["id"], "object": "chat.completion.chunk", "created": body["created"], "model": body["model"],
            "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}],
        })
    };
    let content = &body["choices"][0]["message"]["content"];
    push(out, None, &chunk(json!({"role": "assistant", "content": content}), Value::Null));
    push(out, None, &chunk(json!({}), "stop".into()));
    out.extend_from_slice(DONE);
}

fn message(body: &Value, out: &mut BytesMut) {
    let mut opening = body.clone();
    (opening["content"], opening["stop_reason"]) = (json!([]), Value::Null);
    let text = &body["content"][0]["text"];
    let events = [
        ("message_start", json!({"message": opening})),
        ("content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": ""}})),
        ("content_block_delta", json!({"index": 0, "delta": {"type": "text_delta", "text": text}})),
        ("content_block_stop", json!({"index": 0})),
        (
            "message_delta",
            json!({"delta": {"stop_reason": body["stop_reason"], "stop_sequence": null}, "usage": body["usage"]}),
        ),
        ("message_stop", json!({})),
    ];
    for (name, event) in events {
        named(out, name, event);
    }
}

fn response(body: &Value, out: &mut BytesMut) {
    let mut opening = body.clone();
    (opening["output"], opening["status"], opening["usage"]) = (json!([]), "in_progress".into(), Value::Null);
    let item = &body["output"][0];
    let (mut bare, part) = (item.clone(), &item["content"][0]);
    (bare["content"], bare["status"]) = (json!([]), "in_progress".into());
    let empty = json!({"type": "output_text", "text": "", "annotations": []});
    let (id, text) = (&item["id"], &part["text"]);
    let events = [
        ("response.created", json!({"response": opening})),
        ("response.in_progress", json!({"response": opening})),
        ("response.output_item.added", json!({"output_index": 0, "item": bare})),
        ("response.content_part.added", json!({"item_id": id, "output_index": 0, "content_index": 0, "part": empty})),
        (
            "response.output_text.delta",
            json!({"item_id": id, "output_index": 0, "content_index": 0, "delta": text, "logprobs": []}),
        ),
        (
            "response.output_text.done",
            json!({"item_id": id, "output_index": 0, "content_index": 0, "text": text, "logprobs": []}),
        ),
        ("response.content_part.done", json!({"item_id": id, "output_index": 0, "content_index": 0, "part": part})),
        ("response.output_item.done", json!({"output_index": 0, "item": item})),
        ("response.completed", json!({"response": body})),
    ];
    for (number, (name, mut event)) in events.into_iter().enumerate() {
        event["sequence_number"] = number.into();
        named(out, name, event);
    }
}

fn named(out: &mut BytesMut, name: &str, mut event: Value) {
    if let Value::Object(event) = &mut event {
        event.insert("type".to_owned(), name.into());
    }
    push(out, Some(name), &event);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_reads_the_whole_text() {
        let chat = json!({"id": "c", "created": 1, "model": "m", "choices": [{"message": {"content": "no"}}]});
        let completion = json!({"id": "c", "choices": [{"text": "no", "finish_reason": "stop"}]});
        let message = json!({"id": "m", "type": "message", "content": [{"type": "text", "text": "no"}],
            "stop_reason": "end_turn", "usage": {"input_tokens": 0, "output_tokens": 0}});
        let response = json!({"id": "r", "status": "completed", "output": [{"id": "i", "type": "message",
            "status": "completed", "content": [{"type": "output_text", "text": "no"}]}]});
        for (operation, body, ends) in [
            (Operation::ChatCompletions, chat, "data: [DONE]\n\n"),
            (Operation::Completions, completion, "data: [DONE]\n\n"),
            (Operation::Messages, message, "\"message_stop\"}\n\n"),
            (Operation::Responses, response, "\"response.completed\"}\n\n"),
        ] {
            let events = made_events(operation, body.to_string().as_bytes());
            let text = String::from_utf8_lossy(&events);
            assert!(text.contains("\"no\"") && text.ends_with(ends), "{operation:?}: {text}");
            for event in sse::events(&events).filter_map(sse::data).filter(|data| &data[..] != b"[DONE]") {
                let event: Value = serde_json::from_slice(&event).expect("JSON");
                assert!(event.is_object(), "{operation:?}: {event}");
            }
        }
    }
}
