//! What a caller is told: how the limits stand, or which of them refused.
//! Knows nothing of matching.

use crate::meter::Stretch;
use gateway_domain::counters::{Ask, Cause, Measured, Refusal, Standing, Standings};
use gateway_domain::resource::policy::Unit;
use gateway_domain::snapshot::Policy;
use gateway_domain::{Fault, FaultKind, Timestamp};
use std::fmt;
use std::sync::Arc;

/// What a caller is told to wait when there is no room for another counter: some appears whenever a window ends.
const FULL_RETRY_MICROS: i64 = 1_000_000;

/// Whose limit it is, as a person calls it.
#[derive(Clone, Debug)]
pub enum Name {
    Policy(Arc<Policy>),
    /// What it is, and its name.
    Holder(&'static str, Arc<str>),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(p) => write!(f, "policy \"{}\" ({})", p.name, p.slug),
            Self::Holder(kind, name) => write!(f, "{kind} \"{name}\""),
        }
    }
}

/// Of several limits that refuse, the one that keeps the caller waiting longest.
#[derive(Clone, Debug)]
pub struct Denied {
    pub name: Name,
    pub cause: Cause,
    pub measured: Measured,
    pub limit: u64,
    /// Used and held by others.
    pub taken: u64,
    /// What this call asked for.
    pub asked: u64,
    pub reset_at: Timestamp,
    /// At least 1.
    pub retry_after_ms: u64,
    pub(crate) stretch: Stretch,
}

impl Denied {
    pub(crate) fn new(ask: &Ask, name: Name, stretch: Stretch, refusal: Refusal, now: Timestamp) -> Self {
        let reset_at = match refusal.cause {
            Cause::Limit => ask.ends,
            Cause::Full => ask.ends.min(now.plus_micros(FULL_RETRY_MICROS)),
        };
        let wait = reset_at.0.saturating_sub(now.0).max(1).unsigned_abs();
        Self {
            name,
            cause: refusal.cause,
            measured: ask.measured,
            limit: ask.limit,
            taken: refusal.taken,
            asked: ask.amount,
            reset_at,
            retry_after_ms: wait.div_ceil(1_000),
            stretch,
        }
    }

    pub fn standings(&self) -> Standings {
        let remaining = self.limit.saturating_sub(self.taken);
        let standing = Some(Standing { limit: self.limit, remaining, reset_at: self.reset_at });
        match self.measured {
            Measured::Requests => Standings { requests: standing, tokens: None },
            Measured::Tokens => Standings { requests: None, tokens: standing },
            Measured::Cost => Standings::default(),
        }
    }

    /// 429 with the policy's name and the time to wait.
    pub fn fault(&self) -> Fault {
        Fault::new(FaultKind::RateLimited, self.to_string())
            .retry_after_ms(self.retry_after_ms)
            .standings(self.standings())
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, limit, .. } = self;
        if self.cause == Cause::Full {
            return write!(
                f,
                "rate limit cannot be counted: too many groups are being counted for {name} to begin another; retry later"
            );
        }
        let Stretch::Window(unit) = self.stretch;
        match self.measured {
            Measured::Requests => write!(
                f,
                "rate limit exceeded: {name} allows {limit} {} per {} ({}); resets at {}",
                if self.limit == 1 { "request" } else { "requests" },
                noun(unit),
                unit.name(),
                self.reset_at,
            ),
            Measured::Tokens | Measured::Cost => write!(
                f,
                "rate limit exceeded: {name} allows {limit} tokens per {} (t{}); {} are left and this call may use {}; resets at {}",
                noun(unit),
                &unit.name()[1..],
                self.limit.saturating_sub(self.taken),
                self.asked,
                self.reset_at,
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
