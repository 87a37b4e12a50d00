//! What is known of alert rules beside what admins say of them: when each was looked at, what was found, when it was
//! last told, and what a message says. Knows neither clock nor channel.

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
    /// When it was last told that it is over.
    pub over_at: Option<Timestamp>,
}

impl AlertStanding {
    /// When it was told, unless it was told since that it is over.
    pub fn is_told(&self) -> Option<Timestamp> {
        self.fired_at.filter(|fired| self.over_at.is_none_or(|over| over < *fired))
    }
}

/// A budget that is used up as far as the rule says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetTold {
    /// The holder of the budget, in the form in which [`crate::ports::Holder`] is stored, like `key:<id>`.
    pub holder: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value_key: String,
    pub percent: f64,
}

/// What a message says: the rule as it was, and what was found. It holds no secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlertMessage {
    /// The id of the message, the same for every try to deliver it.
    pub id: Uuid,
    pub rule: Uuid,
    pub name: String,
    pub org: OrgId,
    pub workspace: Option<WorkspaceId>,
    pub kind: AlertKind,
    pub threshold: f64,
    /// `None`: there is nothing to measure any more.
    pub value: Option<f64>,
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
    /// It says that what was told at this time is over.
    #[serde(default)]
    pub over_since: Option<Timestamp>,
}

impl AlertMessage {
    /// The id of the message that follows the one of this time: whichever node finds out, it is one.
    pub fn id_after(rule: Uuid, fired_at: Option<Timestamp>) -> Uuid {
        Self::id_of("alert", rule, fired_at)
    }

    /// The id of the message that what was told at this time is over.
    pub fn id_of_end(rule: Uuid, fired_at: Timestamp) -> Uuid {
        Self::id_of("over", rule, Some(fired_at))
    }

    /// The id of the mail about an event of a budget, of which the text says all.
    pub fn id_of_mail(event: &str) -> Uuid {
        id_from(Sha256::new().chain_update(b"mail").chain_update(event.as_bytes()))
    }

    fn id_of(what: &str, rule: Uuid, at: Option<Timestamp>) -> Uuid {
        let mut hash = Sha256::new();
        hash.update(what.as_bytes());
        hash.update(rule.as_bytes());
        hash.update(at.map_or(0, |at| at.micros()).to_le_bytes());
        id_from(hash)
    }
}

fn id_from(hash: Sha256) -> Uuid {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
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
        let end = AlertMessage::id_of_end(rule, Timestamp(5));
        assert_ne!(end, AlertMessage::id_after(rule, Some(Timestamp(5))));
        assert_ne!(end, AlertMessage::id_of_end(rule, Timestamp(6)));
        assert_eq!(AlertMessage::id_of_mail("a"), AlertMessage::id_of_mail("a"));
        assert_ne!(AlertMessage::id_of_mail("a"), AlertMessage::id_of_mail("b"));
    }
}
