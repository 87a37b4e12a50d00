//! A call of a tool, judged when its arguments are whole: half a JSON text says nothing that can be relied on.

use crate::check::{CheckError, ReplacedValues, Streaming, redact};
use crate::content::{BodyShape, Content, Direction, Scan, Selection, Tape, quoted};
use crate::guardrail::Guardrail;
use std::sync::Arc;

/// What became of the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCallJudged {
    /// The arguments as they go on, in one piece.
    pub arguments: String,
    /// The guardrails that failed on them, by position.
    pub failed: Vec<usize>,
}

/// Judges and rewrites the arguments of one call with the checks that judge as text flows. String values are texts;
/// arguments that are no JSON are one text. Checks that ask outside are asked elsewhere.
pub fn judge_tool_call(guardrails: &[Arc<Guardrail>], arguments: &str) -> ToolCallJudged {
    let original = content_of_call(arguments);
    let mut current = original.clone();
    let mut failed = Vec::new();
    for (number, guardrail) in guardrails.iter().enumerate() {
        for check in guardrail.checks().iter().filter(|c| c.takes(Scan::Tool)) {
            let fails = match check.streaming() {
                Some(Streaming::Forbid(finder)) => {
                    let judged = if guardrail.actions().sequential { &current } else { &original };
                    texts(judged).any(|text| !matches!(finder.find(text, 0), Ok(None)))
                }
                Some(Streaming::Redact(finder)) => match redacted(&current, &*finder) {
                    Ok(content) => {
                        current = content.unwrap_or(current);
                        false
                    }
                    Err(_) => true,
                },
                Some(Streaming::AtMost { unit, most }) => {
                    texts(&original).map(|text| crate::checks::count(unit, text)).sum::<u64>() > most
                }
                Some(Streaming::Cased { upper }) => !texts(&original).all(|text| crate::checks::is_cased(text, upper)),
                Some(Streaming::Outside) | None => false,
            };
            if fails && !failed.contains(&number) {
                failed.push(number);
            }
        }
    }
    ToolCallJudged { arguments: arguments_of(&current, arguments), failed }
}

/// An answer that holds nothing but the call.
pub(super) fn content_of_call(arguments: &str) -> Content {
    let body = format!(
        "{{\"choices\":[{{\"message\":{{\"tool_calls\":[{{\"function\":{{\"arguments\":{}}}}}]}}}}]}}",
        quoted(arguments)
    );
    Content::new(body.into(), BodyShape::Chat, Direction::Output)
}

fn texts(content: &Content) -> impl Iterator<Item = &str> {
    content.parts().iter().filter(|p| p.scan == Scan::Tool).map(|p| &*p.text)
}

fn redacted(content: &Content, finder: &dyn crate::check::Finder) -> Result<Option<Content>, CheckError> {
    let selection = Selection { text: false, ..Selection::TEXT_AND_TOOL };
    let (mut seen, mut texts) = (ReplacedValues::default(), Vec::new());
    for at in content.chosen(selection) {
        if let Some(text) = redact(finder, &content.parts()[at].text, &mut seen)? {
            texts.push((at, text));
        }
    }
    Ok((!texts.is_empty()).then(|| content.with_texts(texts)))
}

/// The arguments within the answer that was made for them.
fn arguments_of(content: &Content, original: &str) -> String {
    let body = std::str::from_utf8(content.body()).unwrap_or_default();
    let tape = Tape::parse(body).ok();
    let found = tape.as_ref().and_then(|t| {
        let message = t.root()?.get("choices")?.elements().next()?.get("message")?;
        message.get("tool_calls")?.elements().next()?.get("function")?.get("arguments")?.text()
    });
    found.map_or_else(|| original.to_owned(), |text| text.into_owned())
}
