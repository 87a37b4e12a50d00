//! `pii`: personal data that can be told by its form, found in process. What needs an analyser is refused by name.

mod recogniser;

use super::{BuiltJudge, redact_parts, selection};
use crate::check::{Case, CheckOutcome, Finder, Judge, JudgeStep, Streaming};
use crate::content::{Rewrite, Selection};
use crate::parameters::Parameters;
use recogniser::{Category, Recognisers};
use serde_json::json;
use std::sync::Arc;

const ANALYSED: &[&str] = &["NAME", "LOCATION_ADDRESS"];

#[derive(Debug)]
struct Pii {
    finder: Arc<Recognisers>,
    categories: Vec<Category>,
    redacts: bool,
    not: bool,
    selection: Selection,
}

pub(super) fn make(p: &Parameters<'_>) -> BuiltJudge {
    let mut categories = Vec::new();
    for name in p.required_texts("categories", 50) {
        match Category::parse(&name) {
            Some(category) if !categories.contains(&category) => categories.push(category),
            Some(_) => {}
            None if ANALYSED.contains(&name.as_str()) => {
                p.problem("categories", format!("must not hold `{name}`, which needs an analyser"));
            }
            None => {
                let known: Vec<&str> = Category::ALL.iter().map(|c| c.name()).collect();
                p.problem("categories", format!("must not hold `{name}`; known are: {}", known.join(", ")));
            }
        }
    }
    let (redacts, not) = (p.flag("redact", false), p.flag("not", false));
    let selection = selection(p, Selection::TEXT_AND_TOOL);
    if categories.is_empty() {
        return None;
    }
    let finder = Recognisers::new(&categories).map_err(|bad| p.problem("categories", bad.0)).ok()?;
    Some(Box::new(Pii { finder: Arc::new(finder), categories, redacts, not, selection }))
}

impl Judge for Pii {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let texts = match redact_parts(case, self.selection, &*self.finder) {
            Ok(texts) => texts,
            Err(error) => return error.into(),
        };
        // What was found is told by category only: results are kept, and shown.
        let mut found: Vec<&str> = Vec::new();
        for at in texts.iter().map(|(at, _)| *at) {
            let text = &case.content.parts()[at].text;
            let mut from = 0;
            while let Ok(Some(range)) = self.finder.find(text, from) {
                let name = self.finder.category(text, &range).map_or("", Category::name);
                if !found.contains(&name) {
                    found.push(name);
                }
                from = range.end;
            }
        }
        let detected = !texts.is_empty();
        let redacted = detected && self.redacts;
        let verdict = redacted || detected == self.not;
        let explanation = match (detected, redacted) {
            (true, true) => "Personal data was found and replaced",
            (true, false) => "Personal data was found",
            (false, _) => "No personal data was found",
        };
        let wanted: Vec<&str> = self.categories.iter().map(|c| c.name()).collect();
        let data = json!({"verdict": verdict, "not": self.not, "explanation": explanation, "categories": wanted,
            "detectedCategories": found, "redacted": redacted});
        let rewrite = redacted.then_some(Rewrite::Texts(texts));
        CheckOutcome::rewriting(verdict, data, rewrite).into()
    }

    fn rewrites(&self) -> bool {
        self.redacts
    }

    fn selection(&self) -> Selection {
        self.selection
    }

    fn streaming(&self) -> Option<Streaming> {
        let finder = Arc::clone(&self.finder);
        match (self.redacts, self.not) {
            (true, _) => Some(Streaming::Redact(finder)),
            (false, false) => Some(Streaming::Forbid(finder)),
            (false, true) => None,
        }
    }
}
