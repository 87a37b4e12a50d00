//! What one config may cost: to read, to compile, to hold in memory, and at each request that goes by it. The bounds
//! are on a config as a whole, since a thousand small parts cost what one large part does. A config that a request
//! brings is bounded lower than one that was saved: it is compiled while its request waits. Knows no key of a config.

use std::fmt;

/// Longest text of a config that a request brings, in bytes.
pub const INLINE_TEXT: usize = Cost::Text.most(false);
/// A pattern is at most so long, and takes at most so much memory once it is compiled.
pub(super) const PATTERN_TEXT: usize = 512;
pub(super) const PATTERN_MEMORY: usize = 128 << 10;
/// An object of a config has at most so many keys; all that it can mean are fewer.
pub(super) const KEYS: usize = 128;
/// Parameters that a target adds to a body, inherited ones among them.
pub(super) const PARAMS: usize = 256;
pub(super) const STATUSES: usize = 500;
pub(super) const FORWARDED: usize = 100;
/// Keys of the body that the conditions and sticky fields of one config name.
pub(super) const READ: usize = 64;
/// More problems than these help nobody to mend a config.
pub(super) const PROBLEMS: usize = 50;
/// A name that a problem quotes is cut off here.
pub(super) const QUOTED: usize = 64;

/// Bytes that are looked at of each value that a condition or a sticky field reads from a body.
pub(super) const VALUE_TEXT: usize = 64 << 10;
/// What the patterns of one request may take altogether, in bytes of compiled pattern times bytes of text. The slowest
/// patterns that could be found take 0.4 ns for each, most take a hundredth of that.
pub(super) const MATCHING: u64 = 512 << 20;
/// Targets that are tried for one request.
pub(super) const TRIED: u32 = 100;

/// What is counted over a whole config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cost {
    Text,
    Targets,
    Conditions,
    /// Keys of queries, and what stands in lists of operators.
    Tests,
    Patterns,
    /// Classes of characters in patterns (`\w`, `\pL`): one can be six bytes of text and a thousand ranges.
    Classes,
    PatternMemory,
    /// Bytes that the compiled config takes beside its patterns.
    Memory,
}

impl Cost {
    const COUNT: usize = 8;

    pub(super) const fn most(self, saved: bool) -> usize {
        let (inline, stored) = match self {
            Self::Text => (32 << 10, 1 << 20),
            Self::Targets => (256, 4000),
            Self::Conditions => (128, 2000),
            Self::Tests => (1000, 20_000),
            Self::Patterns => (32, 256),
            Self::Classes => (64, 512),
            Self::PatternMemory => (256 << 10, 2 << 20),
            Self::Memory => (1 << 20, 16 << 20),
        };
        if saved { stored } else { inline }
    }

    const fn noun(self) -> &'static str {
        match self {
            Self::Text => "bytes of text",
            Self::Targets => "targets at all levels",
            Self::Conditions => "conditions",
            Self::Tests => "comparisons in conditions",
            Self::Patterns => "patterns",
            Self::Classes => "classes of characters in patterns",
            Self::PatternMemory => "bytes of compiled patterns",
            Self::Memory => "bytes once it is compiled",
        }
    }

    pub(super) fn rule(self, saved: bool) -> impl fmt::Display {
        let (kind, most, noun) = (if saved { "a saved" } else { "an inline" }, self.most(saved), self.noun());
        let more = if saved { String::new() } else { format!("; a saved one may have {}", self.most(true)) };
        format!("goes beyond the {most} {noun} that {kind} config may have{more}")
    }
}

/// What a config has cost so far.
#[derive(Debug, Default)]
pub(super) struct Spent(pub(super) [usize; Cost::COUNT]);

impl Spent {
    /// Bytes of memory.
    pub(super) const fn memory(&self) -> usize {
        self.0[Cost::Memory as usize] + self.0[Cost::PatternMemory as usize]
    }
}

/// The start of a text that a client wrote, to be quoted.
pub(super) fn quoted(text: &str) -> &str {
    start(text, QUOTED)
}

/// The start of a text, `most` bytes at most, cut between characters.
pub(super) fn start(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or(text)
}
