//! `moderateContent`: the categories of OpenAI's moderations, asked of a provider of the workspace that serves them.

use super::{BuiltJudge, selection};
use crate::check::{Case, CheckError, CheckOutcome, Judge, JudgeStep};
use crate::content::Selection;
use crate::external_call::{CheckQuery, CheckReply};
use crate::parameters::Parameters;
use serde_json::{Value, json};

/// <https://platform.openai.com/docs/guides/moderation>, those of text.
const CATEGORIES: &[&str] = &[
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "self-harm",
    "self-harm/instructions",
    "self-harm/intent",
    "sexual",
    "sexual/minors",
    "violence",
    "violence/graphic",
];

#[derive(Debug)]
struct Moderation {
    categories: Vec<String>,
    not: bool,
    timeout_ms: u32,
    selection: Selection,
}

pub(super) fn make(p: &Parameters<'_>) -> BuiltJudge {
    let categories = p.required_texts("categories", CATEGORIES.len());
    for category in categories.iter().filter(|c| !CATEGORIES.contains(&c.as_str())) {
        p.problem("categories", format!("must not hold `{category}`; known are: {}", CATEGORIES.join(", ")));
    }
    let timeout_ms = p.number("timeout", 5_000, 1..=60_000) as u32;
    let (not, selection) = (p.flag("not", false), selection(p, Selection::TEXT_AND_TOOL));
    Some(Box::new(Moderation { categories, not, timeout_ms, selection }))
}

impl Judge for Moderation {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        if let Some(why) = case.content.unreadable() {
            return CheckError::closed("UnreadableBody", format!("The body {why}")).into();
        }
        let joined = case.content.joined(self.selection);
        let texts: Vec<&str> = joined.iter().map(|j| j.text.as_str()).filter(|t| !t.is_empty()).collect();
        if texts.is_empty() {
            return CheckError::missing_text().into();
        }
        let body = json!({"input": texts}).to_string().into();
        JudgeStep::Ask(vec![CheckQuery::Moderation { body, timeout_ms: self.timeout_ms }])
    }

    fn read(&self, _: &Case<'_>, answers: &[CheckReply]) -> JudgeStep {
        let body = match answers.first() {
            Some(CheckReply::Reply { status, body }) if (200..300).contains(status) => body,
            Some(CheckReply::Reply { status, .. }) => {
                return CheckError::open("HttpError", format!("The moderation answered with status {status}")).into();
            }
            Some(CheckReply::Failed(failure)) => return CheckError::from(failure).into(),
            _ => return CheckError::open("Error", "The moderation gave no answer").into(),
        };
        let reply: Value = serde_json::from_slice(body).unwrap_or_default();
        let Some(results) = reply.get("results").and_then(Value::as_array).filter(|r| !r.is_empty()) else {
            return CheckError::open("InvalidReply", "The moderation's reply holds no results").into();
        };
        let is_flagged = |c: &String| results.iter().any(|r| r["categories"][c.as_str()] == Value::Bool(true));
        let flagged: Vec<&String> = self.categories.iter().filter(|c| is_flagged(c)).collect();
        let verdict = flagged.is_empty() != self.not;
        let explanation = match flagged.len() {
            0 => "None of the categories was flagged".to_owned(),
            n => format!("{n} of the categories were flagged"),
        };
        let data = json!({"verdict": verdict, "not": self.not, "explanation": explanation,
            "restrictedCategories": self.categories, "flaggedCategories": flagged});
        CheckOutcome::new(verdict, data).into()
    }
}
