//! The clocks of others, as their answers tell them: `date` in a head. Knows what the time is by this machine's, and
//! nothing of credentials.

use gateway_domain::Timestamp;
use http::{HeaderMap, header};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Clocks that differ by less are taken by those who check; a request is on its way for a moment.
const SKEWED: u64 = 30;

pub(super) fn now_secs() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// The time by a clock that is ahead of ours by so many seconds, or behind.
pub fn later(ahead: i64) -> SystemTime {
    let (now, by) = (SystemTime::now(), Duration::from_secs(ahead.unsigned_abs()));
    if ahead < 0 { now.checked_sub(by) } else { now.checked_add(by) }.unwrap_or(now)
}

/// How many seconds the clock of whoever answered is ahead of ours; `None` where the answer tells no time, or the
/// difference is too small to matter.
pub(crate) fn ahead(headers: &HeaderMap) -> Option<i64> {
    let theirs = headers.get(header::DATE).and_then(|v| http_date(v.to_str().ok()?))?;
    Some(theirs - now_secs()).filter(|ahead| differ(*ahead, 0))
}

/// Whether two readings are of different clocks.
pub(super) const fn differ(a: i64, b: i64) -> bool {
    a.abs_diff(b) > SKEWED
}

/// Now, by the clock of whoever answered, which the ends that it tells are to be read by.
pub(super) fn now_of(headers: &HeaderMap) -> i64 {
    now_secs() + ahead(headers).unwrap_or(0)
}

/// `Sat, 21 Nov 2026 11:35:17 GMT`.
fn http_date(text: &str) -> Option<i64> {
    let mut words = text.split([' ', ':']).skip(1);
    let day: u8 = words.next()?.parse().ok()?;
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let name = words.next()?;
    let month = months.iter().position(|m| *m == name)? + 1;
    let year: u16 = words.next()?.parse().ok()?;
    let mut two = || words.next()?.parse::<u8>().ok();
    let (hour, minute, second) = (two()?, two()?, two()?);
    let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
    text.parse::<Timestamp>().ok().map(Timestamp::secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn dates_of_heads() {
        assert_eq!(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(http_date("yesterday"), None);
    }

    #[test]
    fn only_what_matters_is_a_difference() {
        let head = HeaderMap::from_iter([(header::DATE, HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"))]);
        assert!(ahead(&head).is_some_and(|ahead| ahead < -900_000_000));
        assert!((now_of(&head) - 784_111_777).abs() <= 1);
        assert_eq!(ahead(&HeaderMap::new()), None);
    }
}
