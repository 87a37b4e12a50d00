//! What a call wants of its limits at one stage: gathered, measured, and turned into a hold or a refusal by the
//! counters' verdict. Knows no backend.

use crate::entity_limits;
use crate::hold::{CostOps, GrantedOps, Hold};
use crate::index::Index;
use crate::meter::LimitKind;
use crate::rule::Stage;
use crate::subject::Subject;
use crate::verdict::{Denied, Name};
use gateway_domain::Timestamp;
use gateway_domain::counters::{
    CounterKey, CounterOp, Counters, Keep, Measured, Owner, RateLimitStandings, Refusal, Take,
};
use gateway_domain::ports::Holder;
use gateway_domain::resource::budget::Spend;
use gateway_domain::resource::limits::ResourceLimits;
use std::sync::Arc;

/// What a call may use, as far as it can be told beforehand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Tokens that go in.
    pub prompt: u64,
    /// The most that may come out; `None` when nobody bounds it.
    pub output: Option<u64>,
}

impl Estimate {
    /// What an ask has to hold of it. Without a price that is nothing of a cost.
    pub(crate) fn amount(&self, ask: &CounterOp, price: Option<TokenPrice<'_>>) -> u64 {
        let output = self.output.unwrap_or(ask.assume);
        match ask.measured {
            Measured::Requests => ask.amount,
            Measured::Tokens => self.prompt.saturating_add(output),
            Measured::Cost => price.and_then(|p| p(self.prompt, output)).unwrap_or(0),
        }
    }
}

/// Nanodollars of so many tokens in and out; `None` where no price is known, and nothing can be counted.
pub type TokenPrice<'a> = &'a dyn Fn(u64, u64) -> Option<u64>;

/// What one call asks of all its limits. Empty for most calls, and then costs nothing.
#[derive(Debug, Default)]
pub struct ReservationRequest {
    asks: Vec<CounterOp>,
    costs: Vec<CounterOp>,
    /// Names and kinds of the limits that were asked beside the policies', by the number in an ask's tag.
    bounds: Vec<(Name, LimitKind)>,
    /// Owners of all budgets that were asked, those of policies included, by their counters.
    owners: Owners,
}

/// Who has the limits that are asked.
#[derive(Clone, Copy, Debug)]
pub struct LimitHolder<'a> {
    pub holder: Holder,
    /// What a person calls such a holder.
    pub kind: &'static str,
    pub name: &'a Arc<str>,
}

/// A call has few budgets: they are looked through.
pub(crate) type Owners = Vec<(CounterKey, Arc<Owner>)>;

/// Marks the asks that are no policy's.
const BOUND: u32 = 1 << 31;

impl ReservationRequest {
    /// Every policy of this stage that matches. Costs at the caller's stage are only looked at: what they will be
    /// is known at a target's price, see [`Self::charge`].
    pub fn gather(&mut self, index: &Index, stage: Stage, subject: &Subject<'_>, now: Timestamp) {
        index.visit(stage, subject, |at, rule, counter| {
            if let Some(owner) = rule.owner(subject) {
                self.owners.push((counter, owner));
            }
            self.add(stage, rule.meter.ask(counter, now, at));
        });
    }

    /// The rate limits and budgets of whoever calls or is called.
    pub fn bind(&mut self, stage: Stage, whose: LimitHolder<'_>, limits: &ResourceLimits, now: Timestamp) {
        let LimitHolder { holder, kind, name } = whose;
        for limit in &limits.rate_limits {
            let tag = self.bound(Name::Holder(kind, name.clone()), LimitKind::Rate(limit.unit));
            self.asks.push(entity_limits::ask(holder, limit, now, tag));
        }
        for budget in &limits.usage_limits {
            let tag = self.bound(Name::Holder(kind, name.clone()), LimitKind::Budget);
            let ask = entity_limits::budget_ask(holder, budget, now, tag);
            self.owners.push((ask.slot.key, Arc::new(Owner { holder, value_key: Box::default() })));
            self.add(stage, ask);
        }
    }

    /// The budgets of money alone of whoever calls a tool that has a price.
    pub fn bind_money(&mut self, whose: LimitHolder<'_>, limits: &ResourceLimits, now: Timestamp) {
        let LimitHolder { holder, kind, name } = whose;
        for budget in limits.usage_limits.iter().filter(|budget| budget.spend == Spend::Cost) {
            let tag = self.bound(Name::Holder(kind, name.clone()), LimitKind::Budget);
            let ask = entity_limits::budget_ask(holder, budget, now, tag);
            self.owners.push((ask.slot.key, Arc::new(Owner { holder, value_key: Box::default() })));
            self.add(Stage::Tool, ask);
        }
    }

    fn bound(&mut self, name: Name, kind: LimitKind) -> u32 {
        let tag = BOUND | u32::try_from(self.bounds.len()).unwrap_or(0);
        self.bounds.push((name, kind));
        tag
    }

    fn add(&mut self, stage: Stage, mut ask: CounterOp) {
        if stage == Stage::Caller && ask.measured == Measured::Cost {
            self.costs.push(ask);
            ask.take = Take::Look;
        }
        self.asks.push(ask);
    }

    /// The costs that the caller's stage looked at.
    pub fn charge(&mut self, caller: &Hold) {
        let CostOps { ops, names } = caller.costs();
        // Names go by their place, and those of the caller come first.
        debug_assert!(self.bounds.is_empty() || ops.is_empty(), "charged before anything is bound");
        self.asks.extend_from_slice(ops);
        self.owners.extend_from_slice(caller.owners());
        self.bounds.splice(0..0, names.iter().cloned());
    }

    pub fn is_empty(&self) -> bool {
        self.asks.is_empty()
    }

    /// Whether it matters what the call uses: for an estimate, or to know that it uses nothing.
    pub fn are_metered(&self) -> bool {
        self.asks.iter().any(|a| a.measured != Measured::Requests || a.keep == Keep::Shared)
    }

    /// Whether a limit on money has to do with it.
    pub fn are_of_money(&self) -> bool {
        self.asks.iter().chain(&self.costs).any(|a| a.measured == Measured::Cost)
    }

    /// A call that uses nothing by its nature, such as a look at a file, asks for nothing but to be one, and no budget
    /// has to do with it.
    pub fn only_requests(&mut self) {
        self.asks.retain(|a| a.measured == Measured::Requests && a.keep != Keep::Shared);
        self.costs.clear();
    }

    /// A part of a call that was counted as a request before.
    pub fn without_requests(&mut self) {
        self.asks.retain(|a| a.measured != Measured::Requests);
    }

    /// How much each limit is asked for.
    pub fn measure(&mut self, estimate: &Estimate, price: Option<TokenPrice<'_>>) {
        self.asks.iter_mut().for_each(|ask| ask.amount = estimate.amount(ask, price));
    }

    /// Ready for [`Counters::reserve`]: sorted, each slot once. One policy may have been found twice, under a
    /// model's name and its prefix for instance.
    pub fn asks(&mut self) -> &mut [CounterOp] {
        self.asks.sort_unstable_by_key(|a| a.slot);
        self.asks.dedup_by_key(|a| a.slot);
        &mut self.asks
    }

    pub fn granted(mut self, stage: Stage, counters: &Arc<dyn Counters>, estimate: Estimate) -> Hold {
        let standings = RateLimitStandings::of(self.asks.iter().filter(|a| a.keep != Keep::Shared));
        if stage == Stage::Caller {
            self.asks.retain(|a| a.measured != Measured::Cost);
        }
        if self.costs.is_empty() {
            self.bounds.clear();
        }
        let costs = CostOps { ops: self.costs, names: self.bounds };
        let granted = GrantedOps { ops: self.asks, costs, owners: self.owners };
        Hold::new(granted, counters, estimate, standings)
    }

    /// Takes nothing of any limit: how each stands is all that is asked.
    pub fn look(&mut self) {
        self.asks.iter_mut().for_each(|ask| (ask.take, ask.amount) = (Take::Look, 0));
    }

    /// The name of the limit that an ask is for, as a person calls it.
    pub fn whose(&self, index: Option<&Index>, at: usize) -> Option<Name> {
        self.named(index, self.asks.get(at)?).map(|(name, _)| name)
    }

    fn named(&self, index: Option<&Index>, ask: &CounterOp) -> Option<(Name, LimitKind)> {
        if ask.tag & BOUND != 0 {
            return self.bounds.get((ask.tag & !BOUND) as usize).cloned();
        }
        let rule = index?.rule(ask.tag)?;
        let (name, slug) = rule.source.names();
        Some((Name::Policy { name: name.clone(), slug: slug.clone() }, rule.meter.kind()))
    }

    /// The words for a refusal of these asks. `None` cannot be: it would be one of another index.
    pub fn denied(&self, index: Option<&Index>, refusal: Refusal, now: Timestamp) -> Option<Denied> {
        let ask = self.asks.get(refusal.at)?;
        let (name, kind) = self.named(index, ask)?;
        Some(Denied::new(ask, name, kind, refusal, now))
    }
}
