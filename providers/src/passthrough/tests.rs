//! Streams passed on: what is hidden, what counts as content, what breaks.

use crate::adapter::{Call, Failure, Progress, StreamTranslator};
use crate::{Raw, adapter};
use bytes::Bytes;
use gateway_domain::{Dialect, Operation};
use http::Method;

fn stream(slug: &str, operation: Operation, wants_usage: bool) -> Box<dyn StreamTranslator> {
    let anthropic = matches!(operation, Operation::Messages);
    let adapter = adapter(slug).expect("known");
    let raw = Raw(adapter);
    let adapter = if operation == Operation::Proxy { &raw } else { adapter };
    adapter.stream(&Call {
        operation,
        dialect: if anthropic { Dialect::Anthropic } else { Dialect::OpenAi },
        method: &Method::POST,
        tail: "",
        query: None,
        body: &Bytes::new(),
        model: None,
        form: None,
        sound_ms: None,
        model_span: None,
        stream: true,
        wants_usage,
        strict: true,
        now_ms: 0,
        dice: 0,
        origin: 0,
        settings: gateway_domain::cloud::CloudSettings::none(),
        keeps: None,
    })
}

fn chat() -> Box<dyn StreamTranslator> {
    stream("openai", Operation::ChatCompletions, false)
}

const WORD: &[u8] = b"data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word\"}}],\"usage\":null}\n\n";
const USAGE: &[u8] = b"data: {\"id\":\"c\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n";

fn failure() -> Failure {
    Failure { status: 502, body: Bytes::from_static(b"{\"error\":{}}"), message: String::new(), usage: None }
}

#[test]
fn chunks_pass_without_a_copy() {
    let mut stream = chat();
    for _ in 0..3 {
        let chunk = Bytes::from([WORD, WORD].concat());
        let out = stream.push(chunk.clone()).expect("fine");
        assert_eq!((out.as_ptr(), out.len()), (chunk.as_ptr(), chunk.len()));
        assert_eq!(stream.progress(), Progress::Begun);
    }
    assert_eq!(stream.ending().said.chars(), 24);
    // What is hidden at the end of a chunk costs no copy either.
    let chunk = Bytes::from([WORD, USAGE].concat());
    let out = stream.push(chunk.clone()).expect("fine");
    assert_eq!((out.as_ptr(), &out[..]), (chunk.as_ptr(), WORD));
    let out = stream.push(Bytes::from([WORD, USAGE, b"data: [DONE]\n\n"].concat())).expect("fine");
    assert_eq!(out, [WORD, b"data: [DONE]\n\n"].concat());
    assert!(stream.ending().complete);
    assert_eq!(stream.ending().usage.map(|u| (u.input, u.output)), Some((3, 4)));
}

#[test]
fn usage_is_shown_to_whoever_asked() {
    let mut stream = stream("openai", Operation::ChatCompletions, true);
    assert_eq!(stream.push(Bytes::from_static(USAGE)).expect("fine"), USAGE);
}

#[test]
fn only_what_says_something_begins_a_stream() {
    let progress = |delta: &str| {
        let mut stream = chat();
        let event = format!("data: {{\"choices\":[{{\"index\":0,{delta}}}]}}\n\n");
        stream.push(Bytes::from(event)).expect("fine");
        stream.progress()
    };
    for quiet in [
        r#""delta":{"role":"assistant"}"#,
        r#""delta":{"role":"assistant","content":"","refusal":null,"tool_calls":[]},"finish_reason":null"#,
        r#""delta":{},"finish_reason":"""#,
        r#""delta":null"#,
    ] {
        assert_eq!(progress(quiet), Progress::Quiet, "{quiet}");
    }
    for begun in [
        r#""delta":{"content":"a"}"#,
        r#""delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]}"#,
        r#""delta":{"reasoning_content":"a"}"#,
        r#""delta":{"reasoning":"a"}"#,
        r#""delta":{"refusal":"a"}"#,
        r#""delta":{"audio":{"id":"a"}}"#,
        r#""delta":{"tool_calls":[{"index":0}]}"#,
        r#""delta":{"function_call":{"name":"f"}}"#,
        r#""delta":{},"finish_reason":"stop""#,
        r#""text":"a""#,
    ] {
        assert_eq!(progress(begun), Progress::Begun, "{begun}");
    }
    let mut stream = chat();
    stream.push(Bytes::from_static(b": keep-alive\n\ndata: {\"anything\":1}\n\n\n")).expect("fine");
    assert_eq!(stream.progress(), Progress::Quiet);
}

#[test]
fn words_in_a_text_are_not_signals() {
    let text =
        br#"data: {"choices":[{"index":0,"delta":{"content":"\"error\": {\"usage\": 1} [DONE] data: [DONE]"}}]}"#;
    let event = [&text[..], b"\n\n"].concat();
    let mut stream = chat();
    for _ in 0..2 {
        assert_eq!(stream.push(Bytes::from(event.clone())).expect("fine"), event);
    }
    let ending = stream.ending();
    assert_eq!((stream.progress(), ending.usage, ending.failed), (Progress::Begun, None, None));
}

#[test]
fn a_failed_stream_is_told_once_and_never_done() {
    let mut stream = chat();
    stream.push(Bytes::from_static(WORD)).expect("fine");
    let error = b"data: {\"error\":{\"message\":\"no\",\"code\":503}}\n\n";
    let out = stream.push(Bytes::from([&error[..], b"data: [DONE]\n\n"].concat())).expect("passed on");
    assert_eq!(out, &error[..]);
    assert_eq!(stream.finish(), Bytes::new());
    let ending = stream.ending();
    assert_eq!((ending.complete, ending.failed.as_deref()), (false, Some("no")));
    assert_eq!(stream.abort(&failure()), Bytes::new(), "the client knows already");
}

#[test]
fn an_error_before_anything_else_is_the_callers() {
    let mut stream = chat();
    let role = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}]}\n\n";
    let chunk = [&role[..], b"data: {\"error\":{\"message\":\"no\",\"code\":503}}\n\n"].concat();
    let failure = stream.push(Bytes::from(chunk)).expect_err("not begun");
    assert_eq!((failure.status, failure.message.as_str()), (503, "no"));
    let told = stream.abort(&failure);
    assert!(told.starts_with(role), "what stood before the error is not lost when the client is told after all");
    assert!(!stream.ending().complete);
}

#[test]
fn an_endless_event_ends_the_stream() {
    let mut stream = chat();
    let piece = Bytes::from(vec![b'x'; 1 << 20]);
    let failed = (0..9).find_map(|_| stream.push(piece.clone()).err()).expect("not for ever");
    assert_eq!(failed.status, 502);
}

#[test]
fn abort_speaks_the_dialect() {
    assert_eq!(chat().abort(&failure()), &b"data: {\"error\":{}}\n\n"[..]);
    let mut messages = stream("mock", Operation::Messages, false);
    assert_eq!(messages.abort(&failure()), &b"event: error\ndata: {\"error\":{}}\n\n"[..]);
    let mut responses = stream("openai", Operation::Responses, false);
    assert!(responses.abort(&failure()).starts_with(b"event: error\ndata: {\"type\":\"error\""));
}

#[test]
fn raw_bytes_pass_at_once_whatever_they_are() {
    let mut stream = stream("ollama", Operation::Proxy, false);
    for part in [&b"{\"model\":\"llama3\",\"me"[..], b"ssage\":{}}\n{\"done\":true", b"}"] {
        assert_eq!(stream.push(Bytes::from_static(part)).expect("never fails"), part);
        assert_eq!(stream.progress(), Progress::Begun);
    }
    assert_eq!(stream.finish(), Bytes::new());
    assert_eq!((stream.ending().complete, stream.ending().model.as_deref()), (true, Some("llama3")));
    assert_eq!(stream.abort(&failure()), Bytes::new(), "no room for an error in what is no event stream");
}

#[test]
fn a_raw_event_stream_is_metered_and_aborted() {
    let mut stream = stream("openai", Operation::Proxy, false);
    let text = [WORD, USAGE, b"data: {\"half"].concat();
    for byte in text.chunks(1) {
        stream.push(Bytes::copy_from_slice(byte)).expect("never fails");
    }
    assert_eq!(stream.ending().usage.map(|u| u.total()), Some(7));
    assert_eq!(stream.abort(&failure()), &b"\n\ndata: {\"error\":{}}\n\n"[..], "the open event is closed first");
}
