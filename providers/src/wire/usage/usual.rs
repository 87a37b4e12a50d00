//! The usage object as OpenAI's chat completions spell it, to the byte: numbers between texts that never change. Most
//! answers have it, and so it is told by a comparison for each number. What is spelled in any other way is not read here.

use super::{Details, OpenAiUsage};
use crate::wire::members::Members;

/// What stands before each number (<https://platform.openai.com/docs/api-reference/chat/object>).
const BEFORE: [&str; 9] = [
    r#"{"prompt_tokens":"#,
    r#","completion_tokens":"#,
    r#","total_tokens":"#,
    r#","prompt_tokens_details":{"cached_tokens":"#,
    r#","audio_tokens":"#,
    r#"},"completion_tokens_details":{"reasoning_tokens":"#,
    r#","audio_tokens":"#,
    r#","accepted_prediction_tokens":"#,
    r#","rejected_prediction_tokens":"#,
];
const BEHIND: &str = "}}";
/// Digits that fit into a number for sure.
const MOST_DIGITS: usize = 18;

/// Adds what it says to a usage that says nothing yet, and goes on behind it. `None`: nothing was read.
pub(super) fn read(usage: &mut OpenAiUsage, at: &mut Members<'_>) -> Option<()> {
    let (mut text, mut numbers) = (at.rest(), [0; BEFORE.len()]);
    for (number, before) in numbers.iter_mut().zip(BEFORE) {
        let behind = text.strip_prefix(before)?;
        let (read, length) = count(behind.as_bytes())?;
        (*number, text) = (read, behind.get(length..)?);
    }
    let rest = text.strip_prefix(BEHIND)?;
    let [prompt, completion, total, cached, audio_in, reasoning, audio_out, accepted, rejected] = numbers.map(Some);
    (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) = (prompt, completion, total);
    let (mut into, mut out) = (Details::default(), Details::default());
    (into.cached_tokens, into.audio_tokens) = (cached, audio_in);
    (out.reasoning_tokens, out.audio_tokens) = (reasoning, audio_out);
    (out.accepted_prediction_tokens, out.rejected_prediction_tokens) = (accepted, rejected);
    (usage.prompt_tokens_details, usage.completion_tokens_details) = (Some(into), Some(out));
    at.go_on(rest);
    Some(())
}

/// The number that `text` begins with, and its digits.
fn count(text: &[u8]) -> Option<(u64, usize)> {
    let (mut number, mut length) = (0, 0);
    while let Some(digit) = text.get(length).filter(|byte| byte.is_ascii_digit()) {
        number = number * 10 + u64::from(digit - b'0');
        length += 1;
        if length > MOST_DIGITS {
            return None;
        }
    }
    (length > 0).then_some((number, length))
}
