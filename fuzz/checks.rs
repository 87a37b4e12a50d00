//! What must hold for any bytes. The fuzz targets look for input that breaks it; what they found worth keeping lies in
//! `corpus/` and is checked with every run of the tests.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gateway_domain::cloud::CloudSettings;
use gateway_domain::{Dialect, Operation};
use gateway_providers::{Adapter, Call, Failure, Raw, adapter, edit};
use http::Method;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

const ASKED: &[u8] = br#"{"model":"m","input":"Hi","messages":[{"role":"user","content":"Hi"}]}"#;
/// A way through each kind of translator: passed on, by way of chat, and the three dialects of providers.
const WAYS: &[(&str, Operation)] = &[
    ("openai", Operation::ChatCompletions),
    ("openai", Operation::Completions),
    ("openai", Operation::Responses),
    ("openai", Operation::Messages),
    ("deepseek", Operation::Responses),
    ("anthropic", Operation::ChatCompletions),
    ("anthropic", Operation::Messages),
    ("anthropic", Operation::Responses),
    ("google", Operation::ChatCompletions),
    ("google", Operation::Messages),
    ("google", Operation::Responses),
    ("cohere", Operation::ChatCompletions),
    ("cohere", Operation::Messages),
    ("cohere", Operation::Responses),
    ("perplexity-ai", Operation::ChatCompletions),
    ("perplexity-ai", Operation::Messages),
];
/// Further ways through translators that read frames: Converse for all clients, InvokeModel, and what is only
/// overheard.
const FRAMED: &[(&str, Operation)] = &[
    ("amazon.nova-lite-v1:0", Operation::ChatCompletions),
    ("amazon.nova-lite-v1:0", Operation::Messages),
    ("amazon.nova-lite-v1:0", Operation::Responses),
    ("anthropic.claude-sonnet-4-5-20250929-v1:0", Operation::ChatCompletions),
    ("anthropic.claude-sonnet-4-5-20250929-v1:0", Operation::Messages),
    ("m", Operation::Proxy),
];

/// The first byte chooses the way, the second how the rest is split: the outcome must not depend on it, what a client
/// gets must be events of JSON, and only a whole answer may end cleanly.
pub(crate) fn sse(data: &[u8]) {
    let [way, step, rest @ ..] = data else { return };
    let (slug, operation) = WAYS[usize::from(*way) % WAYS.len()];
    let Some(adapter) = adapter(slug) else { return };
    let settings = CloudSettings::default();
    let asked = Bytes::from_static(ASKED);
    let call = call(operation, "m", *way, &asked, &settings);
    agree(adapter, &call, rest, *step);
}

/// Checks what `sse` does, for frames of AWS. A fuzzer meets no checksum by chance, so the rest are lines of a name and
/// a payload, that are framed here; what follows a `!` goes as it is.
pub(crate) fn frames(data: &[u8]) {
    let [way, step, rest @ ..] = data else { return };
    let (model, operation) = FRAMED[usize::from(*way) % FRAMED.len()];
    let Some(adapter) = adapter("bedrock") else { return };
    let settings = CloudSettings::default();
    let asked = Bytes::from_static(ASKED);
    let call = call(operation, model, *way, &asked, &settings);
    let bytes = framed(rest);
    if operation == Operation::Proxy {
        let raw = Raw(adapter);
        assert_eq!(hear(&raw, &call, &bytes, usize::from(*step % 61) + 1).0, bytes, "what passes is not changed");
        return agree(&raw, &call, &bytes, *step);
    }
    agree(adapter, &call, &bytes, *step);
}

fn framed(script: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), script);
    while !rest.is_empty() {
        if let Some(as_it_is) = rest.strip_prefix(b"!") {
            out.extend_from_slice(as_it_is);
            break;
        }
        let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        let space = line.iter().position(|b| *b == b' ').unwrap_or(line.len());
        let name = String::from_utf8_lossy(&line[..space]).into_owned();
        let payload = line.get(space + 1..).unwrap_or_default();
        let wrapped = format!("{{\"bytes\":\"{}\"}}", STANDARD.encode(payload));
        let payload = if name == "chunk" { wrapped.as_bytes() } else { payload };
        let (about, kind) = match &*name {
            "error" => (":error-code", "error"),
            _ if name.ends_with("Exception") => (":exception-type", "exception"),
            _ => (":event-type", "event"),
        };
        let message = Message::new(Bytes::copy_from_slice(payload))
            .add_header(Header::new(about, HeaderValue::String(name.into())))
            .add_header(Header::new(":message-type", HeaderValue::String(kind.into())));
        // A name of more than a header holds makes no frame.
        let mut frame = Vec::new();
        if write_message_to(&message, &mut frame).is_ok() {
            out.extend_from_slice(&frame);
        }
    }
    out
}

fn agree(adapter: &dyn Adapter, call: &Call<'_>, bytes: &[u8], step: u8) {
    let (operation, slug) = (call.operation, adapter.info().slug);
    let whole = hear(adapter, call, bytes, bytes.len());
    let split = hear(adapter, call, bytes, usize::from(step % 61) + 1);
    assert_eq!(String::from_utf8_lossy(&whole.0), String::from_utf8_lossy(&split.0), "{slug} {operation:?}");
    assert_eq!(whole.1, split.1, "{slug} {operation:?}");
    let translated = adapter.translates(operation, call.dialect);
    if translated {
        let text = String::from_utf8(whole.0).expect("UTF-8");
        for line in text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|line| *line != "[DONE]") {
            serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        }
        assert!(whole.1 || !text.ends_with("data: [DONE]\n\n"), "a broken stream ends cleanly: {text}");
    }
}

/// What a client gets, and whether the answer was whole.
fn hear(adapter: &dyn Adapter, call: &Call<'_>, bytes: &[u8], step: usize) -> (Vec<u8>, bool) {
    let mut stream = adapter.stream(call);
    let (mut out, mut failure) = (Vec::new(), None);
    for chunk in bytes.chunks(step.max(1)) {
        match stream.push(Bytes::copy_from_slice(chunk)) {
            Ok(more) => out.extend_from_slice(&more),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    if failure.is_none() {
        out.extend_from_slice(&stream.finish());
    }
    let ending = stream.ending();
    let _ = ending.settled(call.body);
    if !ending.complete {
        let early = Failure {
            status: 502,
            body: Bytes::from_static(br#"{"error":{"message":"m"}}"#),
            message: String::new(),
            usage: None,
        };
        out.extend_from_slice(&stream.abort(failure.as_ref().unwrap_or(&early)));
    }
    (out, ending.complete)
}

fn call<'a>(operation: Operation, model: &'a str, way: u8, body: &'a Bytes, settings: &'a CloudSettings) -> Call<'a> {
    let (dialect, tail) = match operation {
        Operation::Messages => (Dialect::Anthropic, "/messages"),
        Operation::Responses => (Dialect::OpenAi, "/responses"),
        Operation::Completions => (Dialect::OpenAi, "/completions"),
        Operation::Proxy => (Dialect::OpenAi, "/model/m/converse-stream"),
        _ => (Dialect::OpenAi, "/chat/completions"),
    };
    Call {
        operation,
        dialect,
        method: &Method::POST,
        tail,
        query: None,
        body,
        model: Some(model),
        form: None,
        sound_ms: None,
        model_span: None,
        stream: true,
        wants_usage: way & 0x80 != 0,
        strict: way & 0x40 != 0,
        now_ms: 1_750_000_000_123,
        dice: 7,
        origin: 0x5eed,
        settings,
        keeps: None,
    }
}

/// Values as they are spelled, the last of each name.
fn read(json: &[u8]) -> Option<BTreeMap<String, String>> {
    let object: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(json).ok()?;
    Some(object.into_iter().map(|(key, value)| (key, value.get().to_owned())).collect())
}

/// The first byte chooses the changes, the rest is the body: what is no JSON object is refused, and of one that is
/// the result reads as the object with those changes made, all other members byte for byte.
pub(crate) fn splice(data: &[u8]) {
    let [choice, body @ ..] = data else { return };
    let body = Bytes::copy_from_slice(body);
    let object = read(&body);
    let found = edit::members(&body);
    assert_eq!(found.is_ok(), object.is_some(), "what is an object");
    let _ = edit::elements(&body);
    let (Ok(found), Some(object)) = (found, object) else {
        assert!(edit::set_top_level(&body, &[("model", None)]).is_err());
        return;
    };
    let values: [Option<&str>; 4] = [None, Some("1"), Some("\"two\""), Some("{\"three\": [3]}")];
    let value = |shift: u8| values[usize::from((choice >> shift) & 3)];
    let first = found.first().map_or("a", |m| &m.key);
    let changes = [("model", value(0)), (first, value(2)), ("a", value(4))];
    let changed = edit::set_top_level(&body, &changes).expect("an object");
    let mut expected = object.clone();
    for (key, value) in &changes {
        match value {
            Some(value) => drop(expected.insert((*key).to_owned(), (*value).to_owned())),
            None => drop(expected.remove(*key)),
        }
    }
    let made = read(&changed).expect("an object");
    assert_eq!(made, expected, "{} of {}", String::from_utf8_lossy(&changed), String::from_utf8_lossy(&body));
    let kept = edit::members(&changed).expect("an object");
    for member in found.iter().filter(|m| changes.iter().all(|(key, _)| *key != m.key)) {
        let same =
            |k: &&edit::MemberSpan<'_>| k.key == member.key && changed[k.value.clone()] == body[member.value.clone()];
        assert!(kept.iter().any(|k| same(&k)), "{} is kept as it is spelled", member.key);
    }
}
