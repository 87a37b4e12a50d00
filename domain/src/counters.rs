//! Counters of limits as a port: one call takes from all limits of a stage or from none, and what was taken is
//! settled or given back later. Knows no policy: a counter is a key, a window and a number.

use crate::future::Fut;
use crate::holder::Holder;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

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

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.name() == name)
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

/// 32 hexadecimal digits.
impl fmt::Display for CounterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.0, self.1)
    }
}

impl FromStr for CounterKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bits = u128::from_str_radix(text, 16).map_err(|_| "is no key of a counter")?;
        Ok(Self::of(bits))
    }
}

/// Where a count is kept: which counter, and which of its windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    pub key: CounterKey,
    /// First moment of the window.
    pub began: Timestamp,
}

/// What becomes of the amount that a [`CounterOp`] names.
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
    /// The count ends with the process: right for windows that are shorter than a restart takes.
    Memory,
    /// The count outlives restarts; each node has its own.
    Node,
    /// The count outlives restarts, and all nodes share it: budgets.
    Shared,
}

/// The holder of the budget that a counter belongs to, and the group: what admins find the counter by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub holder: Holder,
    /// `metadata._user:alice`, several joined by commas; empty where nothing is grouped by.
    pub value_key: Box<str>,
}

/// What a call was charged by one counter that outlives the process. Records carry it to whoever keeps the counts on
/// disk: the sum of all charges of a slot is what was used there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Written", try_from = "Written")]
pub struct Charge {
    pub slot: Slot,
    pub ends: Timestamp,
    pub measured: Measured,
    pub keep: Keep,
    pub used: u64,
    /// Who holds the budget; `None` for a counter of anything but a budget.
    pub owner: Option<Arc<Owner>>,
}

/// What becomes of a limit that nodes share while what they share is out of reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailMode {
    /// Each node lets through its share of the limit.
    #[default]
    Local,
    /// All are let through.
    Open,
    /// None is: what cannot be counted exactly does not pass.
    Closed,
}

impl FailMode {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// What a call wants of one limit. The last three fields are filled by whoever grants it.
#[derive(Clone, Copy, Debug)]
pub struct CounterOp {
    pub slot: Slot,
    /// First moment after the window. `Timestamp(i64::MAX)`: a budget that never starts anew by itself. A change of the
    /// budget may move it while the slot stays the same; the newest word counts.
    pub ends: Timestamp,
    pub limit: u64,
    pub measured: Measured,
    pub amount: u64,
    pub take: Take,
    pub keep: Keep,
    pub fail: FailMode,
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

impl CounterOp {
    /// When a call that is refused now will fit, if nothing more is used until then: what is beyond the limit begins
    /// the next windows, each of which repays as much as the limit is.
    pub fn fits_at(&self, taken: u64) -> Timestamp {
        let length = self.ends.0.saturating_sub(self.slot.began.0);
        if self.ends.0 == i64::MAX || length <= 0 {
            return self.ends;
        }
        let limit = self.limit.max(1);
        let amount = if self.take == Take::Look { 1 } else { self.amount };
        let room = limit.saturating_sub(amount);
        let windows = taken.saturating_sub(room).div_ceil(limit).max(1);
        let more = i64::try_from(windows - 1).unwrap_or(i64::MAX).saturating_mul(length);
        Timestamp(self.ends.0.saturating_add(more))
    }
}

/// A charge in few letters: key, began, ends, measured, how long it is kept, used, and whose it is.
#[derive(Serialize, Deserialize)]
struct Written(String, i64, Option<i64>, String, char, u64, Option<String>, Option<String>);

impl From<Charge> for Written {
    fn from(charge: Charge) -> Self {
        let keep = match charge.keep {
            Keep::Memory => 'm',
            Keep::Node => 'n',
            Keep::Shared => 's',
        };
        let ends = (charge.ends.0 != i64::MAX).then_some(charge.ends.0);
        let measured = charge.measured.name().to_owned();
        let (holder, value_key) = match charge.owner {
            Some(owner) => {
                (Some(owner.holder.to_string()), Some(owner.value_key.to_string()).filter(|k| !k.is_empty()))
            }
            None => (None, None),
        };
        Self(charge.slot.key.to_string(), charge.slot.began.0, ends, measured, keep, charge.used, holder, value_key)
    }
}

impl TryFrom<Written> for Charge {
    type Error = &'static str;

    fn try_from(
        Written(key, began, ends, measured, keep, used, holder, value_key): Written,
    ) -> Result<Self, Self::Error> {
        let owner = match holder {
            None => None,
            Some(holder) => {
                let holder = holder.parse().map_err(|()| "a holder of another version")?;
                Some(Arc::new(Owner { holder, value_key: value_key.unwrap_or_default().into() }))
            }
        };
        Ok(Self {
            slot: Slot { key: key.parse()?, began: Timestamp(began) },
            ends: Timestamp(ends.unwrap_or(i64::MAX)),
            measured: Measured::parse(&measured).ok_or("measures something of another version")?,
            keep: match keep {
                'm' => Keep::Memory,
                'n' => Keep::Node,
                's' => Keep::Shared,
                _ => return Err("is kept as another version does"),
            },
            used,
            owner,
        })
    }
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The window has no room left for this call.
    Limit,
    /// A new counter is needed and the bound is reached: shed rather than let through uncounted.
    Full,
    /// The counters that nodes share are out of reach, and the limit lets nothing through without them.
    Away,
}

/// Why a call gets nothing: of several limits that refuse, the one that keeps the caller waiting longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Which of the asks.
    pub at: usize,
    pub cause: Cause,
    /// What was used and held of that limit when it refused.
    pub taken: u64,
}

/// A limit as the caller may be told it (`x-gateway-ratelimit-{limit,remaining,reset}-…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitStatus {
    pub limit: u64,
    pub remaining: u64,
    pub reset_at: Timestamp,
}

impl LimitStatus {
    /// The one of two limits that will be met first: fewer left, then longer to wait.
    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        let tightness = |s: &Self| (s.remaining, std::cmp::Reverse(s.reset_at));
        if tightness(&other) < tightness(&self) { other } else { self }
    }
}

/// The tightest rate limits of each kind; budgets are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimitStandings {
    pub requests: Option<LimitStatus>,
    pub tokens: Option<LimitStatus>,
}

impl RateLimitStandings {
    pub fn of<'a>(rates: impl Iterator<Item = &'a CounterOp>) -> Self {
        let mut standings = Self::default();
        for ask in rates {
            let standing = LimitStatus { limit: ask.limit, remaining: ask.left, reset_at: ask.ends };
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
        let pick = |a: Option<LimitStatus>, b: Option<LimitStatus>| match (a, b) {
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
    /// How much of what was held is given back.
    pub back: u64,
    /// How much is held on top, whatever is left.
    pub more: u64,
    /// Negative for a request given back.
    pub used: i64,
    /// What was used beyond what was held, and beyond the limit, is carried into the next window.
    pub owes: bool,
}

impl Change {
    /// One that changes nothing yet.
    pub const fn of(ask: &CounterOp) -> Self {
        Self {
            slot: ask.slot,
            ends: ask.ends,
            limit: ask.limit,
            measured: ask.measured,
            keep: ask.keep,
            back: 0,
            more: 0,
            used: 0,
            owes: false,
        }
    }

    /// What was granted, as it is given back whole.
    pub fn given_back(ask: &CounterOp) -> Option<Self> {
        match ask.take {
            Take::Now => Some(Self { used: -i64::try_from(ask.amount).unwrap_or(i64::MAX), ..Self::of(ask) }),
            Take::Hold => Some(Self { back: ask.amount, ..Self::of(ask) }),
            Take::Look => None,
        }
    }
}

/// A verdict, at once or later.
pub enum LimitDecision<'a> {
    Now(Result<(), Refusal>),
    /// Has a deadline of its own.
    Later(Fut<'a, Result<(), Refusal>>),
}

impl fmt::Debug for LimitDecision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(verdict) => f.debug_tuple("Now").field(verdict).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// Budgets are counters like any other, with [`Keep::Shared`] and three things that windows of rates do not have:
///
/// - They are long: a week, a month, up to a year, or without an end. Counts must not be forgotten in between, and a
///   slot's `began` may lie before the counter was made.
/// - They outlive the process. Whoever counts in memory is told what stands on disk at its start and, where several
///   nodes spend one budget, every moment again; what a backend over the network has lost is seeded from there.
/// - An admin sets them back: a [`Change`] with `back` and `more` at 0 and `used` at minus what was used. It must leave
///   what is held as it is, and repays debts of the counter as far as it goes.
///
/// A [`Take::Look`] takes nothing; what it led to is counted by a [`Change`] with `back` at 0, also where no counter
/// was begun before.
pub trait Counters: Send + Sync {
    /// All asks of a stage, sorted by slot and each slot once: every amount is taken, or none is. `waited`: how long
    /// this call has waited for what nodes share before; all its waits together have one deadline.
    fn reserve<'a>(&'a self, asks: &'a mut [CounterOp], now: Timestamp, waited: Duration) -> LimitDecision<'a>;
    /// Never waits and cannot fail: a backend over the network queues it.
    fn settle(&self, changes: &[Change]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{ClaimId, IntegrationId, KeyId, PolicyId, ProviderId, WorkspaceId};
    use uuid::Uuid;

    #[test]
    fn charges_are_read_as_they_were_written() {
        let id = Uuid::from_u128(9);
        let holders = [
            Holder::Policy(PolicyId(id)),
            Holder::Key(KeyId(id)),
            Holder::Workspace(WorkspaceId(id)),
            Holder::Provider(ProviderId(id)),
            Holder::Integration(IntegrationId(id), None),
            Holder::Integration(IntegrationId(id), Some(WorkspaceId(Uuid::from_u128(1)))),
            Holder::Claim(ClaimId(id)),
        ];
        let owned = |holder| Some(Arc::new(Owner { holder, value_key: "metadata._user:\"a\",model:b".into() }));
        for (owner, ends) in holders.map(|h| (owned(h), i64::MAX)).into_iter().chain([(None, 5)]) {
            let charge = Charge {
                slot: Slot { key: CounterKey(3, u64::MAX), began: Timestamp(-7) },
                ends: Timestamp(ends),
                measured: Measured::Cost,
                keep: if owner.is_some() { Keep::Shared } else { Keep::Node },
                used: 12,
                owner,
            };
            let text = serde_json::to_string(&charge).expect("plain values");
            assert_eq!(serde_json::from_str::<Charge>(&text).expect("what was written"), charge, "{text}");
        }
    }
}
