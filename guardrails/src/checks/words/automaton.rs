//! Words found in a text that comes in pieces, each byte of it looked at once: what stands at the end of a piece is one
//! number. For lists that a table can be made of; longer ones are looked for again with each piece.

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind, StartKind};

/// Bytes of all words together. The table takes at most a thousand times as many.
const MOST: usize = 4 * 1024;

#[derive(Debug)]
pub(crate) struct Stepping {
    table: DFA,
    start: StateID,
    /// How many bytes of a word have come in each state, by its number without the zeros that all of them end with.
    depths: Vec<u16>,
    zeros: u32,
}

impl Stepping {
    /// `None`: the words are too many, or too long.
    pub(super) fn new(words: &[String]) -> Option<Self> {
        if words.iter().map(String::len).sum::<usize>() > MOST {
            return None;
        }
        let mut builder = DFA::builder();
        builder.match_kind(MatchKind::Standard).start_kind(StartKind::Unanchored).prefilter(false);
        let table = builder.build(words).ok()?;
        let start = table.start_state(Anchored::No).ok()?;
        let mut found: Vec<(usize, u16)> = Vec::new();
        for word in words {
            let mut state = start;
            for (byte, depth) in word.bytes().zip(1..) {
                state = table.next_state(Anchored::No, state, byte);
                found.push((state.as_usize(), depth));
            }
        }
        // One more bit is set: it bounds the zeros of a table without words.
        let zeros = found.iter().fold(start.as_usize() | 1 << 16, |bits, (state, _)| bits | state).trailing_zeros();
        let most = found.iter().map(|(state, _)| state >> zeros).max().unwrap_or(0);
        let mut depths = vec![0; most + 1];
        for (state, depth) in found {
            depths[state >> zeros] = depth;
        }
        Some(Self { table, start, depths, zeros })
    }

    /// The state before a text.
    pub(crate) const fn start(&self) -> StateID {
        self.start
    }

    /// The state behind a piece of the text. `None`: a word was found.
    pub(crate) fn step(&self, mut state: StateID, piece: &str) -> Option<StateID> {
        for byte in piece.bytes() {
            state = self.table.next_state(Anchored::No, state, byte);
            if self.table.is_match(state) {
                return None;
            }
        }
        Some(state)
    }

    /// Bytes before here that a word may begin with.
    pub(crate) fn held(&self, state: StateID) -> usize {
        self.depths.get(state.as_usize() >> self.zeros).map_or(0, |depth| usize::from(*depth))
    }
}

#[cfg(test)]
mod tests {
    use super::super::WordFinder;
    use crate::check::Finder;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the pieces: found as soon as it is there, and what is held is what a look at the whole text would
        /// hold.
        #[test]
        fn pieces_tell_what_the_whole_tells(words in prop::collection::vec("[aché]{1,4}", 1..6), pieces in prop::collection::vec("[aché ]{0,5}", 0..12)) {
            let finder = WordFinder::new(words).expect("words");
            let stepping = finder.stepping().expect("few words");
            let (mut text, mut state) = (String::new(), Some(stepping.start()));
            for piece in pieces {
                text.push_str(&piece);
                state = state.and_then(|state| stepping.step(state, &piece));
                let found = finder.find(&text, 0).expect("no limit");
                prop_assert_eq!(state.is_none(), found.is_some(), "{}", text);
                if let Some(state) = state {
                    prop_assert_eq!(stepping.held(state), finder.held(&text, 0), "{}", text);
                }
            }
        }
    }

    #[test]
    fn long_lists_are_none_of_its_business() {
        let words = (0..2_000).map(|n| format!("word{n}")).collect();
        assert!(WordFinder::new(words).expect("words").stepping().is_none());
    }
}
