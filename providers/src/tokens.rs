//! Token counts by a real tokenizer, for when a provider tells none: a stream that was cut, a prompt that is to be
//! counted where nobody counts. They are estimates: each model has a vocabulary of its own, and OpenAI's newest one
//! stands for all. The first count loads it (some tens of milliseconds), so none is made on a thread that serves.

mod vocabulary;

use serde_json::Value;
use tiktoken_rs::CoreBPE;
pub use vocabulary::{Tokenized, tokenize};

/// Bytes of a stream's text that are kept to be counted; what is longer is reckoned from them.
const KEPT: usize = 16 << 10;
/// Bytes of a prompt that are counted; what is longer is reckoned from them.
const COUNTED: usize = 128 << 10;
/// A file or an image from this length on is counted by the piece.
const BLOB: usize = 2048;
/// The tokenizer takes time by the square of what has no blank in it: longer runs are cut.
const RUN: usize = 512;
/// What an image is commonly counted as.
const IMAGE: u64 = 1000;
/// Role and marks around each message, of which every dialect's template has a few.
const MESSAGE: u64 = 3;

/// The number of tokens in a text.
pub fn count(text: &str) -> u64 {
    count_by(tiktoken_rs::o200k_base_singleton(), text)
}

fn count_by(tokenizer: &CoreBPE, text: &str) -> u64 {
    let part = start(text, COUNTED);
    let counted = pieces(part).map(|piece| tokenizer.count_ordinary(piece) as u64).sum();
    scaled(counted, part.len() as u64, text.len() as u64)
}

/// The text cut where it has gone on for [`RUN`] bytes without a blank, and nowhere else.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut since = 0;
        let cut = rest.char_indices().find(|(at, c)| {
            if c.is_whitespace() {
                since = *at;
            }
            at - since >= RUN
        });
        let (piece, after) = rest.split_at(cut.map_or(rest.len(), |(at, _)| at));
        rest = after;
        Some(piece)
    })
}

/// Bytes of a body that is held for before anybody counts: text at 2.5 bytes a token, at 1.5 where hardly any of it is
/// blank or most of it is Chinese, Japanese or Korean. Needs no tokenizer, so that it can be asked anywhere.
pub fn estimate(body: &[u8]) -> u64 {
    const INLINE: u64 = 1_500;
    /// What frames a short prompt in JSON has few blanks and says nothing of its text.
    const SHORT: u64 = 512;
    let (mut words, mut beside) = (body.len() as u64, 0);
    for at in memchr::memmem::find_iter(body, b";base64,") {
        let data = &body[at..];
        words = words.saturating_sub(memchr::memchr(b'"', data).unwrap_or(data.len()) as u64);
        beside += INLINE;
    }
    let (mut blanks, mut run) = (0_u64, 0);
    for at in memchr::memchr3_iter(b' ', b'"', b'\\', body).chain([body.len()]) {
        blanks += u64::from(body.get(at) == Some(&b' ') || body[at..].starts_with(b"\\n"));
        let long = &body[run..at];
        run = at + 1;
        // Those with a name before them were taken off above.
        if long.len() >= BLOB && is_base64(long) && !long.starts_with(b"data:") {
            words = words.saturating_sub(long.len() as u64);
            beside += (long.len() as u64).div_ceil(4);
        }
    }
    let wide = body.iter().filter(|b| matches!(b, 0xe3..=0xed)).count() as u64 * 3;
    let dense = words > SHORT && (blanks * 20 < words || wide * 2 > words);
    beside + if dense { (words * 2).div_ceil(3) } else { (words * 2).div_ceil(5) }
}

/// Looks here and there: text in a language or of numbers has other letters soon.
fn is_base64(run: &[u8]) -> bool {
    let fits = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-' | b'_');
    let mixed = |some: &[u8]| some.iter().any(u8::is_ascii_uppercase) && some.iter().any(u8::is_ascii_lowercase);
    run.iter().step_by(61).all(fits) && run[..256.min(run.len())].iter().all(fits) && mixed(&run[..BLOB.min(run.len())])
}

/// The beginning of a text: whole characters, at most `most` bytes.
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
    match words(body) {
        Some(words) => count(&words.text) + words.beside,
        None => (body.len() as u64).div_ceil(4),
    }
}

/// The tokens of a request's prompt, estimated without a tokenizer.
pub(crate) fn rough_prompt(body: &[u8]) -> u64 {
    words(body).map_or(0, |words| estimate(words.text.as_bytes()) + words.beside)
}

fn words(body: &[u8]) -> Option<PromptWords> {
    let Ok(Value::Object(body)) = serde_json::from_slice(body) else { return None };
    let mut words = PromptWords::default();
    for key in ["system", "instructions", "messages", "input", "prompt", "tools", "functions", "contents"] {
        if let Some(value) = body.get(key) {
            words.gather(value);
        }
    }
    Some(words)
}

/// The words of a prompt in one text, and what is not words.
#[derive(Default)]
struct PromptWords {
    text: String,
    beside: u64,
}

impl PromptWords {
    fn gather(&mut self, value: &Value) {
        match value {
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
                    if is_file(all, key, value) {
                        self.beside += IMAGE;
                        continue;
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

/// Whether a member holds an image, a sound or a file: by its name, since text may look like one.
fn is_file(object: &serde_json::Map<String, Value>, key: &str, value: &Value) -> bool {
    let named = matches!(key, "data" | "bytes" | "url" | "image_url" | "file_data" | "b64_json" | "image");
    let Value::String(text) = value else { return false };
    // Anthropic's plain documents are text under such a name.
    let plain = object.get("type").is_some_and(|kind| kind == "text");
    named && !plain && (text.len() >= BLOB || text.starts_with("data:"))
}

/// What a stream has said so far: all of its length, the beginning of its text.
#[derive(Clone, Debug, Default)]
pub struct StreamedText {
    kept: Vec<u8>,
    chars: u64,
    /// The text is kept as it stands in JSON, escapes and all.
    escaped: bool,
}

impl StreamedText {
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
    use serde_json::json;

    #[test]
    fn words_are_counted_not_bytes() {
        assert_eq!(count("Hello there, world."), 5);
        assert_eq!(count(""), 0);
        let long = "one two three four ".repeat(20_000);
        let (whole, tenth) = (count(&long), count(&long[..long.len() / 10]));
        assert!(whole.abs_diff(tenth * 10) < whole / 50, "what is beyond the limit is reckoned: {whole} {tenth}");
    }

    #[test]
    fn text_without_blanks_is_text() {
        let ask = |text: &str| json!({ "messages": [{ "role": "user", "content": text }] }).to_string();
        let document = json!({ "messages": [{ "role": "user", "content": [{ "type": "document",
            "source": { "type": "text", "media_type": "text/plain", "data": "你好世界".repeat(1_000) } }] }] });
        for (body, least) in [
            (ask(&"今天天气很好我们去公园散步吧".repeat(1_000)), 7_000),
            (ask(&r#"{"id":12345,"name":"x","tags":["a","b"]},"#.repeat(1_000)), 10_000),
            (ask(&"3f9a0c77b1".repeat(6_000)), 20_000),
            (document.to_string(), 1_000),
        ] {
            let tokens = prompt(body.as_bytes());
            assert!(tokens >= least, "{tokens} for {}…", &body[..80]);
        }
    }

    #[test]
    fn a_run_without_end_is_counted_in_no_time() {
        let began = std::time::Instant::now();
        let (run, words) = (count(&"a".repeat(1 << 20)), count(&"word ".repeat(1 << 18)));
        assert!(run > 10_000 && words.abs_diff(1 << 18) < 1 << 13, "{run} {words}");
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
        let long = ["你".repeat(1_000), "b c ".repeat(1_000)].concat();
        assert_eq!(pieces(&long).collect::<String>(), long);
        assert!(pieces(&long).all(|piece| piece.split(' ').all(|run| run.len() <= RUN + 3)));
    }

    #[test]
    fn what_is_held_for_is_no_less_than_what_is_counted() {
        let words = "The quick brown fox jumps over the lazy dog, as 27 others did before it. ".repeat(40);
        for text in [
            words,
            "今天天气很好我们去公园散步吧".repeat(200),
            r#"{"id":12345,"name":"x","tags":["a","b"],"at":"2026-01-01T00:00:00Z"},"#.repeat(200),
            "Сегодня хорошая погода, и мы пойдём гулять в парк. ".repeat(100),
        ] {
            let body = json!({ "messages": [{ "role": "user", "content": text }] }).to_string();
            let (held, counted) = (estimate(body.as_bytes()), prompt(body.as_bytes()));
            assert!(
                held >= counted && held < counted * 4,
                "{held} held for {counted}: {}",
                &text[..40.min(text.len())]
            );
        }
    }

    #[test]
    fn held_bytes() {
        let sound = "QUJDZGVm".repeat(1 << 17);
        let picture = format!(r#"{{"url": "data:image/png;base64,{sound}", "b": 1}}"#);
        assert!((1_500..1_600).contains(&estimate(picture.as_bytes())), "{}", estimate(picture.as_bytes()));
        let audio = format!(r#"{{"data": "{sound}"}}"#);
        let quarter = sound.len() as u64 / 4;
        assert!(estimate(audio.as_bytes()).abs_diff(quarter) < 64, "{}", estimate(audio.as_bytes()));
        assert_eq!((estimate(&[b'a'; 400]), estimate(&[b'a'; 600]), estimate(b"")), (160, 400, 0));
        assert_eq!(estimate("word ".repeat(1_000).as_bytes()), 2_000);
    }

    #[test]
    fn escapes_are_undone_before_the_count() {
        let (mut plain, mut escaped) = (StreamedText::default(), StreamedText::default());
        plain.push("a\n\"b\" caf\u{e9}");
        escaped.push_escaped(br#"a\n\"b\" "#, 6);
        escaped.push_escaped(br"caf\u00e9", 4);
        assert_eq!(plain.chars(), escaped.chars());
        assert_eq!(plain.tokens(), escaped.tokens());
    }

    #[test]
    fn a_long_stream_is_reckoned_from_its_beginning() {
        let mut said = StreamedText::default();
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
        let data = "QUJD".repeat(25_000);
        for part in [
            format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#),
            format!(r#"{{"type":"input_audio","input_audio":{{"data":"{data}","format":"wav"}}}}"#),
            format!(r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#),
            format!(r#"{{"image":{{"format":"png","source":{{"bytes":"{data}"}}}}}}"#),
            format!(r#"{{"inlineData":{{"mimeType":"image/png","data":"{data}"}}}}"#),
        ] {
            let body = format!(r#"{{"messages":[{{"role":"user","content":[{part}]}}]}}"#);
            assert!((1000..1100).contains(&prompt(body.as_bytes())), "{}", prompt(body.as_bytes()));
        }
        let tool = prompt(br#"{"messages":[],"tools":[{"name":"weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]}"#);
        assert!((2..12).contains(&tool), "{tool}");
    }
}
