//! Responses that a scripted upstream sends, byte by byte.

use serde_json::{Value, json};

/// A response with a body by length.
pub(crate) fn whole(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut out = format!("HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n", body.len()).into_bytes();
    for (name, value) in headers {
        out.extend(format!("{name}: {value}\r\n").into_bytes());
    }
    out.extend(b"\r\n");
    out.extend(body);
    out
}

pub(crate) fn json(status: u16, body: &Value) -> Vec<u8> {
    whole(status, &[("content-type", "application/json")], body.to_string())
}

/// A chat completion that says `text`.
pub(crate) fn chat(text: &str) -> Vec<u8> {
    json(200, &completion(text))
}

pub(crate) fn completion(text: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "gpt-4o-mini",
        "choices": [{
            "index": 0, "message": { "role": "assistant", "content": text }, "logprobs": null, "finish_reason": "stop",
        }],
        "usage": { "prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8 },
    })
}

/// An error in OpenAI's shape.
pub(crate) fn error(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let body = json!({ "error": { "message": format!("scripted {status}"), "type": "scripted", "param": null, "code": null } });
    let all = [&[("content-type", "application/json")], headers].concat();
    whole(status, &all, body.to_string())
}

/// Head of an event stream, in chunks.
pub(crate) const STREAM: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";

pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

pub(crate) fn chunk(data: impl AsRef<[u8]>) -> Vec<u8> {
    let data = data.as_ref();
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// One event of a chat stream, as a chunk.
pub(crate) fn delta(text: &str) -> Vec<u8> {
    event(&json!({ "content": text }), None)
}

pub(crate) fn role() -> Vec<u8> {
    event(&json!({ "role": "assistant", "content": "" }), None)
}

pub(crate) fn finish() -> Vec<u8> {
    event(&json!({}), Some("stop"))
}

pub(crate) fn done() -> Vec<u8> {
    chunk("data: [DONE]\n\n")
}

fn event(delta: &Value, finish: Option<&str>) -> Vec<u8> {
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "gpt-4o-mini",
        "choices": [{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish }],
    });
    chunk(format!("data: {body}\n\n"))
}

/// A whole chat stream of these texts.
pub(crate) fn stream(texts: &[&str]) -> Vec<u8> {
    let mut out = STREAM.to_vec();
    out.extend(role());
    texts.iter().for_each(|t| out.extend(delta(t)));
    out.extend(finish());
    out.extend(done());
    out.extend(LAST_CHUNK);
    out
}
