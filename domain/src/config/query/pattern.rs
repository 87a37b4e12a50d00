//! One pattern of `$regex`: compiled without backtracking, so that it takes time linear in the text, and into a form
//! whose memory is known. There are faster forms; they take several times the memory, and keep more for each thread
//! that ever used them, which a tenant who writes patterns could make the gateway pay. Knows nothing of requests.

use crate::config::cost::{Cost, PATTERN_MEMORY, PATTERN_TEXT};
use crate::config::fields::Compiler;
use crate::config::read::At;
use regex_automata::meta::{self, Regex};
use regex_automata::{Input, MatchKind};
use regex_syntax::ast::{self, Ast, ClassSetItem};
use serde_json::Value;

#[derive(Debug)]
pub(super) struct Pattern(Regex);

enum Refusal {
    Syntax,
    TooLarge,
}

impl Pattern {
    fn build(text: &str) -> Result<Self, Refusal> {
        let config = meta::Config::new()
            .match_kind(MatchKind::LeftmostFirst)
            .nfa_size_limit(Some(PATTERN_MEMORY))
            .onepass(false)
            .dfa(false)
            .hybrid(false)
            .backtrack(false);
        let built = meta::Builder::new().configure(config).build(text);
        let regex = built.map_err(|e| if e.size_limit().is_some() { Refusal::TooLarge } else { Refusal::Syntax })?;
        if regex.memory_usage() > PATTERN_MEMORY { Err(Refusal::TooLarge) } else { Ok(Self(regex)) }
    }

    /// Bytes that it takes.
    pub(super) fn memory(&self) -> usize {
        self.0.memory_usage()
    }

    /// What a search needs beside the pattern is made for each and let go: nothing is kept for a thread.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.0.search_half_with(&mut self.0.create_cache(), &Input::new(text).earliest(true)).is_some()
    }
}

impl Compiler<'_> {
    /// A pattern that cannot be built would silently never match, so it is told instead.
    pub(super) fn pattern(&mut self, at: &At<'_>, value: &Value) -> Option<Pattern> {
        let rule = "must be a regular expression without look-around or back-references";
        let Some(text) = value.as_str() else {
            self.here(at, rule);
            return None;
        };
        if text.len() > PATTERN_TEXT {
            self.here(at, format!("must be a pattern of at most {PATTERN_TEXT} bytes"));
            return None;
        }
        let Some(classes) = classes(text) else {
            self.here(at, rule);
            return None;
        };
        // Each is asked, so that a bound once passed ends all that comes behind it.
        let within = self.spend(at, Cost::Patterns, 1) & self.spend(at, Cost::Classes, classes);
        if !within || !self.spend(at, Cost::PatternMemory, 0) {
            return None;
        }
        match Pattern::build(text) {
            Ok(pattern) => self.spend(at, Cost::PatternMemory, pattern.memory()).then_some(pattern),
            Err(refusal) => {
                match refusal {
                    Refusal::Syntax => self.here(at, rule),
                    Refusal::TooLarge => {
                        let most = PATTERN_MEMORY >> 10;
                        self.here(at, format!("is too large a pattern: it takes more than {most} KiB once compiled"));
                    }
                }
                // What was refused was work all the same.
                self.spend(at, Cost::PatternMemory, PATTERN_MEMORY);
                None
            }
        }
    }
}

/// How many classes of characters a pattern names; `None` when it cannot be read. Each is hundreds of ranges to be
/// sorted, before anything is known of the size of the whole.
fn classes(pattern: &str) -> Option<usize> {
    struct Count(usize);
    impl ast::Visitor for Count {
        type Output = usize;
        type Err = ();

        fn finish(self) -> Result<usize, ()> {
            Ok(self.0)
        }

        fn visit_pre(&mut self, ast: &Ast) -> Result<(), ()> {
            self.0 += usize::from(matches!(ast, Ast::ClassUnicode(_) | Ast::ClassPerl(_)));
            Ok(())
        }

        fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), ()> {
            self.0 += usize::from(matches!(item, ClassSetItem::Unicode(_) | ClassSetItem::Perl(_)));
            Ok(())
        }
    }
    let ast = ast::parse::Parser::new().parse(pattern).ok()?;
    ast::visit(&ast, Count(0)).ok()
}
