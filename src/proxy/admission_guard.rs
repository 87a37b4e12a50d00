//! What is refused before anything costly is done: floods of unknown keys, storms from one address, and calls beyond
//! what a key or a provider takes at once. Knows no policy and no body.

use super::refusal::Refused;
use super::request::Request;
use crate::clock;
use crate::peers::Peers;
use gateway_domain::denied_caller::TurnedAway;
use gateway_domain::ports::Doorkeeper;
use gateway_domain::snapshot::ManagedProvider;
use gateway_domain::{Fault, FaultKind};
use parking_lot::Mutex;
use pingora::http::RequestHeader;
use pingora_limits::rate::Rate;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use uuid::Uuid;

/// So many that two busy threads seldom meet at one; only keys and providers with a bound come here.
const SHARDS: usize = 64;
/// When a place may be free again nobody knows.
const RETRY_MS: u64 = 1_000;

/// The most of each in a second from one address; 0 is no bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) unknown_keys: isize,
    pub(crate) requests: isize,
}

pub(crate) struct AdmissionGuard {
    bounds: Bounds,
    unknown_keys: Rate,
    requests: Rate,
    rooms: Arc<ConcurrencyLimits>,
    /// A bound is divided among the nodes: no node knows what the others have under way.
    peers: Peers,
    flooded: AtomicU64,
    crowded: AtomicU64,
}

/// Calls under way, of those that have a bound.
#[derive(Debug)]
struct ConcurrencyLimits([Mutex<HashMap<Uuid, u32>>; SHARDS]);

/// One call's place, free again when this is dropped: however the call ends.
#[derive(Debug)]
pub(crate) struct ConcurrencySlot {
    rooms: Arc<ConcurrencyLimits>,
    id: Uuid,
}

impl ConcurrencyLimits {
    fn shard(&self, id: Uuid) -> &Mutex<HashMap<Uuid, u32>> {
        // The last byte of an id is random.
        &self.0[usize::from(id.as_bytes()[15]) % SHARDS]
    }
}

impl Drop for ConcurrencySlot {
    fn drop(&mut self) {
        let mut room = self.rooms.shard(self.id).lock();
        if let Some(taken) = room.get_mut(&self.id) {
            *taken -= 1;
            if *taken == 0 {
                room.remove(&self.id);
            }
        }
    }
}

/// Whoever has one address of IPv6 has all of its /64.
fn network(address: Option<IpAddr>) -> Option<IpAddr> {
    address.map(|address| match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    })
}

impl AdmissionGuard {
    pub(crate) fn new(bounds: Bounds, peers: Peers) -> Self {
        let rate = || Rate::new(Duration::from_secs(1));
        Self {
            bounds,
            unknown_keys: rate(),
            requests: rate(),
            rooms: Arc::new(ConcurrencyLimits(std::array::from_fn(|_| Mutex::default()))),
            peers,
            flooded: AtomicU64::new(0),
            crowded: AtomicU64::new(0),
        }
    }

    /// Refused as too many from one address.
    pub(crate) fn flooded(&self) -> u64 {
        self.flooded.load(Ordering::Relaxed)
    }

    /// Refused as too many at once.
    pub(crate) fn crowded(&self) -> u64 {
        self.crowded.load(Ordering::Relaxed)
    }

    fn flood(&self, why: &'static str) -> Fault {
        self.flooded.fetch_add(1, Ordering::Relaxed);
        Fault::new(FaultKind::Flooded, why).retry_after_ms(RETRY_MS)
    }

    /// What comes with keys that nobody knows from this address need not be looked at.
    pub(crate) fn is_flooded_by(&self, address: Option<IpAddr>) -> bool {
        self.bounds.unknown_keys > 0 && self.unknown_keys.observe(&network(address), 0) > self.bounds.unknown_keys
    }

    pub(crate) fn unknown_keys(&self) -> Fault {
        self.flood("Too many requests with unknown keys from this address")
    }

    /// `what` is told to the caller.
    fn seat(&self, id: Uuid, most: NonZeroU32, what: impl FnOnce() -> String) -> Result<ConcurrencySlot, Fault> {
        let share = self.peers.place().share(most.get().into());
        let mut room = self.rooms.shard(id).lock();
        let taken = room.entry(id).or_default();
        if u64::from(*taken) < share {
            *taken += 1;
            return Ok(ConcurrencySlot { rooms: self.rooms.clone(), id });
        }
        drop(room);
        self.crowded.fetch_add(1, Ordering::Relaxed);
        let message = format!("{} allows {most} requests at once (max_parallel)", what());
        Err(Fault::new(FaultKind::RateLimited, message).retry_after_ms(RETRY_MS))
    }

    /// A place for a call of this key, where the key has a bound.
    pub(crate) fn caller(&self, request: &Request) -> Result<Option<ConcurrencySlot>, Fault> {
        let key = &request.caller.tenant.key;
        let Some(most) = key.max_parallel else { return Ok(None) };
        self.seat(key.id.0, most, || format!("API key \"{}\"", key.name)).map(Some)
    }

    /// A place for a call to this managed provider, where the provider has a bound.
    pub(crate) fn target(&self, provider: &ManagedProvider) -> Result<Option<ConcurrencySlot>, Fault> {
        let Some(most) = provider.max_parallel else { return Ok(None) };
        self.seat(provider.id.0, most, || format!("provider \"{}\"", provider.slug)).map(Some)
    }
}

impl AdmissionGuard {
    /// Asked of every request before all else. `from` looks for the address.
    pub(super) fn storm(&self, from: impl FnOnce() -> Option<IpAddr>) -> Option<Fault> {
        let most = self.bounds.requests;
        if most == 0 {
            return None;
        }
        // What comes from no address is a line of a batch, whose pace is bounded where it is run.
        let from = from()?;
        let seen = self.requests.observe(&network(Some(from)), 1);
        (seen > most).then(|| self.flood("Too many requests from this address"))
    }

    /// A flood of unknown keys from one address is shed without a further look; of others that were not let in the door
    /// is told who they were.
    pub(super) fn count_unknown(
        &self,
        (door, from): (&dyn Doorkeeper, Option<IpAddr>),
        head: &RequestHeader,
        refused: Refused,
    ) -> Refused {
        if refused.fault.kind() == FaultKind::Unauthenticated
            && let Some(flooded) = self.count_unknown_key(from)
        {
            return flooded.into();
        }
        if let Some(stranger) = refused.stranger {
            door.note(TurnedAway {
                stranger,
                at: clock::now(),
                status: refused.fault.status(),
                message: refused.fault.message().to_owned(),
                method: head.method.to_string(),
                path: TurnedAway::short(head.uri.path()),
                client: from,
            });
        }
        refused
    }

    /// What is told instead of "unknown" to an address that has sent too many such keys.
    pub(super) fn count_unknown_key(&self, from: Option<IpAddr>) -> Option<Fault> {
        let most = self.bounds.unknown_keys;
        let seen = || self.unknown_keys.observe(&network(from), 1);
        (most > 0 && seen() > most).then(|| self.unknown_keys())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one() {
        let of = |text: &str| network(Some(text.parse().expect("an address")));
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), of("2001:db8:1:2::1"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:203.0.113.9"), of("203.0.113.9"));
        assert_ne!(of("203.0.113.8"), of("203.0.113.9"));
    }
}
