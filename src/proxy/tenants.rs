//! Callers that this worker has served in the world in force, by what they signed in with. What a request holds of its
//! caller is then counted on the worker's own lines of memory: keys, workspaces and organisations are the same for all
//! workers, and each request would write to their counts. Knows nothing of how a caller is found.
//!
//! A credential is known again by a code that only this process can make of it (SipHash-2-4 with a secret of its own,
//! 128 bits), at a tenth of what its SHA-256 costs without instructions made for that. No credential is kept.

use super::request::Tenant;
use crate::runtime_config::RuntimeConfig;
use ahash::AHashMap;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::cell::RefCell;
use std::hash::Hasher;
use std::sync::Arc;

/// More callers than this begin anew: each costs only one look into the snapshot.
const MOST: usize = 1_024;

struct Served {
    /// Makes the codes; a copy is fed for each.
    secret: SipHasher24,
    /// What was true in another world is not asked for again.
    world: Option<Arc<RuntimeConfig>>,
    tenants: AHashMap<u128, Arc<Tenant>>,
}

impl Default for Served {
    fn default() -> Self {
        let secret = SipHasher24::new_with_keys(rand::random(), rand::random());
        Self { secret, world: None, tenants: AHashMap::new() }
    }
}

impl Served {
    fn is_of(&self, world: &Arc<RuntimeConfig>) -> bool {
        self.world.as_ref().is_some_and(|known| Arc::ptr_eq(known, world))
    }

    fn code(&self, credential: &str) -> u128 {
        let mut hasher = self.secret;
        hasher.write(credential.as_bytes());
        hasher.finish128().as_u128()
    }
}

thread_local! {
    static SERVED: RefCell<Served> = RefCell::default();
}

pub(super) fn find(world: &Arc<RuntimeConfig>, credential: &str) -> Option<Arc<Tenant>> {
    SERVED.with_borrow(|served| {
        if !served.is_of(world) {
            return None;
        }
        served.tenants.get(&served.code(credential)).cloned()
    })
}

pub(super) fn keep(world: &Arc<RuntimeConfig>, credential: &str, tenant: &Arc<Tenant>) {
    SERVED.with_borrow_mut(|served| {
        if !served.is_of(world) || served.tenants.len() >= MOST {
            served.tenants.clear();
            served.world = Some(world.clone());
        }
        let code = served.code(credential);
        served.tenants.insert(code, tenant.clone());
    });
}
