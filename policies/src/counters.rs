//! Counters of groups that were looked up on this thread not long ago. A group's counter is cut from a SHA-256, which
//! costs more than everything else about a policy, and most calls of a worker come from few keys. Knows no policy.

use gateway_domain::counters::CounterKey;
use std::cell::Cell;
use uuid::Uuid;

/// Enough for the keys that keep a worker busy; with more of them some are hashed anew.
const PLACES: usize = 256;

#[derive(Clone, Copy)]
struct KnownCounter {
    rule: CounterKey,
    group: Uuid,
    counter: CounterKey,
}

thread_local! {
    static KNOWN: [Cell<Option<KnownCounter>>; PLACES] = const { [const { Cell::new(None) }; PLACES] };
}

/// The counter of `group` under `rule`, the same that `hashed` gives.
pub(crate) fn of(rule: CounterKey, group: Uuid, hashed: impl FnOnce() -> Option<CounterKey>) -> Option<CounterKey> {
    let place = (rule.0 ^ group.as_u64_pair().1) as usize % PLACES;
    KNOWN.with(|known| {
        if let Some(known) = known[place].get().filter(|known| known.rule == rule && known.group == group) {
            return Some(known.counter);
        }
        let counter = hashed()?;
        known[place].set(Some(KnownCounter { rule, group, counter }));
        Some(counter)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_that_of_its_rule_and_group() {
        let (one, other) = (CounterKey(1, 1), CounterKey(1, 2));
        let groups = [Uuid::from_u64_pair(0, 5), Uuid::from_u64_pair(0, 5 + PLACES as u64), Uuid::from_u64_pair(9, 5)];
        for _ in 0..2 {
            for (at, group) in groups.into_iter().enumerate() {
                for rule in [one, other] {
                    let counter = CounterKey(rule.1, at as u64);
                    assert_eq!(of(rule, group, || Some(counter)), Some(counter), "places are shared, counters are not");
                }
            }
        }
        assert_eq!(of(other, groups[2], || None), Some(CounterKey(2, 2)), "the last one is known");
        assert_eq!(of(one, Uuid::nil(), || None), None);
    }
}
