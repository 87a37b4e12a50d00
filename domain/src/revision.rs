//! How far the configuration has come, and what changed on the way.

use crate::resource::Stored;

/// Number of the last committed change of the configuration. Starts at 0, grows by one with each write.
pub type Revision = i64;

/// Rows with the revision they are complete up to. From `load`, live rows only; from `since`, tombstones too.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub revision: Revision,
    pub rows: Vec<Stored>,
}
