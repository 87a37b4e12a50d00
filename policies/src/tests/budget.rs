//! Budgets: money held at a target's price, periods and their anchors, what keeps a count and what begins another.

use super::fixture::{Engine, NOW, pairs, requests, seconds, subject, usage_index};
use crate::{
    Denied, Estimate, Hold, Index, LimitHolder, ReservationRequest, Stage, Subject, TokenPrice, Used, slot_of,
};
use gateway_domain::counters::{Change, Counters, Keep, Measured};
use gateway_domain::id::KeyId;
use gateway_domain::ports::Holder;
use gateway_domain::resource::limits::ResourceLimits;
use gateway_domain::{FaultKind, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

const DAY: i64 = 86_400;

fn everyone() -> Value {
    json!([{"key": "api_key", "value": "*"}])
}

fn budget(spend: &str, limit: &Value, fields: &Value, groups: &[&str]) -> Value {
    let mut budget = json!({"type": spend, "credit_limit": limit, "since": "2026-11-18T00:00:00Z"});
    budget.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let groups: Vec<_> = groups.iter().map(|key| json!({ "key": key })).collect();
    json!({"budget": budget, "conditions": everyone(), "group_by": groups})
}

/// A hundredth of a dollar for each token in, and two for each that comes out.
fn cents(input: u64, output: u64) -> Option<u64> {
    Some((input + 2 * output) * 10_000_000)
}

fn may_use(prompt: u64, output: u64) -> Estimate {
    Estimate { prompt, output: Some(output) }
}

fn used(tokens: u64, cents: u64) -> Used {
    Used { tokens, cost: Some(cents * 10_000_000) }
}

/// Both stages of a call with one target.
pub(super) struct Taken {
    pub(super) caller: Hold,
    pub(super) target: Hold,
}

impl Taken {
    pub(super) fn settle(self, used: Used) {
        self.target.settle(used);
        self.caller.settle(used);
    }
}

fn call(
    engine: &Engine,
    index: &Index,
    subject: &Subject<'_>,
    estimate: Estimate,
    price: Option<TokenPrice<'_>>,
    at: i64,
) -> Result<Taken, Denied> {
    let caller = engine.ask(index, Stage::Caller, subject, estimate, seconds(at))?;
    target(engine, index, subject, estimate, price, &caller, at).map(|target| Taken { caller, target })
}

pub(super) fn target(
    engine: &Engine,
    index: &Index,
    subject: &Subject<'_>,
    estimate: Estimate,
    price: Option<TokenPrice<'_>>,
    caller: &Hold,
    at: i64,
) -> Result<Hold, Denied> {
    let mut wants = ReservationRequest::default();
    wants.charge(caller);
    wants.gather(index, Stage::Target, subject, seconds(at));
    wants.measure(&estimate, price);
    let verdict = engine.ledger.admit(wants.asks(), seconds(at));
    let counters: Arc<dyn Counters> = engine.ledger.clone();
    match verdict {
        Ok(()) => Ok(wants.granted(Stage::Target, &counters, estimate)),
        Err(refusal) => Err(wants.denied(Some(index), refusal, seconds(at)).unwrap()),
    }
}

#[test]
fn money_is_held_at_the_targets_price_and_settled_at_what_it_cost() {
    let engine = Engine::default();
    let index = usage_index(&[budget("cost", &json!(1), &json!({}), &[])]);
    let take = |estimate, at| call(&engine, &index, &subject(), estimate, Some(&cents), at);
    let first = take(may_use(10, 20), 0).unwrap();
    assert!(first.caller.standings().is_empty(), "budgets are told by no header");
    let denied = take(may_use(11, 20), 1).err().unwrap();
    assert_eq!(
        denied.to_string(),
        "budget exhausted: policy \"Usage 1\" (usage-1) allows $1; $0.5 are left and this call may cost $0.51; it does not start anew by itself"
    );
    let fault = denied.fault();
    assert_eq!((fault.kind(), fault.status(), fault.retry_after()), (FaultKind::BudgetExhausted, 412, None));
    first.settle(used(12, 14));
    take(may_use(6, 40), 2).unwrap().settle(used(46, 86));
    let denied = take(may_use(0, 0), 9 * DAY).err().unwrap();
    assert!(denied.to_string().contains("allows $1; it does not start"), "nothing is left: {denied}");
    assert_eq!(engine.overshot(Measured::Cost), 0);
}

/// A target that fails gives its money back; the next is asked at its own price.
#[test]
fn the_next_target_holds_at_its_own_price() {
    let engine = Engine::default();
    let index = usage_index(&[budget("cost", &json!(1), &json!({}), &[])]);
    call(&engine, &index, &subject(), may_use(0, 0), Some(&|_, _| Some(1)), 0).unwrap().settle(used(0, 0));
    call(&engine, &index, &subject(), may_use(0, 0), Some(&|_, _| Some(1)), 0).unwrap().target.count();
    let caller = engine.ask(&index, Stage::Caller, &subject(), may_use(10, 40), NOW).unwrap();
    let dear = |input, output| cents(input, output).map(|c| c * 2);
    assert!(target(&engine, &index, &subject(), may_use(10, 40), Some(&dear), &caller, 0).is_err());
    let cheap = target(&engine, &index, &subject(), may_use(10, 40), Some(&cents), &caller, 0).unwrap();
    assert!(target(&engine, &index, &subject(), may_use(9, 0), Some(&cents), &caller, 0).is_ok(), "nine are left");
    cheap.release();
    target(&engine, &index, &subject(), may_use(20, 35), Some(&cents), &caller, 0).unwrap().settle(used(9, 9));
}

#[test]
fn without_a_price_nothing_is_held_and_an_exhausted_budget_still_refuses() {
    let engine = Engine::default();
    let index = usage_index(&[budget("cost", &json!(1), &json!({}), &[])]);
    let unknown = Used { tokens: 5, cost: None };
    call(&engine, &index, &subject(), may_use(1_000, 1_000), None, 0).unwrap().settle(unknown);
    call(&engine, &index, &subject(), may_use(0, 50), Some(&cents), 0).unwrap().settle(used(50, 100));
    assert!(call(&engine, &index, &subject(), may_use(1, 1), None, 0).is_err());
}

#[test]
fn requests_and_tokens_have_budgets_too() {
    let engine = Engine::default();
    let index = usage_index(&[
        budget("requests", &json!(2), &json!({"periodic_reset": "weekly"}), &["metadata.u"]),
        budget("tokens", &json!(100), &json!({"periodic_reset_days": 2}), &[]),
    ]);
    let of = |user: &str, tokens, at| {
        let metadata = pairs(&[("u", user)]);
        let call = Subject { metadata: &metadata, ..subject() };
        engine.ask(&index, Stage::Caller, &call, may_use(0, tokens), seconds(at)).map(|h| h.settle(used(tokens, 0)))
    };
    let charges = of("ann", 40, 0).unwrap();
    let told: Vec<_> = charges.iter().map(|c| (c.keep, &*c.owner.as_ref().unwrap().value_key, c.used)).collect();
    assert!(told.contains(&(Keep::Shared, "metadata.u:ann", 1)) && told.contains(&(Keep::Shared, "", 40)), "{told:?}");
    of("ann", 40, 1).unwrap();
    let denied = of("ann", 1, 2).unwrap_err();
    assert_eq!(
        denied.to_string(),
        "budget exhausted: policy \"Usage 1\" (usage-1) allows 2 requests; starts anew at 2026-11-23T00:00:00.000Z"
    );
    assert!(of("bob", 21, 3).is_err() && of("bob", 20, 3).is_ok());
    assert!(of("bob", 1, 4).is_err(), "the tokens are everybody's");
    // Two days after it was set the tokens begin anew, Bob's and Ann's requests on Monday.
    assert!(of("bob", 100, DAY + 15 * 3_600).is_ok());
    assert!(of("ann", 1, 4 * DAY).is_err() && of("ann", 1, 5 * DAY).is_ok());
}

/// Raising a limit lets calls through at once; the period, not the limit, decides what is one count.
#[test]
fn limits_may_change_and_counts_stay() {
    let engine = Engine::default();
    let of = |limit: u64, fields: &Value| usage_index(&[budget("tokens", &json!(limit), fields, &[])]);
    let ask = |index: &Index, tokens| {
        engine.ask(index, Stage::Caller, &subject(), may_use(0, tokens), NOW).map(|h| h.settle(used(tokens, 0))).is_ok()
    };
    let never = json!({});
    assert!(ask(&of(100, &never), 100) && !ask(&of(100, &never), 1));
    assert!(ask(&of(150, &json!({"alert_threshold": 120})), 30) && !ask(&of(150, &never), 21));
    assert!(!ask(&of(120, &never), 1), "lowered below what was used");
    // A first reset that is yet to come leaves the running period as it is, and gives it an end.
    let reset = json!({"periodic_reset_days": 30, "first_reset_at": "2026-12-01"});
    assert!(ask(&of(160, &reset), 30) && !ask(&of(160, &reset), 1));
    engine.sweep(seconds(40 * DAY));
    assert!(engine.is_empty(), "what ends is forgotten after its end");
    // Requests are another count than tokens.
    assert!(ask(&usage_index(&[budget("requests", &json!(1), &never, &[])]), 1));
}

#[test]
fn an_admin_sets_a_budget_back_without_touching_what_is_held() {
    let engine = Engine::default();
    let index = usage_index(&[budget("tokens", &json!(100), &json!({"periodic_reset": "monthly"}), &[])]);
    let take = |tokens, at| engine.ask(&index, Stage::Caller, &subject(), may_use(0, tokens), seconds(at));
    let held = take(20, 0).unwrap();
    let charges = take(30, 0).unwrap().settle(used(250, 0));
    assert!(take(1, 0).is_err());
    let slot = charges[0].slot;
    let change = Change {
        slot,
        ends: charges[0].ends,
        limit: 100,
        measured: Measured::Tokens,
        keep: Keep::Shared,
        back: 0,
        more: 0,
        used: -250,
        owes: false,
    };
    engine.ledger.settle(&[change]);
    assert_eq!(engine.level(slot), Some((0, 20)));
    assert!(take(81, 0).is_err() && take(80, 0).is_ok());
    held.settle(used(20, 0));
    take(100, 40 * DAY).expect("and the next month owes nothing").release();
}

#[test]
fn a_check_counts_afterwards_and_lets_more_through_at_once() {
    for unit in ["rpm", "rpd"] {
        let engine = Engine::default();
        let mut rule = requests(unit, 100, &everyone(), &[]);
        rule["type"] = json!("tokens");
        rule["enforcement"] = json!("check");
        let index = super::fixture::index(&[rule]);
        let take = || engine.ask(&index, Stage::Caller, &subject(), may_use(0, 90), NOW);
        let (one, two) = (take().unwrap(), take().unwrap());
        one.settle(used(90, 0));
        take().expect("ten are left").release();
        two.settle(used(90, 0));
        assert!(take().is_err(), "{unit}");
        assert!(engine.ask(&index, Stage::Caller, &subject(), may_use(0, 90), seconds(7 * DAY)).is_ok(), "no debt");
    }
}

#[test]
fn a_policy_says_what_it_assumes_of_answers() {
    let engine = Engine::default();
    let mut rule = budget("tokens", &json!(1_000), &json!({}), &[]);
    rule["assume_output"] = json!(200);
    let index = usage_index(&[rule]);
    let unbounded = Estimate { prompt: 100, output: None };
    let mut holds: Vec<_> =
        (0..3).map(|_| engine.ask(&index, Stage::Caller, &subject(), unbounded, NOW).unwrap()).collect();
    assert!(engine.ask(&index, Stage::Caller, &subject(), unbounded, NOW).is_err());
    holds[0].grow(201, None);
    assert!(engine.ask(&index, Stage::Caller, &subject(), may_use(0, 1), NOW).is_err(), "it grew by as much");
}

#[test]
fn holders_have_budgets_whose_weeks_begin_on_sunday() {
    let engine = Engine::default();
    let holder = Holder::Key(KeyId(Uuid::from_u128(7)));
    let limits: ResourceLimits = serde_json::from_value(json!({"usage_limits": [
        {"type": "tokens", "credit_limit": 50, "periodic_reset": "weekly", "since": "2026-11-18T00:00:00Z"},
        {"type": "cost", "credit_limit": 1, "since": "2026-11-18T00:00:00Z"},
    ]}))
    .unwrap();
    let counters: Arc<dyn Counters> = engine.ledger.clone();
    let none = Index::build(&BTreeMap::new(), &BTreeMap::new());
    let ask = |at: &str, tokens: u64| {
        let at: Timestamp = at.parse().unwrap();
        let mut wants = ReservationRequest::default();
        wants.bind(Stage::Caller, LimitHolder { holder, kind: "API key", name: &"mine".into() }, &limits, at);
        wants.measure(&may_use(0, tokens), None);
        let verdict = engine.ledger.admit(wants.asks(), at);
        if let Err(refusal) = verdict {
            return Err(wants.denied(None, refusal, at).unwrap());
        }
        let caller = wants.granted(Stage::Caller, &counters, may_use(0, tokens));
        let mut wants = ReservationRequest::default();
        wants.charge(&caller);
        wants.bind(
            Stage::Target,
            LimitHolder { holder: Holder::Key(KeyId(Uuid::from_u128(8))), kind: "provider", name: &"other".into() },
            &limits,
            at,
        );
        wants.measure(&may_use(0, tokens), Some(&cents));
        let verdict = engine.ledger.admit(wants.asks(), at);
        match verdict {
            Ok(()) => {
                let target = wants.granted(Stage::Target, &counters, may_use(0, tokens));
                target.settle(used(tokens, 2 * tokens));
                caller.settle(used(tokens, 2 * tokens));
                Ok(())
            }
            Err(refusal) => Err(wants.denied(Some(&none), refusal, at).unwrap()),
        }
    };
    ask("2026-11-21T12:00:00Z", 40).unwrap();
    assert_eq!(
        engine.level(slot_of(holder, &limits.usage_limits[0], "2026-11-21T12:00:00Z".parse().unwrap())),
        Some((40, 0))
    );
    let denied = ask("2026-11-21T12:00:00Z", 11).unwrap_err().to_string();
    assert!(denied.starts_with("budget exhausted: API key \"mine\" allows 50 tokens; 10 are left"), "{denied}");
    assert!(denied.ends_with("starts anew at 2026-11-22T00:00:00.000Z"), "{denied}");
    // On Sunday the tokens begin anew; eighty cents of the dollar are gone for good.
    let denied = ask("2026-11-22T00:00:00Z", 11).unwrap_err().to_string();
    assert!(denied.contains("allows $1; $0.2 are left and this call may cost $0.22"), "{denied}");
    ask("2026-11-22T00:00:00Z", 10).unwrap();
    assert!(ask("2026-11-22T00:00:00Z", 0).is_err());
}
