//! How secrets of managers stand on the node that is asked: when each was read, and why it was not.

use crate::id::SecretReferenceId;
use crate::time::Timestamp;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretStanding {
    /// When it was last read, as the manager has it.
    pub read_at: Option<Timestamp>,
    /// When another value than before was read.
    pub changed_at: Option<Timestamp>,
    /// Why the last read failed; the value before it stays in force. The rest of a sentence, without a secret.
    pub trouble: Option<String>,
}

impl SecretStanding {
    pub const fn state(&self) -> &'static str {
        match (&self.read_at, &self.trouble) {
            (Some(_), None) => "fresh",
            (Some(_), Some(_)) => "stale",
            (None, Some(_)) => "failed",
            (None, None) => "waiting",
        }
    }
}

pub trait SecretStandings: Send + Sync {
    /// `None` for one that this node has not heard of.
    fn standing(&self, id: SecretReferenceId) -> Option<SecretStanding>;
}
