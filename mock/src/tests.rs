//! The mock over an in-memory stream and, where RST matters, over TCP.

use super::{MockSettings, accept, serve_connection};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};

fn open(settings: &Arc<MockSettings>) -> (DuplexStream, tokio::task::JoinSet<()>) {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let mut task = tokio::task::JoinSet::new();
    task.spawn(serve_connection(theirs, settings.clone()));
    (ours, task)
}

fn post(path: &str, headers: &[(&str, &str)], body: &str) -> String {
    let extra: String = headers.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
    format!(
        "POST {path} HTTP/1.1\r\nhost: mock\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{extra}connection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Status, head and body of one exchange on a connection of its own.
async fn exchange(settings: &Arc<MockSettings>, request: &str) -> (u16, String, Vec<u8>) {
    let (mut stream, _task) = open(settings);
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    split(&all)
}

fn split(all: &[u8]) -> (u16, String, Vec<u8>) {
    let at = memchr::memmem::find(all, b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8_lossy(&all[..at]).into_owned();
    let status = head[9..12].parse().unwrap();
    let body = if head.contains("transfer-encoding: chunked") { dechunk(&all[at..]) } else { all[at..].to_vec() };
    (status, head, body)
}

fn dechunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(end) = memchr::memmem::find(bytes, b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            break;
        }
        out.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 4 + size..];
    }
    out
}

async fn json_of(path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, Value) {
    let (status, _, bytes) = exchange(&Arc::default(), &post(path, headers, &body.to_string())).await;
    (status, serde_json::from_slice(&bytes).unwrap())
}

/// The `data:` payloads of a stream.
async fn events_of(path: &str, headers: &[(&str, &str)], body: &Value) -> Vec<String> {
    let (_, _, bytes) = exchange(&Arc::default(), &post(path, headers, &body.to_string())).await;
    let text = String::from_utf8(bytes).unwrap();
    text.lines().filter_map(|l| l.strip_prefix("data: ")).map(ToOwned::to_owned).collect()
}

fn hello() -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": "hello there" }] })
}

fn with(mut body: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { unreachable!() };
    body.as_object_mut().unwrap().extend(fields);
    body
}

#[tokio::test]
async fn chat_echoes_what_was_said() {
    for path in ["/chat/completions", "/v1/chat/completions"] {
        let (status, body) = json_of(path, &[], &hello()).await;
        assert_eq!(status, 200);
        assert_eq!(body["choices"][0]["message"]["content"], "You said: hello there");
        assert_eq!(body["choices"][0]["finish_reason"], "stop");
        assert_eq!(body["usage"]["prompt_tokens"], 2);
        assert_eq!(body["usage"]["completion_tokens"], 4);
    }
}

#[tokio::test]
async fn chat_stream_has_role_content_finish_and_end() {
    let events = events_of("/v1/chat/completions", &[], &with(hello(), json!({ "stream": true }))).await;
    assert_eq!(events.last().unwrap(), "[DONE]");
    let chunks: Vec<Value> = events[..events.len() - 1].iter().map(|e| serde_json::from_str(e).unwrap()).collect();
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let text: String = chunks.iter().filter_map(|c| c["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "You said: hello there");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "stop");
    assert!(chunks.iter().all(|c| c.get("usage").is_none()));
}

#[tokio::test]
async fn usage_chunk_comes_only_when_asked_for() {
    let asked = with(hello(), json!({ "stream": true, "stream_options": { "include_usage": true } }));
    let events = events_of("/v1/chat/completions", &[("x-mock-chunks", "2")], &asked).await;
    let usage: Value = serde_json::from_str(&events[events.len() - 2]).unwrap();
    assert_eq!((&usage["choices"], &usage["usage"]["total_tokens"]), (&json!([]), &json!(6)));
    assert_eq!(events.len(), 1 + 2 + 1 + 1 + 1, "role, two pieces, finish, usage, end");
}

fn weather() -> Value {
    json!([{ "type": "function", "function": { "name": "weather", "parameters": { "type": "object", "properties": {
        "city": { "type": "string" }, "days": { "type": "integer" }, "unit": { "enum": ["c", "f"] } } } } }])
}

#[tokio::test]
async fn tool_calls_carry_arguments_of_the_schema() {
    let asked = with(hello(), json!({ "tools": weather(), "tool_choice": "required" }));
    let (_, body) = json_of("/v1/chat/completions", &[], &asked).await;
    let call = &body["choices"][0]["message"]["tool_calls"][0]["function"];
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({ "city": "mock city", "days": 1, "unit": "c" }));
    assert_eq!(body["choices"][0]["finish_reason"], "tool_calls");

    let events = events_of("/v1/chat/completions", &[], &with(asked, json!({ "stream": true }))).await;
    let chunks = events.iter().filter_map(|e| serde_json::from_str::<Value>(e).ok());
    let deltas = chunks.filter_map(|c| {
        c["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str().map(ToOwned::to_owned)
    });
    assert_eq!(serde_json::from_str::<Value>(&deltas.collect::<String>()).unwrap(), arguments);
}

#[tokio::test]
async fn a_tool_result_is_answered_with_text() {
    let mut asked = with(hello(), json!({ "tools": weather() }));
    asked["messages"] = json!([{ "role": "user", "content": "use a tool" }]);
    let (_, body) = json_of("/v1/chat/completions", &[], &asked).await;
    assert_eq!(body["choices"][0]["finish_reason"], "tool_calls");
    asked["messages"].as_array_mut().unwrap().push(json!({ "role": "tool", "tool_call_id": "x", "content": "rain" }));
    let (_, body) = json_of("/v1/chat/completions", &[], &asked).await;
    assert_eq!(body["choices"][0]["message"]["content"], "You said: rain");
}

#[tokio::test]
async fn a_maximum_cuts_and_a_form_is_kept() {
    let (_, body) = json_of("/v1/chat/completions", &[], &with(hello(), json!({ "max_tokens": 2 }))).await;
    assert_eq!(body["choices"][0]["message"]["content"], "You said:");
    assert_eq!(body["choices"][0]["finish_reason"], "length");
    let schema = json!({ "type": "object", "properties": { "ok": { "type": "boolean" } } });
    let form = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": schema } });
    let (_, body) = json_of("/v1/chat/completions", &[], &with(hello(), json!({ "response_format": form }))).await;
    assert_eq!(body["choices"][0]["message"]["content"], r#"{"ok":true}"#);
}

#[tokio::test]
async fn legacy_completions_answer_and_stream() {
    let asked = json!({ "model": "m", "prompt": "once upon" });
    let (_, body) = json_of("/v1/completions", &[], &asked).await;
    assert_eq!(body["choices"][0]["text"], "You said: once upon");
    let events = events_of("/v1/completions", &[], &with(asked, json!({ "stream": true }))).await;
    assert_eq!(events.last().unwrap(), "[DONE]");
}

#[tokio::test]
async fn embeddings_are_the_same_numbers_in_either_encoding() {
    use base64::Engine;
    let asked = json!({ "model": "e", "input": ["a", "b"], "dimensions": 4 });
    let (_, floats) = json_of("/v1/embeddings", &[], &asked).await;
    let (_, packed) = json_of("/v1/embeddings", &[], &with(asked, json!({ "encoding_format": "base64" }))).await;
    for i in 0..2 {
        let bytes = base64::engine::general_purpose::STANDARD.decode(packed["data"][i]["embedding"].as_str().unwrap());
        let bytes = bytes.unwrap();
        let unpacked: Vec<f64> =
            bytes.chunks(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap()))).collect();
        assert_eq!(json!(unpacked), floats["data"][i]["embedding"]);
        assert_eq!(unpacked.len(), 4);
    }
    assert_ne!(floats["data"][0]["embedding"], floats["data"][1]["embedding"]);
}

#[tokio::test]
async fn messages_answer_and_stream() {
    let asked = with(hello(), json!({ "max_tokens": 100 }));
    let (_, body) = json_of("/v1/messages", &[], &asked).await;
    assert_eq!(body["content"][0]["text"], "You said: hello there");
    assert_eq!((&body["stop_reason"], &body["usage"]["output_tokens"]), (&json!("end_turn"), &json!(4)));
    let events = events_of("/v1/messages", &[], &with(asked, json!({ "stream": true }))).await;
    let kinds: Vec<Value> = events.iter().map(|e| serde_json::from_str::<Value>(e).unwrap()["type"].clone()).collect();
    assert_eq!((&kinds[0], kinds.last().unwrap()), (&json!("message_start"), &json!("message_stop")));
    assert!(kinds.contains(&json!("content_block_delta")) && kinds.contains(&json!("message_delta")));
    let (_, count) = json_of("/v1/messages/count_tokens", &[], &hello()).await;
    assert_eq!(count["input_tokens"], 2);
}

#[tokio::test]
async fn errors_speak_the_dialect_of_the_path() {
    let told = [("x-mock-status", "429"), ("x-mock-retry-after", "7")];
    let (_, head, body) = exchange(&Arc::default(), &post("/v1/chat/completions", &told, "{}")).await;
    assert!(head.contains("retry-after: 7\r\n") && head.starts_with("HTTP/1.1 429"));
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["error"]["code"], "rate_limit_exceeded");
    let (status, body) = json_of("/v1/messages", &[("x-mock-status", "529")], &hello()).await;
    assert_eq!((status, &body["error"]["type"]), (529, &json!("overloaded_error")));
    let (status, body) = json_of("/v1/chat/completions", &[("x-mock-fault", "typing-error")], &hello()).await;
    assert_eq!(status, 400);
    assert!(body["error"]["message"].as_str().unwrap().contains("x-mock-fault"));
}

#[tokio::test]
async fn the_first_requests_of_an_id_fail() {
    let settings = Arc::<MockSettings>::default();
    let request =
        post("/v1/embeddings", &[("x-mock-fail-first", "2"), ("x-mock-id", "a")], r#"{"model":"e","input":"x"}"#);
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(exchange(&settings, &request).await.0);
    }
    assert_eq!(statuses, [500, 500, 200]);
}

#[tokio::test]
async fn anything_else_is_echoed() {
    let (_, body) = json_of("/v1/echo/a?b=c", &[("x-one", "1")], &json!({ "k": [1] })).await;
    assert_eq!((&body["path"], &body["query"]), (&json!("/v1/echo/a"), &json!("b=c")));
    assert_eq!((&body["headers"]["x-one"], &body["body"]["k"][0]), (&json!("1"), &json!(1)));
}

#[tokio::test]
async fn chunked_bodies_and_expect_continue_are_read() {
    let (mut stream, _task) = open(&Arc::default());
    let head = "POST /echo HTTP/1.1\r\nhost: m\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\
                connection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"3\r\n\"ab\r\n2;x=y\r\nc\"\r\n0\r\nt: 1\r\n\r\n").await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    let body: Value = serde_json::from_slice(&split(&all).2).unwrap();
    assert_eq!((&body["body"], &body["body_length"]), (&json!("abc"), &json!(5)));
}

#[tokio::test]
async fn connections_are_kept() {
    let settings = Arc::<MockSettings>::default();
    let (mut stream, _task) = open(&settings);
    for _ in 0..3 {
        stream.write_all(b"GET /v1/models HTTP/1.1\r\nhost: m\r\n\r\n").await.unwrap();
        let mut got = vec![0; 4096];
        let n = stream.read(&mut got).await.unwrap();
        assert_eq!(split(&got[..n]).0, 200);
    }
    assert_eq!(settings.stats.report()["connections"], 1);
    assert_eq!(settings.stats.report()["requests"], 3);
}

#[tokio::test]
async fn stream_faults_cut_where_they_say() {
    let asked = with(hello(), json!({ "stream": true }));
    let path = "/v1/chat/completions";
    let events = events_of(path, &[("x-mock-fault", "error-event")], &asked).await;
    assert_eq!(events.len(), 1);
    assert!(events[0].contains("\"error\""));
    let events = events_of(path, &[("x-mock-fault", "error-mid")], &asked).await;
    assert!(events.len() > 2 && events.last().unwrap().contains("\"error\""));
    let events = events_of(path, &[("x-mock-fault", "no-done")], &asked).await;
    assert!(events.last().unwrap().contains("\"finish_reason\":\"stop\""));
    let (_, _, bytes) =
        exchange(&Arc::default(), &post(path, &[("x-mock-fault", "bad-json")], &hello().to_string())).await;
    assert!(serde_json::from_slice::<Value>(&bytes).is_err());
}

#[tokio::test]
async fn bodies_without_content_and_with_trailers() {
    let path = "/v1/chat/completions";
    for (fault, status) in [("204", 204), ("304", 304)] {
        let (mut stream, _task) = open(&Arc::default());
        stream.write_all(post(path, &[("x-mock-fault", fault)], "{}").as_bytes()).await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        let (got, head, body) = split(&all);
        assert!(got == status && body.is_empty() && !head.contains("content-length"));
    }
    let (mut stream, _task) = open(&Arc::default());
    stream.write_all(post(path, &[("x-mock-fault", "trailers")], &hello().to_string()).as_bytes()).await.unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    assert!(all.ends_with(b"0\r\nx-mock-trailer: done\r\n\r\n"));
}

#[tokio::test]
async fn gzip_is_readable_by_others() {
    let told = [("x-mock-fault", "gzip")];
    let (_, head, body) = exchange(&Arc::default(), &post("/v1/chat/completions", &told, &hello().to_string())).await;
    assert!(head.contains("content-encoding: gzip"));
    let mut child = std::process::Command::new("gzip")
        .arg("-dc")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &body).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success());
    assert_eq!(serde_json::from_slice::<Value>(&out.stdout).unwrap()["object"], "chat.completion");
}

#[tokio::test]
async fn a_peer_that_leaves_is_counted_and_ends_the_answer() {
    let settings = Arc::<MockSettings>::default();
    let (mut stream, mut task) = open(&settings);
    let told = [("x-mock-delay", "60000")];
    stream.write_all(post("/v1/chat/completions", &told, &hello().to_string()).as_bytes()).await.unwrap();
    while settings.stats.report()["requests"] == 0 {
        tokio::task::yield_now().await;
    }
    let left = Instant::now();
    drop(stream);
    task.join_next().await.unwrap().unwrap();
    assert!(left.elapsed() < Duration::from_secs(1));
    let report = settings.stats.report();
    assert_eq!((&report["aborted_by_peer"], &report["connections_open"]), (&json!(1), &json!(0)));
}

#[tokio::test]
async fn resets_reach_the_peer_as_resets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut task = tokio::task::JoinSet::new();
    task.spawn(accept(listener, Arc::default()));
    for (fault, head) in [("reset-head", "HTTP/1.1 200 OK\r\ncontent-ty"), ("reset-body", "HTTP/1.1 200 OK\r\n")] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let asked = with(hello(), json!({ "stream": true }));
        let request = post("/v1/chat/completions", &[("x-mock-fault", fault)], &asked.to_string());
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut got = Vec::new();
        let error = stream.read_to_end(&mut got).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{fault}");
        assert!(String::from_utf8_lossy(&got).starts_with(head), "{fault}");
    }
}
