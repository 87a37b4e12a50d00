//! What is known of alert rules beside what admins say of them: when each was looked at, what was found, when it was last
//! told, and what a message says. Knows neither clock nor channel.

use crate::id::{OrgId, WorkspaceId};
use crate::resource::alert::AlertKind;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use uuid::Uuid;

/// The kind of job that brings a message to where it is to go.
pub const ALERT_JOB: &str = "alert";

/// Budgets that one message names.
pub const MOST_BUDGETS_TOLD: usize = 20;

/// How a rule stands, for all nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlertStanding {
    pub rule: Uuid,
    pub checked_at: Timestamp,
    /// What was found then; `None`: nothing to measure.
    pub value: Option<f64>,
    /// When it was last told.
    pub fired_at: Option<Timestamp>,
}

/// A budget that is used up as far as the rule says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetTold {
    /// As [`crate::ports::Holder`] is written.
    pub holder: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value_key: String,
    pub percent: f64,
}

/// What a message says: the rule as it was, and what was found. It holds no secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlertMessage {
    /// The same for every try.
    pub id: Uuid,
    pub rule: Uuid,
    pub name: String,
    pub org: OrgId,
    pub workspace: Option<WorkspaceId>,
    pub kind: AlertKind,
    pub threshold: f64,
    pub value: f64,
    pub window_minutes: u32,
    pub calls: i64,
    /// Not all calls of the window could be read.
    pub is_partial: bool,
    #[serde(default)]
    pub budgets: Vec<BudgetTold>,
    pub at: Timestamp,
    /// Somebody tries whether it arrives.
    #[serde(default)]
    pub is_test: bool,
}

impl AlertMessage {
    /// The id of the message that follows the one of this time: whichever node finds out, it is one.
    pub fn id_after(rule: Uuid, fired_at: Option<Timestamp>) -> Uuid {
        let mut hash = Sha256::new();
        hash.update(b"alert");
        hash.update(rule.as_bytes());
        hash.update(fired_at.map_or(0, |at| at.micros()).to_le_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.finalize()[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid()
    }
}

/// How far a message has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertProgress {
    /// The audit trail has it.
    pub is_noted: bool,
    /// Channels that have it, or will never take it, by their keys.
    #[serde(default)]
    pub done: BTreeSet<String>,
    /// Why those that will never take it do not.
    #[serde(default)]
    pub refused: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_one_id_for_each_time() {
        let rule = Uuid::from_u128(1);
        let first = AlertMessage::id_after(rule, None);
        assert_eq!(first, AlertMessage::id_after(rule, None));
        assert_ne!(first, AlertMessage::id_after(rule, Some(Timestamp(5))));
        assert_ne!(first, AlertMessage::id_after(Uuid::from_u128(2), None));
    }
}
