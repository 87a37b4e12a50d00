//! Fixed windows aligned to the calendar in UTC: a limit per minute begins anew at each full minute.
//! Knows no clock: every window is found from a given time.

use gateway_domain::Timestamp;
use gateway_domain::resource::policy::Unit;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    length: i64,
    /// A time at which one of them begins.
    anchor: i64,
}

/// One stretch of counting: its first moment names it among its kind, the other is the first outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowSpan {
    pub(crate) began: Timestamp,
    pub(crate) ends: Timestamp,
}

/// The epoch was a Thursday; policies count weeks from Monday.
const FIRST_MONDAY: i64 = 4 * Unit::Day.micros();

impl Window {
    pub(crate) const fn of(unit: Unit) -> Self {
        let anchor = if matches!(unit, Unit::Week) { FIRST_MONDAY } else { 0 };
        Self { length: unit.micros(), anchor }
    }

    /// The window that holds `now`.
    pub(crate) const fn span(self, now: Timestamp) -> WindowSpan {
        let passed = now.0.saturating_sub(self.anchor).rem_euclid(self.length);
        let began = now.0.saturating_sub(passed);
        WindowSpan { began: Timestamp(began), ends: Timestamp(now.0.saturating_add(self.length - passed)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_fall_on_the_calendar() {
        for (unit, now, end) in [
            (Unit::Second, "2026-11-18T10:20:30.250Z", "2026-11-18T10:20:31Z"),
            (Unit::Minute, "2026-11-18T10:20:30Z", "2026-11-18T10:21:00Z"),
            (Unit::Hour, "2026-11-18T10:20:30Z", "2026-11-18T11:00:00Z"),
            (Unit::Day, "2026-11-18T10:20:30Z", "2026-11-19T00:00:00Z"),
            (Unit::Week, "2026-11-18T10:20:30Z", "2026-11-23T00:00:00Z"),
            (Unit::Week, "2026-11-22T23:59:59.999Z", "2026-11-23T00:00:00Z"),
            (Unit::Week, "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"),
            (Unit::Minute, "2026-11-18T10:21:00Z", "2026-11-18T10:22:00Z"),
            (Unit::Day, "2028-02-28T12:00:00Z", "2028-02-29T00:00:00Z"),
            (Unit::Week, "1969-12-31T23:00:00Z", "1970-01-05T00:00:00Z"),
            (Unit::Hour, "1969-12-31T23:30:00Z", "1970-01-01T00:00:00Z"),
        ] {
            let at = |s: &str| s.parse::<Timestamp>().unwrap();
            assert_eq!(Window::of(unit).span(at(now)).ends, at(end), "{unit:?} at {now}");
        }
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        for unit in [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day, Unit::Week] {
            for now in [i64::MIN, -1, 0, i64::MAX] {
                let span = Window::of(unit).span(Timestamp(now));
                assert!(span.began <= Timestamp(now) && span.ends >= Timestamp(now));
            }
        }
    }
}
