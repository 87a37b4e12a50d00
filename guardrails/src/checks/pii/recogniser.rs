//! Recognisers of personal data: a pattern that proposes, and a judgement of what it proposes, which looks at nothing
//! but the value and the characters beside it, so that a text gives the same finds whole and in pieces.

use crate::check::{Finder, ReplacedValues, SeenValue};
use crate::pattern::{BadPattern, Pattern, PatternFlags, StepLimit};
use std::net::Ipv6Addr;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Category {
    Email,
    Phone,
    Ip,
    Card,
    Ssn,
}

impl Category {
    /// All categories, in the order in which they are asked about a value that several propose from the same place.
    pub(super) const ALL: &[Self] = &[Self::Email, Self::Ip, Self::Card, Self::Ssn, Self::Phone];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Email => "EMAIL_ADDRESS",
            Self::Phone => "PHONE_NUMBER",
            Self::Ip => "IP_ADDRESS",
            Self::Card => "CREDIT_CARD",
            Self::Ssn => "SSN",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|c| c.name().eq_ignore_ascii_case(name))
    }

    /// Bounded in length, so that a stream knows how much to hold.
    const fn pattern(self) -> &'static str {
        match self {
            Self::Email => {
                r"[A-Za-z0-9][A-Za-z0-9._%+\-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?\.){1,4}[A-Za-z]{2,24}"
            }
            Self::Phone => r"[+(]?\d(?:[ .\-()/]{0,2}\d){6,14}",
            Self::Ip => r"(?:\d{1,3}(?:\.\d{1,3}){3})|(?:[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:\.\d{1,3}){0,3})",
            Self::Card => r"\d(?:[ \-]?\d){12,18}",
            Self::Ssn => r"\d{3}-\d{2}-\d{4}",
        }
    }

    fn is_sound(self, value: &str) -> bool {
        let digits: Vec<u8> = value.bytes().filter(u8::is_ascii_digit).map(|b| b - b'0').collect();
        match self {
            Self::Email => !value.contains(".."),
            Self::Phone => is_phone(value, &digits),
            Self::Ip if value.contains(':') => is_ipv6(value),
            Self::Ip => {
                value.split('.').all(|part| part.parse::<u8>().is_ok() && (part == "0" || !part.starts_with('0')))
            }
            Self::Card => (13..=19).contains(&digits.len()) && passes_luhn(&digits),
            // Numbers that were never given out.
            Self::Ssn => {
                let number =
                    |from: usize, to: usize| digits[from..to].iter().fold(0_u32, |n, d| n * 10 + u32::from(*d));
                let (area, group, serial) = (number(0, 3), number(3, 5), number(5, 9));
                area != 0 && area != 666 && area < 900 && group != 0 && serial != 0
            }
        }
    }
}

/// Names of programs have colons too (`a::b`): an address has a digit, and more than one character to begin with.
fn is_ipv6(value: &str) -> bool {
    let is_told = value.contains('.') || (value.bytes().any(|b| b.is_ascii_digit()) && value.find(':') > Some(1));
    is_told && value.parse::<Ipv6Addr>().is_ok_and(|a| !a.is_unspecified() && !a.is_loopback())
}

/// The checksum of card numbers (ISO/IEC 7812-1, annex B); a row of one digit passes it and is none.
fn passes_luhn(digits: &[u8]) -> bool {
    let doubled = |d: u8| if d > 4 { u32::from(d) * 2 - 9 } else { u32::from(d) * 2 };
    let sum: u32 =
        digits.iter().rev().enumerate().map(|(i, d)| if i % 2 == 1 { doubled(*d) } else { u32::from(*d) }).sum();
    sum.is_multiple_of(10) && digits.iter().any(|d| *d != digits[0])
}

/// 7 to 15 digits (ITU-T E.164), and written as people write numbers that are called: with a plus, or in groups. A bare
/// row of digits is an amount or an id as often as not.
fn is_phone(value: &str, digits: &[u8]) -> bool {
    let groups = value.split(|c: char| !c.is_ascii_digit()).filter(|g| !g.is_empty()).count();
    let lengths = || value.split(['-', '/', '.']).map(str::len);
    // Dates, and the form of social security numbers.
    let is_date = lengths().eq([4, 2, 2]) || lengths().eq([3, 2, 4]);
    let is_address = value.split('.').count() == 4 && value.split('.').all(|p| p.parse::<u8>().is_ok());
    let is_balanced = value.matches('(').count() == value.matches(')').count();
    (7..=15).contains(&digits.len())
        && !is_date
        && !is_address
        && is_balanced
        && (value.starts_with('+') || groups >= 3 || value.starts_with('('))
}

#[derive(Debug)]
struct Recogniser {
    category: Category,
    pattern: Pattern,
}

#[derive(Debug)]
pub(super) struct Recognisers(Vec<Recogniser>);

/// A find and what it is.
struct Find {
    range: Range<usize>,
    category: Category,
}

impl Recognisers {
    pub(super) fn new(categories: &[Category]) -> Result<Self, BadPattern> {
        let wanted = Category::ALL.iter().copied().filter(|c| categories.contains(c));
        let made = wanted.map(|category| {
            Ok(Recogniser { category, pattern: Pattern::compile(category.pattern(), PatternFlags::default())? })
        });
        Ok(Self(made.collect::<Result<_, _>>()?))
    }

    pub(super) fn category(&self, text: &str, range: &Range<usize>) -> Option<Category> {
        self.first(text, range.start).ok().flatten().map(|f| f.category)
    }

    /// The leftmost find; of several from one place the longest, of equals the first in order.
    fn first(&self, text: &str, from: usize) -> Result<Option<Find>, StepLimit> {
        let mut best: Option<Find> = None;
        for recogniser in &self.0 {
            let Some(range) = recogniser.first(text, from, best.as_ref().map(|b| b.range.start))? else { continue };
            let is_better = best.as_ref().is_none_or(|b| {
                range.start < b.range.start || (range.start == b.range.start && range.end > b.range.end)
            });
            if is_better {
                best = Some(Find { range, category: recogniser.category });
            }
        }
        Ok(best)
    }
}

impl Recogniser {
    /// The first proposal that is sound, none behind `limit`.
    fn first(&self, text: &str, mut from: usize, limit: Option<usize>) -> Result<Option<Range<usize>>, StepLimit> {
        while let Some(range) = self.pattern.find_at(text, from)? {
            if limit.is_some_and(|l| range.start > l) {
                return Ok(None);
            }
            if let Some(sound) = self.sound_within(text, range.clone()) {
                return Ok(Some(sound));
            }
            from = range.start + text[range.start..].chars().next().map_or(1, char::len_utf8);
        }
        Ok(None)
    }

    /// The proposal, or what is left of it without its last groups: other numbers may stand behind a number.
    fn sound_within(&self, text: &str, mut range: Range<usize>) -> Option<Range<usize>> {
        loop {
            if self.stands_alone(text, &range) && self.category.is_sound(&text[range.clone()]) {
                return Some(range);
            }
            if self.category != Category::Card {
                return None;
            }
            let is_separator = |c: char| !c.is_ascii_digit();
            let shorter = text[range.clone()].rfind(is_separator)?;
            range.end = range.start + text[range.start..range.start + shorter].trim_end_matches(is_separator).len();
            if range.len() < 13 {
                return None;
            }
        }
    }

    /// Not a piece of a longer word or number.
    fn stands_alone(&self, text: &str, range: &Range<usize>) -> bool {
        let before = text[..range.start].chars().next_back();
        let after = text[range.end..].chars().next();
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        match self.category {
            Category::Email => !before.is_some_and(|c| c.is_ascii_alphanumeric() || "._%+-".contains(c)),
            Category::Ip => {
                // A dot at the end of a sentence is none of the address.
                let mut behind = text[range.end..].chars();
                let goes_on = behind.next() == Some('.') && behind.next().is_some_and(|c| c.is_ascii_digit());
                let is_begun = is_word(before) || before == Some('.') || before == Some(':');
                !is_begun && !is_word(after) && after != Some(':') && !goes_on
            }
            Category::Phone => {
                let is_separator = |c: char| " .-()/".contains(c);
                let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
                // A row of more groups is another sort of number, unless a sign begins this one.
                let is_begun = text[range.clone()].starts_with(['+', '(']);
                let goes_before = is_digit(text[..range.start].trim_end_matches(is_separator).chars().next_back());
                let mut behind = text[range.end..].chars();
                let goes_on = behind.next().is_some_and(is_separator) && is_digit(behind.next());
                !is_word(before) && !is_word(after) && before != Some('+') && (is_begun || !goes_before) && !goes_on
            }
            Category::Card | Category::Ssn => {
                !is_word(before) && before != Some('-') && !is_word(after) && after != Some('-')
            }
        }
    }
}

impl Finder for Recognisers {
    fn find(&self, text: &str, from: usize) -> Result<Option<Range<usize>>, StepLimit> {
        Ok(self.first(text, from)?.map(|f| f.range))
    }

    /// `{{EMAIL_ADDRESS_1}}`: equal values have the same number.
    fn replacement(&self, text: &str, found: Range<usize>, seen: &mut ReplacedValues) -> String {
        let kind = self.category(text, &found).map_or("PII", Category::name);
        let value = &text[found];
        let known = seen.0.iter().find(|s| s.kind == kind && s.value == value).map(|s| s.number);
        let number = known.unwrap_or_else(|| {
            let number = seen.0.iter().filter(|s| s.kind == kind).count() + 1;
            seen.0.push(SeenValue { kind, value: value.to_owned(), number });
            number
        });
        format!("{{{{{kind}_{number}}}}}")
    }

    fn held(&self, text: &str, overlap: usize) -> usize {
        overlap.min(text.len())
    }
}
