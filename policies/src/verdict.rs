//! What a caller is told: how the limits stand, or which of them refused.
//! Knows nothing of matching.

use crate::meter::LimitKind;
use gateway_domain::counters::{Cause, CounterOp, LimitStatus, Measured, RateLimitStandings, Refusal};
use gateway_domain::resource::budget::{Amount, Spend};
use gateway_domain::resource::policy::Unit;
use gateway_domain::{Fault, FaultKind, Timestamp};
use std::fmt;
use std::sync::Arc;

/// What a caller is told to wait when there is no room for another counter: some appears whenever a window ends.
const FULL_RETRY_MICROS: i64 = 1_000_000;

/// What a person calls the limit: by the policy, or by who has it.
#[derive(Clone, Debug)]
pub enum Name {
    Policy {
        name: Arc<str>,
        slug: Arc<str>,
    },
    /// What the holder is, and its name.
    Holder(&'static str, Arc<str>),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy { name, slug } => write!(f, "policy \"{name}\" ({slug})"),
            Self::Holder(kind, name) => write!(f, "{kind} \"{name}\""),
        }
    }
}

/// The refusal that a caller is told: of several limits that refuse, the one that keeps the caller waiting longest.
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
    /// How long to wait before a new try, in milliseconds; 1 at least.
    pub retry_after_ms: u64,
    pub(crate) kind: LimitKind,
}

impl Denied {
    pub(crate) fn new(ask: &CounterOp, name: Name, kind: LimitKind, refusal: Refusal, now: Timestamp) -> Self {
        let reset_at = match refusal.cause {
            Cause::Limit => ask.fits_at(refusal.taken),
            Cause::Full | Cause::Away => ask.ends.min(now.plus_micros(FULL_RETRY_MICROS)),
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
            kind,
        }
    }

    pub fn standings(&self) -> RateLimitStandings {
        if self.kind == LimitKind::Budget {
            return RateLimitStandings::default();
        }
        let remaining = self.limit.saturating_sub(self.taken);
        let standing = Some(LimitStatus { limit: self.limit, remaining, reset_at: self.reset_at });
        match self.measured {
            Measured::Requests => RateLimitStandings { requests: standing, tokens: None },
            Measured::Tokens => RateLimitStandings { requests: None, tokens: standing },
            Measured::Cost => RateLimitStandings::default(),
        }
    }

    /// 429 with the limit's name and the time to wait; 503 where nothing could be counted; or 412 of a budget:
    /// waiting is of no use, and no SDK is to try again by itself.
    pub fn fault(&self) -> Fault {
        let message = self.to_string();
        if self.cause == Cause::Away {
            return Fault::new(FaultKind::LimitsAway, message).retry_after_ms(self.retry_after_ms);
        }
        if self.cause == Cause::Limit && self.kind == LimitKind::Budget {
            let fault = Fault::new(FaultKind::BudgetExhausted, message).code("budget_exhausted");
            return if self.reset_at.0 == i64::MAX { fault } else { fault.begins_anew(self.reset_at) };
        }
        Fault::new(FaultKind::RateLimited, message).retry_after_ms(self.retry_after_ms).standings(self.standings())
    }

    /// Writes the refusal of a budget: in dollars where money is counted.
    fn budgeted(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, limit, .. } = self;
        let left = self.limit.saturating_sub(self.taken);
        match self.measured {
            Measured::Cost => {
                let usd = |units| Amount::shown(units, Spend::Cost);
                write!(f, "budget exhausted: {name} allows ${}", usd(*limit))?;
                if left > 0 {
                    write!(f, "; ${} are left and this call may cost ${}", usd(left), usd(self.asked))?;
                }
            }
            Measured::Tokens | Measured::Requests => {
                write!(f, "budget exhausted: {name} allows {limit} {}", self.measured.name())?;
                if left > 0 {
                    write!(f, "; {left} are left and this call may use {}", self.asked)?;
                }
            }
        }
        match self.reset_at {
            Timestamp(i64::MAX) => f.write_str("; it does not start anew by itself"),
            at => write!(f, "; starts anew at {at}"),
        }
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
        if self.cause == Cause::Away {
            return write!(
                f,
                "{name} lets nothing through while the counters that all nodes share are out of reach; retry later"
            );
        }
        let LimitKind::Rate(unit) = self.kind else { return self.budgeted(f) };
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
