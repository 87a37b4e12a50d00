//! A stream says what the whole answer says: answers are made up, written as each family writes them, whole and cut
//! into events, and translated for every client; read back as SDKs read them, both must be the same, and say what was
//! made up.

mod clients;
mod families;

use crate::adapter;
use crate::adapter::{Adapter, Call};
use bytes::Bytes;
use gateway_domain::cloud::CloudSettings;
use gateway_domain::{Dialect, Operation};
use http::Method;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

/// One choice of an answer.
#[derive(Clone, Debug)]
struct SampleChoice {
    thought: Option<String>,
    text: Option<String>,
    calls: Vec<SampleToolCall>,
    end: End,
}

#[derive(Clone, Debug)]
struct SampleToolCall {
    id: String,
    name: String,
    arguments: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stop,
    Length,
    Filter,
}

#[derive(Clone, Debug)]
struct SampleReply {
    /// More than one only for families that have choices, and clients that can be told of them.
    choices: Vec<SampleChoice>,
    signature: String,
    input: u64,
    output: u64,
    /// How many characters go into each piece, over and over.
    pieces: Vec<usize>,
    strict: bool,
}

impl SampleReply {
    /// `text` as its stream brings it.
    fn cut(&self, text: &str) -> Vec<String> {
        let (mut rest, mut out) = (text.chars().peekable(), Vec::new());
        for size in self.pieces.iter().cycle() {
            if rest.peek().is_none() {
                return out;
            }
            out.push(rest.by_ref().take(*size).collect());
        }
        out
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{1,24}", "(?s).{1,12}", Just("\u{2028}\\u0041\"\\\n\r\n\ndata: x".to_owned())]
}

fn called() -> impl Strategy<Value = SampleToolCall> {
    let arguments = prop_oneof![
        Just(json!({})),
        text().prop_map(|city| json!({ "city": city })),
        (any::<i32>(), text()).prop_map(|(n, deep)| json!({ "n": n, "deep": { "list": [deep, null, true, "}]{["] } })),
    ];
    ("[a-z]{4}", "[a-z_]{1,12}", arguments).prop_map(|(id, name, arguments)| SampleToolCall { id, name, arguments })
}

fn said() -> impl Strategy<Value = SampleChoice> {
    let end = prop_oneof![Just(End::Stop), Just(End::Length), Just(End::Filter)];
    (option::of(text()), option::of(text()), vec(called(), 0..4), end).prop_map(|(thought, text, mut calls, end)| {
        // Ids tell calls apart.
        calls.iter_mut().enumerate().for_each(|(i, call)| call.id = format!("{}{i}", call.id));
        SampleChoice { thought, text, calls, end }
    })
}

fn made() -> impl Strategy<Value = SampleReply> {
    (vec(said(), 1..4), "[A-Za-z0-9]{4,20}", 1..5000u64, 1..5000u64, vec(1..9usize, 1..5), any::<bool>()).prop_map(
        |(choices, signature, input, output, pieces, strict)| SampleReply {
            choices,
            signature,
            input,
            output,
            pieces,
            strict,
        },
    )
}

/// What a client asks with, by operation: enough for the answer's echo of it.
fn call<'a>(operation: Operation, body: &'a Bytes, strict: bool, settings: &'a CloudSettings) -> Call<'a> {
    let (dialect, tail) = match operation {
        Operation::Messages => (Dialect::Anthropic, "/messages"),
        Operation::Responses => (Dialect::OpenAi, "/responses"),
        _ => (Dialect::OpenAi, "/chat/completions"),
    };
    Call {
        operation,
        dialect,
        method: &Method::POST,
        tail,
        query: None,
        body,
        model: Some("m"),
        form: None,
        sound_ms: None,
        model_span: None,
        stream: false,
        wants_usage: true,
        strict,
        now_ms: 1_750_000_000_123,
        dice: 7,
        origin: 0x5eed,
        settings,
        keeps: None,
    }
}

fn streamed(adapter: &dyn Adapter, call: &Call<'_>, events: &str) -> String {
    let mut stream = adapter.stream(&Call { stream: true, ..call.clone() });
    let mut out = Vec::new();
    for chunk in events.as_bytes().chunks(97) {
        out.extend_from_slice(&stream.push(Bytes::copy_from_slice(chunk)).expect("a valid stream"));
    }
    out.extend_from_slice(&stream.finish());
    assert!(stream.ending().complete, "the stream came to its end: {events}");
    String::from_utf8(out).expect("UTF-8")
}

fn agree(slug: &str, operation: Operation, made: &SampleReply) {
    let adapter = adapter(slug).expect("a provider");
    let (body, settings) =
        (Bytes::from_static(br#"{"model":"m","input":"Hi","messages":[]}"#), CloudSettings::default());
    let call = call(operation, &body, made.strict, &settings);
    let mut made = made.clone();
    if operation != Operation::ChatCompletions || matches!(slug, "anthropic" | "cohere" | "perplexity-ai") {
        made.choices.truncate(1);
    }
    let (whole, events) = families::written(slug, &made);
    let reply = adapter.response(&call, &whole.to_string().into()).unwrap_or_else(|f| panic!("{slug}: {}", f.message));
    let whole: Value = serde_json::from_slice(&reply.body).expect("JSON");
    let heard = clients::heard(operation, &streamed(adapter, &call, &events));
    assert_eq!(heard, clients::settled(operation, whole.clone()), "{slug} for {operation:?}, stream and whole");
    assert_eq!(clients::said(operation, &whole), clients::meant(operation, &made), "{slug} for {operation:?}: {whole}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn streams_say_what_whole_answers_say(made in made()) {
        for slug in ["anthropic", "google", "cohere", "perplexity-ai"] {
            agree(slug, Operation::ChatCompletions, &made);
        }
        for slug in ["deepseek", "mistral-ai", "openrouter", "google", "cohere", "perplexity-ai"] {
            agree(slug, Operation::Messages, &made);
        }
        for slug in ["deepseek", "anthropic", "google", "cohere"] {
            agree(slug, Operation::Responses, &made);
        }
    }
}
