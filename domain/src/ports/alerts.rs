//! How alert rules stand, shared by all nodes, so that each is looked at by one and told once.

use super::{Fut, StoreError};
use crate::alert::AlertStanding;
use crate::time::Timestamp;
use uuid::Uuid;

pub trait AlertStandings: Send + Sync {
    /// How each of these rules stands; one that was never looked at has no standing.
    fn alert_standings<'a>(&'a self, rules: &'a [Uuid]) -> Fut<'a, Result<Vec<AlertStanding>, StoreError>>;
    /// Takes a rule to look at it. False: another node did since `seen`.
    fn claim_alert(&self, rule: Uuid, seen: Option<Timestamp>, now: Timestamp) -> Fut<'_, Result<bool, StoreError>>;
    /// What was found.
    fn note_alert(&self, rule: Uuid, value: Option<f64>) -> Fut<'_, Result<(), StoreError>>;
    /// It is told. False: another node told it since `seen`.
    fn fire_alert(&self, rule: Uuid, seen: Option<Timestamp>, now: Timestamp) -> Fut<'_, Result<bool, StoreError>>;
    /// It is told that what was told at `fired` is over. False: another node told it.
    fn end_alert(&self, rule: Uuid, fired: Timestamp, now: Timestamp) -> Fut<'_, Result<bool, StoreError>>;
    /// Forgets rules that nobody looked at since this; how many.
    fn forget_alerts(&self, before: Timestamp) -> Fut<'_, Result<u64, StoreError>>;
}
