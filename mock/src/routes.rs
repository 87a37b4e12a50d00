//! Method and path to an answer. What is no known route is echoed, so that a test sees what arrived.

use super::answer::{MockDialect, MockResponse};
use super::behaviour::{Behaviour, MockSettings};
use super::wire::{Head, ReceivedContent};
use super::{anthropic, cohere, gemini, openai, responses};
use serde_json::{Map, Value, json};

/// The path below `/v1`, with or without which every route answers, or below Azure's `/openai`, where a deployment may
/// stand before the route.
fn tail(path: &str) -> &str {
    let path = below(path, "/openai");
    let path = below(path, "/v1");
    let deployed = path.strip_prefix("/deployments/").and_then(|rest| rest.find('/').map(|at| &rest[at..]));
    deployed.unwrap_or(path)
}

fn below<'p>(path: &'p str, folder: &str) -> &'p str {
    path.strip_prefix(folder).filter(|tail| tail.starts_with('/')).unwrap_or(path)
}

/// The model and verb of a path of Google's API, `models/{model}:{verb}` below one version or another.
fn google(path: &str) -> Option<&str> {
    let named = path.strip_prefix("/v1beta").unwrap_or(tail(path)).strip_prefix("/models/")?;
    named.rsplit_once(':').filter(|(_, verb)| verb.ends_with("Content") || *verb == "countTokens").map(|_| named)
}

pub(super) fn dialect(head: &Head) -> MockDialect {
    if google(&head.path).is_some() {
        return MockDialect::Gemini;
    }
    if head.path == "/v2/chat" {
        return MockDialect::Cohere;
    }
    let messages = tail(&head.path).strip_prefix("/messages").is_some_and(|t| t.is_empty() || t.starts_with('/'));
    if tail(&head.path).strip_prefix("/responses").is_some_and(|t| t.is_empty() || t.starts_with('/')) {
        return MockDialect::Responses;
    }
    if messages || head.header("anthropic-version").is_some() { MockDialect::Anthropic } else { MockDialect::OpenAi }
}

pub(super) fn answer(
    head: &Head,
    content: &ReceivedContent,
    behaviour: &Behaviour,
    settings: &MockSettings,
) -> MockResponse {
    let dialect = dialect(head);
    let tail = tail(&head.path);
    if tail == "/__mock/stats" {
        return MockResponse::json(dialect, &settings.stats.report());
    }
    if behaviour.status >= 400 {
        return failure(dialect, behaviour);
    }
    let mut answer = match (head.method.as_str(), tail) {
        ("POST", "/chat/completions") => with_json(content, dialect, |b| openai::chat(b, behaviour)),
        ("POST", "/completions") => with_json(content, dialect, |b| openai::completions(b, behaviour)),
        ("POST", "/embeddings") => with_json(content, dialect, openai::embeddings),
        ("POST", "/messages") => with_json(content, dialect, |b| anthropic::messages(b, behaviour)),
        ("POST", "/messages/count_tokens") => with_json(content, dialect, anthropic::count_tokens),
        ("POST", "/responses") => with_json(content, dialect, |b| responses::create(b, behaviour)),
        (method, path) if path.starts_with("/responses/") => responses::kept(method, &path["/responses/".len()..]),
        ("POST", "/v2/chat") => with_json(content, dialect, |b| cohere::chat(b, behaviour)),
        ("POST", path) if google(path).is_some() => {
            with_json(content, dialect, |b| gemini::model(google(path).unwrap_or_default(), b, behaviour))
        }
        ("GET", "/models") if dialect == MockDialect::Anthropic => anthropic::models(),
        ("GET", "/models") => openai::models(),
        ("GET", path) if path.starts_with("/models/") => openai::model(&path["/models/".len()..]),
        _ => MockResponse::json(dialect, &echo(head, content)),
    };
    if answer.status == 200 {
        answer.status = behaviour.status;
    }
    answer
}

/// The status that was asked for, with the headers that a provider sends along.
fn failure(dialect: MockDialect, behaviour: &Behaviour) -> MockResponse {
    let message = format!("the mock answers {} as it was told to", behaviour.status);
    let mut answer = MockResponse::error(dialect, behaviour.status, &message);
    answer.headers.extend(behaviour.retry_after.clone().map(|v| ("retry-after", v)));
    answer.headers.extend(behaviour.retry_after_ms.clone().map(|v| ("retry-after-ms", v)));
    if behaviour.status == 429 {
        answer.headers.push(("x-ratelimit-limit-requests", "60".to_owned()));
        answer.headers.push(("x-ratelimit-remaining-requests", "0".to_owned()));
        answer.headers.push(("x-ratelimit-reset-requests", "1s".to_owned()));
    }
    answer
}

fn with_json(
    content: &ReceivedContent,
    dialect: MockDialect,
    make: impl FnOnce(&Value) -> MockResponse,
) -> MockResponse {
    match serde_json::from_slice(&content.bytes) {
        Ok(body) => make(&body),
        Err(e) => MockResponse::error(dialect, 400, &format!("We could not parse the JSON body of your request: {e}")),
    }
}

fn echo(head: &Head, content: &ReceivedContent) -> Value {
    let mut headers = Map::new();
    for (name, value) in &head.headers {
        match headers.get_mut(name) {
            Some(Value::String(joined)) => *joined = format!("{joined}, {value}"),
            _ => {
                headers.insert(name.clone(), json!(value));
            }
        }
    }
    let whole = content.length == content.bytes.len() as u64;
    let body = if whole { readable(&content.bytes) } else { Value::Null };
    json!({
        "method": head.method, "path": head.path, "query": head.query, "headers": headers,
        "body_length": content.length, "body": body,
    })
}

fn readable(bytes: &[u8]) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    let text = || std::str::from_utf8(bytes).map_or(Value::Null, |t| json!(t));
    serde_json::from_slice(bytes).unwrap_or_else(|_| text())
}
