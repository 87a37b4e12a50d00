//! Time as the store keeps it: integer microseconds since the Unix epoch, UTC.
//! There is no clock here; whoever needs "now" is given it.

use jiff::tz::TimeZone;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(pub i64);

impl Timestamp {
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs * 1_000_000)
    }

    pub const fn micros(self) -> i64 {
        self.0
    }

    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    pub const fn plus_micros(self, micros: i64) -> Self {
        Self(self.0.saturating_add(micros))
    }
}

/// RFC 3339 in UTC with milliseconds, as the Admin API shows every time.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(t) => write!(f, "{t:.3}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = String;

    /// RFC 3339 with an offset, or a bare date (midnight UTC).
    fn from_str(s: &str) -> Result<Self, String> {
        if let Ok(t) = s.parse::<jiff::Timestamp>() {
            return Ok(Self(t.as_microsecond()));
        }
        s.parse::<jiff::civil::Date>()
            .ok()
            .and_then(|d| d.to_zoned(TimeZone::UTC).ok())
            .map(|z| Self(z.timestamp().as_microsecond()))
            .ok_or_else(|| "must be an RFC 3339 date-time such as 2026-01-31T00:00:00Z".to_owned())
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_and_read_back() {
        let t = Timestamp(1_700_000_000_123_000);
        assert_eq!(t.to_string(), "2023-11-14T22:13:20.123Z");
        assert_eq!("2023-11-14T22:13:20.123Z".parse(), Ok(t));
        assert_eq!("2023-11-14T23:13:20.123+01:00".parse(), Ok(t));
        assert_eq!("1970-01-02".parse(), Ok(Timestamp::from_secs(86_400)));
        assert!("soon".parse::<Timestamp>().is_err());
    }
}
