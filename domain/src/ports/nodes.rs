//! Which processes share a configuration, as they see each other.

use super::{Fut, StoreError};
use crate::node::{Node, SeenNode};
use uuid::Uuid;

/// The processes that share a configuration.
pub trait NodeRegistry: Send + Sync {
    /// This one is there, and has come so far.
    fn beat<'a>(&'a self, node: &'a Node) -> Fut<'a, Result<(), StoreError>>;
    /// This one will not come again.
    fn leave(&self, id: Uuid) -> Fut<'_, Result<(), StoreError>>;
    /// All that were heard of in the last minutes, oldest first.
    fn nodes(&self) -> Fut<'_, Result<Vec<SeenNode>, StoreError>>;
}
