//! How many nodes serve requests, and which of them this one is: a limit that is not shared is divided among them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Count in the upper half, rank in the lower: both change together.
#[derive(Clone, Debug)]
pub(crate) struct Peers(Arc<AtomicU64>);

/// This node among those that serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerRank {
    /// This one included; never 0.
    pub(crate) count: u32,
    /// This node's number among them: less than `count`, and another on each node.
    pub(crate) rank: u32,
}

impl Default for Peers {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(1 << 32)))
    }
}

impl Peers {
    pub(crate) fn place(&self) -> PeerRank {
        let both = self.0.load(Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        let (count, rank) = ((both >> 32) as u32, both as u32);
        PeerRank { count, rank }
    }

    pub(crate) fn count(&self) -> usize {
        self.place().count as usize
    }

    /// `rank`: how many of the others come before this one.
    pub(crate) fn set(&self, serving: usize, rank: usize) {
        let count = u32::try_from(serving.max(1)).unwrap_or(u32::MAX);
        let rank = u32::try_from(rank).unwrap_or(0).min(count - 1);
        self.0.store(u64::from(count) << 32 | u64::from(rank), Ordering::Relaxed);
    }
}

impl PeerRank {
    /// What of a limit this node may let through. All shares together are the limit; only where it is smaller than
    /// the number of nodes each may still let one through.
    pub(crate) const fn share(self, limit: u64) -> u64 {
        let (count, rank) = (self.count as u64, self.rank as u64);
        let share = limit / count + (rank < limit % count) as u64;
        if share == 0 && limit > 0 { 1 } else { share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_limit() {
        for count in 1..8 {
            for limit in [0, 1, 6, 7, 100, u64::MAX] {
                let shares: Vec<u64> = (0..count).map(|rank| PeerRank { count, rank }.share(limit)).collect();
                let sum: u128 = shares.iter().map(|s| u128::from(*s)).sum();
                let expected = if limit == 0 { 0 } else { limit.max(u64::from(count)) };
                assert_eq!(sum, u128::from(expected), "{limit} among {count}: {shares:?}");
            }
        }
    }

    #[test]
    fn a_node_is_never_beyond_the_last() {
        let peers = Peers::default();
        peers.set(0, 7);
        assert_eq!(peers.place(), PeerRank { count: 1, rank: 0 });
        peers.set(3, 2);
        assert_eq!((peers.place(), peers.count()), (PeerRank { count: 3, rank: 2 }, 3));
    }
}
