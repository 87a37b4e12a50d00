//! Errors of every family in every dialect of clients, whole and inside a stream: the provider's own words, its status
//! and type. The answers are those of the golden folders.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use gateway_domain::cloud::{CloudSettings, setting};
use gateway_domain::{Dialect, Operation};
use gateway_providers::{Adapter, Call, Failure, adapter};
use http::{HeaderMap, Method};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Family, model, what the error says, and its type in the provider's words, where it has one.
const FAMILIES: &[(&str, &str, &str, Option<&str>)] = &[
    ("openai", "gpt-5", "Incorrect API key provided", Some("invalid_request_error")),
    ("anthropic", "claude-sonnet-4-5", "per-minute rate limit", Some("rate_limit_error")),
    ("google", "gemini-2.5-flash", "Resource has been exhausted", Some("RESOURCE_EXHAUSTED")),
    ("vertex-ai", "gemini-2.5-flash", "Resource exhausted", Some("RESOURCE_EXHAUSTED")),
    ("bedrock", "amazon.nova-lite-v1:0", "model identifier is invalid", None),
    ("cohere", "command-a-03-2025", "using a Trial key", None),
    ("mistral-ai", "mistral-large-latest", "Extra inputs are not permitted", Some("invalid_request_error")),
    ("groq", "m", "Failed to call a function", Some("invalid_request_error")),
    ("x-ai", "grok-4", "Incorrect API key provided", None),
    ("deepseek", "deepseek-chat", "Insufficient Balance", Some("unknown_error")),
    ("openrouter", "m/m", "Insufficient credits", None),
    ("ollama", "nope", "try pulling it first", Some("not_found_error")),
    ("vllm", "nope", "does not exist", Some("NotFoundError")),
    ("azure-ai", "nope", "Unknown model: nope", None),
];

/// Family, model, case with an error behind the first content.
const STREAMS: &[(&str, &str, &str)] = &[
    ("openai", "gpt-5", "error-stream-late"),
    ("anthropic", "claude-sonnet-4-5", "error-stream-late"),
    ("google", "gemini-2.5-flash", "error-stream-late"),
    ("cohere", "command-a-03-2025", "error-stream-late"),
    ("openrouter", "m/m", "error-stream-late"),
];

const CLIENTS: &[(Operation, Dialect, &str)] = &[
    (Operation::ChatCompletions, Dialect::OpenAi, "/chat/completions"),
    (Operation::Messages, Dialect::Anthropic, "/messages"),
    (Operation::Responses, Dialect::OpenAi, "/responses"),
];

/// What Anthropic's clients know (<https://docs.claude.com/en/api/errors>).
const ANTHROPICS: &[&str] = &[
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "rate_limit_error",
    "timeout_error",
    "api_error",
    "overloaded_error",
];

fn case(slug: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(slug).join(name)
}

fn with_call<T>(
    (operation, dialect, tail): (Operation, Dialect, &'static str),
    slug: &str,
    model: &str,
    then: impl FnOnce(&dyn Adapter, &Call<'_>) -> T,
) -> T {
    let body = Bytes::from_static(br#"{"model":"m","input":"Hi","messages":[{"role":"user","content":"Hi"}]}"#);
    let mut settings = CloudSettings::default();
    for (name, value) in [
        ("vertex_region", "global"),
        ("vertex_project_id", "p"),
        ("azure_foundry_url", "https://r.services.ai.azure.com/models"),
    ] {
        settings.set(setting(name).expect("a setting"), value.to_owned()).expect("valid");
    }
    let adapter = adapter(slug).expect("a family");
    let adapter = adapter.at(&settings).unwrap_or(adapter);
    then(
        adapter,
        &Call {
            operation,
            dialect,
            method: &Method::POST,
            tail,
            query: None,
            body: &body,
            model: Some(model),
            form: None,
            sound_ms: None,
            model_span: None,
            stream: true,
            wants_usage: false,
            strict: true,
            now_ms: 1_750_000_000_123,
            dice: 7,
            origin: 0x5eed,
            settings: &settings,
            keeps: None,
        },
    )
}

fn status_of(folder: &Path) -> u16 {
    let asked: Value = serde_json::from_slice(&std::fs::read(folder.join("call.json")).expect("a call")).expect("JSON");
    u16::try_from(asked["status"].as_u64().expect("a status")).expect("a status")
}

#[test]
fn every_family_fails_in_the_words_of_every_client() {
    for (slug, model, said, kind) in FAMILIES {
        let folder = case(slug, "error");
        let (status, body) =
            (status_of(&folder), Bytes::from(std::fs::read(folder.join("upstream.json")).expect("an answer")));
        for client in CLIENTS {
            let failure =
                with_call(*client, slug, model, |adapter, call| adapter.failed(call, status, &HeaderMap::new(), &body));
            let at = format!("{slug} for {:?}: {}", client.0, String::from_utf8_lossy(&failure.body));
            assert_eq!(failure.status, status, "{at}");
            let told: Value = serde_json::from_slice(&failure.body).unwrap_or_else(|e| panic!("{e}: {at}"));
            let error = &told["error"];
            assert!(error["message"].as_str().is_some_and(|m| m.contains(said)), "{at}");
            let kind_told = error["type"].as_str();
            if client.1 == Dialect::Anthropic {
                assert_eq!(told["type"], "error", "{at}");
                assert!(kind_told.is_some_and(|kind| ANTHROPICS.contains(&kind)), "{at}");
            } else {
                assert!(kind.is_none() || kind_told == *kind, "{at}");
            }
            // What Anthropic says to its own clients is theirs untouched.
            let own = *slug == "anthropic" && client.1 == Dialect::Anthropic;
            assert!(own || told["provider"] == *slug, "{at}");
        }
    }
}

#[test]
fn an_error_inside_a_stream_ends_it_in_the_words_of_every_client() {
    for (slug, model, name) in STREAMS {
        let events = std::fs::read(case(slug, name).join("upstream.sse")).expect("a stream");
        for client in CLIENTS {
            // OpenAI's own Responses are not made of chat's events.
            if ["openai", "openrouter"].contains(slug) && client.0 == Operation::Responses {
                continue;
            }
            let (text, failure) = with_call(*client, slug, model, |adapter, call| hear(adapter, call, &events));
            let at = format!("{slug} for {:?}: {text}", client.0);
            // A stream that passes as it is ends with the provider's own error; others are ended by a failure.
            assert!(failure.is_none_or(|f| !f.message.is_empty()), "{at}");
            assert!(
                !text.contains("[DONE]") && !text.contains("message_stop") && !text.contains("response.completed"),
                "{at}"
            );
            let last: Vec<&str> = text.trim_end().split("\n\n").collect();
            let end = |back: usize| last.get(last.len().wrapping_sub(back)).copied().unwrap_or_default();
            match client.0 {
                Operation::Messages => assert!(end(1).starts_with("event: error\n"), "{at}"),
                Operation::Responses => {
                    assert!(
                        end(2).starts_with("event: error\n") && end(1).starts_with("event: response.failed\n"),
                        "{at}"
                    );
                }
                _ => assert!(end(1).contains("\"error\""), "{at}"),
            }
        }
    }
}

fn hear(adapter: &dyn Adapter, call: &Call<'_>, bytes: &[u8]) -> (String, Option<Failure>) {
    let mut stream = adapter.stream(call);
    let mut out = Vec::new();
    for chunk in bytes.chunks(37) {
        match stream.push(Bytes::copy_from_slice(chunk)) {
            Ok(more) => out.extend_from_slice(&more),
            Err(failure) => {
                out.extend_from_slice(&stream.abort(&failure));
                return (String::from_utf8(out).expect("UTF-8"), Some(failure));
            }
        }
    }
    out.extend_from_slice(&stream.finish());
    (String::from_utf8(out).expect("UTF-8"), None)
}
