//! The two verdicts: what was taken for a call, or which policy refused it.
//! Knows nothing of matching; a hold is given back or kept, never counted again.

use crate::engine::Engine;
use crate::index::Ask;
use gateway_domain::resource::policy::Unit;
use gateway_domain::snapshot::Policy;
use gateway_domain::{Fault, FaultKind, Timestamp};
use std::fmt;
use std::sync::Arc;

/// One request taken from each policy that matched. Costs nothing when none did. Dropped, it stays taken.
#[must_use = "decide what becomes of it: `keep` or `release`"]
#[derive(Debug, Default)]
pub struct Hold {
    pub(crate) taken: Vec<Ask>,
    pub(crate) standing: Option<Standing>,
}

impl Hold {
    /// Gives back what was taken, into the window it was taken from, as after a target that failed.
    pub fn release(self, engine: &Engine, now: Timestamp) {
        engine.give_back(&self.taken, now);
    }

    /// The call was made: it counts.
    pub fn keep(self) {}

    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// The tightest of the limits taken from, as it stood right after; `None` when no policy matched.
    pub fn standing(&self) -> Option<Standing> {
        self.standing
    }
}

/// A request limit as the caller may be told it (`x-gateway-ratelimit-{limit,remaining,reset}-requests`).
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

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The window has no room left.
    Limit,
    /// A new group would need a counter and the engine's bound is reached: shed rather than let through uncounted.
    Full,
}

/// Of several policies that refuse, the one that keeps the caller waiting longest.
#[derive(Clone, Debug)]
pub struct Denied {
    pub policy: Arc<Policy>,
    pub cause: Cause,
    pub limit: u64,
    pub reset_at: Timestamp,
    /// At least 1.
    pub retry_after_ms: u64,
}

impl Denied {
    pub fn standing(&self) -> Standing {
        Standing { limit: self.limit, remaining: 0, reset_at: self.reset_at }
    }

    /// 429 with the policy's name and the time to wait.
    pub fn fault(&self) -> Fault {
        Fault::new(FaultKind::RateLimited, self.to_string()).retry_after_ms(self.retry_after_ms)
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Policy { name, slug, rule, .. } = &*self.policy;
        match self.cause {
            Cause::Limit => write!(
                f,
                "rate limit exceeded: policy \"{name}\" ({slug}) allows {} {} per {} ({}); resets at {}",
                self.limit,
                if self.limit == 1 { "request" } else { "requests" },
                noun(rule.unit),
                rule.unit.name(),
                self.reset_at,
            ),
            Cause::Full => write!(
                f,
                "rate limit cannot be counted: too many groups are being counted for policy \"{name}\" ({slug}) to begin another; retry later"
            ),
        }
    }
}

impl std::error::Error for Denied {}

const fn noun(unit: Unit) -> &'static str {
    match unit {
        Unit::Second => "second",
        Unit::Minute => "minute",
        Unit::Hour => "hour",
        Unit::Day => "day",
        Unit::Week => "week",
    }
}
