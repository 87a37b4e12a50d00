//! Counters of limits as a port: one call takes from all limits of a stage or from none, and what was taken is
//! settled or given back later. Knows no policy: a counter is a key, a window and a number.

use crate::ports::Fut;
use crate::time::Timestamp;

/// What a limit adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measured {
    Requests,
    Tokens,
    /// Nanodollars.
    Cost,
}

impl Measured {
    pub const ALL: [Self; 3] = [Self::Requests, Self::Tokens, Self::Cost];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
        }
    }
}

/// Names a counter on every node alike. Spread evenly, so that its first bits choose a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CounterKey(pub u64, pub u64);

impl CounterKey {
    pub const fn of(bits: u128) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
        Self((bits >> 64) as u64, bits as u64)
    }
}

/// Where a count is kept: which counter, and which of its windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    pub key: CounterKey,
    /// First moment of the window.
    pub began: Timestamp,
}

/// What becomes of the amount that an [`Ask`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Is used at once: a request is a request.
    Now,
    /// Is held until it is settled: what a call will use is known at its end.
    Hold,
    /// Takes nothing and only asks whether anything is left.
    Look,
}

/// How long a count must live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// With the process: windows shorter than a restart takes.
    Memory,
    /// Over restarts, each node its own.
    Node,
    /// Over restarts, one for all nodes: budgets.
    Shared,
}

/// What a call wants of one limit. The last three fields are filled by whoever grants it.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    pub slot: Slot,
    /// First moment after the window.
    pub ends: Timestamp,
    pub limit: u64,
    pub measured: Measured,
    pub amount: u64,
    pub take: Take,
    pub keep: Keep,
    /// Tokens assumed of an answer whose length nobody bounds; a hold grows by as much while a stream runs.
    pub assume: u64,
    /// The asker's own mark.
    pub tag: u32,
    /// What is left of the limit.
    pub left: u64,
    /// The one call of its window that is larger than the whole limit.
    pub lone: bool,
    /// Nothing was counted here before.
    pub fresh: bool,
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The window has no room left for this call.
    Limit,
    /// A new counter is needed and the bound is reached: shed rather than let through uncounted.
    Full,
}

/// Of several limits that refuse, the one that keeps the caller waiting longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which of the asks.
    pub at: usize,
    pub cause: Cause,
    /// Used and held of it, as it stood.
    pub taken: u64,
}

/// A limit as the caller may be told it (`x-gateway-ratelimit-{limit,remaining,reset}-…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub limit: u64,
    pub remaining: u64,
    pub reset_at: Timestamp,
}

impl Standing {
    /// Of two limits the one that will be met first: fewer left, then longer to wait.
    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        let tightness = |s: &Self| (s.remaining, std::cmp::Reverse(s.reset_at));
        if tightness(&other) < tightness(&self) { other } else { self }
    }
}

/// The tightest rate limits of each kind; budgets are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standings {
    pub requests: Option<Standing>,
    pub tokens: Option<Standing>,
}

impl Standings {
    pub fn of<'a>(rates: impl Iterator<Item = &'a Ask>) -> Self {
        let mut standings = Self::default();
        for ask in rates {
            let standing = Standing { limit: ask.limit, remaining: ask.left, reset_at: ask.ends };
            standings = standings.tighter(match ask.measured {
                Measured::Requests => Self { requests: Some(standing), tokens: None },
                Measured::Tokens => Self { requests: None, tokens: Some(standing) },
                Measured::Cost => continue,
            });
        }
        standings
    }

    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        let pick = |a: Option<Standing>, b: Option<Standing>| match (a, b) {
            (Some(a), Some(b)) => Some(a.tighter(b)),
            (a, b) => a.or(b),
        };
        Self { requests: pick(self.requests, other.requests), tokens: pick(self.tokens, other.tokens) }
    }

    pub const fn is_empty(&self) -> bool {
        self.requests.is_none() && self.tokens.is_none()
    }
}

/// One settlement: given back, held further, used. Applied to the window that the ask was granted in.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub slot: Slot,
    pub ends: Timestamp,
    pub limit: u64,
    pub measured: Measured,
    pub keep: Keep,
    /// Of what was held.
    pub back: u64,
    /// Held on top, whatever is left.
    pub more: u64,
    /// Negative for a request given back.
    pub used: i64,
    /// What was used beyond what was held, and beyond the limit, is carried into the next window.
    pub owes: bool,
}

/// A verdict, at once or later.
pub enum Answer<'a> {
    Now(Result<(), Refusal>),
    /// Has a deadline of its own.
    Later(Fut<'a, Result<(), Refusal>>),
}

impl std::fmt::Debug for Answer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Now(verdict) => f.debug_tuple("Now").field(verdict).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

pub trait Counters: Send + Sync {
    /// All asks of a stage, sorted by slot and each slot once: every amount is taken, or none is.
    fn reserve<'a>(&'a self, asks: &'a mut [Ask], now: Timestamp) -> Answer<'a>;
    /// Never waits and cannot fail: a backend over the network queues it.
    fn settle(&self, changes: &[Change]);
}
