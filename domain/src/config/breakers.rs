//! The breakers of one config, and how they outlive an edit of it.

use super::breaker::Breaker;
use super::tree::{Config, Guarded};
use std::sync::Arc;

/// The breakers of one config, in the order of [`Config::guarded`].
pub type Breakers = Arc<[Arc<Breaker>]>;

/// The breakers of one state of a config, with what their targets are.
#[derive(Debug)]
pub struct BreakerSet {
    fingerprint: [u8; 16],
    targets: Box<[[u8; 16]]>,
    all: Breakers,
}

impl BreakerSet {
    /// All closed.
    pub fn new(config: &Config) -> Self {
        Self::made(config, |guarded, _| Arc::new(Breaker::new(guarded.rules.clone())))
    }

    /// Makes the breakers of a later state of the same config: targets that are what they were keep theirs.
    #[must_use]
    pub fn carried(&self, config: &Config) -> Self {
        let same = |target, nth| {
            let mut places = self.targets.iter().enumerate().filter(|(_, known)| **known == target);
            places.nth(nth).and_then(|(place, _)| self.all.get(place).cloned())
        };
        Self::made(config, |guarded, nth| {
            same(guarded.target, nth).unwrap_or_else(|| Arc::new(Breaker::new(guarded.rules.clone())))
        })
    }

    /// `make` is told how many equal targets stand before each.
    fn made(config: &Config, make: impl Fn(&Guarded, usize) -> Arc<Breaker>) -> Self {
        let guarded = config.guarded();
        let targets: Box<[[u8; 16]]> = guarded.iter().map(|g| g.target).collect();
        let nth = |place: usize| targets[..place].iter().filter(|target| **target == targets[place]).count();
        let all = guarded.iter().enumerate().map(|(place, guarded)| make(guarded, nth(place))).collect();
        Self { fingerprint: config.fingerprint(), targets, all }
    }

    pub fn is_of(&self, config: &Config) -> bool {
        self.fingerprint == config.fingerprint()
    }

    pub const fn all(&self) -> &Breakers {
        &self.all
    }

    /// About how many bytes it takes.
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.targets.len() * (size_of::<[u8; 16]>() + size_of::<Arc<Breaker>>() + 64)
    }
}
