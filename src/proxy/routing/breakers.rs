//! The circuit breakers of configs in use. A config says which targets have one and by which rules; how they stand is
//! kept here, by what the config is and whose: an edit of a saved config keeps those of targets that stay, and a config
//! that two tenants send alike has breakers for each. Bounded in bytes; a config long unused begins anew.

use super::{ChosenConfig, Request};
use gateway_domain::WorkspaceId;
use gateway_domain::config::breaker::BreakerStatus;
use gateway_domain::config::{BreakerSet, Breakers, Config};
use gateway_domain::id::ConfigId;
use gateway_domain::snapshot::ConfigEntry;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::hash::Hash;
use std::sync::Arc;

/// The most bytes that breakers take, and how many sets are expected: once for saved configs, once for inline ones.
const MOST_BYTES: u64 = 16 << 20;
const EXPECTED: usize = 4096;

#[derive(Clone, Debug)]
struct BreakerWeight;

impl<K> Weighter<K, Arc<BreakerSet>> for BreakerWeight {
    fn weight(&self, _: &K, set: &Arc<BreakerSet>) -> u64 {
        set.memory() as u64
    }
}

type BreakerSets<K> = Cache<K, Arc<BreakerSet>, BreakerWeight>;

#[derive(Debug)]
pub(crate) struct BreakerStates {
    saved: BreakerSets<ConfigId>,
    /// Who sends inline configs cannot push out those of saved ones.
    inline: BreakerSets<(WorkspaceId, [u8; 16])>,
}

impl Default for BreakerStates {
    fn default() -> Self {
        let [saved, inline] = [MOST_BYTES; 2];
        Self {
            saved: Cache::with_weighter(EXPECTED, saved, BreakerWeight),
            inline: Cache::with_weighter(EXPECTED, inline, BreakerWeight),
        }
    }
}

impl BreakerStates {
    /// The breakers of the config that was chosen for a request; `None` for one without any, as most are.
    pub(super) fn of(&self, chosen: &ChosenConfig, request: &Request) -> Option<Breakers> {
        if chosen.config.guarded().is_empty() {
            return None;
        }
        let set = match chosen.saved {
            Some(saved) => find(&self.saved, saved.id, &chosen.config),
            None => {
                let owner = (request.caller.tenant.workspace.id, chosen.config.fingerprint());
                find(&self.inline, owner, &chosen.config)
            }
        };
        Some(set.all().clone())
    }

    /// How the targets of a saved config stand that have a breaker.
    pub(crate) fn states(&self, saved: &ConfigEntry, now_ms: i64) -> Vec<BreakerStatus> {
        let known = self.saved.peek(&saved.id);
        let set = known.map_or_else(|| BreakerSet::new(&saved.config), |known| known.carried(&saved.config));
        set.all().iter().map(|breaker| breaker.state(now_ms)).collect()
    }
}

fn find<K: Hash + Eq + Copy>(sets: &BreakerSets<K>, owner: K, config: &Config) -> Arc<BreakerSet> {
    match sets.get(&owner) {
        Some(set) if set.is_of(config) => set,
        before => {
            let set = Arc::new(before.map_or_else(|| BreakerSet::new(config), |before| before.carried(config)));
            sets.insert(owner, set.clone());
            set
        }
    }
}
