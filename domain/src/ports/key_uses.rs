//! When keys were last used. Whoever lets a key in says so, which costs next to nothing; what is noted is stored behind
//! that, some at a time.

use super::{Fut, StoreError};
use crate::id::KeyId;
use crate::snapshot::Key;
use crate::time::Timestamp;
use std::collections::HashMap;

pub trait KeyUses: Send + Sync {
    /// The key opened something. Waits for nothing.
    fn note(&self, key: &Key, now: Timestamp);
    /// When each of these keys was last used, to the minute; a key that was never used is not in the map.
    fn last_uses<'a>(&'a self, keys: &'a [KeyId]) -> Fut<'a, Result<HashMap<KeyId, Timestamp>, StoreError>>;
}
