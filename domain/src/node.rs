//! A process that shares the configuration with others, as it tells of itself.

use crate::revision::Revision;
use crate::time::Timestamp;
use uuid::Uuid;

/// Silent for longer, a node counts as gone.
const ALIVE_MICROS: i64 = 10_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub id: Uuid,
    /// `all`, `proxy`, `admin`.
    pub role: String,
    /// Slug of the deployment that it is of; empty for none.
    pub deployment: String,
    pub version: String,
    /// The state of the configuration that it serves by.
    pub revision: Revision,
    pub started_at: Timestamp,
}

/// A node as the others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenNode {
    pub node: Node,
    /// When it was last heard of, by the store's clock, so that nodes need not agree on the time.
    pub seen_at: Timestamp,
    /// Time since `seen_at`, in microseconds.
    pub silent_micros: i64,
    /// Changes that it has not heard of.
    pub lag: Revision,
}

impl SeenNode {
    pub const fn is_live(&self) -> bool {
        self.silent_micros < ALIVE_MICROS
    }

    /// Whether it serves requests and so shares their limits.
    pub fn serves(&self) -> bool {
        self.is_live() && self.node.role != "admin"
    }
}
