//! What somebody thinks of a call: a value with a weight, told of its trace by a client or by a guardrail. Rows beside
//! the configuration, since whoever tells waits for the answer that they are kept.

use crate::id::{OrgId, WorkspaceId};
use crate::time::Timestamp;
use smol_str::SmolStr;
use std::ops::RangeInclusive;
use uuid::Uuid;

/// Pieces of feedback that one trace may have; more says nothing new.
pub const MOST_OF_TRACE: u64 = 100;

/// The values that an opinion may have, in whole numbers.
pub const VALUES: RangeInclusive<i64> = -10..=10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFeedback {
    pub id: Uuid,
    pub org: OrgId,
    pub workspace: WorkspaceId,
    pub trace_id: String,
    pub opinion: Opinion,
    /// That of the call, where it was known.
    pub model: SmolStr,
    /// `client` or `guardrail`.
    pub source: SmolStr,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// The opinion itself, in thousandths.
    pub value: i64,
    /// How much the value counts, in millionths: 0 to 1.
    pub weight: i64,
    /// A JSON object.
    pub metadata: String,
}

impl Opinion {
    /// `None`: out of bounds.
    pub fn of(value: f64, weight: f64, metadata: String) -> Option<Self> {
        #[expect(clippy::cast_precision_loss, reason = "small")]
        let (least, most) = (*VALUES.start() as f64, *VALUES.end() as f64);
        if !(least..=most).contains(&value) || !(0.0..=1.0).contains(&weight) {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
        Some(Self { value: (value * 1e3).round() as i64, weight: (weight * 1e6).round() as i64, metadata })
    }
}

/// Which are asked for; newest first.
#[derive(Clone, Debug, Default)]
pub struct FeedbackQuery {
    pub id: Option<Uuid>,
    pub org: Option<OrgId>,
    /// Empty: of the whole organisation.
    pub workspaces: Vec<WorkspaceId>,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    pub trace_ids: Vec<String>,
    pub most: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opinions_have_bounds() {
        let of = |value, weight| Opinion::of(value, weight, "{}".to_owned()).map(|o| (o.value, o.weight));
        assert_eq!(of(-10.0, 0.5), Some((-10_000, 500_000)));
        for (value, weight) in [(10.1, 1.0), (f64::NAN, 1.0), (1.0, -0.1), (1.0, 1.1), (1.0, f64::INFINITY)] {
            assert_eq!(of(value, weight), None, "{value} {weight}");
        }
    }
}
