//! The ledger under any order of holds, settlements and windows: used and held together never exceed a limit while
//! what calls may use is known, and what was underestimated is owed by the next window.

use super::fixture::{Engine, NOW, index, pairs, requests, seconds, subject};
use crate::{Delta, Estimate, Hold, Index, Ledger, Stage, Subject, Total, Used};
use gateway_domain::counters::{CounterKey, Keep, Measured, Slot};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};

const MINUTE: i64 = 60;

fn tokens(unit: &str, value: u64, groups: &[&str]) -> Value {
    let mut rule = requests(unit, value, &json!([{"key": "api_key", "value": "*"}]), groups);
    rule["type"] = json!("tokens");
    rule
}

fn may_use(prompt: u64, output: u64) -> Estimate {
    Estimate { prompt, output: Some(output) }
}

fn used(tokens: u64) -> Used {
    Used { tokens, cost: None }
}

fn take(engine: &Engine, index: &Index, estimate: Estimate, at: i64) -> Option<Hold> {
    engine.ask(index, Stage::Caller, &subject(), estimate, seconds(at)).ok()
}

#[test]
fn holds_settle_at_what_was_used() {
    let engine = Engine::default();
    let index = index(&[tokens("rpm", 100, &[])]);
    let hold = take(&engine, &index, may_use(10, 50), 0).unwrap();
    assert_eq!(hold.standings().tokens.unwrap().remaining, 40);
    assert!(take(&engine, &index, may_use(10, 31), 0).is_none());
    hold.settle(used(20));
    let whole = take(&engine, &index, may_use(0, 80), 0).unwrap();
    whole.release();
    take(&engine, &index, may_use(0, 80), 0).unwrap().count();
    assert!(take(&engine, &index, may_use(0, 1), 0).is_none(), "what nobody settled counts as held");
    assert_eq!(engine.overshot(Measured::Tokens), 0);
}

#[test]
fn a_hold_belongs_to_the_window_it_was_taken_from() {
    let engine = Engine::default();
    let index = index(&[tokens("rpm", 100, &[])]);
    let slow = take(&engine, &index, may_use(0, 90), 0).unwrap();
    let next = take(&engine, &index, may_use(0, 100), MINUTE).unwrap();
    slow.settle(used(90));
    assert!(take(&engine, &index, may_use(0, 1), MINUTE).is_none(), "nothing came back to the new window");
    next.settle(used(99));
    assert!(take(&engine, &index, may_use(0, 1), MINUTE).is_some());
}

#[test]
fn an_underestimate_is_owed_by_the_windows_after_it() {
    let engine = Engine::default();
    let index = index(&[tokens("rpm", 100, &[])]);
    take(&engine, &index, may_use(10, 40), 0).unwrap().settle(used(260));
    assert_eq!(engine.overshot(Measured::Tokens), 160);
    assert!(take(&engine, &index, may_use(0, 1), 0).is_none());
    assert!(take(&engine, &index, may_use(0, 1), MINUTE).is_none(), "100 of 160 are repaid here");
    let hold = take(&engine, &index, may_use(0, 40), 2 * MINUTE).unwrap();
    assert_eq!(hold.standings().tokens.unwrap().remaining, 0, "and 60 here");
    hold.settle(used(0));
    take(&engine, &index, may_use(0, 100), 3 * MINUTE).unwrap().settle(used(0));

    // Windows in which nobody asks repay too.
    take(&engine, &index, may_use(0, 10), 4 * MINUTE).unwrap().settle(used(310));
    assert!(take(&engine, &index, may_use(0, 100), 6 * MINUTE).is_none());
    assert!(take(&engine, &index, may_use(0, 91), 7 * MINUTE).is_none());
    assert!(take(&engine, &index, may_use(0, 90), 7 * MINUTE).is_some());
}

/// Both count by the minute; one of them is in debt for ten.
#[test]
fn of_several_refusals_the_one_that_fits_last_is_told() {
    for limits in [[100, 10], [10, 100]] {
        let engine = Engine::default();
        let index = index(&limits.map(|limit| tokens("rpm", limit, &[])));
        take(&engine, &index, may_use(0, 5), 0).unwrap().settle(used(105));
        let denied = engine.ask(&index, Stage::Caller, &subject(), may_use(0, 5), seconds(0)).unwrap_err();
        let number = limits.iter().position(|limit| *limit == 10).unwrap() + 1;
        assert_eq!(denied.name.to_string(), format!("policy \"Policy {number}\" (policy-{number})"));
    }
}

#[test]
fn one_call_larger_than_the_limit_passes_in_each_window_and_owes_nothing() {
    let engine = Engine::default();
    let index = index(&[tokens("rpm", 10, &[])]);
    for minute in 0..3 {
        let hold = take(&engine, &index, may_use(5, 500), minute * MINUTE).expect("one");
        assert!(take(&engine, &index, may_use(0, 1), minute * MINUTE).is_none());
        hold.settle(used(400));
        assert!(take(&engine, &index, may_use(5, 500), minute * MINUTE).is_none());
    }
    assert_eq!(engine.overshot(Measured::Tokens), 0);
}

#[test]
fn holds_of_unbounded_answers_grow() {
    let engine = Engine::default();
    let index = index(&[tokens("rpm", 3_000, &[])]);
    let mut hold = take(&engine, &index, Estimate { prompt: 100, output: None }, 0).unwrap();
    assert_eq!(hold.standings().tokens.unwrap().remaining, 3_000 - 1_124);
    let left = || take(&engine, &index, may_use(0, 1), 0).map(|h| h.standings().tokens.unwrap().remaining + 1);
    hold.grow(1_024, None);
    assert_eq!(left().unwrap(), 3_000 - 1_124);
    hold.grow(1_025, None);
    assert!(left().unwrap() < 3_000 - 2_148, "two steps are held");
    hold.settle(used(1_200));
    assert!(left().unwrap() > 1_700);
}

#[test]
fn a_hundred_thousand_groups_stay_within_their_bound() {
    let ledger = Ledger::default();
    // What the page of the documentation promises for each counter.
    assert!(ledger.capacity() == 1 << 20);
    let engine = Engine::default();
    let index = index(&[requests("rpd", 2, &json!([{"key": "metadata.u", "value": "*"}]), &["metadata.u"])]);
    let call = |user: usize, at: i64| {
        let metadata = pairs(&[("u", &user.to_string())]);
        engine.admitted(&index, &Subject { metadata: &metadata, ..subject() }, seconds(at), 3)
    };
    for user in 0..100_000 {
        assert_eq!(call(user, 0), 2);
    }
    assert_eq!(engine.len(), 100_000);
    assert!(engine.bytes() <= 100_000 * 150, "{}", engine.bytes());
    engine.sweep(seconds(3_600));
    for user in (0..100_000).step_by(997) {
        assert_eq!(call(user, 3_600), 0, "a live limit is never forgotten");
    }
    engine.sweep(seconds(2 * 86_400));
    assert!(engine.is_empty() && engine.bytes() < 2_000_000, "{}", engine.bytes());
}

#[test]
fn what_lasts_is_told_and_taken_back() {
    let (engine, again) = (Engine::default(), Engine::default());
    let index = index(&[tokens("rpd", 100, &[]), tokens("rpm", 1_000, &[])]);
    let charges = take(&engine, &index, may_use(0, 60), 0).unwrap().settle(used(55));
    assert_eq!(charges.len(), 1, "a minute is not worth it: {charges:?}");
    assert_eq!((charges[0].used, charges[0].keep, &charges[0].owner), (55, Keep::Node, &None));
    let part = Delta { slot: charges[0].slot, ends: charges[0].ends, keep: Keep::Node, used: 55 };

    // A process that was killed: what its records say counts from the start.
    again.credit(&[part]);
    assert_eq!(again.level(part.slot), Some((55, 0)));
    let hold = take(&again, &index, may_use(0, 45), 0).unwrap();
    assert!(take(&again, &index, may_use(0, 1), 0).is_none());
    // Once that is on disk, the total there holds it, and may hold more than this process counted.
    again.saved(&[part]);
    again.absorb(&[Total { slot: part.slot, ends: part.ends, keep: Keep::Node, used: 90 }]);
    assert_eq!(again.level(part.slot), Some((90, 45)));
    hold.settle(used(5));
    assert_eq!(again.level(part.slot), Some((95, 0)));
    again.absorb(&[Total { slot: part.slot, ends: part.ends, keep: Keep::Node, used: 92 }]);
    assert_eq!(again.level(part.slot), Some((97, 0)), "what is not on disk yet is added");
}

#[test]
fn a_counter_nobody_asked_for_is_at_nothing() {
    let slot = Slot { key: CounterKey(1, 2), began: NOW };
    assert_eq!(Ledger::default().level(slot), None);
}

#[derive(Clone, Debug)]
enum Step {
    Take {
        prompt: u64,
        output: u64,
        group: usize,
    },
    /// The hold of this number ends, at so many hundredths of what it may use.
    Settle(usize, u64),
    Release(usize),
    Drop(usize),
    Pass(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..40_u64, 0..60_u64, 0..3_usize).prop_map(|(prompt, output, group)| Step::Take { prompt, output, group }),
        3 => (0..8_usize, 0..=100_u64).prop_map(|(at, part)| Step::Settle(at, part)),
        1 => (0..8_usize).prop_map(Step::Release),
        1 => (0..8_usize).prop_map(Step::Drop),
        1 => (1..50_i64).prop_map(Step::Pass),
    ]
}

/// Used and held of each window, told in the plainest way.
#[derive(Default)]
struct Model {
    taken: HashMap<Place, u64>,
    lone: HashSet<Place>,
}

/// Which limit, which group, which window.
type Place = (usize, usize, i64);

impl Model {
    fn take(&mut self, places: [Place; 2], limits: [u64; 2], amount: u64) -> bool {
        let fits = |place: &Place| {
            let taken = self.taken.get(place).copied().unwrap_or(0);
            taken < limits[place.0] && (taken == 0 || taken + amount <= limits[place.0])
        };
        let all = places.iter().all(fits);
        for place in places.into_iter().filter(|_| all) {
            *self.taken.entry(place).or_default() += amount;
            if amount > limits[place.0] {
                self.lone.insert(place);
            }
        }
        all
    }

    fn settle(&mut self, places: [Place; 2], held: u64, used: u64) {
        for place in places {
            let taken = self.taken.entry(place).or_default();
            *taken = *taken - held + used;
        }
    }
}

proptest! {
    /// While every call's maximum is known and kept to, no window of any group ever exceeds its limit, save by the
    /// one call that is larger than the limit.
    #[test]
    fn used_and_held_never_exceed_the_limit(
        limits in (20..200_u64, 20..400_u64),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let limits = [limits.0, limits.1];
        let (engine, mut model) = (Engine::default(), Model::default());
        let index = index(&[tokens("rpm", limits[0], &["metadata.g"]), tokens("rph", limits[1], &[])]);
        let groups: Vec<_> = (0..3).map(|g| pairs(&[("g", &g.to_string())])).collect();
        let mut holds: Vec<(Hold, [Place; 2], u64)> = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Take { prompt, output, group } => {
                    let at = seconds(now);
                    let places = [(0, group, at.secs() / 60), (1, 0, at.secs() / 3_600)];
                    let call = Subject { metadata: &groups[group], ..subject() };
                    let taken = engine.ask(&index, Stage::Caller, &call, may_use(prompt, output), at);
                    prop_assert_eq!(taken.is_ok(), model.take(places, limits, prompt + output));
                    holds.extend(taken.ok().map(|hold| (hold, places, prompt + output)));
                }
                Step::Settle(at, part) if at < holds.len() => {
                    let (hold, places, held) = holds.remove(at);
                    let tokens = held * part / 100;
                    model.settle(places, held, tokens);
                    hold.settle(used(tokens));
                }
                Step::Release(at) if at < holds.len() => {
                    let (hold, places, held) = holds.remove(at);
                    model.settle(places, held, 0);
                    hold.release();
                }
                Step::Drop(at) if at < holds.len() => drop(holds.remove(at)),
                Step::Pass(seconds) => now += seconds,
                _ => {}
            }
            for (place, taken) in &model.taken {
                prop_assert!(*taken <= limits[place.0] || model.lone.contains(place));
            }
        }
        prop_assert_eq!(engine.overshot(Measured::Tokens), 0);
    }
}
