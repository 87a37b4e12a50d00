//! Money under any order of calls, targets and days: held at each target's price, given back before the next is asked,
//! and never more settled and held together than a budget allows.

use super::budget::{Taken, target};
use super::fixture::{Engine, NOW, seconds, subject, usage_index};
use crate::{Estimate, Hold, Stage, Used};
use gateway_domain::counters::Measured;
use proptest::prelude::*;
use serde_json::json;
use std::collections::{HashMap, HashSet};

const DAY: i64 = 86_400;
const CENT: u64 = 10_000_000;

#[derive(Clone, Debug)]
enum Step {
    /// A call that may use so many tokens, at a target where each costs so many cents; its clock was read a little
    /// before.
    Take {
        tokens: u64,
        cents: u64,
        late: i64,
    },
    /// The target of the call of this number fails, and the next is asked at its own price.
    Next {
        at: usize,
        cents: u64,
    },
    /// The call ends, at so many hundredths of what it may use.
    Settle {
        at: usize,
        part: u64,
    },
    /// Nobody knows what it used.
    Drop(usize),
    Fail(usize),
    Pass(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 0..6_usize;
    prop_oneof![
        6 => (0..60_u64, 1..4_u64, 0..50_i64).prop_map(|(tokens, cents, late)| Step::Take { tokens, cents, late }),
        3 => (at(), 1..4_u64).prop_map(|(at, cents)| Step::Next { at, cents }),
        3 => (at(), 0..=100_u64).prop_map(|(at, part)| Step::Settle { at, part }),
        1 => at().prop_map(Step::Drop),
        1 => at().prop_map(Step::Fail),
        1 => prop_oneof![Just(10_i64), 20_000..60_000_i64].prop_map(Step::Pass),
    ]
}

/// Cents of each day.
#[derive(Default)]
struct Model {
    taken: HashMap<i64, u64>,
    lone: HashSet<i64>,
}

impl Model {
    fn take(&mut self, day: i64, limit: u64, cents: u64) -> bool {
        let taken = self.taken.entry(day).or_default();
        let fits = *taken < limit && (*taken == 0 || *taken + cents <= limit);
        if fits {
            *taken += cents;
            if cents > limit {
                self.lone.insert(day);
            }
        }
        fits
    }

    fn put(&mut self, day: i64, held: u64, used: u64) {
        let taken = self.taken.entry(day).or_default();
        *taken = *taken - held + used;
    }
}

/// A call under way.
struct Running {
    caller: Hold,
    target: Hold,
    tokens: u64,
    held: u64,
    /// Seconds behind the beginning.
    at: i64,
}

fn day(at: i64) -> i64 {
    seconds(at).secs().div_euclid(DAY)
}

fn may_use(tokens: u64) -> Estimate {
    Estimate { prompt: 0, output: Some(tokens) }
}

fn price(cents: u64) -> impl Fn(u64, u64) -> Option<u64> {
    move |input, output| Some((input + output) * cents * CENT)
}

proptest! {
    #[test]
    fn held_and_settled_never_exceed_a_budget(limit in 1..4_u64, steps in prop::collection::vec(step(), 1..150)) {
        let (engine, mut model) = (Engine::default(), Model::default());
        let budget = json!({
            "type": "cost", "credit_limit": limit, "periodic_reset_days": 1, "since": NOW.plus_micros(-3 * DAY * 1_000_000),
        });
        let everyone = json!([{"key": "api_key", "value": "*"}]);
        let index = usage_index(&[json!({ "budget": budget, "conditions": everyone, "group_by": [] })]);
        let limit = limit * 100;
        let ask = |caller: &Hold, tokens: u64, cents: u64, at: i64| {
            target(&engine, &index, &subject(), may_use(tokens), Some(&price(cents)), caller, at)
        };
        let mut running: Vec<Running> = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Take { tokens, cents, late } => {
                    let at = now - late;
                    let open = model.taken.get(&day(at)).is_none_or(|taken| *taken < limit);
                    let caller = engine.ask(&index, Stage::Caller, &subject(), may_use(tokens), seconds(at));
                    prop_assert_eq!(caller.is_ok(), open);
                    let Ok(caller) = caller else { continue };
                    let target = ask(&caller, tokens, cents, at);
                    prop_assert_eq!(target.is_ok(), model.take(day(at), limit, tokens * cents));
                    match target {
                        Ok(target) => running.push(Running { caller, target, tokens, held: tokens * cents, at }),
                        Err(_) => caller.release(),
                    }
                }
                Step::Next { at, cents } if at < running.len() => {
                    let call = running.remove(at);
                    call.target.release();
                    model.put(day(call.at), call.held, 0);
                    if day(call.at) != day(now) {
                        call.caller.release();
                        continue;
                    }
                    let target = ask(&call.caller, call.tokens, cents, call.at);
                    prop_assert_eq!(target.is_ok(), model.take(day(call.at), limit, call.tokens * cents));
                    match target {
                        Ok(target) => running.push(Running { target, held: call.tokens * cents, ..call }),
                        Err(_) => call.caller.release(),
                    }
                }
                Step::Settle { at, part } if at < running.len() => {
                    let call = running.remove(at);
                    let cents = call.held * part / 100;
                    model.put(day(call.at), call.held, cents);
                    Taken { caller: call.caller, target: call.target }
                        .settle(Used { tokens: call.tokens, cost: Some(cents * CENT) });
                }
                Step::Fail(at) if at < running.len() => {
                    let call = running.remove(at);
                    model.put(day(call.at), call.held, 0);
                    call.target.release();
                    call.caller.release();
                }
                Step::Drop(at) if at < running.len() => drop(running.remove(at)),
                Step::Pass(seconds) => now += seconds,
                _ => {}
            }
            for (day, taken) in &model.taken {
                prop_assert!(*taken <= limit || model.lone.contains(day));
            }
        }
        prop_assert_eq!(engine.overshot(Measured::Cost), 0);
    }
}
