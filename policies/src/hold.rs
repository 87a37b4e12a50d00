//! What was taken for a call, until it is known what the call used. A hold belongs to the windows it was taken
//! from, whatever the clock says when it ends.

use crate::meter::LimitKind;
use crate::reservation_request::{Estimate, Owners, TokenPrice};
use crate::verdict::Name;
use gateway_domain::counters::{Change, Charge, CounterOp, Counters, Keep, Measured, RateLimitStandings, Take};
use std::fmt;
use std::sync::Arc;

/// What a call used in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub tokens: u64,
    /// Nanodollars; `None` where no price is known, which counts as nothing.
    pub cost: Option<u64>,
}

/// Costs nothing when no limit matched. Dropped without a word it counts as held, so that no accident lets a
/// call through for nothing.
#[must_use = "decide what becomes of it: `settle`, `count` or `release`"]
#[derive(Default)]
pub struct Hold {
    /// `amount` of each is what it holds, or would.
    asks: Vec<CounterOp>,
    /// Costs that the target's stage has to take, and the names that their tags mean.
    costs: CostOps,
    owners: Owners,
    counters: Option<Arc<dyn Counters>>,
    estimate: Estimate,
    /// Tokens of the answer that the holds cover.
    covered: u64,
    standings: RateLimitStandings,
}

/// Costs that the caller's stage looked at, and the names that their tags mean.
#[derive(Default)]
pub(crate) struct CostOps {
    pub(crate) ops: Vec<CounterOp>,
    pub(crate) names: Vec<(Name, LimitKind)>,
}

/// What the counters granted.
pub(crate) struct GrantedOps {
    pub(crate) ops: Vec<CounterOp>,
    pub(crate) costs: CostOps,
    pub(crate) owners: Owners,
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("asks", &self.asks).field("costs", &self.costs.ops).finish_non_exhaustive()
    }
}

impl Hold {
    pub(crate) fn new(
        granted: GrantedOps,
        counters: &Arc<dyn Counters>,
        estimate: Estimate,
        standings: RateLimitStandings,
    ) -> Self {
        let GrantedOps { ops: asks, costs, owners } = granted;
        Self { asks, costs, owners, counters: Some(counters.clone()), estimate, covered: 0, standings }
    }

    pub fn is_empty(&self) -> bool {
        self.asks.is_empty() && self.costs.ops.is_empty()
    }

    pub(crate) const fn costs(&self) -> &CostOps {
        &self.costs
    }

    pub(crate) const fn owners(&self) -> &Owners {
        &self.owners
    }

    /// How the tightest limits stood right after.
    pub fn standings(&self) -> RateLimitStandings {
        self.standings
    }

    /// The call is over: what was held and not used comes back. Returns what was charged for good.
    pub fn settle(mut self, used: Used) -> Vec<Charge> {
        self.end(|ask| match ask.measured {
            Measured::Requests => ask.amount,
            Measured::Tokens => used.tokens,
            Measured::Cost => used.cost.unwrap_or(0),
        })
    }

    /// The call was made, and nobody knows what it used: it counts as it was held.
    pub fn count(mut self) -> Vec<Charge> {
        self.end(|ask| ask.amount)
    }

    /// The call came to nothing: everything comes back, the request too.
    pub fn release(mut self) {
        if let Some(counters) = self.counters.take() {
            counters.settle(&self.asks.iter().filter_map(Change::given_back).collect::<Vec<_>>());
        }
    }

    /// True for a call whose answer nobody bounds and that is held for: its stream has to be watched.
    pub fn may_grow(&self) -> bool {
        self.estimate.output.is_none() && self.asks.iter().any(|a| a.take == Take::Hold)
    }

    /// So many tokens have come out so far: where that is more than what is held, holds grow by what is assumed of
    /// such an answer. Nothing is refused any more.
    pub fn grow(&mut self, tokens: u64, price: Option<TokenPrice<'_>>) {
        if tokens <= self.covered || !self.may_grow() {
            return;
        }
        let Some(counters) = &self.counters else { return };
        let mut changes = Vec::new();
        let mut covered = u64::MAX;
        for ask in self.asks.iter_mut().filter(|a| a.take == Take::Hold) {
            let steps = tokens.div_ceil(ask.assume.max(1)).max(1);
            let output = steps.saturating_mul(ask.assume.max(1));
            covered = covered.min(output);
            let estimate = Estimate { output: Some(output), ..self.estimate };
            let amount = estimate.amount(ask, price);
            let more = amount.saturating_sub(ask.amount);
            if more > 0 {
                ask.amount = amount;
                changes.push(Change { more, ..Change::of(ask) });
            }
        }
        self.covered = covered;
        counters.settle(&changes);
    }

    fn end(&mut self, used: impl Fn(&CounterOp) -> u64) -> Vec<Charge> {
        let Some(counters) = self.counters.take() else { return Vec::new() };
        let settled = |ask: &CounterOp| {
            let back = match ask.take {
                Take::Now => return None,
                Take::Hold => ask.amount,
                Take::Look => 0,
            };
            Some(Change { back, used: signed(used(ask)), owes: ask.take == Take::Hold && !ask.lone, ..Change::of(ask) })
        };
        let changes: Vec<Change> = self.asks.iter().filter_map(settled).collect();
        if !changes.is_empty() {
            counters.settle(&changes);
        }
        let lasting = self.asks.iter().filter(|ask| ask.keep != Keep::Memory);
        lasting.map(|ask| self.charge(ask, used(ask))).filter(|charge| charge.used > 0).collect()
    }

    fn charge(&self, ask: &CounterOp, used: u64) -> Charge {
        let owner = self.owners.iter().find(|(key, _)| *key == ask.slot.key).map(|(_, owner)| owner.clone());
        Charge { slot: ask.slot, ends: ask.ends, measured: ask.measured, keep: ask.keep, used, owner }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.end(|ask| ask.amount);
    }
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
