//! Callers that this worker has served in the world in force. What a request holds of its caller is then counted on the
//! worker's own lines of memory: keys, workspaces and organisations are the same for all workers, and each request would write
//! to their counts. Knows nothing of how a caller is found.

use super::request::Tenant;
use crate::runtime_config::RuntimeConfig;
use ahash::AHashMap;
use gateway_domain::keys::KeyHash;
use std::cell::RefCell;
use std::sync::Arc;

/// More callers than this begin anew: each costs only one look into the snapshot.
const MOST: usize = 1_024;

#[derive(Default)]
struct Served {
    /// What was true in another world is not asked for again.
    world: Option<Arc<RuntimeConfig>>,
    tenants: AHashMap<KeyHash, Arc<Tenant>>,
}

impl Served {
    fn is_of(&self, world: &Arc<RuntimeConfig>) -> bool {
        self.world.as_ref().is_some_and(|known| Arc::ptr_eq(known, world))
    }
}

thread_local! {
    static SERVED: RefCell<Served> = RefCell::default();
}

pub(super) fn find(world: &Arc<RuntimeConfig>, key: &KeyHash) -> Option<Arc<Tenant>> {
    SERVED.with_borrow(|served| served.tenants.get(key).filter(|_| served.is_of(world)).cloned())
}

pub(super) fn keep(world: &Arc<RuntimeConfig>, key: KeyHash, tenant: &Arc<Tenant>) {
    SERVED.with_borrow_mut(|served| {
        if !served.is_of(world) || served.tenants.len() >= MOST {
            served.tenants.clear();
            served.world = Some(world.clone());
        }
        served.tenants.insert(key, tenant.clone());
    });
}
