//! Token counts by a real tokenizer, for when a provider tells none: a stream that was cut, a prompt that is to be
//! counted where nobody counts. They are estimates: each model has a vocabulary of its own, and OpenAI's newest one
//! stands for all. The first count loads it (some tens of milliseconds), so none is made on a thread that serves.

use serde_json::Value;

/// As much of a stream's text is kept to count; what is longer is reckoned from it.
const KEPT: usize = 16 << 10;
/// As much of a prompt is counted; what is longer is reckoned from it.
const COUNTED: usize = 128 << 10;
/// A string this long without a blank is data, not words: images and files are counted by the piece.
const BLOB: usize = 2048;
/// What an image is commonly counted as.
const IMAGE: u64 = 1000;
/// Role and marks around each message, of which every dialect's template has a few.
const MESSAGE: u64 = 3;

/// The number of tokens in a text.
pub fn count(text: &str) -> u64 {
    let part = start(text, COUNTED);
    let counted = tiktoken_rs::o200k_base_singleton().count_ordinary(part) as u64;
    scaled(counted, part.len() as u64, text.len() as u64)
}

/// At most `most` bytes of a text, whole characters.
fn start(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

/// `tokens` of `part`, stretched to `whole`.
fn scaled(tokens: u64, part: u64, whole: u64) -> u64 {
    if part == 0 || part >= whole {
        tokens
    } else {
        (u128::from(tokens) * u128::from(whole)).div_ceil(part.into()) as u64
    }
}

/// The tokens of a request's prompt: messages, system, tools. Fields that only tune are not counted.
pub fn prompt(body: &[u8]) -> u64 {
    let Ok(Value::Object(body)) = serde_json::from_slice(body) else { return (body.len() as u64).div_ceil(4) };
    let mut words = Words::default();
    for key in ["system", "instructions", "messages", "input", "prompt", "tools", "functions", "contents"] {
        if let Some(value) = body.get(key) {
            words.gather(value);
        }
    }
    count(&words.text) + words.beside
}

/// The words of a prompt in one text, and what is not words.
#[derive(Default)]
struct Words {
    text: String,
    beside: u64,
}

impl Words {
    fn gather(&mut self, value: &Value) {
        match value {
            Value::String(text) if text.len() >= BLOB && !start(text, BLOB).contains([' ', '\n']) => {
                self.beside += IMAGE;
            }
            Value::String(text) => {
                self.text.push_str(text);
                self.text.push('\n');
            }
            Value::Array(all) => all.iter().for_each(|value| self.gather(value)),
            Value::Object(all) => {
                self.beside += if all.contains_key("role") { MESSAGE } else { 0 };
                // Names of fields are in no prompt, but for those of a tool's parameters.
                let schema = all.contains_key("properties") || all.get("type").is_some_and(|t| t == "object");
                for (key, value) in all {
                    if schema || key == "properties" {
                        self.names(value);
                    }
                    let marks = matches!(&**key, "type" | "role" | "cache_control" | "signature" | "encrypted_content");
                    if !marks {
                        self.gather(value);
                    }
                }
            }
            Value::Number(number) => self.text.push_str(&number.to_string()),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn names(&mut self, value: &Value) {
        for name in value.as_object().into_iter().flat_map(|all| all.keys()) {
            self.text.push_str(name);
            self.text.push('\n');
        }
    }
}

/// What a stream has said so far: all of its length, the beginning of its text.
#[derive(Clone, Debug, Default)]
pub struct Said {
    kept: Vec<u8>,
    chars: u64,
    /// The text is kept as it stands in JSON, escapes and all.
    escaped: bool,
}

impl Said {
    pub fn chars(&self) -> u64 {
        self.chars
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.chars += text.chars().count() as u64;
        self.keep(text.as_bytes());
    }

    /// The inside of a JSON string, of `chars` characters.
    pub(crate) fn push_escaped(&mut self, json: &[u8], chars: u64) {
        self.chars += chars;
        self.escaped = true;
        self.keep(json);
    }

    fn keep(&mut self, text: &[u8]) {
        if self.kept.len() + text.len() <= KEPT {
            self.kept.extend_from_slice(text);
        }
    }

    /// Loads the tokenizer; see the top of this module.
    pub fn tokens(&self) -> u64 {
        let kept = String::from_utf8_lossy(&self.kept);
        let unescaped: Option<String> =
            if self.escaped { serde_json::from_str(&["\"", &kept, "\""].concat()).ok() } else { None };
        let text = unescaped.as_deref().unwrap_or(&kept);
        scaled(count(text), text.chars().count() as u64, self.chars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted_not_bytes() {
        assert_eq!(count("Hello there, world."), 5);
        assert_eq!(count(""), 0);
        let long = "one two three four ".repeat(20_000);
        let (whole, tenth) = (count(&long), count(&long[..long.len() / 10]));
        assert!(whole.abs_diff(tenth * 10) < whole / 50, "what is beyond the limit is reckoned: {whole} {tenth}");
    }

    #[test]
    fn escapes_are_undone_before_the_count() {
        let (mut plain, mut escaped) = (Said::default(), Said::default());
        plain.push("a\n\"b\" caf\u{e9}");
        escaped.push_escaped(br#"a\n\"b\" "#, 6);
        escaped.push_escaped(br"caf\u00e9", 4);
        assert_eq!(plain.chars(), escaped.chars());
        assert_eq!(plain.tokens(), escaped.tokens());
    }

    #[test]
    fn a_long_stream_is_reckoned_from_its_beginning() {
        let mut said = Said::default();
        for _ in 0..10_000 {
            said.push("some words ");
        }
        let expected = 20_000;
        assert!(said.tokens().abs_diff(expected) < expected / 20, "{}", said.tokens());
    }

    #[test]
    fn pictures_and_settings_are_no_words() {
        let plain = prompt(br#"{"model":"m","messages":[{"role":"user","content":"Hello there"}]}"#);
        let tuned = prompt(br#"{"model":"m","temperature":0.123456,"messages":[{"role":"user","content":[{"type":"text","text":"Hello there"}]}]}"#);
        assert_eq!((plain, tuned), (6, 6));
        let image = format!(r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#, "A".repeat(100_000));
        assert!(prompt(image.as_bytes()) < 1100);
        let tool = prompt(br#"{"messages":[],"tools":[{"name":"weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]}"#);
        assert!((2..12).contains(&tool), "{tool}");
    }
}
