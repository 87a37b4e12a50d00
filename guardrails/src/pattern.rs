//! Regular expressions as ECMAScript writes them, compiled once and run in bounded time. What has neither look-around
//! nor back references runs in linear time; the rest backtracks under a step limit. Knows nothing of guardrails.

mod class;
mod template;
mod translate;

pub(crate) use template::ReplacementTemplate;

use std::ops::Range;

/// Steps of backtracking that one search may take: about a millisecond. Each place of a text where nothing is found
/// takes one, so that texts beyond `LONG` bytes need more.
const STEPS: usize = 50_000;
const STEPS_IN_LONG: usize = 100_000;
const LONG: usize = 16 * 1024;
/// Longer texts are not searched: a step may read the text to its end, and that often is too long.
const LONGEST_TEXT: usize = 32 * 1024;
/// Bytes that a compiled pattern may take; the smallest of these that is enough is what it is weighed as.
const SIZE: usize = 1 << 20;
const SIZES: [usize; 4] = [16 << 10, 64 << 10, 256 << 10, SIZE];
/// Bytes of a pattern as it is written.
pub(crate) const LONGEST: usize = 16 * 1024;

/// What the letters behind `/…/` may ask for; `g` and `d` change nothing here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PatternFlags {
    pub(crate) ignore_case: bool,
    pub(crate) multi_line: bool,
    pub(crate) dot_all: bool,
    pub(crate) unicode: bool,
}

impl PatternFlags {
    pub(crate) fn parse(letters: &str) -> Result<Self, BadPattern> {
        let mut flags = Self::default();
        for (at, letter) in letters.char_indices() {
            if letters[..at].contains(letter) {
                return Err(BadPattern(format!("names the flag `{letter}` twice")));
            }
            match letter {
                'g' | 'd' => {}
                'i' => flags.ignore_case = true,
                'm' => flags.multi_line = true,
                's' => flags.dot_all = true,
                'u' => flags.unicode = true,
                'y' => return Err(BadPattern("must not be sticky (`y`): every match is replaced".into())),
                _ => return Err(BadPattern(format!("has the unknown flag `{letter}`"))),
            }
        }
        Ok(flags)
    }
}

/// Why a pattern is refused, as what the field "must" or "has": `has an unclosed group`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadPattern(pub(crate) String);

/// A search that took more steps than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepLimit;

/// How much of a text a match can take in, which says what a stream has to hold back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchReach {
    /// Bytes, those included that stand beside a match and decide on it.
    Within(usize),
    Unknown,
}

#[derive(Debug)]
enum RegexEngine {
    Linear(regex::Regex),
    /// A regex for texts of ordinary length and one for long ones, each with its step limit. Groups cost much more, so
    /// they are asked for only where a match is known to begin.
    Stepwise {
        short: Box<fancy_regex::Regex>,
        long: Box<fancy_regex::Regex>,
        groups: Box<fancy_regex::Regex>,
    },
}

#[derive(Debug)]
pub(crate) struct Pattern {
    source: Box<str>,
    engine: RegexEngine,
    /// Names of the groups from the first on.
    names: Vec<Option<Box<str>>>,
    reach: MatchReach,
    /// It has neither assertions nor look-around: what it matches it matches wherever that stands.
    is_plain: bool,
    memory: usize,
}

/// The ranges of a match: the whole, then its groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Groups(pub(crate) Vec<Option<Range<usize>>>);

impl Groups {
    pub(crate) fn whole(&self) -> Range<usize> {
        self.0.first().cloned().flatten().unwrap_or(0..0)
    }
}

impl Pattern {
    pub(crate) fn compile(source: &str, flags: PatternFlags) -> Result<Self, BadPattern> {
        if source.len() > LONGEST {
            return Err(BadPattern(format!("must have at most {LONGEST} bytes")));
        }
        let translated = translate::translate(source, flags)?;
        if translated.stepwise {
            let (engine, names) = (stepwise(&translated)?, translated.names);
            let (reach, is_plain, memory) = (MatchReach::Unknown, false, 3 * SIZES[1]);
            return Ok(Self { source: source.into(), engine, names, reach, is_plain, memory });
        }
        let (Weighed { engine, memory }, names) = (linear(&translated.text)?, translated.names);
        let hir = regex_syntax::Parser::new().parse(&translated.text);
        let hir = hir.map_err(|e| BadPattern(last_line(&e.to_string()).to_owned()))?;
        let is_plain = hir.properties().look_set().is_empty();
        // An assertion at the end of a match reads the character behind it.
        let beside = if is_plain { 0 } else { 4 };
        let reach =
            hir.properties().maximum_len().map_or(MatchReach::Unknown, |longest| MatchReach::Within(longest + beside));
        Ok(Self { source: source.into(), engine, names, reach, is_plain, memory })
    }

    /// About how many bytes it takes, and not less.
    pub(crate) const fn memory(&self) -> usize {
        self.memory
    }

    /// The pattern as it was written.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) const fn reach(&self) -> MatchReach {
        self.reach
    }

    /// Whether a match stays one whatever follows it.
    pub(crate) const fn is_plain(&self) -> bool {
        self.is_plain
    }

    pub(crate) fn names(&self) -> &[Option<Box<str>>] {
        &self.names
    }

    /// The first match from `from` on; what stands before is seen by `^`, `\b` and look-behind.
    pub(crate) fn find_at(&self, text: &str, from: usize) -> Result<Option<Range<usize>>, StepLimit> {
        match &self.engine {
            RegexEngine::Linear(regex) => Ok(regex.find_at(text, from).map(|m| m.range())),
            RegexEngine::Stepwise { short, long, .. } => {
                if text.len() > LONGEST_TEXT {
                    return Err(StepLimit);
                }
                let regex = if text.len() > LONG { long } else { short };
                let found = regex.find_from_pos(text, from).map_err(|_| StepLimit)?;
                Ok(found.map(|m| m.start()..m.end()))
            }
        }
    }

    pub(crate) fn is_match(&self, text: &str) -> Result<bool, StepLimit> {
        match &self.engine {
            RegexEngine::Linear(regex) => Ok(regex.is_match(text)),
            RegexEngine::Stepwise { .. } => Ok(self.find_at(text, 0)?.is_some()),
        }
    }

    pub(crate) fn groups_at(&self, text: &str, from: usize) -> Result<Option<Groups>, StepLimit> {
        match &self.engine {
            RegexEngine::Linear(regex) => {
                let found = regex.captures_at(text, from);
                Ok(found.map(|c| Groups(c.iter().map(|g| g.map(|m| m.range())).collect())))
            }
            RegexEngine::Stepwise { groups, .. } => {
                let Some(found) = self.find_at(text, from)? else { return Ok(None) };
                let found = groups.captures_from_pos(text, found.start).map_err(|_| StepLimit)?;
                Ok(found.map(|c| Groups((0..c.len()).map(|i| c.get(i).map(|m| m.start()..m.end())).collect())))
            }
        }
    }
}

/// A pattern as it runs, and what it takes.
struct Weighed {
    engine: RegexEngine,
    memory: usize,
}

fn linear(text: &str) -> Result<Weighed, BadPattern> {
    for memory in SIZES {
        match regex::RegexBuilder::new(text).size_limit(memory).dfa_size_limit(SIZE).build() {
            Ok(regex) => return Ok(Weighed { engine: RegexEngine::Linear(regex), memory }),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(other) => return Err(BadPattern(format!("cannot be compiled: {}", last_line(&other.to_string())))),
        }
    }
    Err(BadPattern(format!("must compile to at most {SIZE} bytes")))
}

fn stepwise(translated: &translate::TranslatedPattern) -> Result<RegexEngine, BadPattern> {
    let build = |text: &str, steps: usize| {
        let mut builder = fancy_regex::RegexBuilder::new(text);
        builder.backtrack_limit(steps).delegate_size_limit(SIZE).delegate_dfa_size_limit(SIZE);
        let built = builder.build();
        built.map(Box::new).map_err(|e| BadPattern(format!("cannot be compiled: {}", last_line(&e.to_string()))))
    };
    let search = translated.without_groups.as_deref().unwrap_or(&translated.text);
    Ok(RegexEngine::Stepwise {
        short: build(search, STEPS)?,
        long: build(search, STEPS_IN_LONG)?,
        groups: build(&translated.text, STEPS_IN_LONG)?,
    })
}

/// Engines draw the pattern with a caret below it; the reason stands in the last line.
fn last_line(message: &str) -> &str {
    let line = message.lines().rfind(|l| !l.trim().is_empty()).unwrap_or(message);
    line.trim_start_matches("error: ")
}

#[cfg(test)]
mod tests;
