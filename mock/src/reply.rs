//! The reply to an ask: an echo of what was said, a tool call, or JSON of the asked form; the same each
//! time. Knows no dialect.

use super::behaviour::Behaviour;
use super::request::{MockRequest, MockTool, MockToolChoice, words};
use serde_json::{Map, Value, json};

/// How deep a schema is followed; one that refers to itself would never end.
const DEPTH: usize = 8;

#[derive(Debug)]
pub(super) struct MockCompletion {
    pub(super) say: Say,
    pub(super) tokens: usize,
    /// The text was cut at the asked maximum.
    pub(super) cut: bool,
}

#[derive(Debug)]
pub(super) enum Say {
    Text(String),
    Call { name: String, arguments: Value },
}

pub(super) fn compose(ask: &MockRequest, behaviour: &Behaviour) -> MockCompletion {
    if let Some(tool) = called(ask) {
        let arguments = sample(&tool.schema, "", 0);
        let arguments = if arguments.is_object() { arguments } else { json!({}) };
        let tokens = words(&arguments.to_string()) + 1;
        return MockCompletion { say: Say::Call { name: tool.name.clone(), arguments }, tokens, cut: false };
    }
    let text = match (&ask.form, behaviour.reply_bytes) {
        (Some(Value::Object(schema)), _) => sample(&Value::Object(schema.clone()), "", 0).to_string(),
        (Some(_), _) => json!({ "echo": ask.said }).to_string(),
        (None, Some(length)) => filler(length),
        (None, None) => format!("You said: {}", ask.said),
    };
    let all = words(&text);
    match ask.max_tokens {
        Some(limit) if limit < all => {
            MockCompletion { say: Say::Text(first_words(&text, limit)), tokens: limit, cut: true }
        }
        _ => MockCompletion { say: Say::Text(text), tokens: all, cut: false },
    }
}

/// The tool that the request asks for: named, required, or spoken of by the user.
fn called(ask: &MockRequest) -> Option<&MockTool> {
    let named = |name: &str| ask.tools.iter().find(|t| t.name == name);
    match &ask.choice {
        MockToolChoice::None => None,
        MockToolChoice::Named(name) => named(name),
        MockToolChoice::Required => ask.tools.first(),
        MockToolChoice::Auto if ask.answers_tool => None,
        MockToolChoice::Auto => ask.tools.first().filter(|_| ask.said.to_lowercase().contains("tool")),
    }
}

/// A value that fits the common part of JSON Schema.
fn sample(schema: &Value, name: &str, depth: usize) -> Value {
    if depth >= DEPTH {
        return Value::Null;
    }
    if let Some(given) = schema.get("const").or_else(|| schema["enum"].get(0)).or_else(|| schema.get("default")) {
        return given.clone();
    }
    if let Some(first) = ["anyOf", "oneOf", "allOf"].iter().find_map(|k| schema[*k].get(0)) {
        return sample(first, name, depth + 1);
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"].get(0).and_then(Value::as_str));
    match kind {
        Some("string") => json!(if name.is_empty() { "mock".to_owned() } else { format!("mock {name}") }),
        Some("integer") => json!(schema["minimum"].as_i64().unwrap_or(1)),
        Some("number") => json!(schema["minimum"].as_f64().unwrap_or(1.5)),
        Some("boolean") => json!(true),
        Some("array") => json!([sample(&schema["items"], name, depth + 1)]),
        Some("object") => {
            let fields = schema["properties"].as_object().into_iter().flatten();
            let fields = fields.map(|(k, s)| (k.clone(), sample(s, k, depth + 1)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        _ => Value::Null,
    }
}

fn filler(length: usize) -> String {
    let mut text = "the mock speaks on and on ".repeat(length / 26 + 1);
    text.truncate(length);
    text
}

fn first_words(text: &str, count: usize) -> String {
    text.split_whitespace().take(count).collect::<Vec<_>>().join(" ")
}

/// Cuts text into `count` pieces that join to the whole; by words when no count is given.
pub(super) fn pieces(text: &str, count: Option<usize>) -> Vec<String> {
    let Some(count) = count else {
        return text.split_inclusive(' ').map(ToOwned::to_owned).collect();
    };
    let chars: Vec<char> = text.chars().collect();
    let count = count.max(1);
    (0..count).map(|i| chars[chars.len() * i / count..chars.len() * (i + 1) / count].iter().collect()).collect()
}
