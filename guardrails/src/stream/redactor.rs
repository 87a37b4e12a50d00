//! A finder run over a text that comes in pieces. What is decided of it is what more text cannot change: so the finds
//! are those of the whole text, as long as no match is longer than the overlap.

use crate::check::{Finder, ReplacedValues};
use crate::pattern::StepLimit;
use std::sync::Arc;

/// Bytes of a lane that may wait; a match that is longer is taken as far as it goes.
pub(super) const MOST_HELD: usize = 64 * 1024;

/// What was decided, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// So many bytes pass as they are.
    Pass(usize),
    /// So many bytes are a match.
    Hit { bytes: usize, replacement: String },
}

#[derive(Debug)]
pub(super) struct Scanner {
    finder: Arc<dyn Finder>,
    overlap: usize,
    forbids: bool,
    /// A match of nothing is one too: what forbids such a pattern is broken by any text.
    finds_nothing: bool,
    /// What was let go need not be looked at again.
    holds_all: bool,
    /// Decided text that matches may still look back at, then what is undecided.
    buffer: String,
    undecided: usize,
    seen: ReplacedValues,
    /// A match touches the end and is longer than the overlap: not looked at again before the buffer is so long.
    wait_until: usize,
}

impl Scanner {
    /// `forbids`: that there is a match is all that matters, not how far it goes.
    pub(super) fn new(finder: Arc<dyn Finder>, overlap: usize, forbids: bool) -> Self {
        let finds_nothing = forbids && finder.find("", 0).is_ok_and(|found| found.is_some());
        let (holds_all, buffer) = (finder.holds_all(overlap), String::new());
        let seen = ReplacedValues::default();
        Self { finder, overlap, forbids, finds_nothing, holds_all, buffer, undecided: 0, seen, wait_until: 0 }
    }

    pub(super) fn push(&mut self, text: &str) {
        self.buffer.push_str(text);
    }

    /// Bytes of the last characters of the overlap.
    fn overlap_bytes(&self) -> usize {
        let text = &self.buffer[self.undecided..];
        if text.len() <= self.overlap {
            return text.len();
        }
        text.chars().rev().take(self.overlap).map(char::len_utf8).sum()
    }

    /// Decides what can be decided; at the end of the text, everything.
    pub(super) fn decide(&mut self, is_end: bool) -> Result<Vec<Decision>, StepLimit> {
        let mut out = Vec::new();
        self.decide_each(is_end, &mut |decision| out.push(decision))?;
        Ok(out)
    }

    /// Takes text that is forbidden something: how many bytes pass now; `None`: it was found.
    pub(super) fn forbid(&mut self, text: &str, is_end: bool) -> Result<Option<usize>, StepLimit> {
        self.push(text);
        if self.finds_nothing && !text.is_empty() {
            return Ok(None);
        }
        let (mut passed, mut is_hit) = (0, false);
        self.decide_each(is_end, &mut |decision| match decision {
            Decision::Pass(bytes) => passed += bytes,
            Decision::Hit { .. } => is_hit = true,
        })?;
        Ok((!is_hit).then_some(passed))
    }

    fn decide_each(&mut self, is_end: bool, out: &mut impl FnMut(Decision)) -> Result<(), StepLimit> {
        if !is_end && self.buffer.len() < self.wait_until {
            return Ok(());
        }
        self.wait_until = 0;
        let held = if is_end { 0 } else { self.finder.held(&self.buffer[self.undecided..], self.overlap_bytes()) };
        // Nothing that begins before here can become a match any more.
        let mut limit = self.buffer.len().saturating_sub(held).max(self.undecided);
        while !self.buffer.is_char_boundary(limit) {
            limit -= 1;
        }
        let mut seek = if self.forbids { self.looked_back() } else { self.undecided };
        while seek <= self.buffer.len() {
            let Some(found) = self.finder.find(&self.buffer, seek)? else { break };
            let waits = self.buffer.len() - self.undecided;
            let settles = self.forbids && !found.is_empty() && self.finder.settles();
            let is_decided =
                is_end || settles || (found.start < limit && found.end < self.buffer.len()) || waits > MOST_HELD;
            if !is_decided {
                limit = limit.min(found.start);
                if waits > 2 * self.overlap {
                    self.wait_until = self.buffer.len() + waits / 4;
                }
                break;
            }
            if found.is_empty() {
                seek = found.end + self.buffer[found.end..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            if self.forbids {
                out(Decision::Hit { bytes: 0, replacement: String::new() });
                return Ok(());
            }
            self.pass(found.start, out);
            let replacement = self.finder.replacement(&self.buffer, found.clone(), &mut self.seen);
            out(Decision::Hit { bytes: found.len(), replacement });
            self.undecided = found.end;
            seek = found.end;
            limit = limit.max(self.undecided);
        }
        self.pass(limit, out);
        self.forget();
        Ok(())
    }

    /// Where a match that is longer than the overlap may have begun: part of it may have left, the rest must not.
    fn looked_back(&self) -> usize {
        if self.holds_all {
            return self.undecided;
        }
        let mut from = self.undecided.saturating_sub(self.reach_back());
        while !self.buffer.is_char_boundary(from) {
            from -= 1;
        }
        from
    }

    fn reach_back(&self) -> usize {
        self.overlap.max(1) * 4
    }

    fn pass(&mut self, to: usize, out: &mut impl FnMut(Decision)) {
        if to > self.undecided {
            out(Decision::Pass(to - self.undecided));
            self.undecided = to;
        }
    }

    /// Drops what no match looks back at. Before the place where a search begins again an overlap stays, so that what
    /// looks behind sees text there, and the cut is never taken for the text's beginning.
    fn forget(&mut self) {
        let keep = self.reach_back() + self.overlap.max(1) * 4;
        if self.undecided > 2 * keep {
            let mut cut = self.undecided - keep;
            while !self.buffer.is_char_boundary(cut) {
                cut -= 1;
            }
            self.buffer.drain(..cut);
            self.undecided -= cut;
            self.wait_until = self.wait_until.saturating_sub(cut);
        }
    }
}
