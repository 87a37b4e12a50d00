//! The lines of a file that a batch reads: one after the other, never the file as a whole. Says what is wrong with them
//! before any of them is asked.

use super::document::BatchProblem;
use ahash::{AHashMap, AHashSet};
use bytes::{Buf, Bytes, BytesMut};
use gateway_domain::ports::{BlobError, Blobs};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use uuid::Uuid;

/// Bytes of one line.
pub(crate) const MOST_LINE: usize = 32 << 20;
/// Problems that are told.
const MOST_PROBLEMS: usize = 100;
const MODEL_REFUSED: &str = "model_not_permitted";
/// Different models of one file that are looked up before it is run.
pub(super) const MOST_MODELS: usize = 1_000;
/// Bytes of what a client calls a line.
const LONGEST_ID: usize = 512;
/// What some editors put in front of a file (the byte order mark of UTF-8).
const MARK: &[u8] = b"\xef\xbb\xbf";

/// A line as its client wrote it.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object of custom_id, method, url and body")]
pub(super) struct LineAsked<'a> {
    pub(super) custom_id: String,
    method: String,
    pub(super) url: String,
    #[serde(borrow)]
    pub(super) body: &'a RawValue,
}

/// What of a body says that it cannot be a line.
#[derive(Deserialize)]
struct BodyAsked {
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    model: Option<Value>,
}

impl LineAsked<'_> {
    /// The model that it names.
    pub(super) fn model(&self) -> Option<String> {
        let body: BodyAsked = serde_json::from_str(self.body.get()).ok()?;
        body.model.as_ref().and_then(Value::as_str).map(ToOwned::to_owned)
    }
}

/// Why a line is no request of a batch.
#[derive(Debug)]
pub(super) struct Unasked {
    why: String,
    /// The member that it is about.
    param: Option<String>,
}

impl std::fmt::Display for Unasked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

impl Unasked {
    fn of(error: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        // Each is read by itself: where it stands in its file is told beside.
        let (inner, path) = (error.inner(), error.path().to_string());
        let why = inner.to_string();
        let place = format!(" at line {} column {}", inner.line(), inner.column());
        let why = why.strip_suffix(&place).unwrap_or(&why);
        let missing = why.strip_prefix("missing field `").or_else(|| why.strip_prefix("duplicate field `"));
        let named = missing.and_then(|rest| rest.strip_suffix('`')).map(ToOwned::to_owned);
        let param = named.or_else(|| (inner.is_data() && path != ".").then_some(path));
        Self { why: format!("{why} (column {})", inner.column()), param }
    }
}

/// A line that is there, counted from 1.
#[derive(Clone, Debug)]
pub(super) struct FileLine {
    pub(super) number: u64,
    /// Where it begins in its file.
    pub(super) at: u64,
    pub(super) text: Bytes,
}

impl FileLine {
    pub(super) fn read(&self) -> Result<LineAsked<'_>, Unasked> {
        if self.text.len() > MOST_LINE {
            return Err(Unasked { why: format!("it has more than {MOST_LINE} bytes"), param: None });
        }
        // Serde would read a struct from a list as well, so a list is refused first.
        if self.text.trim_ascii_start().starts_with(b"[") {
            let why = "it is a list, and must be an object of custom_id, method, url and body".to_owned();
            return Err(Unasked { why, param: None });
        }
        match serde_json::from_slice(&self.text) {
            Ok(asked) => Ok(asked),
            // Read again, more slowly, for where it fails.
            Err(_) => {
                let from = &mut serde_json::Deserializer::from_slice(&self.text);
                let read = serde_path_to_error::deserialize(from).map_err(|e| Unasked::of(&e));
                read.and_then(|_: LineAsked<'_>| {
                    Err(Unasked { why: "something stands behind its end".to_owned(), param: None })
                })
            }
        }
    }
}

/// Reads a blob line by line.
pub(super) struct LineReader {
    blobs: Arc<dyn Blobs>,
    blob: Uuid,
    at: u64,
    /// Bytes that were given away as lines.
    taken: u64,
    number: u64,
    buffer: BytesMut,
    ended: bool,
}

impl LineReader {
    pub(super) fn new(blobs: &Arc<dyn Blobs>, blob: Uuid) -> Self {
        Self { blobs: blobs.clone(), blob, at: 0, taken: 0, number: 0, buffer: BytesMut::new(), ended: false }
    }

    /// The next line that is not empty; empty ones are counted. What is longer than a line may be is cut there.
    pub(super) async fn next(&mut self) -> Result<Option<FileLine>, BlobError> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer) {
                let text = self.buffer.split_to(end).freeze();
                self.buffer.advance(1);
                if let Some(line) = self.counted(&text, 1) {
                    return Ok(Some(line));
                }
                continue;
            }
            if self.ended || self.buffer.len() > MOST_LINE {
                let text = self.buffer.split().freeze();
                if text.is_empty() {
                    return Ok(None);
                }
                return match self.counted(&text, 0) {
                    Some(line) => Ok(Some(line)),
                    None => Ok(None),
                };
            }
            let piece = self.blobs.read(self.blob, self.at).await?;
            let text = piece.strip_prefix(MARK).filter(|_| self.at == 0).unwrap_or(&piece);
            self.ended = piece.is_empty();
            self.at += piece.len() as u64;
            self.taken += (piece.len() - text.len()) as u64;
            self.buffer.extend_from_slice(text);
        }
    }

    /// `behind`: bytes between it and the next one.
    fn counted(&mut self, text: &Bytes, behind: u64) -> Option<FileLine> {
        self.number += 1;
        let at = self.taken;
        self.taken += text.len() as u64 + behind;
        let is_blank = text.iter().all(u8::is_ascii_whitespace);
        (!is_blank).then(|| FileLine { number: self.number, at, text: text.clone() })
    }
}

/// A line that was seen before, by where it stood.
pub(super) async fn line_at(
    blobs: &Arc<dyn Blobs>,
    blob: Uuid,
    (at, length): (u64, usize),
) -> Result<Bytes, BlobError> {
    let mut text = BytesMut::with_capacity(length);
    while text.len() < length {
        let piece = blobs.read(blob, at + text.len() as u64).await?;
        if piece.is_empty() {
            break;
        }
        text.extend_from_slice(&piece[..piece.len().min(length - text.len())]);
    }
    Ok(text.freeze())
}

/// What stands in a file that every line of it may be asked.
#[derive(Debug, Default)]
pub(super) struct CheckedLines {
    pub(super) total: u64,
    pub(super) problems: Vec<BatchProblem>,
    ids: AHashSet<[u8; 16]>,
    /// Why each may not be asked for.
    models: AHashMap<String, Option<String>>,
    /// The model of the line that was looked at last, where nobody has said yet whether it may be asked for.
    pub(super) unknown_model: Option<String>,
}

impl CheckedLines {
    /// True: enough is wrong.
    pub(super) fn check(&mut self, line: &FileLine, endpoint: &str) -> bool {
        self.total += 1;
        if self.total > super::MOST_LINES {
            let message = format!("The file has more than {} lines", super::MOST_LINES);
            self.note_problem(line, "too_many_lines", message, None);
            return true;
        }
        if line.text.len() > MOST_LINE {
            // It was cut there: what comes behind it is no line.
            let message = format!("A line may have {MOST_LINE} bytes");
            self.note_problem(line, "line_too_long", message, None);
            return true;
        }
        self.look(line, endpoint);
        self.problems.len() >= MOST_PROBLEMS
    }

    /// The last line was looked at.
    pub(super) fn end(&mut self) {
        if self.total == 0 {
            let (code, message) = ("empty_file".to_owned(), "The file has no lines".to_owned());
            self.problems.push(BatchProblem { code, message, param: None, line: None });
        }
    }

    fn look(&mut self, line: &FileLine, endpoint: &str) {
        let asked = match line.read() {
            Ok(asked) => asked,
            Err(e) => {
                let message = format!("This line is no request of a batch: {e}");
                return self.note_problem(line, "invalid_json_line", message, e.param.as_deref());
            }
        };
        let (is_object, text) = (asked.body.get().starts_with('{'), asked.body.get());
        if asked.custom_id.is_empty() || asked.custom_id.len() > LONGEST_ID {
            let message = format!("custom_id must have 1 to {LONGEST_ID} bytes");
            return self.note_problem(line, "invalid_custom_id", message, Some("custom_id"));
        }
        let digest = Sha256::digest(asked.custom_id.as_bytes());
        if !self.ids.insert(std::array::from_fn(|place| digest[place])) {
            let message = "This custom_id stands on an earlier line as well".to_owned();
            return self.note_problem(line, "duplicate_custom_id", message, Some("custom_id"));
        }
        if asked.method != "POST" {
            return self.note_problem(line, "invalid_method", "method must be POST".to_owned(), Some("method"));
        }
        if asked.url != endpoint {
            let message = format!("url must be the endpoint of the batch, {endpoint}");
            return self.note_problem(line, "mismatched_endpoint", message, Some("url"));
        }
        let body = serde_json::from_str::<BodyAsked>(text);
        match &body {
            _ if !is_object => {
                self.note_problem(line, "invalid_body", "body must be an object".to_owned(), Some("body"))
            }
            Ok(BodyAsked { stream: Some(true), .. }) => {
                self.note_problem(
                    line,
                    "invalid_body",
                    "body must not ask for a stream".to_owned(),
                    Some("body.stream"),
                );
            }
            Ok(body) => {
                let model = body.model.as_ref().and_then(Value::as_str).unwrap_or_default();
                self.look_up(line, model);
            }
            Err(e) => match e.to_string().strip_prefix("duplicate field `").and_then(|rest| rest.split_once('`')) {
                Some((name, _)) => {
                    let (message, param) = (format!("{name} is given twice"), format!("body.{name}"));
                    self.note_problem(line, "invalid_body", message, Some(&param));
                }
                None => {
                    let message = "stream must be true or false".to_owned();
                    self.note_problem(line, "invalid_body", message, Some("body.stream"));
                }
            },
        }
    }

    fn look_up(&mut self, line: &FileLine, model: &str) {
        match self.models.get(model) {
            Some(None) => {}
            Some(Some(why)) => self.note_problem(line, MODEL_REFUSED, why.clone(), Some("body.model")),
            // The rest is seen when it is asked.
            None if self.models.len() >= MOST_MODELS => {}
            None => self.unknown_model = Some(model.to_owned()),
        }
    }

    /// Whether the model may be asked for that nobody knew at this line.
    pub(super) fn judge(&mut self, line: &FileLine, model: String, refusal: Option<String>) {
        if let Some(why) = &refusal {
            self.note_problem(line, MODEL_REFUSED, why.clone(), Some("body.model"));
        }
        self.models.insert(model, refusal);
    }

    fn note_problem(&mut self, line: &FileLine, code: &str, message: String, param: Option<&str>) {
        let (code, param) = (code.to_owned(), param.map(ToOwned::to_owned));
        self.problems.push(BatchProblem { code, message, param, line: Some(line.number) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(lines: &[&str]) -> Vec<(String, u64)> {
        let mut checked = CheckedLines::default();
        for (place, text) in lines.iter().enumerate() {
            let line = FileLine { number: place as u64 + 1, at: 0, text: Bytes::copy_from_slice(text.as_bytes()) };
            checked.check(&line, "/v1/chat/completions");
        }
        checked.problems.into_iter().map(|p| (p.code, p.line.unwrap_or_default())).collect()
    }

    #[test]
    fn what_is_wrong_is_told_by_line() {
        let good = r#"{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}"#;
        assert!(problems(&[good]).is_empty());
        for (text, code) in [
            (good.to_owned(), "duplicate_custom_id"),
            ("{".to_owned(), "invalid_json_line"),
            (good.replace("\"a\"", "\"\""), "invalid_custom_id"),
            (good.replace("\"a\"", "\"b\"").replace("POST", "GET"), "invalid_method"),
            (good.replace("\"a\"", "\"b\"").replace("chat/completions\",", "embeddings\","), "mismatched_endpoint"),
            (good.replace("\"a\"", "\"b\"").replace("\"m\"", "\"m\",\"stream\":true"), "invalid_body"),
            (good.replace("\"a\"", "\"b\"").replace("{\"model\":\"m\"}", "[]"), "invalid_body"),
            (r#"["b","POST","/v1/chat/completions",{"model":"m"}]"#.to_owned(), "invalid_json_line"),
            (" ".repeat(MOST_LINE + 1) + good, "line_too_long"),
        ] {
            assert_eq!(problems(&[good, &text]), [(code.to_owned(), 2)], "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_by_member() {
        let good = r#"{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m"}}"#;
        for (text, param, why) in [
            (good.replace("\"a\"", "5"), Some("custom_id"), "invalid type: integer `5`, expected a string"),
            (good.replace("\"custom_id\":\"a\",", ""), Some("custom_id"), "missing field `custom_id`"),
            (good.replace("\"method\"", "\"url\""), Some("url"), "duplicate field `url`"),
            ("null".to_owned(), None, "invalid type: null, expected an object of custom_id, method, url and body"),
            ("[]".to_owned(), None, "it is a list, and must be an object of custom_id, method, url and body"),
            (format!("{good}x"), None, "something stands behind its end"),
        ] {
            let line = FileLine { number: 7, at: 0, text: text.clone().into() };
            let mut checked = CheckedLines::default();
            checked.check(&line, "/v1/chat/completions");
            let told = &checked.problems[0];
            assert_eq!(told.param.as_deref(), param, "{text}");
            let message = told.message.split(" (column ").next().unwrap_or_default();
            assert_eq!(message, format!("This line is no request of a batch: {why}"));
        }
        let twice = good.replace("\"m\"", "\"m\",\"model\":\"n\"");
        let mut checked = CheckedLines::default();
        checked.check(&FileLine { number: 1, at: 0, text: twice.into() }, "/v1/chat/completions");
        let told = &checked.problems[0];
        assert_eq!((told.message.as_str(), told.param.as_deref()), ("model is given twice", Some("body.model")));
    }

    #[test]
    fn each_model_is_looked_up_once_and_no_more_than_so_many() {
        let line = |n: u64, model: &str| FileLine {
            number: n,
            at: 0,
            text: format!(
                r#"{{"custom_id":"{n}","method":"POST","url":"/v1/chat/completions","body":{{"model":"{model}"}}}}"#
            )
            .into(),
        };
        let mut checked = CheckedLines::default();
        let mut asked = 0;
        for n in 1..=2 * MOST_MODELS as u64 {
            let line = line(n, &format!("m-{}", n % (MOST_MODELS as u64 + 10)));
            checked.check(&line, "/v1/chat/completions");
            if let Some(model) = checked.unknown_model.take() {
                asked += 1;
                let refusal = (model == "m-5").then(|| "not enabled".to_owned());
                checked.judge(&line, model, refusal);
            }
        }
        assert_eq!(asked, MOST_MODELS);
        let told: Vec<_> = checked.problems.iter().map(|p| (p.code.as_str(), p.line)).collect();
        assert_eq!(told, [(MODEL_REFUSED, Some(5)), (MODEL_REFUSED, Some(1_015))]);
    }

    #[test]
    fn a_file_of_too_many_lines_is_told_once() {
        let mut checked = CheckedLines { total: super::super::MOST_LINES, ..CheckedLines::default() };
        let line = FileLine { number: 50_001, at: 0, text: Bytes::from_static(b"{}") };
        assert!(checked.check(&line, "/v1/embeddings"));
        assert_eq!(checked.problems[0].code, "too_many_lines");
    }
}
