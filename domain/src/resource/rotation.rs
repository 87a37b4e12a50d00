//! When the secret of a key is replaced, and how long the old one still opens. At most two open at any time.

use super::Invalid;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

const DAY: i64 = 86_400_000_000;
pub const SHORTEST_TRANSITION_MS: u64 = 1_800_000;
pub const LONGEST_TRANSITION_MS: u64 = 365 * 86_400_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RotationPeriod {
    Weekly,
    Monthly,
}

impl RotationPeriod {
    pub const fn days(self) -> u16 {
        match self {
            Self::Weekly => 7,
            Self::Monthly => 30,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RotationPolicy {
    /// Kept as it was given, for clients that compare; [`Self::rotation_period_days`] is what counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation_period: Option<RotationPeriod>,
    pub rotation_period_days: u16,
    pub next_rotation_at: Timestamp,
    pub key_transition_period_ms: u64,
    /// The rotation that was told of a day ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announced: Option<Timestamp>,
}

/// The secret before the last rotation, while it still opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    pub previous_hash: String,
    pub previous_masked: String,
    pub previous_until: Timestamp,
    /// Its end was told of a day ahead, or is too near for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub announced: bool,
}

impl RotationPolicy {
    pub fn check(&self) -> Result<(), Invalid> {
        if !(1..=365).contains(&self.rotation_period_days) {
            return Err(Invalid::new("rotation_policy.rotation_period_days", "must be in 1..365"));
        }
        let field = "rotation_policy.key_transition_period_ms";
        check_transition(field, self.key_transition_period_ms)?;
        if self.key_transition_period_ms >= u64::from(self.rotation_period_days) * 86_400_000 {
            return Err(Invalid::new(field, "must be shorter than the rotation period"));
        }
        Ok(())
    }
}

impl RotationPolicy {
    /// When the next rotation is to be told of; not where they follow each other by the day.
    pub fn announce_at(&self) -> Option<Timestamp> {
        let told = self.announced == Some(self.next_rotation_at) || self.rotation_period_days < 2;
        (!told).then(|| self.next_rotation_at.plus_micros(-DAY))
    }
}

impl Transition {
    /// When the end of the secret before is to be told of.
    pub fn announce_at(&self) -> Option<Timestamp> {
        (!self.announced).then(|| self.previous_until.plus_micros(-DAY))
    }
}

/// Whether a transition is too short for its end to be told of a day ahead.
pub const fn ends_at_once(ms: u64) -> bool {
    ms <= 86_400_000
}

pub fn check_transition(field: &str, ms: u64) -> Result<(), Invalid> {
    if (SHORTEST_TRANSITION_MS..=LONGEST_TRANSITION_MS).contains(&ms) {
        return Ok(());
    }
    Err(Invalid::new(field, format!("must be in {SHORTEST_TRANSITION_MS}..{LONGEST_TRANSITION_MS}")))
}

/// Rotations fall on midnight, UTC.
pub const fn midnight(at: Timestamp) -> Timestamp {
    Timestamp(at.0.div_euclid(DAY) * DAY)
}

/// The rotation after one at `now`.
pub const fn next(now: Timestamp, days: u16) -> Timestamp {
    Timestamp(midnight(now).0 + days as i64 * DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitions_are_bounded_by_the_period() {
        let policy = |days, ms| RotationPolicy {
            rotation_period: None,
            rotation_period_days: days,
            next_rotation_at: Timestamp(0),
            key_transition_period_ms: ms,
            announced: None,
        };
        assert_eq!(policy(1, 1_800_000).check(), Ok(()));
        for (days, ms, field) in [
            (0, 1_800_000, "rotation_policy.rotation_period_days"),
            (366, 1_800_000, "rotation_policy.rotation_period_days"),
            (1, 1_799_999, "rotation_policy.key_transition_period_ms"),
            (1, 86_400_000, "rotation_policy.key_transition_period_ms"),
        ] {
            assert_eq!(policy(days, ms).check().map_err(|e| e.field), Err(field.to_owned()));
        }
    }

    #[test]
    fn rotations_fall_on_midnight() {
        let noon: Timestamp = "2026-03-01T12:00:00Z".parse().expect("a time");
        assert_eq!(next(noon, 7).to_string(), "2026-03-08T00:00:00.000Z");
    }
}
