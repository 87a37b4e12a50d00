//! Records that clients make of calls of their own: taken into the journal as those of the gateway are. What was sent
//! twice is told by a claim, since a client that heard no answer sends again.

use super::{Fut, StoreError};
use crate::operation::Dialect;
use crate::record::{LogRecord, mask};
use crate::time::Timestamp;
use crate::usage::Usage;
use bytes::Bytes;
use uuid::Uuid;

/// What an answer says by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldUsage {
    pub usage: Option<Usage>,
    pub model: Option<String>,
}

pub trait RecordIntake: Send + Sync {
    /// All of them are in the journal when this returns, or the caller is told to come again.
    fn take(&self, records: Vec<LogRecord>) -> Fut<'_, Result<(), StoreError>>;
    fn overhear(&self, dialect: Dialect, answer: &Bytes) -> ToldUsage;
    /// How headers are masked of a call that ended so; `None`: nothing of its messages may be kept.
    fn mask_rules(&self, status: u16) -> Option<&mask::MaskRules>;
}

/// Remembers names of what clients send.
pub trait RecordClaims: Send + Sync {
    /// When each was first named, in the order given, which is now for those that are new.
    fn claim<'a>(&'a self, names: &'a [Uuid], now: Timestamp) -> Fut<'a, Result<Vec<Timestamp>, StoreError>>;
    /// Whether nobody has named it before: of all who ask, at whatever moment and node, one is told so.
    fn claim_first(&self, name: Uuid, now: Timestamp) -> Fut<'_, Result<bool, StoreError>>;
    /// Forgets those that were named before this, some thousands at a time; how many.
    fn forget_claims(&self, before: Timestamp) -> Fut<'_, Result<u64, StoreError>>;
}
