//! `contains` and `endsWith`: words as they stand, found by one automaton for all of them.

mod automaton;

pub(crate) use automaton::Stepping;

use super::{BuiltJudge, selection};
use crate::check::{Case, CheckOutcome, Finder, Judge, JudgeStep, ReplacedValues, Streaming, each_text, excerpt};
use crate::content::Selection;
use crate::parameters::Parameters;
use crate::pattern::StepLimit;
use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::json;
use std::ops::Range;
use std::sync::Arc;

const MOST_WORDS: usize = 10_000;
/// Bytes that the automaton may take.
const LARGEST: usize = 64 << 20;

/// Many words, found at once.
#[derive(Debug)]
pub(crate) struct WordFinder {
    automaton: AhoCorasick,
    words: Vec<String>,
    /// The words in the order of their bytes.
    sorted: Vec<String>,
    longest: usize,
    starts: Starts,
    stepping: Option<Arc<Stepping>>,
}

/// Bytes that words begin with, one and two of them: most places of a text are none.
#[derive(Debug)]
struct Starts {
    first: [bool; 256],
    /// A bit for each pair.
    pairs: Box<[u64; 1024]>,
}

impl Starts {
    fn of(words: &[String]) -> Self {
        let mut starts = Self { first: [false; 256], pairs: Box::new([0; 1024]) };
        for word in words.iter().map(String::as_bytes).filter(|word| word.len() > 1) {
            starts.first[usize::from(word[0])] = true;
            let pair = usize::from(u16::from_be_bytes([word[0], word[1]]));
            starts.pairs[pair / 64] |= 1 << (pair % 64);
        }
        starts
    }

    /// Whether a word that goes on may begin so; false is certain.
    fn may_begin(&self, start: &[u8]) -> bool {
        match start {
            [] => false,
            [one] => self.first[usize::from(*one)],
            [one, two, ..] => {
                let pair = usize::from(u16::from_be_bytes([*one, *two]));
                self.pairs[pair / 64] & (1 << (pair % 64)) != 0
            }
        }
    }
}

impl WordFinder {
    pub(crate) fn new(words: Vec<String>) -> Result<Self, String> {
        let built = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&words);
        let automaton = built.map_err(|e| format!("cannot be compiled: {e}"))?;
        if automaton.memory_usage() > LARGEST {
            return Err(format!("must compile to at most {LARGEST} bytes"));
        }
        let mut sorted = words.clone();
        sorted.sort_unstable();
        let longest = words.iter().map(String::len).max().unwrap_or(0);
        let starts = Starts::of(&words);
        let stepping = Stepping::new(&words).map(Arc::new);
        Ok(Self { automaton, words, sorted, longest, starts, stepping })
    }

    /// Whether a word begins with this and goes on.
    fn begins_a_word(&self, start: &[u8]) -> bool {
        if start.len() < 2 || !self.starts.may_begin(start) {
            // For one byte the table says all there is to say.
            return self.starts.may_begin(start);
        }
        let at = self.sorted.partition_point(|w| w.as_bytes() <= start);
        self.sorted.get(at).is_some_and(|w| w.as_bytes().starts_with(start))
    }
}

impl Finder for WordFinder {
    fn find(&self, text: &str, from: usize) -> Result<Option<Range<usize>>, StepLimit> {
        let input = aho_corasick::Input::new(text).range(from..);
        Ok(self.automaton.find(input).map(|m| m.range()))
    }

    fn replacement(&self, _: &str, _: Range<usize>, _: &mut ReplacedValues) -> String {
        String::new()
    }

    /// The longest end of the text that a word begins with.
    fn held(&self, text: &str, _overlap: usize) -> usize {
        let bytes = text.as_bytes();
        let most = self.longest.saturating_sub(1).min(bytes.len());
        (bytes.len() - most..bytes.len()).find(|at| self.begins_a_word(&bytes[*at..])).map_or(0, |at| bytes.len() - at)
    }

    fn holds_all(&self, _overlap: usize) -> bool {
        true
    }

    fn settles(&self) -> bool {
        true
    }

    fn stepping(&self) -> Option<Arc<Stepping>> {
        self.stepping.clone()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Any,
    All,
    None,
}

#[derive(Debug)]
struct Contains {
    finder: Arc<WordFinder>,
    operator: Operator,
    selection: Selection,
}

pub(super) fn contains(p: &Parameters<'_>) -> BuiltJudge {
    let words = p.required_texts("words", MOST_WORDS);
    let operator = match p.choice("operator", &["any", "all", "none"]) {
        "all" => Operator::All,
        "none" => Operator::None,
        _ => Operator::Any,
    };
    let default = if operator == Operator::None { Selection::TEXT_AND_TOOL } else { Selection::TEXT };
    let selection = selection(p, default);
    if words.iter().any(String::is_empty) {
        p.problem("words", "must not hold an empty word");
        return None;
    }
    let finder = WordFinder::new(words).map_err(|message| p.problem("words", message)).ok()?;
    Some(Box::new(Contains { finder: Arc::new(finder), operator, selection }))
}

impl Contains {
    fn one(&self, text: &str) -> CheckOutcome {
        let words = &self.finder.words;
        let mut is_there = vec![false; words.len()];
        let mut left = words.len();
        for found in self.finder.automaton.find_overlapping_iter(text) {
            let word = found.pattern().as_usize();
            left -= usize::from(!is_there[word]);
            is_there[word] = true;
            if left == 0 {
                break;
            }
        }
        let pick = |wanted: bool| -> Vec<&str> {
            words.iter().zip(&is_there).filter(|(_, there)| **there == wanted).map(|(w, _)| w.as_str()).collect()
        };
        let (found, missing) = (pick(true), pick(false));
        let (verdict, operator) = match self.operator {
            Operator::Any => (!found.is_empty(), "any"),
            Operator::All => (missing.is_empty(), "all"),
            Operator::None => (found.is_empty(), "none"),
        };
        let outcome = if verdict { "passed" } else { "failed" };
        let explanation = format!("The check {outcome}: {} of {} words were found", found.len(), words.len());
        let data =
            json!({"explanation": explanation, "foundWords": found, "missingWords": missing, "operator": operator});
        CheckOutcome::new(verdict, data)
    }
}

impl Judge for Contains {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        each_text(case, self.selection, true, |joined| self.one(&joined.text)).into()
    }

    fn selection(&self) -> Selection {
        self.selection
    }

    fn streaming(&self) -> Option<Streaming> {
        let finder = (self.operator == Operator::None).then(|| Arc::clone(&self.finder))?;
        Some(Streaming::Forbid(finder))
    }
}

#[derive(Debug)]
struct EndsWith {
    suffix: String,
    not: bool,
    selection: Selection,
}

pub(super) fn ends_with(p: &Parameters<'_>) -> BuiltJudge {
    let suffix = p.required_text("suffix").to_owned();
    Some(Box::new(EndsWith { suffix, not: p.flag("not", false), selection: selection(p, Selection::TEXT) }))
}

impl Judge for EndsWith {
    fn judge(&self, case: &Case<'_>) -> JudgeStep {
        let judge = |text: &str| {
            let ends =
                text.ends_with(&self.suffix) || text.strip_suffix('.').is_some_and(|t| t.ends_with(&self.suffix));
            let verdict = ends != self.not;
            let explanation = if ends { "The text ends so" } else { "The text does not end so" };
            let data = json!({"suffix": self.suffix, "not": self.not, "verdict": verdict, "explanation": explanation,
                "textExcerpt": excerpt(text)});
            CheckOutcome::new(verdict, data)
        };
        each_text(case, self.selection, false, |joined| judge(&joined.text)).into()
    }
}
