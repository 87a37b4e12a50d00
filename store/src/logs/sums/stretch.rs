//! A range cut into stretches that are read from one place each: whole days and hours from rollups, what is left at the
//! edges of spans from records.

use crate::logs::day::Day;
use gateway_domain::Timestamp;
use gateway_domain::analytics::{Dimension, Grain, SumQuery};
use smol_str::SmolStr;
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::logs) enum SumSource {
    Records,
    Rollup(Grain),
}

/// A stretch of time, from a microsecond up to another that is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::logs) struct Stretch {
    pub(in crate::logs) source: SumSource,
    pub(in crate::logs) from: i64,
    pub(in crate::logs) to: i64,
}

impl Stretch {
    /// The part that lies in a day.
    pub(in crate::logs) fn in_day(self, day: Day) -> Option<Self> {
        let from = self.from.max(day.start().unwrap_or(i64::MIN));
        let to = self.to.min(day.end().unwrap_or(i64::MAX));
        (from < to).then_some(Self { from, to, ..self })
    }

    /// Its parts, and whether each lies in one of these days.
    pub(in crate::logs) fn cut(self, days: &BTreeSet<Day>) -> Vec<(Self, bool)> {
        let (mut at, mut parts): (i64, Vec<(Self, bool)>) = (self.from, Vec::new());
        for inside in days.iter().filter_map(|day| self.in_day(*day)) {
            if at < inside.from {
                parts.push((Self { from: at, to: inside.from, ..self }, false));
            }
            at = inside.to;
            match parts.last_mut() {
                Some((last, true)) if last.to == inside.from => last.to = inside.to,
                _ => parts.push((inside, true)),
            }
        }
        if at < self.to {
            parts.push((Self { from: at, ..self }, false));
        }
        parts
    }

    /// The stretch in parts that read the records of some days instead of their rollups, which are not there.
    pub(in crate::logs) fn without(self, uncounted: &BTreeSet<Day>) -> Vec<Self> {
        if self.source == SumSource::Records {
            return vec![self];
        }
        let source = |is_uncounted| if is_uncounted { SumSource::Records } else { self.source };
        self.cut(uncounted).into_iter().map(|(part, is)| Self { source: source(is), ..part }).collect()
    }
}

/// Oldest first. `named`: the keys of metadata that are in rollups.
pub(in crate::logs) fn stretches(query: &SumQuery, named: &[SmolStr]) -> Vec<Stretch> {
    let (Some(first), Some(last)) = (query.edges.first(), query.edges.last()) else { return Vec::new() };
    if !is_in_rollups(query, named) {
        return vec![Stretch { source: SumSource::Records, from: first.micros(), to: last.micros() }];
    }
    let mut found = Vec::new();
    let mut push = |source, from: Timestamp, to: Timestamp| {
        let (from, to) = (from.micros(), to.micros());
        if from >= to {
            return;
        }
        match found.last_mut() {
            Some(Stretch { source: before, to: end, .. }) if *before == source && *end == from => *end = to,
            _ => found.push(Stretch { source, from, to }),
        }
    };
    for span in query.edges.windows(2) {
        let (from, to) = (span[0], span[1]);
        let (first, last) = (Grain::Hour.ceil(from), Grain::Hour.floor(to));
        if first >= last {
            push(SumSource::Records, from, to);
            continue;
        }
        push(SumSource::Records, from, first);
        let (day, end) = (Grain::Day.ceil(first), Grain::Day.floor(last));
        if day < end {
            push(SumSource::Rollup(Grain::Hour), first, day);
            push(SumSource::Rollup(Grain::Day), day, end);
            push(SumSource::Rollup(Grain::Hour), end, last);
        } else {
            push(SumSource::Rollup(Grain::Hour), first, last);
        }
        push(SumSource::Records, last, to);
    }
    found
}

/// Whether rollups tell apart all that is asked for.
pub(in crate::logs) fn is_in_rollups(query: &SumQuery, named: &[SmolStr]) -> bool {
    let of = &query.of;
    let is_named = |key: &str| key == super::USER || named.iter().any(|name| name == key);
    let bounds = [
        of.min_tokens,
        of.max_tokens,
        of.min_prompt_tokens,
        of.max_prompt_tokens,
        of.min_completion_tokens,
        of.max_completion_tokens,
    ];
    let by = |by: &Dimension| match by {
        Dimension::Metadata(key) => named.contains(key),
        Dimension::Trace => false,
        _ => true,
    };
    of.trace_id.is_none()
        && of.trace_ids.is_empty()
        && of.span_ids.is_empty()
        && of.cache_statuses.is_empty()
        && of.operations.is_empty()
        && of.cursor.is_none()
        && bounds.iter().all(Option::is_none)
        && of.min_cost.is_none()
        && of.max_cost.is_none()
        && of.metadata.iter().all(|(key, _)| is_named(key))
        && query.by.iter().all(by)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::analytics::SumParts;
    use gateway_domain::record::LogQuery;
    use std::time::Duration;

    const HOUR: i64 = 3_600_000_000;

    fn asked(edges: &[i64]) -> SumQuery {
        SumQuery {
            of: LogQuery::default(),
            edges: edges.iter().copied().map(Timestamp).collect(),
            by: Vec::new(),
            parts: SumParts::NONE,
            most_records: 1,
            time: Duration::from_secs(1),
        }
    }

    #[test]
    fn ends_are_records_and_the_middle_is_rolled_up() {
        let of = |source, from, to| Stretch { source, from, to };
        let (records, hours, days) =
            (SumSource::Records, SumSource::Rollup(Grain::Hour), SumSource::Rollup(Grain::Day));
        assert_eq!(
            stretches(&asked(&[5, 50 * HOUR + 7]), &[]),
            [
                of(records, 5, HOUR),
                of(hours, HOUR, 24 * HOUR),
                of(days, 24 * HOUR, 48 * HOUR),
                of(hours, 48 * HOUR, 50 * HOUR),
                of(records, 50 * HOUR, 50 * HOUR + 7),
            ]
        );
        let whole = stretches(&asked(&[0, HOUR, 2 * HOUR]), &[]);
        assert_eq!(whole, [of(hours, 0, 2 * HOUR)]);
        assert_eq!(stretches(&asked(&[3, 9, HOUR / 2]), &[]), [of(records, 3, HOUR / 2)]);
        let mut filtered = asked(&[0, 24 * HOUR]);
        filtered.of.metadata = vec![("_user".to_owned(), "ann".to_owned())];
        assert_eq!(stretches(&filtered, &[]), [of(days, 0, 24 * HOUR)]);
        filtered.of.metadata = vec![("team".to_owned(), "a".to_owned())];
        assert_eq!(stretches(&filtered, &[]), [of(records, 0, 24 * HOUR)]);
        assert_eq!(stretches(&filtered, &["team".into()]), [of(days, 0, 24 * HOUR)]);
    }

    #[test]
    fn a_day_without_rollups_is_read_from_its_records() {
        let days = Stretch { source: SumSource::Rollup(Grain::Day), from: 0, to: 96 * HOUR };
        let without = days.without(&BTreeSet::from([Day::of(Timestamp(24 * HOUR))]));
        let told: Vec<_> =
            without.iter().map(|s| (s.source == SumSource::Records, s.from / HOUR, s.to / HOUR)).collect();
        assert_eq!(told, [(false, 0, 24), (true, 24, 48), (false, 48, 96)]);
    }
}
