//! Tokens of clouds: fetched once for all who wait, refreshed ahead of their end while they are used, read without a
//! lock. Knows nothing of requests; what a token is asked for with is a [`Grant`].

mod aws;
mod clock;
mod fetch;
mod google;
mod oauth;
mod slot;

pub use aws::Platform;
pub use clock::later;
pub use fetch::{Pass, Places};

use crate::outbound::Outbound;
use ahash::AHashMap;
use fetch::Fetcher;
use gateway_domain::Fault;
use gateway_domain::cloud::Grant;
use http::HeaderMap;
use quick_cache::sync::Cache;
use slot::TokenSlot;
use std::cell::RefCell;
use std::sync::Arc;
use tokio::runtime::Handle;

/// Credentials whose tokens are kept, those that came with requests among them; the least used make room.
const MOST_SLOTS: usize = 4096;
/// Credentials that each thread finds without asking the others; all are dropped when there are more.
const MOST_NEAR: usize = 1024;

type Id = [u8; 32];

thread_local! {
    static NEAR: RefCell<AHashMap<Id, Arc<TokenSlot>>> = RefCell::new(AHashMap::new());
}

/// One value for all threads.
pub struct Credentials {
    slots: Cache<Id, Arc<TokenSlot>>,
    fetcher: Arc<Fetcher>,
    /// Where tokens are fetched, apart from the proxy's workers.
    runtime: Handle,
}

impl Credentials {
    pub fn new(outbound: Outbound, places: Places, runtime: Handle) -> Self {
        Self { slots: Cache::new(MOST_SLOTS), fetcher: Arc::new(Fetcher { outbound, places }), runtime }
    }

    /// Waits only where no token that still holds is there.
    pub async fn token(&self, grant: &Arc<Grant>) -> Result<Pass, Fault> {
        let slot = self.slot(grant);
        if let Some(token) = slot.ready() {
            return Ok(token);
        }
        slot::wait(&slot, &self.fetcher, &self.runtime).await
    }

    /// The token that is at hand, if one that still holds is.
    pub fn ready(&self, grant: &Arc<Grant>) -> Option<Pass> {
        self.slot(grant).ready()
    }

    /// The provider did not take this token: the next call gets another one. Or its clock is not ours, as the head of
    /// its answer tells: then what is signed next is signed for its time.
    pub fn refused(&self, grant: &Arc<Grant>, token: &Pass, head: Option<&HeaderMap>) {
        let slot = self.slot(grant);
        let ahead = head.and_then(clock::ahead).unwrap_or(0);
        match token {
            Pass::Keys(_, believed) if clock::differ(ahead, *believed) => slot.set_clock(ahead),
            _ => slot.forget(token),
        }
    }

    fn slot(&self, grant: &Arc<Grant>) -> Arc<TokenSlot> {
        if let Some(slot) = NEAR.with_borrow(|near| near.get(&grant.id).cloned()) {
            return slot;
        }
        let made = || Ok::<_, std::convert::Infallible>(Arc::new(TokenSlot::new(grant.clone())));
        let Ok(slot) = self.slots.get_or_insert_with(&grant.id, made);
        NEAR.with_borrow_mut(|near| {
            if near.len() >= MOST_NEAR {
                near.clear();
            }
            near.insert(grant.id, slot.clone());
        });
        slot
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("kept", &self.slots.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
