//! `sentenceCount`, `wordCount` and `characterCount`: how much text there is.

use super::{BuiltJudge, selection};
use crate::check::{Case, CheckOutcome, Judge, JudgeStep, Streaming, TextUnit, each_text, excerpt};
use crate::content::Selection;
use crate::parameters::Parameters;
use serde_json::{Map, Value};

const MOST: u64 = 1 << 53;

#[derive(Debug)]
struct CountCheck {
    unit: TextUnit,
    /// The name of the count in the data.
    name: &'static str,
    least: u64,
    most: u64,
    not: bool,
    selection: Selection,
}

pub(super) fn sentences(p: &Parameters<'_>) -> BuiltJudge {
    make(
        p,
        TextUnit::Sentences,
        "sentenceCount",
        p.number("minSentences", 0, 0..=MOST),
        p.number("maxSentences", 99_999, 0..=MOST),
    )
}

pub(super) fn words(p: &Parameters<'_>) -> BuiltJudge {
    make(p, TextUnit::Words, "wordCount", p.number("minWords", 0, 0..=MOST), p.number("maxWords", 99_999, 0..=MOST))
}

pub(super) fn characters(p: &Parameters<'_>) -> BuiltJudge {
    let (least, most) = (p.number("minCharacters", 0, 0..=MOST), p.number("maxCharacters", 9_999_999, 0..=MOST));
    make(p, TextUnit::Characters, "characterCount", least, most)
}

fn make(p: &Parameters<'_>, unit: TextUnit, name: &'static str, least: u64, most: u64) -> BuiltJudge {
    if least > most {
        let upper = match unit {
            TextUnit::Sentences => "maxSentences",
            TextUnit::Words => "maxWords",
            TextUnit::Characters => "maxCharacters",
        };
        p.problem(upper, "must not be below the minimum");
    }
    let not = p.flag("not", false);
    Some(Box::new(CountCheck { unit, name, least, most, not, selection: selection(p, Selection::TEXT) }))
}

/// Characters are those of Unicode; a word is what white space sets apart.
pub(crate) fn count(unit: TextUnit, text: &str) -> u64 {
    let found = match unit {
        TextUnit::Sentences => text.bytes().filter(|b| matches!(b, b'.' | b'!' | b'?')).count(),
        TextUnit::Words => text.split_whitespace().count(),
        TextUnit::Characters => text.chars().count(),
    };
    found as u64
}

impl CountCheck {
    fn one(&self, text: &str) -> CheckOutcome {
        let found = count(self.unit, text);
        let within = (self.least..=self.most).contains(&found);
        let verdict = within != self.not;
        let (least_name, most_name) = match self.unit {
            TextUnit::Sentences => ("minCount", "maxCount"),
            TextUnit::Words => ("minWords", "maxWords"),
            TextUnit::Characters => ("minCharacters", "maxCharacters"),
        };
        let side = if within { "within" } else { "outside" };
        let mut data = Map::new();
        data.insert(self.name.into(), Value::from(found));
        data.insert(least_name.into(), Value::from(self.least));
        data.insert(most_name.into(), Value::from(self.most));
        data.insert("not".into(), Value::from(self.not));
        data.insert("verdict".into(), Value::from(verdict));
        let explanation = format!("The count of {found} is {side} {}..{}", self.least, self.most);
        data.insert("explanation".into(), Value::from(explanation));
        data.insert("textExcerpt".into(), Value::from(excerpt(text)));
        CheckOutcome::new(verdict, Value::Object(data))
    }
}

impl Judge for CountCheck {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        // No text has no sentences, which is a count like any other.
        let empty_is_text = self.unit == TextUnit::Sentences;
        each_text(case, self.selection, empty_is_text, |joined| self.one(&joined.text)).into()
    }

    fn selection(&self) -> Selection {
        self.selection
    }

    fn streaming(&self) -> Option<Streaming> {
        (self.least == 0 && !self.not).then_some(Streaming::AtMost { unit: self.unit, most: self.most })
    }
}
