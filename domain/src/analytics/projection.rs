//! Which parts of sums somebody asks for. A store that keeps sums reads what is asked and no more: a row of all parts
//! costs several times what one number of it does.

use super::Sums;

/// The numbers in the order of [`Sums::NAMES`], then what is kept beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumPart {
    Records,
    Calls,
    Errors,
    InputTokens,
    OutputTokens,
    Cost,
    Unpriced,
    Saved,
    Retried,
    FellBack,
    Answered,
    TotalUs,
    Hits,
    HitUs,
    Misses,
    MissUs,
    /// The first and the last time of a record.
    Seen,
    /// What quantiles are told from.
    Latency,
}

/// Parts that were not asked for may be there or be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumParts(u32);

impl SumParts {
    pub const NONE: Self = Self(0);
    pub const ALL: Self = Self((1 << (SumPart::Latency as u32 + 1)) - 1);

    pub const fn of(parts: &[SumPart]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < parts.len() {
            bits |= 1 << parts[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn has(self, part: SumPart) -> bool {
        self.has_number(part as usize)
    }

    /// Where a number stands in [`Sums::NAMES`].
    const fn has_number(self, at: usize) -> bool {
        self.0 & (1 << at) != 0
    }

    /// The numbers that are asked for: their names, in their order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let named = Sums::NAMES.into_iter().enumerate();
        named.filter(move |(at, _)| self.has_number(*at)).map(|(_, name)| name)
    }

    /// The places in `sums` of the numbers that are asked for, in the order of [`Self::names`].
    pub fn numbers_mut(self, sums: &mut Sums) -> impl Iterator<Item = &mut i64> {
        let numbers = sums.numbers_mut().into_iter().enumerate();
        numbers.filter(move |(at, _)| self.has_number(*at)).map(|(_, number)| number)
    }
}

impl FromIterator<Self> for SumParts {
    fn from_iter<I: IntoIterator<Item = Self>>(parts: I) -> Self {
        parts.into_iter().fold(Self::NONE, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_the_name_that_stands_at_its_place() {
        for (part, name) in [
            (SumPart::Records, "records"),
            (SumPart::InputTokens, "input_tokens"),
            (SumPart::FellBack, "fell_back"),
            (SumPart::TotalUs, "total_us"),
            (SumPart::MissUs, "miss_us"),
        ] {
            assert_eq!(SumParts::of(&[part]).names().collect::<Vec<_>>(), [name]);
        }
        assert_eq!(SumParts::of(&[SumPart::Seen, SumPart::Latency]).names().count(), 0);
        assert!(SumParts::ALL.names().eq(Sums::NAMES));
        assert!(SumParts::ALL.has(SumPart::Seen) && SumParts::ALL.has(SumPart::Latency));
    }

    #[test]
    fn what_is_asked_is_put_where_it_belongs() {
        let mut sums = Sums::default();
        let asked: SumParts = [SumParts::of(&[SumPart::Cost]), SumParts::of(&[SumPart::Calls])].into_iter().collect();
        for (number, value) in asked.numbers_mut(&mut sums).zip([3, 4]) {
            *number = value;
        }
        assert_eq!(sums, Sums { calls: 3, cost: 4, ..Sums::default() });
    }
}
