//! `notNull`: something was said at all. Calls of tools are something.

use super::{BuiltJudge, selection};
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep};
use crate::content::Selection;
use crate::parameters::Parameters;
use serde_json::json;

#[derive(Debug)]
struct NotNull {
    not: bool,
    selection: Selection,
}

pub(super) fn not_null(p: &Parameters<'_>) -> BuiltJudge {
    Some(Box::new(NotNull { not: p.flag("not", false), selection: selection(p, Selection::TEXT) }))
}

impl Judge for NotNull {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        if let Some(why) = case.content.unreadable() {
            return CheckError::closed("UnreadableBody", format!("The body {why}")).into();
        }
        let joined = case.content.joined(self.selection);
        let parts: usize = joined.iter().map(|j| j.parts.len()).sum();
        let has_text = joined.iter().any(|j| !j.text.trim().is_empty());
        let is_null = !has_text && !case.content.has_tool_calls();
        let content_type = match (has_text, case.content.has_tool_calls(), parts) {
            (true, ..) => "text",
            (false, true, _) => "tool_calls",
            (false, false, 0) => "null",
            (false, false, _) => "empty",
        };
        let verdict = is_null == self.not;
        let explanation = if is_null { "There is no content" } else { "There is content" };
        let data = json!({"isNull": is_null, "contentType": content_type, "textArrayLength": parts,
            "not": self.not, "verdict": if verdict { "passed" } else { "failed" }, "explanation": explanation});
        CheckOutcome::new(verdict, data).into()
    }
}
