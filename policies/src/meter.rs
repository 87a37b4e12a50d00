//! What a limit counts, how much of it is allowed, and over which stretch of time.
//! Knows neither who is counted nor what was.

use crate::window::{Span, Window};
use gateway_domain::Timestamp;
use gateway_domain::counters::{Ask, CounterKey, Keep, Measured, Slot, Take};
use gateway_domain::resource::limits::RateLimit;
use gateway_domain::resource::policy::{Measure, RateLimitPolicy, Unit};

/// Tokens assumed of an answer that nobody bounds, unless a policy says otherwise.
pub const ASSUMED_OUTPUT: u64 = 1_024;

#[derive(Clone, Debug)]
pub(crate) struct Meter {
    pub(crate) measured: Measured,
    pub(crate) limit: u64,
    pub(crate) stretch: Stretch,
    /// Only asks whether anything is left; what is used is counted afterwards.
    precheck: bool,
    assume: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Stretch {
    Window(Unit),
}

impl Meter {
    pub(crate) const fn of_rate(rule: &RateLimitPolicy) -> Self {
        Self::windowed(rule.measure, rule.unit, rule.value)
    }

    pub(crate) const fn of_limit(limit: &RateLimit) -> Self {
        Self::windowed(limit.measure, limit.unit, limit.value)
    }

    const fn windowed(measure: Measure, unit: Unit, limit: u64) -> Self {
        Self {
            measured: match measure {
                Measure::Requests => Measured::Requests,
                Measure::Tokens => Measured::Tokens,
            },
            limit,
            stretch: Stretch::Window(unit),
            precheck: false,
            assume: ASSUMED_OUTPUT,
        }
    }

    /// Of requests the amount is known; of the rest it is filled in by whoever knows the call.
    pub(crate) fn ask(&self, key: CounterKey, now: Timestamp, tag: u32) -> Ask {
        let Span { began, ends } = self.span(now);
        let (amount, take) = match self.measured {
            Measured::Requests => (1, Take::Now),
            Measured::Tokens | Measured::Cost => (0, if self.precheck { Take::Look } else { Take::Hold }),
        };
        Ask {
            slot: Slot { key, began },
            ends,
            limit: self.limit,
            measured: self.measured,
            amount,
            take,
            keep: self.keep(),
            assume: self.assume,
            tag,
            left: 0,
            lone: false,
            fresh: false,
        }
    }

    fn span(&self, now: Timestamp) -> Span {
        match &self.stretch {
            Stretch::Window(unit) => Window::of(*unit).span(now),
        }
    }

    const fn keep(&self) -> Keep {
        match &self.stretch {
            Stretch::Window(Unit::Second | Unit::Minute) => Keep::Memory,
            Stretch::Window(_) => Keep::Node,
        }
    }
}
