//! What a limit counts, how much of it is allowed, and over which stretch of time.
//! Knows neither who is counted nor what was.

use crate::window::{Window, WindowSpan};
use gateway_domain::Timestamp;
use gateway_domain::counters::{CounterKey, CounterOp, FailMode, Keep, Measured, Slot, Take};
use gateway_domain::resource::budget::{Budget, Spend, Week};
use gateway_domain::resource::limits::RateLimit;
use gateway_domain::resource::policy::{ASSUMED_OUTPUT, Enforcement, Measure, RateLimitPolicy, Unit, UsageLimitPolicy};

#[derive(Clone, Debug)]
pub(crate) struct RuleMeter {
    pub(crate) measured: Measured,
    pub(crate) limit: u64,
    stretch: MeteredStretch,
    /// Only asks whether anything is left; what is used is counted afterwards.
    precheck: bool,
    assume: u64,
    fail: FailMode,
}

#[derive(Clone, Debug)]
pub(crate) enum MeteredStretch {
    Window(Unit),
    /// A budget, and where its weeks begin.
    Period(Box<Budget>, Week),
}

/// The kind of limit that callers are told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitKind {
    Rate(Unit),
    Budget,
}

impl RuleMeter {
    pub(crate) fn of_rate(rule: &RateLimitPolicy) -> Self {
        Self {
            precheck: rule.enforcement == Enforcement::Check,
            assume: rule.assume_output.unwrap_or(ASSUMED_OUTPUT),
            fail: rule.fail_mode,
            ..Self::windowed(rule.measure, rule.unit, rule.value)
        }
    }

    pub(crate) fn of_usage(rule: &UsageLimitPolicy) -> Self {
        Self {
            precheck: rule.enforcement == Enforcement::Check,
            assume: rule.assume_output.unwrap_or(ASSUMED_OUTPUT),
            fail: rule.fail_mode,
            ..Self::of_budget(&rule.budget, Week::Monday)
        }
    }

    pub(crate) const fn of_limit(limit: &RateLimit) -> Self {
        Self::windowed(limit.measure, limit.unit, limit.value)
    }

    pub(crate) fn of_budget(budget: &Budget, week: Week) -> Self {
        Self {
            measured: measured(budget.spend),
            limit: budget.limit(),
            stretch: MeteredStretch::Period(Box::new(budget.clone()), week),
            precheck: false,
            assume: ASSUMED_OUTPUT,
            fail: FailMode::Local,
        }
    }

    const fn windowed(measure: Measure, unit: Unit, limit: u64) -> Self {
        Self {
            measured: match measure {
                Measure::Requests => Measured::Requests,
                Measure::Tokens => Measured::Tokens,
            },
            limit,
            stretch: MeteredStretch::Window(unit),
            precheck: false,
            assume: ASSUMED_OUTPUT,
            fail: FailMode::Local,
        }
    }

    pub(crate) const fn kind(&self) -> LimitKind {
        match &self.stretch {
            MeteredStretch::Window(unit) => LimitKind::Rate(*unit),
            MeteredStretch::Period(..) => LimitKind::Budget,
        }
    }

    /// The ask for one call. The amount is known where requests are counted; else whoever knows the call fills it in.
    pub(crate) fn ask(&self, key: CounterKey, now: Timestamp, tag: u32) -> CounterOp {
        let WindowSpan { began, ends } = self.stretch.span(now);
        let (amount, take) = match self.measured {
            Measured::Requests => (1, Take::Now),
            Measured::Tokens | Measured::Cost => (0, if self.precheck { Take::Look } else { Take::Hold }),
        };
        CounterOp {
            slot: Slot { key, began },
            ends,
            limit: self.limit,
            measured: self.measured,
            amount,
            take,
            keep: self.keep(),
            fail: self.fail,
            assume: self.assume,
            tag,
            left: 0,
            lone: false,
            fresh: false,
        }
    }

    const fn keep(&self) -> Keep {
        match &self.stretch {
            MeteredStretch::Window(Unit::Second | Unit::Minute) => Keep::Memory,
            MeteredStretch::Window(_) => Keep::Node,
            MeteredStretch::Period(..) => Keep::Shared,
        }
    }
}

impl MeteredStretch {
    fn span(&self, now: Timestamp) -> WindowSpan {
        match self {
            Self::Window(unit) => Window::of(*unit).span(now),
            Self::Period(budget, week) => period(budget, *week, now),
        }
    }
}

pub(crate) fn period(budget: &Budget, week: Week, now: Timestamp) -> WindowSpan {
    let period = budget.period(week, now);
    WindowSpan { began: period.starts, ends: period.ends.unwrap_or(Timestamp(i64::MAX)) }
}

pub(crate) const fn measured(spend: Spend) -> Measured {
    match spend {
        Spend::Cost => Measured::Cost,
        Spend::Tokens => Measured::Tokens,
        Spend::Requests => Measured::Requests,
    }
}
