//! Where proxy and Admin API tell of callers that they did not let in.

use crate::denied_caller::TurnedAway;

/// Tells operators and admins of refused callers. Never waits, and bounds by itself what it keeps: anybody can be
/// refused, as often as they like.
pub trait Doorkeeper: Send + Sync {
    fn note(&self, caller: TurnedAway);
}
