//! One shard of the ledger, under its lock: counters and debts.

use super::{Delta, Total, only_looks};
use gateway_domain::Timestamp;
use gateway_domain::counters::{Cause, Change, CounterKey, CounterOp, Keep, Slot, Take};
use std::collections::HashMap;

/// How long an ended window is kept for those who read the clock before it ended and come late.
const GRACE_MICROS: i64 = 60 * 1_000_000;

#[derive(Debug)]
pub(super) struct Shard {
    accounts: HashMap<Slot, Account, ahash::RandomState>,
    /// Debts of the few counters that were used beyond their limit.
    debts: HashMap<CounterKey, Debt, ahash::RandomState>,
    /// No window here ends before this.
    earliest: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    used: u64,
    held: u64,
    /// The part of `used` that no total on disk includes yet.
    unsaved: i64,
    ends: Timestamp,
    keep: Keep,
}

/// What the next windows begin with.
#[derive(Clone, Copy, Debug)]
struct Debt {
    amount: u64,
    /// End of the window that owes it.
    since: Timestamp,
    /// What each window that passes repays.
    limit: u64,
    length: i64,
}

impl Account {
    fn add(&mut self, used: i64) {
        self.used = self.used.saturating_add_signed(used);
        if self.keep != Keep::Memory {
            self.unsaved = self.unsaved.saturating_add(used);
        }
    }
}

impl Default for Shard {
    fn default() -> Self {
        Self { accounts: HashMap::default(), debts: HashMap::default(), earliest: Timestamp(i64::MAX) }
    }
}

impl Debt {
    /// What is left of it at the beginning of a window; windows in between repaid their part.
    fn at(&self, began: Timestamp) -> u64 {
        if began < self.since {
            return 0;
        }
        let passed = began.0.saturating_sub(self.since.0) / self.length.max(1);
        self.amount.saturating_sub(passed.unsigned_abs().saturating_mul(self.limit))
    }

    fn over(&self, now: Timestamp) -> bool {
        self.at(now) == 0 && now >= self.since
    }
}

impl Shard {
    pub(super) fn len(&self) -> usize {
        self.accounts.len()
    }

    /// A table has eight places for every seven that may be taken, and a byte beside each.
    pub(super) fn bytes(&self) -> usize {
        self.accounts.capacity() * 8 / 7 * (size_of::<(Slot, Account)>() + 1)
    }

    pub(super) fn level(&self, slot: Slot) -> Option<(u64, u64)> {
        self.accounts.get(&slot).map(|a| (a.used, a.held))
    }

    /// `coming`: how many of this call may begin a counter here.
    pub(super) fn refuses(
        &mut self,
        ask: &CounterOp,
        coming: usize,
        room: usize,
        now: Timestamp,
    ) -> Option<(Cause, u64)> {
        let taken = match self.accounts.get(&ask.slot) {
            Some(account) => account.used.saturating_add(account.held),
            None => {
                if !only_looks(ask) {
                    self.sweep(now);
                    if self.accounts.len() + coming > room {
                        return Some((Cause::Full, 0));
                    }
                }
                self.debts.get(&ask.slot.key).map_or(0, |d| d.at(ask.slot.began))
            }
        };
        // Whatever is larger than the whole limit passes once in each window, else it never could.
        let fits = only_looks(ask) || taken.saturating_add(ask.amount) <= ask.limit || taken == 0;
        (taken >= ask.limit || !fits).then_some((Cause::Limit, taken))
    }

    pub(super) fn has_room(&self, slot: Slot, room: usize) -> bool {
        self.accounts.len() < room || self.accounts.contains_key(&slot)
    }

    pub(super) fn visit(&self, each: &mut impl FnMut(Total, u64)) {
        for (slot, a) in &self.accounts {
            each(Total { slot: *slot, ends: a.ends, keep: a.keep, used: a.used }, a.held);
        }
    }

    pub(super) fn count(&mut self, ask: &mut CounterOp) {
        if only_looks(ask) {
            let taken = self.accounts.get(&ask.slot).map_or(0, |a| a.used.saturating_add(a.held));
            ask.left = ask.limit.saturating_sub(taken);
            return;
        }
        let known = self.accounts.contains_key(&ask.slot);
        let account = self.open(ask.slot, ask.ends, ask.limit, ask.keep);
        let until = std::mem::replace(&mut account.ends, ask.ends);
        match ask.take {
            Take::Now => account.add(signed(ask.amount)),
            Take::Hold | Take::Look => account.held = account.held.saturating_add(ask.amount),
        }
        ask.fresh = !known;
        ask.lone = ask.amount > ask.limit;
        ask.left = ask.limit.saturating_sub(account.used.saturating_add(account.held));
        if ask.ends < until {
            self.earliest = self.earliest.min(ask.ends);
        }
    }

    /// What this settlement leaves used beyond the limit, and is owed.
    pub(super) fn settle(&mut self, change: &Change, room: usize) -> u64 {
        // A window that is forgotten has no use for what comes back; what was used is never lost.
        if !self.accounts.contains_key(&change.slot) && (change.used <= 0 || self.accounts.len() >= room) {
            return 0;
        }
        let account = self.open(change.slot, change.ends, change.limit, change.keep);
        account.held = account.held.saturating_sub(change.back).saturating_add(change.more);
        account.add(change.used);
        let over = account.used.saturating_add(account.held).saturating_sub(change.limit);
        let beyond = change.used.max(0).unsigned_abs().saturating_sub(change.back);
        let owed = if change.owes { over.min(beyond) } else { 0 };
        if owed > 0 && change.ends.0 < i64::MAX {
            let length = change.ends.0.saturating_sub(change.slot.began.0);
            let new = Debt { amount: 0, since: change.ends, limit: change.limit, length };
            let debt = self.debts.entry(change.slot.key).or_insert(new);
            debt.amount = debt.amount.saturating_add(owed);
        }
        if change.used < 0 && change.keep == Keep::Shared {
            self.forgive(change.slot.key, change.used.unsigned_abs());
        }
        owed
    }

    fn forgive(&mut self, key: CounterKey, amount: u64) {
        if let Some(debt) = self.debts.get_mut(&key) {
            debt.amount = debt.amount.saturating_sub(amount);
            if debt.amount == 0 {
                self.debts.remove(&key);
            }
        }
    }

    fn open(&mut self, slot: Slot, ends: Timestamp, limit: u64, keep: Keep) -> &mut Account {
        let Self { accounts, debts, earliest } = self;
        accounts.entry(slot).or_insert_with(|| {
            *earliest = (*earliest).min(ends);
            let used = carried(debts, slot, ends, limit);
            Account { used, held: 0, unsaved: signed(used), ends, keep }
        })
    }

    pub(super) fn credit(&mut self, delta: &Delta, room: usize) {
        if self.accounts.contains_key(&delta.slot) || self.accounts.len() < room {
            self.open(delta.slot, delta.ends, u64::MAX, delta.keep).add(delta.used);
        }
    }

    pub(super) fn saved(&mut self, delta: &Delta) {
        if let Some(account) = self.accounts.get_mut(&delta.slot) {
            account.unsaved = account.unsaved.saturating_sub(delta.used);
        }
    }

    pub(super) fn absorb(&mut self, total: &Total, room: usize) {
        if self.accounts.contains_key(&total.slot) || self.accounts.len() < room {
            let account = self.open(total.slot, total.ends, u64::MAX, total.keep);
            account.used = total.used.saturating_add_signed(account.unsaved);
        }
    }

    /// Only when something has ended for good; and since windows end together, seldom more than once a minute.
    /// A window that still holds something stays.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        let over = |ends: Timestamp| ends.plus_micros(GRACE_MICROS) <= now;
        if !over(self.earliest) {
            return;
        }
        self.accounts.retain(|_, a| !over(a.ends) || a.held > 0);
        self.debts.retain(|_, debt| !debt.over(now));
        // What stays beyond its end must not be looked for at every turn.
        let next = self.accounts.values().map(|a| a.ends).filter(|e| !over(*e)).min();
        let kept = self.accounts.values().any(|a| over(a.ends));
        let soon = if kept { now } else { Timestamp(i64::MAX) };
        self.earliest = next.unwrap_or(Timestamp(i64::MAX)).min(soon);
        if self.accounts.capacity() > 64 && self.accounts.capacity() / 4 > self.accounts.len() {
            self.accounts.shrink_to(self.accounts.len() * 2);
        }
    }
}

/// What a new window begins with: the debt of those before it, of which this one repays its part.
fn carried(debts: &mut HashMap<CounterKey, Debt, ahash::RandomState>, slot: Slot, ends: Timestamp, limit: u64) -> u64 {
    let Some(debt) = debts.get_mut(&slot.key) else { return 0 };
    let left = debt.at(slot.began);
    if slot.began >= debt.since {
        *debt = Debt { amount: left.saturating_sub(limit), since: ends, limit, ..*debt };
        if debt.amount == 0 {
            debts.remove(&slot.key);
        }
    }
    left
}

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
