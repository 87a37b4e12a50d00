//! `alluppercase` and `alllowercase`: no letter of the other case, in any script that has cases.

use super::{BuiltJudge, selection};
use crate::check::{Case, CheckOutcome, Judge, JudgeStep, Streaming, each_text, excerpt};
use crate::content::Selection;
use crate::parameters::Parameters;
use serde_json::json;

#[derive(Debug)]
struct Cased {
    upper: bool,
    not: bool,
    selection: Selection,
}

pub(super) fn uppercase(p: &Parameters<'_>) -> BuiltJudge {
    Some(Box::new(Cased { upper: true, not: p.flag("not", false), selection: selection(p, Selection::TEXT) }))
}

pub(super) fn lowercase(p: &Parameters<'_>) -> BuiltJudge {
    Some(Box::new(Cased { upper: false, not: p.flag("not", false), selection: selection(p, Selection::TEXT) }))
}

/// Whether no letter of the text is of the other case.
pub(crate) fn is_cased(text: &str, upper: bool) -> bool {
    let other = |c: char| if upper { c.is_lowercase() } else { c.is_uppercase() };
    !text.chars().any(other)
}

impl Judge for Cased {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let judge = |text: &str| {
            let all = is_cased(text, self.upper);
            let verdict = all != self.not;
            let name = if self.upper { "uppercase" } else { "lowercase" };
            let explanation = match all {
                true => format!("All letters are {name}"),
                false => format!("Not all letters are {name}"),
            };
            let data =
                json!({"verdict": verdict, "not": self.not, "explanation": explanation, "textExcerpt": excerpt(text)});
            CheckOutcome::new(verdict, data)
        };
        each_text(case, self.selection, false, |joined| judge(&joined.text)).into()
    }

    fn selection(&self) -> Selection {
        self.selection
    }

    fn streaming(&self) -> Option<Streaming> {
        (!self.not).then_some(Streaming::Cased { upper: self.upper })
    }
}
