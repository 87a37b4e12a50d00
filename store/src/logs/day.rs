//! A day in UTC: what log records are partitioned by, and kept or dropped as a whole.

use gateway_domain::Timestamp;
use gateway_domain::record::LogRecord;
use std::collections::BTreeMap;
use std::ops::Range;
use uuid::Uuid;

const MICROS: i64 = 86_400_000_000;
/// 31 December 9999. Times beyond, and before 1970, lie in the last and first day.
const LAST: i64 = 2_932_896;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Day(i64);

impl Day {
    pub(super) fn of(time: Timestamp) -> Self {
        Self(time.micros().div_euclid(MICROS).clamp(0, LAST))
    }

    /// So many days after 1 January 1970.
    pub(super) fn from_number(number: i64) -> Self {
        Self(number.clamp(0, LAST))
    }

    /// The day in which an id of version 7 was made.
    pub(super) fn of_id(id: Uuid) -> Option<Self> {
        let (secs, _) = id.get_timestamp()?.to_unix();
        i64::try_from(secs).ok().map(|secs| Self::of(Timestamp::from_secs(secs.min(LAST * 86_400))))
    }

    pub(super) fn next(self) -> Self {
        Self((self.0 + 1).min(LAST))
    }

    /// First microsecond; `None` for the first day, which has no beginning.
    pub(super) fn start(self) -> Option<i64> {
        (self.0 > 0).then_some(self.0 * MICROS)
    }

    /// First microsecond after it; `None` for the last day, which has no end.
    pub(super) fn end(self) -> Option<i64> {
        (self.0 < LAST).then_some((self.0 + 1) * MICROS)
    }

    /// All its microseconds.
    pub(super) fn times(self) -> Range<i64> {
        self.start().unwrap_or(i64::MIN)..self.end().unwrap_or(i64::MAX)
    }

    pub(super) fn is_over_at(self, time: Timestamp) -> bool {
        self.end().is_some_and(|end| end <= time.micros())
    }

    /// `2026-01-31`.
    pub(super) fn name(self) -> String {
        let mut name = Timestamp(self.0 * MICROS).to_string();
        name.truncate(10);
        name
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        let time: Timestamp = (name.len() == 10).then(|| name.parse().ok()).flatten()?;
        Some(Self::of(time))
    }
}

/// A batch is nearly always of one day.
pub(super) fn by_day(batch: &[LogRecord]) -> BTreeMap<Day, Vec<&LogRecord>> {
    let mut days: BTreeMap<Day, Vec<&LogRecord>> = BTreeMap::new();
    for record in batch {
        days.entry(Day::of(record.created_at)).or_default().push(record);
    }
    days
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_names_and_bounds() {
        let noon = Timestamp::from_secs(1_769_860_800);
        let day = Day::of(noon);
        assert_eq!((day.name().as_str(), Day::parse("2026-01-31")), ("2026-01-31", Some(day)));
        assert_eq!(Day::of(Timestamp(day.start().unwrap())), day);
        assert_eq!(Day::of(Timestamp(day.end().unwrap())), day.next());
        assert!(!day.is_over_at(noon) && day.is_over_at(Timestamp(day.end().unwrap())));
        assert_eq!((Day::of(Timestamp(-1)).name(), Day::of(Timestamp(-1)).start()), ("1970-01-01".into(), None));
        assert_eq!(Day::of(Timestamp(i64::MAX)).end(), None);
        assert_eq!((Day::parse("2026-1-31"), Day::parse("x"), Day::parse("2026-01-31T")), (None, None, None));
    }
}
