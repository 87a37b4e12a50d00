//! A range of time cut into buckets: minutes up to two hours, hours up to seven days, days beyond, with their edges in
//! the time zone that was asked for.

use crate::input::QueryString;
use crate::logs::filter::{end_of_millisecond, time};
use crate::problem::{Problem, bad, internal};
use gateway_domain::Timestamp;
use gateway_domain::analytics::Grain;
use jiff::Zoned;
use jiff::tz::TimeZone;

const MINUTE: i64 = 60_000_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Ten years.
const LONGEST: i64 = 3_660 * DAY;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimeBuckets {
    /// Where each begins, as it is told. The first may begin before the range does.
    pub(super) stamps: Vec<Timestamp>,
    /// Where what is counted in each begins, and behind the last one where it ends.
    pub(super) edges: Vec<Timestamp>,
}

impl TimeBuckets {
    pub(super) fn read(q: &QueryString, now: Timestamp) -> Result<Self, Problem> {
        const FROM: &str = "time_of_generation_min";
        const TO: &str = "time_of_generation_max";
        let from = time(q, FROM)?.ok_or_else(|| bad(FROM, "is required"))?;
        let to = end_of_millisecond(time(q, TO)?.ok_or_else(|| bad(TO, "is required"))?).plus_micros(1);
        let zone = match q.text("time_zone") {
            None => TimeZone::UTC,
            Some(name) => {
                TimeZone::get(name).map_err(|_| bad("time_zone", "must be an IANA time zone such as Europe/Berlin"))?
            }
        };
        if from >= to {
            return Err(bad(TO, format_args!("must not be before {FROM}")));
        }
        if to.micros().saturating_sub(from.micros()) > LONGEST {
            return Err(bad(TO, format_args!("must be at most ten years after {FROM}")));
        }
        Self::of(from, to, (&zone, now)).map_err(internal)
    }

    /// Nothing is recorded in times to come: what is left of the hour is counted with it, so that it need not be read
    /// record by record.
    fn of(from: Timestamp, to: Timestamp, (zone, now): (&TimeZone, Timestamp)) -> Result<Self, jiff::Error> {
        let shown = to.min(now.plus_micros(1)).max(from.plus_micros(1));
        let length = shown.micros() - from.micros();
        let local = |at: Timestamp| {
            Ok::<Zoned, jiff::Error>(jiff::Timestamp::from_microsecond(at.micros())?.to_zoned(zone.clone()))
        };
        let micros = |zoned: &Zoned| Timestamp(zoned.timestamp().as_microsecond());
        let start = local(from)?;
        let mut stamps = Vec::new();
        if length <= 2 * HOUR {
            let first = Timestamp(from.micros() - from.micros().rem_euclid(MINUTE));
            stamps.extend(steps(first, shown, MINUTE));
        } else if length <= 7 * DAY {
            let first = start.with().minute(0).second(0).subsec_nanosecond(0).build()?;
            stamps.extend(steps(micros(&first), shown, HOUR));
        } else {
            let mut day = start.start_of_day()?;
            while micros(&day) < shown {
                stamps.push(micros(&day));
                day = day.tomorrow()?.start_of_day()?;
            }
        }
        let end = if to > now { to.min(Grain::Hour.ceil(now.plus_micros(1))).max(shown) } else { to };
        let mut edges = stamps.clone();
        edges[0] = from;
        edges.push(end);
        Ok(Self { stamps, edges })
    }

    /// Where the whole range begins and ends.
    pub(super) fn ends(&self) -> Vec<Timestamp> {
        self.edges.first().into_iter().chain(self.edges.last()).copied().collect()
    }
}

fn steps(first: Timestamp, end: Timestamp, step: i64) -> impl Iterator<Item = Timestamp> {
    std::iter::successors(Some(first), move |at| Some(at.plus_micros(step))).take_while(move |at| *at < end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(from: &str, to: &str, zone: &str) -> Vec<String> {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let zone = TimeZone::get(zone).expect("a zone");
        let made = TimeBuckets::of(at(from), at(to), (&zone, at("2026-06-01"))).expect("buckets");
        assert_eq!(made.edges.len(), made.stamps.len() + 1);
        assert!(made.edges.is_sorted() && made.edges[0] == at(from));
        made.stamps.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_length_of_a_range_decides_and_the_zone_sets_the_edges() {
        let minutes = of("2026-01-01T10:00:30Z", "2026-01-01T12:00:30Z", "UTC");
        assert_eq!((minutes.len(), &*minutes[0]), (121, "2026-01-01T10:00:00.000Z"));
        let hours = of("2026-01-01T10:20:00Z", "2026-01-02T10:00:00Z", "Asia/Kolkata");
        assert_eq!((hours.len(), &*hours[0]), (25, "2026-01-01T09:30:00.000Z"));
        // Over the change to summer time, on 29 March 2026: a day of 23 hours.
        let days = of("2026-03-25T12:00:00Z", "2026-04-02T12:00:00Z", "Europe/Berlin");
        assert_eq!(days.len(), 9);
        assert_eq!((&*days[4], &*days[5]), ("2026-03-28T23:00:00.000Z", "2026-03-29T22:00:00.000Z"));
    }

    #[test]
    fn what_is_to_come_has_no_buckets() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let (from, to) = (at("2026-05-31T12:00:00Z"), at("2030-01-01"));
        let made = TimeBuckets::of(from, to, (&TimeZone::UTC, at("2026-06-01T00:10:00Z"))).expect("buckets");
        assert_eq!((made.stamps.len(), made.edges[13]), (13, at("2026-06-01T01:00:00Z")));
    }
}
