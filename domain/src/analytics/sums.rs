//! The sums themselves, and what of one record goes into them.

use super::Sketch;
use crate::money::NanoUsd;
use crate::record::{CacheStatus, LogRecord};
use crate::time::Timestamp;

/// What of a record is summed. Signs matter: a cost that came later is a record of none with that cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    pub created_at: Timestamp,
    /// The one whose answer the client got: a call is counted by it.
    pub last: bool,
    pub attempt: u32,
    pub retries: i32,
    pub status: u16,
    pub cache: CacheStatus,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub has_usage: bool,
    pub cost: Option<NanoUsd>,
    /// What an answer from the cache would have cost.
    pub saved: Option<NanoUsd>,
    pub total_us: u64,
}

impl Fact {
    pub fn of(record: &LogRecord) -> Self {
        let (usage, llm) = (record.usage(), record.llm());
        Self {
            created_at: record.created_at,
            last: record.last,
            attempt: record.attempt,
            retries: record.llm_or_none().retries,
            status: record.status,
            cache: record.cache(),
            input_tokens: usage.map_or(0, |u| u.prompt()),
            output_tokens: usage.map_or(0, |u| u.completion()),
            has_usage: usage.is_some(),
            cost: record.cost,
            saved: llm.and_then(|llm| llm.saved),
            total_us: record.timings.total_us,
        }
    }
}

/// Money in nanodollars, time in microseconds. Any two add up to the sums of what both are of, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// One for each target tried.
    pub records: i64,
    /// Calls of clients; each is counted once, however many targets were tried for it.
    pub calls: i64,
    /// Calls that ended with 400 or more.
    pub errors: i64,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cost: i64,
    /// Records with usage whose price nobody knows (yet).
    pub unpriced: i64,
    pub saved: i64,
    /// Calls that a repetition brought to success, and those that another target did.
    pub retried: i64,
    pub fell_back: i64,
    /// Calls whose client waited for the end, and for how long.
    pub answered: i64,
    pub total_us: i64,
    /// Calls that the cache answered, and for how long their clients waited; then those that it had nothing for.
    pub hits: i64,
    pub hit_us: i64,
    pub misses: i64,
    pub miss_us: i64,
    /// 0: never.
    pub first_seen: i64,
    pub last_seen: i64,
    pub latency: Sketch,
}

/// The status of a call whose client left.
const CLIENT_GONE: u16 = 499;

impl Sums {
    pub fn add(&mut self, fact: &Fact) {
        let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.records += 1;
        self.input_tokens = self.input_tokens.saturating_add(whole(fact.input_tokens));
        self.output_tokens = self.output_tokens.saturating_add(whole(fact.output_tokens));
        self.cost = self.cost.saturating_add(fact.cost.map_or(0, |cost| cost.0));
        self.unpriced += i64::from(fact.has_usage && fact.cost.is_none());
        self.saved = self.saved.saturating_add(fact.saved.map_or(0, |saved| saved.0));
        self.see(fact.created_at.micros(), fact.created_at.micros());
        if !fact.last {
            return;
        }
        let failed = fact.status >= 400;
        self.calls += 1;
        self.errors += i64::from(failed);
        self.retried += i64::from(!failed && fact.retries > 0);
        self.fell_back += i64::from(!failed && fact.attempt > 1);
        let micros = whole(fact.total_us);
        if fact.status != 0 && fact.status != CLIENT_GONE {
            self.answered += 1;
            self.total_us = self.total_us.saturating_add(micros);
            self.latency.add(fact.total_us);
        }
        let (count, sum) = match fact.cache {
            CacheStatus::Hit => (&mut self.hits, &mut self.hit_us),
            CacheStatus::Miss => (&mut self.misses, &mut self.miss_us),
            CacheStatus::Disabled | CacheStatus::Refresh => return,
        };
        *count += 1;
        *sum = sum.saturating_add(micros);
    }

    /// What becomes of a record's sums when its cost becomes known.
    pub fn priced(fact: &Fact) -> Self {
        let (at, cost) = (fact.created_at.micros(), fact.cost.map_or(0, |cost| cost.0));
        Self { cost, unpriced: -i64::from(fact.has_usage), first_seen: at, last_seen: at, ..Self::default() }
    }

    pub fn merge(&mut self, other: &Self) {
        for (sum, add) in self.numbers_mut().into_iter().zip(other.numbers()) {
            *sum = sum.saturating_add(add);
        }
        self.see(other.first_seen, other.last_seen);
        self.latency.merge(&other.latency);
    }

    pub const fn tokens(&self) -> i64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    fn see(&mut self, first: i64, last: i64) {
        if first != 0 && (self.first_seen == 0 || first < self.first_seen) {
            self.first_seen = first;
        }
        self.last_seen = self.last_seen.max(last);
    }

    /// All that are added up, in the order of [`Self::NAMES`].
    pub const fn numbers(&self) -> [i64; 16] {
        [
            self.records,
            self.calls,
            self.errors,
            self.input_tokens,
            self.output_tokens,
            self.cost,
            self.unpriced,
            self.saved,
            self.retried,
            self.fell_back,
            self.answered,
            self.total_us,
            self.hits,
            self.hit_us,
            self.misses,
            self.miss_us,
        ]
    }

    pub const fn numbers_mut(&mut self) -> [&mut i64; 16] {
        [
            &mut self.records,
            &mut self.calls,
            &mut self.errors,
            &mut self.input_tokens,
            &mut self.output_tokens,
            &mut self.cost,
            &mut self.unpriced,
            &mut self.saved,
            &mut self.retried,
            &mut self.fell_back,
            &mut self.answered,
            &mut self.total_us,
            &mut self.hits,
            &mut self.hit_us,
            &mut self.misses,
            &mut self.miss_us,
        ]
    }

    pub const NAMES: [&'static str; 16] = [
        "records",
        "calls",
        "errors",
        "input_tokens",
        "output_tokens",
        "cost",
        "unpriced",
        "saved",
        "retried",
        "fell_back",
        "answered",
        "total_us",
        "hits",
        "hit_us",
        "misses",
        "miss_us",
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACT: Fact = Fact {
        created_at: Timestamp(7),
        last: true,
        attempt: 1,
        retries: 0,
        status: 200,
        cache: CacheStatus::Disabled,
        input_tokens: 10,
        output_tokens: 5,
        has_usage: true,
        cost: None,
        saved: None,
        total_us: 1_000,
    };

    #[test]
    fn calls_are_counted_by_their_last_record_and_money_by_all() {
        let mut sums = Sums::default();
        sums.add(&Fact { last: false, status: 500, cost: Some(NanoUsd(3)), ..FACT });
        sums.add(&Fact { attempt: 2, retries: 1, created_at: Timestamp(9), ..FACT });
        assert_eq!((sums.records, sums.calls, sums.errors, sums.tokens()), (2, 1, 0, 30));
        assert_eq!((sums.cost, sums.unpriced, sums.fell_back, sums.retried, sums.answered), (3, 1, 1, 1, 1));
        assert_eq!((sums.first_seen, sums.last_seen), (7, 9));
        sums.merge(&Sums::priced(&Fact { cost: Some(NanoUsd(4)), ..FACT }));
        assert_eq!((sums.cost, sums.unpriced, sums.records), (7, 0, 2));
    }

    #[test]
    fn who_left_waited_for_no_answer_and_a_cache_is_told_apart() {
        let mut sums = Sums::default();
        sums.add(&Fact { status: 499, ..FACT });
        sums.add(&Fact { cache: CacheStatus::Hit, saved: Some(NanoUsd(8)), ..FACT });
        sums.add(&Fact { cache: CacheStatus::Miss, total_us: 4_000, ..FACT });
        assert_eq!((sums.calls, sums.errors, sums.answered, sums.total_us), (3, 1, 2, 5_000));
        assert_eq!((sums.hits, sums.hit_us, sums.misses, sums.miss_us, sums.saved), (1, 1_000, 1, 4_000, 8));
    }
}
