//! `regexMatch` and `regexReplace`: patterns that must or must not be found, and patterns that are replaced.

use super::{BuiltJudge, selection};
use crate::Direction;
use crate::check::{
    Case, CheckError, CheckOutcome, Finder, Judge, JudgeStep, ReplacedValues, Streaming, each_text, excerpt, redact,
};
use crate::content::{Rewrite, Scan, Selection};
use crate::parameters::Parameters;
use crate::pattern::{Groups, MatchReach, Pattern, PatternFlags, ReplacementTemplate, StepLimit};
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::sync::Arc;

/// Groups of a match that results tell of.
const MOST_GROUPS: usize = 100;

/// A pattern, and what takes the place of its matches.
#[derive(Debug)]
pub(crate) struct PatternFinder {
    pattern: Pattern,
    template: ReplacementTemplate,
}

impl PatternFinder {
    pub(crate) fn new(pattern: Pattern, template: &str) -> Self {
        let template = ReplacementTemplate::parse(template, &pattern);
        Self { pattern, template }
    }
}

impl Finder for PatternFinder {
    fn find(&self, text: &str, from: usize) -> Result<Option<Range<usize>>, StepLimit> {
        self.pattern.find_at(text, from)
    }

    fn replacement(&self, text: &str, found: Range<usize>, _: &mut ReplacedValues) -> String {
        let groups = match self.template.has_groups() {
            true => self.pattern.groups_at(text, found.start).ok().flatten(),
            false => None,
        };
        self.template.expand(text, &groups.unwrap_or_else(|| Groups(vec![Some(found)])))
    }

    fn held(&self, text: &str, overlap: usize) -> usize {
        match self.pattern.reach() {
            MatchReach::Within(reach) => reach.saturating_sub(1).min(overlap),
            MatchReach::Unknown => overlap,
        }
        .min(text.len())
    }

    fn holds_all(&self, overlap: usize) -> bool {
        matches!(self.pattern.reach(), MatchReach::Within(reach) if reach.saturating_sub(1) <= overlap)
    }

    fn settles(&self) -> bool {
        self.pattern.is_plain()
    }
}

#[derive(Debug)]
struct RegexMatch {
    finder: Arc<PatternFinder>,
    not: bool,
    selection: Selection,
}

pub(super) fn regex_match(p: &Parameters<'_>) -> BuiltJudge {
    let not = p.flag("not", false);
    let selection = selection(p, if not { Selection::TEXT_AND_TOOL } else { Selection::TEXT });
    let finder = Arc::new(PatternFinder::new(p.pattern("rule")?, ""));
    Some(Box::new(RegexMatch { finder, not, selection }))
}

impl RegexMatch {
    fn one(&self, text: &str) -> CheckOutcome {
        let pattern = &self.finder.pattern;
        let groups = match pattern.groups_at(text, 0) {
            Ok(groups) => groups,
            Err(limit) => {
                let data = json!({"explanation": "The text could not be searched", "regexPattern": pattern.source(),
                    "not": self.not, "textExcerpt": excerpt(text)});
                return CheckOutcome::failed(limit.into()).with_data(data);
            }
        };
        let verdict = groups.is_some() != self.not;
        let explanation = match (groups.is_some(), self.not) {
            (true, false) => "The pattern was found",
            (true, true) => "The pattern was found and must not be there",
            (false, false) => "The pattern was not found",
            (false, true) => "The pattern was not found, as it should be",
        };
        let data = json!({
            "regexPattern": pattern.source(), "not": self.not, "verdict": verdict, "explanation": explanation,
            "matchDetails": groups.map(|g| details(pattern, text, &g)), "textExcerpt": excerpt(text),
        });
        CheckOutcome::new(verdict, data)
    }
}

/// A match as ECMAScript tells of it; the index counts UTF-16 units as there.
fn details(pattern: &Pattern, text: &str, groups: &Groups) -> Value {
    let at = |range: &Option<Range<usize>>| range.clone().and_then(|r| text.get(r));
    let whole = groups.whole();
    let captures: Vec<Option<&str>> = groups.0.iter().skip(1).take(MOST_GROUPS).map(at).collect();
    let mut named = Map::new();
    for (name, capture) in pattern.names().iter().zip(&captures) {
        if let (Some(name), Some(capture)) = (name, capture) {
            named.insert(name.to_string(), Value::from(*capture));
        }
    }
    json!({
        "matchedText": &text[whole.clone()], "index": text[..whole.start].encode_utf16().count(),
        "groups": named, "captures": captures,
    })
}

impl Judge for RegexMatch {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        each_text(case, self.selection, false, |joined| self.one(&joined.text)).into()
    }

    fn selection(&self) -> Selection {
        self.selection
    }

    fn streaming(&self) -> Option<Streaming> {
        let finder = self.not.then(|| Arc::clone(&self.finder))?;
        Some(Streaming::Forbid(finder))
    }
}

#[derive(Debug)]
struct RegexReplace {
    finder: Arc<PatternFinder>,
    rule: String,
    fails_on_detection: bool,
    selection: Selection,
}

pub(super) fn regex_replace(p: &Parameters<'_>) -> BuiltJudge {
    let rule = p.required_text("rule");
    let redacted = p.text("redactText").unwrap_or("[REDACTED]");
    let fails_on_detection = p.flag("failOnDetection", false);
    let selection = selection(p, Selection::TEXT_AND_TOOL);
    if rule.is_empty() {
        return None;
    }
    let (source, flags) = match delimited(rule) {
        None => (rule, PatternFlags::default()),
        Some((source, letters)) => match PatternFlags::parse(letters) {
            Ok(flags) => (source, flags),
            Err(bad) => {
                p.problem("rule", bad.0);
                return None;
            }
        },
    };
    let finder = Arc::new(PatternFinder::new(p.compiled("rule", source, flags)?, redacted));
    Some(Box::new(RegexReplace { finder, rule: rule.to_owned(), fails_on_detection, selection }))
}

/// `/pattern/flags` taken apart.
fn delimited(rule: &str) -> Option<(&str, &str)> {
    let (source, flags) = rule.strip_prefix('/')?.rsplit_once('/')?;
    let is_flags = flags.len() <= 8 && flags.bytes().all(|b| b.is_ascii_lowercase());
    (is_flags && !source.is_empty()).then_some((source, flags))
}

impl Judge for RegexReplace {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let texts = match redact_parts(case, self.selection, &*self.finder) {
            Ok(texts) => texts,
            Err(error) => return error.into(),
        };
        let found = !texts.is_empty();
        let verdict = !(found && self.fails_on_detection);
        let explanation = match (found, self.fails_on_detection) {
            (true, true) => "The pattern was found and must not be there",
            (true, false) => "The pattern was found and replaced",
            (false, _) => "The pattern was not found",
        };
        let data = json!({"regexPattern": self.rule, "verdict": verdict, "explanation": explanation});
        let rewrite = found.then_some(Rewrite::Texts(texts));
        CheckOutcome::rewriting(verdict, data, rewrite).into()
    }

    fn rewrites(&self) -> bool {
        true
    }

    fn selection(&self) -> Selection {
        self.selection
    }

    fn streaming(&self) -> Option<Streaming> {
        let finder = Arc::clone(&self.finder);
        Some(if self.fails_on_detection { Streaming::Forbid(finder) } else { Streaming::Redact(finder) })
    }
}

/// Redacts each chosen part; gives those that changed. Equal values are replaced alike within a request, and within
/// each text, reasoning and call of an answer, since on a stream these come by themselves.
pub(crate) fn redact_parts(
    case: &Case<'_>,
    selection: Selection,
    finder: &dyn Finder,
) -> Result<Vec<(usize, String)>, CheckError> {
    let content = case.content;
    if let Some(why) = content.unreadable() {
        return Err(CheckError::closed("UnreadableBody", format!("The body {why}")));
    }
    let chosen = content.chosen(selection);
    if chosen.iter().all(|at| content.parts()[*at].text.is_empty()) {
        return Err(CheckError::missing_text());
    }
    let mut lanes: Vec<(RedactionScope, ReplacedValues)> = Vec::new();
    let mut texts = Vec::new();
    for at in chosen {
        let part = &content.parts()[at];
        let lane = match content.direction() {
            Direction::Input => RedactionScope::Request,
            Direction::Output if part.scan == Scan::Tool => RedactionScope::Call(part.place.outer.start),
            Direction::Output => RedactionScope::Text(part.group, part.scan == Scan::Reasoning),
        };
        let index = lanes.iter().position(|(l, _)| *l == lane).unwrap_or_else(|| {
            lanes.push((lane, ReplacedValues::default()));
            lanes.len() - 1
        });
        if let Some(text) = redact(finder, &part.text, &mut lanes[index].1)? {
            texts.push((at, text));
        }
    }
    Ok(texts)
}

#[derive(PartialEq, Eq)]
enum RedactionScope {
    Request,
    Text(u32, bool),
    Call(usize),
}
