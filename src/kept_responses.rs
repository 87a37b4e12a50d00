//! Responses that were made of the answers of providers which keep none, kept for a while so that their clients can go
//! on from one by its id. Bounded in bytes; where nodes share a shelf, any of them finds what another keeps. Knows
//! nothing of requests, providers or the form of an item.

mod entry;
mod figures;
#[cfg(test)]
mod tests;

pub(crate) use entry::KeptResponse;
pub(crate) use figures::KeptResponseFigures;

use crate::cache::{CacheKey, KeyBuilder, SharedCache};
use gateway_domain::Timestamp;
use gateway_domain::id::{KeyId, WorkspaceId};
use gateway_domain::ports::IdSeal;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// One that is larger than this share of the shelf would push out too many others.
const LARGEST_SHARE: usize = 8;

/// The owner of responses: another key does not find them, not even one of the same workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseOwner {
    pub(crate) workspace: WorkspaceId,
    pub(crate) key: KeyId,
}

impl ResponseOwner {
    /// `stem`: what a response's id and those of its items have in common.
    fn place(self, stem: &str) -> CacheKey {
        let mut key = KeyBuilder::new();
        key.part(b"response").part(self.workspace.0.as_bytes()).part(self.key.0.as_bytes()).part(stem.as_bytes());
        key.finish()
    }
}

#[derive(Clone, Debug)]
struct ResponseWeight;

impl Weighter<CacheKey, Arc<KeptResponse>> for ResponseWeight {
    fn weight(&self, _: &CacheKey, response: &Arc<KeptResponse>) -> u64 {
        response.weight() as u64
    }
}

/// How long, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeepBounds {
    /// Zero: nothing is kept.
    pub(crate) time: Duration,
    /// The bytes of all kept responses together, in this process.
    pub(crate) bytes: usize,
}

/// The process's shelf of responses.
pub(crate) struct KeptResponses {
    shelf: Cache<CacheKey, Arc<KeptResponse>, ResponseWeight>,
    /// What lies there is sealed.
    shared: Option<Arc<dyn SharedCache>>,
    seal: Arc<dyn IdSeal>,
    bounds: KeepBounds,
}

impl fmt::Debug for KeptResponses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptResponses").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl KeptResponses {
    pub(crate) fn new(bounds: KeepBounds, shared: Option<Arc<dyn SharedCache>>, seal: Arc<dyn IdSeal>) -> Arc<Self> {
        let guess = (bounds.bytes / 16_384).clamp(16, 1 << 20);
        let shelf = Cache::with_weighter(guess, bounds.bytes as u64, ResponseWeight);
        Arc::new(Self { shelf, shared, seal, bounds })
    }

    pub(crate) const fn is_on(&self) -> bool {
        !self.bounds.time.is_zero() && self.bounds.bytes > 0
    }

    /// Bytes of the largest that is kept.
    pub(crate) const fn largest(&self) -> usize {
        self.bounds.bytes / LARGEST_SHARE
    }

    /// Found from now on, by any node that shares the shelf. One that is too large is not kept.
    pub(crate) async fn keep(&self, owner: ResponseOwner, stem: &str, response: KeptResponse, now: Timestamp) {
        let response = response.until(now.plus_micros(micros(self.bounds.time)));
        if response.weight() > self.largest() {
            return;
        }
        let place = owner.place(stem);
        if let Some(shared) = &self.shared {
            shared.put(&place, self.seal.seal(&response.encode()).into_bytes(), self.bounds.time).await;
        }
        self.shelf.insert(place, Arc::new(response));
    }

    pub(crate) async fn find(&self, owner: ResponseOwner, stem: &str, now: Timestamp) -> Option<Arc<KeptResponse>> {
        let place = owner.place(stem);
        let shared = match &self.shared {
            Some(shared) => shared.get(&place).await,
            None => None,
        };
        let found = match shared {
            // Another node may have deleted what lies here: the shared shelf knows.
            Some(sealed) if sealed.is_empty() => None,
            Some(sealed) => self.opened(&sealed).map(Arc::new),
            None => self.shelf.get(&place),
        };
        let found = found.filter(|response| response.expires > now);
        if found.is_none() {
            self.shelf.remove(&place);
        }
        found
    }

    pub(crate) async fn forget(&self, owner: ResponseOwner, stem: &str) {
        let place = owner.place(stem);
        self.shelf.remove(&place);
        if let Some(shared) = &self.shared {
            // An empty one stays in its place, for nodes that have it still.
            shared.put(&place, Vec::new(), self.bounds.time).await;
        }
    }

    fn opened(&self, sealed: &[u8]) -> Option<KeptResponse> {
        KeptResponse::decode(&self.seal.open(std::str::from_utf8(sealed).ok()?)?)
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}
