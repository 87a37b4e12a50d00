//! Tokens that stand for keys: what proxy and Admin API ask of whoever holds the issuers' keys.

use super::Fut;
use crate::id::OrgId;
use crate::keys::KeyHash;
use crate::snapshot::{Key, Snapshot};
use crate::time::Timestamp;
use crate::token::TokenError;
use std::sync::Arc;

/// Tokens of the issuers that organisations trust.
pub trait Tokens: Send + Sync {
    /// The key that a token stands for, by the issuers' keys that are held now. `hash` is of the whole token.
    fn key(&self, snapshot: &Snapshot, token: &str, hash: &KeyHash, now: Timestamp) -> Result<Arc<Key>, TokenError>;
    /// The organisation that a token names, though nobody vouches for it: whose audit trail tells of it.
    fn named(&self, snapshot: &Snapshot, token: &str) -> Option<OrgId>;
    /// Asks the issuers of an organisation for their keys again, at a bounded rate. Comes back when they have
    /// answered, at once when they were asked too often already, and after a short while in any case.
    fn refresh(&self, org: OrgId) -> Fut<'_, ()>;
}
