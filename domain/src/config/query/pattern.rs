//! One pattern of `$regex`: compiled without backtracking, so that it takes time linear in the text, and into a form
//! whose memory is known. There are faster forms; they take several times the memory, and keep more for each thread
//! that ever used them, which a tenant who writes patterns could make the gateway pay. Knows nothing of requests.

use crate::config::cost::PATTERN_MEMORY;
use regex_automata::meta::{self, Regex};
use regex_automata::{Input, MatchKind};
use regex_syntax::ast::{self, Ast, ClassSetItem};

#[derive(Debug)]
pub(super) struct QueryPattern(Regex);

pub(super) enum PatternRefusal {
    Syntax,
    TooLarge,
}

impl QueryPattern {
    pub(super) fn build(text: &str) -> Result<Self, PatternRefusal> {
        let config = meta::Config::new()
            .match_kind(MatchKind::LeftmostFirst)
            .nfa_size_limit(Some(PATTERN_MEMORY))
            .onepass(false)
            .dfa(false)
            .hybrid(false)
            .backtrack(false);
        let built = meta::Builder::new().configure(config).build(text);
        let regex = built
            .map_err(|e| if e.size_limit().is_some() { PatternRefusal::TooLarge } else { PatternRefusal::Syntax })?;
        if regex.memory_usage() > PATTERN_MEMORY { Err(PatternRefusal::TooLarge) } else { Ok(Self(regex)) }
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

/// How many classes of characters a pattern names; `None` when it cannot be read. Each is hundreds of ranges to be
/// sorted, before anything is known of the size of the whole.
pub(super) fn classes(pattern: &str) -> Option<usize> {
    struct ClassCount(usize);
    impl ast::Visitor for ClassCount {
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
    ast::visit(&ast, ClassCount(0)).ok()
}
