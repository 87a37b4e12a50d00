//! What a check is: given content and facts it either has an outcome, or asks outside first. Checks hold no state and
//! know neither sockets nor clocks; the engine keeps what they have heard.

use crate::checks::Stepping;
use crate::content::{Content, Joined, Rewrite, Selection};
use crate::external_call::{CheckQuery, CheckReply, QueryFailure};
use crate::pattern::StepLimit;
use gateway_domain::Timestamp;
use http::HeaderMap;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// What checks may know of a request beside its content.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The name of the operation, as `allowedRequestTypes` names it: `chatComplete`.
    pub request_type: String,
    pub streams: bool,
    pub provider: String,
    /// The model as it goes to the provider.
    pub model: String,
    /// The model as the client wrote it.
    pub asked_model: String,
    /// The request's metadata as the gateway merged it.
    pub metadata: Vec<(String, String)>,
    /// The client's headers; only what a check names is ever sent on.
    pub headers: HeaderMap,
    pub trace_id: String,
}

impl Facts {
    pub(crate) fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

/// One judgement to make.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case<'a> {
    /// What is judged: the request, or the answer.
    pub(crate) content: &'a Content,
    /// The request that is answered, where an answer is judged.
    pub(crate) request: Option<&'a Content>,
    /// The status of the answer that is judged.
    pub(crate) status: Option<u16>,
    pub(crate) facts: &'a Facts,
    /// Whether an earlier check changed the content, and whether one changed the request.
    pub(crate) is_transformed: bool,
    pub(crate) request_is_transformed: bool,
    pub(crate) now: Timestamp,
}

impl Case<'_> {
    pub(crate) fn is_input(&self) -> bool {
        self.content.direction() == crate::Direction::Input
    }
}

/// What went wrong in a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckError {
    pub name: String,
    pub message: String,
    /// Whoever wrote the text can bring it about, so that it must not open the way: the check fails.
    pub closes: bool,
}

impl CheckError {
    pub(crate) fn open(name: &str, message: impl Into<String>) -> Self {
        Self { name: name.to_owned(), message: message.into(), closes: false }
    }

    pub(crate) fn closed(name: &str, message: impl Into<String>) -> Self {
        Self { name: name.to_owned(), message: message.into(), closes: true }
    }

    pub(crate) fn missing_text() -> Self {
        Self::open("Error", "Missing text to analyze")
    }
}

impl From<StepLimit> for CheckError {
    fn from(_: StepLimit) -> Self {
        Self::closed("RegexLimit", "The pattern took more steps on this text than it may")
    }
}

impl From<&QueryFailure> for CheckError {
    fn from(failure: &QueryFailure) -> Self {
        Self::open(failure.kind.name(), failure.message.clone())
    }
}

#[derive(Clone, Debug)]
pub(crate) struct CheckOutcome {
    pub(crate) verdict: bool,
    pub(crate) error: Option<CheckError>,
    pub(crate) data: Value,
    pub(crate) rewrite: Option<Rewrite>,
}

impl CheckOutcome {
    pub(crate) fn new(verdict: bool, data: Value) -> Self {
        Self { verdict, error: None, data, rewrite: None }
    }

    pub(crate) fn rewriting(verdict: bool, data: Value, rewrite: Option<Rewrite>) -> Self {
        Self { verdict, error: None, data, rewrite }
    }

    pub(crate) fn failed(error: CheckError) -> Self {
        Self { verdict: false, error: Some(error), data: Value::Null, rewrite: None }
    }

    pub(crate) fn with_data(mut self, data: Value) -> Self {
        self.data = data;
        self
    }
}

impl From<CheckError> for CheckOutcome {
    fn from(error: CheckError) -> Self {
        Self::failed(error)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum JudgeStep {
    Done(CheckOutcome),
    /// Never empty; at most [`crate::external_call::AT_ONCE`] of them are under way at a time.
    Ask(Vec<CheckQuery>),
}

impl From<CheckOutcome> for JudgeStep {
    fn from(outcome: CheckOutcome) -> Self {
        Self::Done(outcome)
    }
}

impl From<CheckError> for JudgeStep {
    fn from(error: CheckError) -> Self {
        Self::Done(error.into())
    }
}

pub(crate) trait Judge: Debug + Send + Sync {
    fn judge(&self, case: &Case<'_>) -> JudgeStep;

    /// Goes on with the answers of all asks so far, in their order.
    fn read(&self, _case: &Case<'_>, _answers: &[CheckReply]) -> JudgeStep {
        CheckError::open("Error", "The check asked nothing").into()
    }

    /// Which texts it looks at.
    fn selection(&self) -> Selection {
        Selection::TEXT
    }

    /// Whether it may change what it judges.
    fn rewrites(&self) -> bool {
        false
    }

    /// How it judges a text that is not whole yet; `None` where more text can heal a failure.
    fn streaming(&self) -> Option<Streaming> {
        None
    }
}

/// How a check judges a text while it comes.
#[derive(Clone, Debug)]
pub(crate) enum Streaming {
    /// Fails when something is found.
    Forbid(Arc<dyn Finder>),
    /// Puts other text in the place of what is found.
    Redact(Arc<dyn Finder>),
    /// Fails when a count exceeds its bound.
    AtMost { unit: TextUnit, most: u64 },
    /// Fails at the first cased letter that is not as it must be.
    Cased { upper: bool },
    /// Asks outside about each window.
    Outside,
}

/// What is counted of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextUnit {
    Sentences,
    Words,
    Characters,
}

/// Values that were replaced so far, so that equal ones are replaced alike.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplacedValues(pub(crate) Vec<SeenValue>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenValue {
    pub(crate) kind: &'static str,
    pub(crate) value: String,
    pub(crate) number: usize,
}

/// Finds in a text what must not be there.
pub(crate) trait Finder: Debug + Send + Sync {
    /// The first match from `from` on, judged with what stands before and behind it.
    fn find(&self, text: &str, from: usize) -> Result<Option<Range<usize>>, StepLimit>;

    fn replacement(&self, text: &str, found: Range<usize>, seen: &mut ReplacedValues) -> String;

    /// Bytes at the end of a text that more text could make part of a match; `overlap` is the most that is held where
    /// that cannot be said.
    fn held(&self, text: &str, overlap: usize) -> usize;

    /// Whether every match begins in what is held, so that nothing that was let go can be part of one. Never where
    /// `held` is bounded by an overlap that is shorter than what may be found.
    fn holds_all(&self, _overlap: usize) -> bool {
        false
    }

    /// Whether a text that holds a match holds one whatever follows.
    fn settles(&self) -> bool {
        false
    }

    /// Finds in a text that comes in pieces, byte by byte, what this finds in a whole one; `None`: it cannot be had so.
    fn stepping(&self) -> Option<Arc<Stepping>> {
        None
    }
}

/// Redacts a whole text; `None` where nothing was found. Matches of nothing are passed over.
pub(crate) fn redact(finder: &dyn Finder, text: &str, seen: &mut ReplacedValues) -> Result<Option<String>, StepLimit> {
    let (mut out, mut done, mut from, mut found_any) = (String::new(), 0, 0, false);
    while from <= text.len() {
        let Some(found) = finder.find(text, from)? else { break };
        if found.is_empty() {
            from = found.end + text[found.end..].chars().next().map_or(1, char::len_utf8);
            continue;
        }
        out.push_str(&text[done..found.start]);
        out.push_str(&finder.replacement(text, found.clone(), seen));
        (done, from, found_any) = (found.end, found.end, true);
    }
    if !found_any {
        return Ok(None);
    }
    out.push_str(&text[done..]);
    Ok(Some(out))
}

/// Judges each text of the content: the first that fails is told of, else the first. Texts that are empty are passed
/// over, and where all are, that is an error unless `empty_is_text`.
pub(crate) fn each_text(
    case: &Case<'_>,
    selection: Selection,
    empty_is_text: bool,
    judge: impl Fn(&Joined) -> CheckOutcome,
) -> CheckOutcome {
    if let Some(why) = case.content.unreadable() {
        return CheckError::closed("UnreadableBody", format!("The body {why}")).into();
    }
    let mut first = None;
    for joined in case.content.joined(selection) {
        if joined.text.is_empty() && !empty_is_text {
            continue;
        }
        let outcome = judge(&joined);
        if !outcome.verdict {
            return outcome;
        }
        first.get_or_insert(outcome);
    }
    first.unwrap_or_else(|| {
        let data = json!({"explanation": "There is no text to judge"});
        CheckOutcome::failed(CheckError::missing_text()).with_data(data)
    })
}

/// The beginning of a text, for whoever reads results.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}
