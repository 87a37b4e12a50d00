//! The usage object as OpenAI's chat completions spell it, to the byte: numbers between texts that never change. Most
//! answers have it, and so it is told by a comparison for each number. What is spelled in any other way is not read
//! here.

use super::{Details, OpenAiUsage};
use crate::wire::members::MemberCursor;

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

/// Adds what it says to a usage that says nothing yet, and goes on behind it. `None`: nothing was read.
pub(super) fn read(usage: &mut OpenAiUsage, at: &mut MemberCursor<'_>) -> Option<()> {
    let (mut ahead, mut numbers) = (at.clone(), [None; BEFORE.len()]);
    for (number, before) in numbers.iter_mut().zip(BEFORE) {
        ahead.skip(before)?;
        *number = Some(ahead.count().ok()??);
    }
    ahead.skip(BEHIND)?;
    let [prompt, completion, total, cached, audio_in, reasoning, audio_out, accepted, rejected] = numbers;
    (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) = (prompt, completion, total);
    let (mut into, mut out) = (Details::default(), Details::default());
    (into.cached_tokens, into.audio_tokens) = (cached, audio_in);
    (out.reasoning_tokens, out.audio_tokens) = (reasoning, audio_out);
    (out.accepted_prediction_tokens, out.rejected_prediction_tokens) = (accepted, rejected);
    (usage.prompt_tokens_details, usage.completion_tokens_details) = (Some(into), Some(out));
    *at = ahead;
    Some(())
}
