//! Keys by the hash of their secret, in shards: a change at a million keys copies one shard of a thousand.

use super::entry::Key;
use crate::id::KeyId;
use crate::keys::KeyHash;
use crate::resource::Stored;
use std::collections::HashMap;
use std::sync::Arc;

const SHARDS: usize = 1024;

type ByHash = HashMap<KeyHash, Arc<Key>, ahash::RandomState>;
type KeysById = HashMap<KeyId, KeyHash, ahash::RandomState>;

#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    /// Empty until the first key; then `SHARDS` long.
    by_hash: Arc<Vec<Arc<ByHash>>>,
    by_id: Arc<Vec<Arc<KeysById>>>,
}

fn shard_of_hash(hash: &KeyHash) -> usize {
    (usize::from(hash.0[0]) << 2 | usize::from(hash.0[1] >> 6)) % SHARDS
}

/// The last bytes: the first ones of a version 7 id are the time and would fill one shard.
fn shard_of_id(id: KeyId) -> usize {
    let b = id.0.as_bytes();
    (usize::from(b[15]) << 2 | usize::from(b[14] & 3)) % SHARDS
}

impl Keys {
    pub(super) fn get(&self, hash: &KeyHash) -> Option<&Arc<Key>> {
        self.by_hash.get(shard_of_hash(hash))?.get(hash)
    }

    pub(super) fn by_id(&self, id: KeyId) -> Option<&Arc<Key>> {
        self.get(self.by_id.get(shard_of_id(id))?.get(&id)?)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Key>> {
        self.by_hash.iter().flat_map(|s| s.values()).filter(|k| !k.retiring())
    }

    pub(super) fn edit(&self, expected: usize) -> KeysEdit {
        let mut next = self.clone();
        if expected > 0 && next.by_hash.is_empty() {
            next.by_hash = Arc::new(vec![Arc::default(); SHARDS]);
            next.by_id = Arc::new(vec![Arc::default(); SHARDS]);
        }
        KeysEdit { next }
    }
}

/// Keys being changed; untouched shards stay shared with the snapshot before.
pub(super) struct KeysEdit {
    next: Keys,
}

impl KeysEdit {
    /// Puts a live key in, takes a deleted one out. A rotated key leaves under its old hashes, and stays under
    /// the one before while that still opens.
    pub(super) fn put(&mut self, row: &Stored, hash: KeyHash, key: Key) {
        let id = KeyId(row.id);
        let by_id = Arc::make_mut(&mut Arc::make_mut(&mut self.next.by_id)[shard_of_id(id)]);
        let old = if row.deleted_at.is_none() { by_id.insert(id, hash) } else { by_id.remove(&id) };
        let by_hash = Arc::make_mut(&mut self.next.by_hash);
        if let Some(old) = old {
            let shard = Arc::make_mut(&mut by_hash[shard_of_hash(&old)]);
            let before = shard.remove(&old).and_then(|k| k.rotation.as_ref()?.previous);
            if let Some((before, _)) = before {
                Arc::make_mut(&mut by_hash[shard_of_hash(&before)]).remove(&before);
            }
        }
        if row.deleted_at.is_none() {
            if let Some((before, key)) = key.before() {
                Arc::make_mut(&mut by_hash[shard_of_hash(&before)]).insert(before, Arc::new(key));
            }
            Arc::make_mut(&mut by_hash[shard_of_hash(&hash)]).insert(hash, Arc::new(key));
        }
    }

    pub(super) fn finish(self) -> Keys {
        self.next
    }
}
