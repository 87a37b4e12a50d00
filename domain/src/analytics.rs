//! What records add up to: sums of calls, tokens, money and time, and what they are told apart by. Rollups are these
//! sums, kept by the hour and the day while records are stored; a question that no rollup can answer makes the same
//! sums from the records themselves, by the same rules. Knows no store and no clock.

mod combination;
mod margin;
mod projection;
mod query;
mod sketch;
mod sums;

pub use combination::{Combination, CutValues, MOST_NAMED};
pub use margin::Margin;
pub use projection::{SumPart, SumParts};
pub use query::{Dimension, SumCell, SumQuery, SumsFound};
pub use sketch::Sketch;
pub use sums::{Fact, Sums};

use crate::time::Timestamp;

/// Metadata by which a user is told.
const USER: &str = "_user";

/// How much time one row of a rollup is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grain {
    Hour,
    Day,
}

impl Grain {
    pub const ALL: [Self; 2] = [Self::Hour, Self::Day];

    pub const fn micros(self) -> i64 {
        match self {
            Self::Hour => 3_600_000_000,
            Self::Day => 86_400_000_000,
        }
    }

    /// The last beginning of such a span, in UTC, that is not behind this time.
    pub const fn floor(self, time: Timestamp) -> Timestamp {
        Timestamp(time.0 - time.0.rem_euclid(self.micros()))
    }

    /// The first that is not before it.
    pub const fn ceil(self, time: Timestamp) -> Timestamp {
        let floor = self.floor(time);
        if floor.0 == time.0 { floor } else { floor.plus_micros(self.micros()) }
    }
}
