//! A place in the list of records, newest first: between a record and the next older one. It stays where it is while
//! newer records come, so that pages behind one another repeat and skip none.

use crate::time::Timestamp;
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogCursor {
    pub created_at: Timestamp,
    pub id: Uuid,
}

impl LogCursor {
    /// Before every record.
    pub const START: Self = Self { created_at: Timestamp(i64::MAX), id: Uuid::max() };
}

/// Clients need not understand it, only hand it back.
impl fmt::Display for LogCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.created_at.micros(), self.id.as_simple())
    }
}

impl FromStr for LogCursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (micros, id) = text.split_once('.').ok_or(())?;
        Ok(Self { created_at: Timestamp(micros.parse().map_err(drop)?), id: id.parse().map_err(drop)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_comes_back() {
        let place = LogCursor { created_at: Timestamp(-5), id: Uuid::from_u128(7) };
        assert_eq!(place.to_string().parse(), Ok(place));
        assert_eq!(LogCursor::START.to_string().parse(), Ok(LogCursor::START));
        for text in ["", "5", "5.x", "x.00000000000000000000000000000007"] {
            assert_eq!(text.parse::<LogCursor>(), Err(()), "{text}");
        }
    }
}
