//! JSON of any shape (`response_format` of type `json_object`) at providers that have no switch for it: the model is
//! told to answer so, and what it says is looked at before the answer ends. A code fence around the JSON, which models
//! put there though told otherwise, is taken off. Knows steps, and no provider.

use crate::adapter::Call;
use crate::answer::ResponseEvent;
use crate::wire::{JsonStr, read};
use gateway_domain::Operation;
use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The last of the system's instructions.
pub(crate) const INSTRUCTION: &str = "Answer with one valid JSON object and nothing else: no text before or after it, \
                                      and no code fence around it.";

/// More than any model writes in one answer; what is longer cannot be looked at.
const MOST: usize = 8 << 20;
const FENCE: &str = "```";

#[derive(Deserialize)]
struct JsonWish<'a> {
    #[serde(borrow)]
    response_format: Option<WantedFormat<'a>>,
    #[serde(borrow)]
    text: Option<Worded<'a>>,
}

#[derive(Deserialize)]
struct Worded<'a> {
    #[serde(borrow)]
    format: Option<WantedFormat<'a>>,
}

#[derive(Deserialize)]
struct WantedFormat<'a> {
    #[serde(rename = "type", borrow)]
    kind: JsonStr<'a>,
}

/// Whether the client asks for it. Most bodies do not name it anywhere, and are not parsed for it.
fn is_wanted(call: &Call<'_>) -> bool {
    if memmem::find(call.body, b"json_object").is_none() {
        return false;
    }
    let Some(wanted) = read::<JsonWish<'_>>(call.body) else { return false };
    let format = match call.operation {
        Operation::ChatCompletions => wanted.response_format,
        Operation::Responses => wanted.text.and_then(|text| text.format),
        _ => None,
    };
    format.is_some_and(|format| format.kind.0 == "json_object")
}

/// What was asked for in words is named as the client calls it.
pub(crate) fn name_as_asked(call: &Call<'_>, adjusted: &mut [&'static str]) {
    if call.operation == Operation::Responses {
        adjusted.iter_mut().filter(|name| **name == "response_format").for_each(|name| *name = "text.format");
    }
}

/// The answer is none.
#[derive(Debug)]
pub(crate) struct NoJson;

/// The text of an answer that has to be one JSON object, looked at as it comes.
#[derive(Debug, Default)]
pub(crate) struct PromisedJson {
    text: String,
    /// So much of it was handed on.
    passed: usize,
    /// The block that it stands in.
    block: u64,
}

impl PromisedJson {
    /// `None`: nobody asks for it.
    pub(crate) fn of(call: &Call<'_>) -> Option<Self> {
        is_wanted(call).then(Self::default)
    }

    /// Bytes that are kept until the answer ends.
    pub(crate) fn held(&self) -> usize {
        self.text.capacity()
    }

    /// The text that goes out before this step, and for steps of text in its place.
    pub(crate) fn before(&mut self, step: &ResponseEvent<'_>) -> Result<Option<ResponseEvent<'static>>, NoJson> {
        match step {
            ResponseEvent::Text { block, text } => {
                self.block = *block;
                self.text.push_str(text);
                if self.text.len() > MOST {
                    return Err(NoJson);
                }
                Ok(if self.may_be_fenced() { None } else { self.rest() })
            }
            ResponseEvent::Finish { standard: "stop", .. } => self.whole(),
            // What was cut off, refused, or is a call of a tool is not the object that was promised.
            ResponseEvent::Finish { .. } => Ok(self.rest()),
            _ => Ok(None),
        }
    }

    /// Whether the beginning could be that of a fence: until it is known not to be, nothing goes out.
    fn may_be_fenced(&self) -> bool {
        let text = self.text.trim_start();
        self.passed == 0 && (FENCE.starts_with(text) || text.starts_with(FENCE))
    }

    fn rest(&mut self) -> Option<ResponseEvent<'static>> {
        let rest = self.text.get(self.passed..).filter(|rest| !rest.is_empty())?.to_owned();
        self.passed = self.text.len();
        Some(ResponseEvent::Text { block: self.block, text: rest.into() })
    }

    fn whole(&mut self) -> Result<Option<ResponseEvent<'static>>, NoJson> {
        let inner = unfenced(&self.text);
        if !inner.starts_with('{') || serde_json::from_str::<IgnoredAny>(inner).is_err() {
            return Err(NoJson);
        }
        if self.passed > 0 {
            return Ok(self.rest());
        }
        self.passed = self.text.len();
        Ok(Some(ResponseEvent::Text { block: self.block, text: inner.to_owned().into() }))
    }
}

/// The text between two fences, the first of which may name a language; else the text.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix(FENCE).and_then(|rest| rest.strip_suffix(FENCE));
    inner.and_then(|inner| inner.split_once('\n')).map_or(text, |(_, inner)| inner.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What goes out of these pieces of text, if it is what was promised.
    fn passed(pieces: &[&str], reason: &'static str) -> Result<String, NoJson> {
        let (mut promised, mut out) = (PromisedJson::default(), String::new());
        let steps = pieces.iter().map(|text| ResponseEvent::Text { block: 0, text: (*text).into() });
        let steps: Vec<ResponseEvent<'_>> =
            steps.chain([ResponseEvent::Finish { reason: "end".into(), standard: reason }]).collect();
        for step in &steps {
            if let Some(ResponseEvent::Text { text, .. }) = promised.before(step)? {
                out.push_str(&text);
            }
        }
        Ok(out)
    }

    #[test]
    fn one_object_passes_however_it_is_cut_and_fenced() {
        for text in ["{\"a\": [1]}", "```json\n{\"a\": [1]}\n```", "\n```\n{\"a\": [1]}\n```\n", "{\"a\": [1]}"] {
            let cut: Vec<String> = text.chars().map(String::from).collect();
            let cut: Vec<&str> = cut.iter().map(String::as_str).collect();
            for pieces in [&[text][..], &cut[..]] {
                assert_eq!(passed(pieces, "stop").expect("an object").trim(), "{\"a\": [1]}", "{text}");
            }
        }
    }

    #[test]
    fn anything_else_is_refused_at_its_end() {
        for text in
            ["", "Sure! {\"a\":1}", "[1]", "{\"a\":1} ", "{\"a\":1}{", "{\"a\":", "```json\n{\"a\":\n```", "null"]
        {
            assert_eq!(passed(&[text], "stop").is_ok(), text == "{\"a\":1} ", "{text}");
        }
        // What ended for another reason is what it is.
        assert_eq!(passed(&["{\"a\":"], "length").expect("cut off"), "{\"a\":");
        assert_eq!(passed(&["```json\n{"], "length").expect("cut off"), "```json\n{");
        assert_eq!(passed(&[], "tool_calls").expect("a call"), "");
    }

    #[test]
    fn what_needs_no_holding_goes_out_at_once() {
        let mut promised = PromisedJson::default();
        let mut take = |text: &'static str| promised.before(&ResponseEvent::Text { block: 0, text: text.into() });
        let first = take(" {").expect("no end yet");
        assert!(matches!(first, Some(ResponseEvent::Text { text, .. }) if text == " {"));
        assert!(take("\"a\":1}").is_ok_and(|step| step.is_some()));
    }
}
