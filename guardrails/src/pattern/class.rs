//! Sets of characters: the classes of ECMAScript, computed whole, so that the engines see plain ranges and none of
//! their own notions of letters, case and set operations comes in.

use super::BadPattern;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};
use std::fmt::Write as _;

/// A set under construction; `negate` is applied when it is written.
#[derive(Clone, Debug)]
pub(super) struct Set(ClassUnicode);

impl Set {
    pub(super) fn empty() -> Self {
        Self(ClassUnicode::empty())
    }

    pub(super) fn of(ranges: &[(char, char)]) -> Self {
        Self(ClassUnicode::new(ranges.iter().map(|(a, b)| ClassUnicodeRange::new(*a, *b))))
    }

    pub(super) fn digits() -> Self {
        Self::of(&[('0', '9')])
    }

    pub(super) fn word() -> Self {
        Self::of(&[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')])
    }

    /// White space and line terminators of the language, the byte order mark among them.
    pub(super) fn space() -> Self {
        Self::of(&[
            ('\t', '\r'),
            (' ', ' '),
            ('\u{a0}', '\u{a0}'),
            ('\u{1680}', '\u{1680}'),
            ('\u{2000}', '\u{200a}'),
            ('\u{2028}', '\u{2029}'),
            ('\u{202f}', '\u{202f}'),
            ('\u{205f}', '\u{205f}'),
            ('\u{3000}', '\u{3000}'),
            ('\u{feff}', '\u{feff}'),
        ])
    }

    pub(super) fn line_terminators() -> Self {
        Self::of(&[('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')])
    }

    /// `\p{…}`: the names that the engine knows are those of Unicode, as the language's are.
    pub(super) fn property(expression: &str) -> Result<Self, BadPattern> {
        let unknown = || BadPattern(format!("names the unknown property `{expression}`"));
        let hir = regex_syntax::Parser::new().parse(&format!("\\p{{{expression}}}")).map_err(|_| unknown())?;
        match hir.into_kind() {
            HirKind::Class(Class::Unicode(class)) => Ok(Self(class)),
            // A property of one character only.
            HirKind::Literal(literal) => {
                let text = String::from_utf8(literal.0.into()).map_err(|_| unknown())?;
                Ok(Self::of(&text.chars().map(|c| (c, c)).collect::<Vec<_>>()))
            }
            _ => Err(unknown()),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.union(&other.0);
    }

    pub(super) fn add_range(&mut self, from: char, to: char) {
        self.0.push(ClassUnicodeRange::new(from, to));
    }

    pub(super) fn negate(mut self) -> Self {
        self.0.negate();
        self
    }

    /// Adds what is equal but for case. Without the flag `u` no character outside ASCII equals one inside, so the
    /// long s is no s and the Kelvin sign no k.
    pub(super) fn fold(mut self, unicode: bool) -> Self {
        if unicode {
            self.0.case_fold_simple();
            return self;
        }
        let ascii = ClassUnicode::new([ClassUnicodeRange::new('\0', '\u{7f}')]);
        let (mut low, mut high) = (self.0.clone(), self.0);
        low.intersect(&ascii);
        high.difference(&ascii);
        low.case_fold_simple();
        low.intersect(&ascii);
        let mut folded = high.clone();
        folded.case_fold_simple();
        folded.difference(&ascii);
        folded.difference(&high);
        // Two characters are equal where they have one upper case, of one character.
        for c in folded.ranges().iter().flat_map(|r| r.start()..=r.end()) {
            let mut orbit = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
            orbit.case_fold_simple();
            orbit.intersect(&high);
            let is_equal = orbit.ranges().iter().flat_map(|r| r.start()..=r.end()).any(|o| upper(o) == upper(c));
            if is_equal {
                low.push(ClassUnicodeRange::new(c, c));
            }
        }
        low.union(&high);
        Self(low)
    }

    pub(super) fn write(&self, out: &mut String) {
        if self.0.ranges().is_empty() {
            out.push_str("[^\\x{0}-\\x{10FFFF}]");
            return;
        }
        out.push('[');
        for range in self.0.ranges() {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\x{{{:X}}}", range.start() as u32);
            if range.end() != range.start() {
                let _ = write!(out, "-\\x{{{:X}}}", range.end() as u32);
            }
        }
        out.push(']');
    }
}

/// The upper case of a character that is one character, else itself.
fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}
