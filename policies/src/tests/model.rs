//! Any sequence of calls, against a model so simple that it is plainly right: every policy is looked at for every
//! call, and counts are kept under the words of their groups.

use super::fixture::{Engine, KEY, NOW, policies, requests, subject};
use crate::{Hold, Index, Stage, Subject};
use gateway_domain::Timestamp;
use gateway_domain::id::KeyId;
use gateway_domain::resource::policy::{OneOrMany, RateLimitPolicy, Unit};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use uuid::Uuid;

const OTHER_KEY: &str = "0191e0a0-0000-7000-8000-00000000000b";
const KEYS: &[&str] =
    &["api_key", "metadata.a", "metadata.b", "model", "provider", "endpoint_type", "config", "workspace_id"];
const MODELS: &[&str] = &["m1", "m2", "m12", "@p/m1", "@q/m2", "m", "@p/"];

/// What a call is made of, owned.
#[derive(Clone, Debug)]
struct Call {
    key: Option<&'static str>,
    metadata: Vec<(String, String)>,
    provider: Option<&'static str>,
    config: Option<&'static str>,
    model: Option<&'static str>,
    endpoint: &'static str,
    unread: bool,
}

impl Call {
    fn subject(&self) -> Subject<'_> {
        Subject {
            api_key: self.key.map(|k| KeyId(Uuid::parse_str(k).unwrap())),
            metadata: &self.metadata,
            provider: self.provider,
            config: self.config,
            model: self.model,
            endpoint_type: self.endpoint,
            unread: self.unread,
            ..subject()
        }
    }

    /// `Err`: there, but not read.
    fn value(&self, key: &str) -> Option<Result<String, ()>> {
        let text = match key {
            "api_key" => self.key.map(str::to_owned),
            "workspace_id" => Some(self.subject().workspace.to_string()),
            "provider" => self.provider.map(str::to_owned),
            "config" => self.config.map(str::to_owned),
            "endpoint_type" => Some(self.endpoint.to_owned()),
            "model" if self.model.is_none() && self.unread => return Some(Err(())),
            "model" => self.model.map(str::to_owned),
            _ => self.metadata.iter().find(|(k, _)| format!("metadata.{k}") == key).map(|(_, v)| v.clone()),
        };
        text.filter(|t| !t.is_empty()).map(Ok)
    }
}

fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.first(), text.first()) {
        (None, None) => true,
        (Some(b'*'), _) => fits(&pattern[1..], text) || (!text.is_empty() && fits(pattern, &text[1..])),
        (Some(p), Some(t)) => p == t && fits(&pattern[1..], &text[1..]),
        _ => false,
    }
}

fn listed(list: &OneOrMany, key: &str, value: &str) -> bool {
    list.as_slice().iter().any(|item| {
        let bare = value.strip_prefix('@').and_then(|v| v.split_once('/')).map_or("", |(_, model)| model);
        let names = [value, bare];
        item == "*"
            || item == value
            || key == "model" && names.iter().any(|name| !name.is_empty() && fits(item.as_bytes(), name.as_bytes()))
    })
}

/// The words of the group that the call belongs to, when the policy is about it at all.
fn group(rule: &RateLimitPolicy, call: &Call) -> Option<Vec<Option<String>>> {
    for condition in &rule.conditions {
        let Ok(value) = call.value(&condition.key)? else { continue };
        let within = condition.value.as_ref().is_none_or(|l| listed(l, &condition.key, &value));
        let excluded = condition.excludes.as_ref().is_some_and(|l| listed(l, &condition.key, &value));
        if !within || excluded {
            return None;
        }
    }
    rule.group_by.iter().map(|g| call.value(&g.key).map(Result::ok)).collect()
}

fn of_target(rule: &RateLimitPolicy) -> bool {
    let mut keys = rule.conditions.iter().map(|c| &c.key).chain(rule.group_by.iter().map(|g| &g.key));
    keys.any(|k| k == "provider" || k == "virtual_key")
}

/// Number of the window. The epoch's week began on the Monday three days before.
fn window(unit: Unit, now: Timestamp) -> i64 {
    (now.secs() + early(unit)).div_euclid(seconds_in(unit))
}

fn end(unit: Unit, window: i64) -> Timestamp {
    Timestamp::from_secs((window + 1) * seconds_in(unit) - early(unit))
}

fn early(unit: Unit) -> i64 {
    if unit == Unit::Week { 3 * 86_400 } else { 0 }
}

fn seconds_in(unit: Unit) -> i64 {
    match unit {
        Unit::Second => 1,
        Unit::Minute => 60,
        Unit::Hour => 60 * 60,
        Unit::Day => 24 * 60 * 60,
        Unit::Week => 7 * 24 * 60 * 60,
    }
}

type Place = (usize, Vec<Option<String>>, i64);

#[derive(Default)]
struct Model {
    used: HashMap<Place, u64>,
}

impl Model {
    /// The places taken from, or those that refuse.
    fn admit(
        &mut self,
        rules: &[RateLimitPolicy],
        stage: Stage,
        call: &Call,
        now: Timestamp,
    ) -> Result<Vec<Place>, Vec<Place>> {
        let places: Vec<Place> = (0..)
            .zip(rules)
            .filter(|(_, rule)| of_target(rule) == (stage == Stage::Target))
            .filter_map(|(i, rule)| Some((i, group(rule, call)?, window(rule.unit, now))))
            .collect();
        let used = |p: &Place| self.used.get(p).copied().unwrap_or(0);
        let full: Vec<Place> = places.iter().filter(|p| used(p) >= rules[p.0].value).cloned().collect();
        if !full.is_empty() {
            return Err(full);
        }
        for place in &places {
            *self.used.entry(place.clone()).or_default() += 1;
        }
        Ok(places)
    }

    fn release(&mut self, places: Vec<Place>) {
        for place in places {
            *self.used.entry(place).or_default() -= 1;
        }
    }
}

fn values(key: &'static str) -> impl Strategy<Value = Value> {
    let known: &[&str] = match key {
        "api_key" => &[KEY, OTHER_KEY, "*"],
        "model" => &["m1", "m2", "@p/m1", "m*", "@p/*", "*1", "@*/m*", "m*2", "*", "m", "*@*"],
        "workspace_id" => &["*", super::fixture::WORKSPACE],
        _ => &["x", "y", "*", "x*"],
    };
    prop_oneof![
        select(known).prop_map(|one| json!(one)),
        prop::collection::vec(select(known), 1..4).prop_map(|many| json!(many)),
    ]
}

fn condition() -> impl Strategy<Value = Value> {
    select(KEYS).prop_flat_map(|key| {
        prop_oneof![
            4 => values(key).prop_map(move |v| json!({"key": key, "value": v})),
            1 => values(key).prop_map(move |v| json!({"key": key, "excludes": v})),
            1 => (values(key), values(key)).prop_map(move |(v, x)| json!({"key": key, "value": v, "excludes": x})),
        ]
    })
}

fn rule() -> impl Strategy<Value = Value> {
    let unit = select(&["rpm", "rph", "rpd", "rpw"][..]);
    let conditions = prop::collection::vec(condition(), 1..4);
    let groups = prop::collection::vec(select(KEYS), 0..3);
    (unit, 1..6_u64, conditions, groups).prop_map(|(unit, value, c, g)| requests(unit, value, &json!(c), &g))
}

fn call() -> impl Strategy<Value = Call> {
    let word = || select(&["x", "y", "x*", ""][..]);
    let pair = (select(&["a", "b"][..]), word()).prop_map(|(k, v)| (k.to_owned(), v.to_owned()));
    (
        prop::option::of(select(&[KEY, OTHER_KEY][..])),
        prop::collection::vec(pair, 0..4),
        prop::option::of(word()),
        prop::option::of(word()),
        prop::option::of(select(MODELS)),
        word(),
        any::<bool>(),
    )
        .prop_map(|(key, metadata, provider, config, model, endpoint, unread)| Call {
            key,
            metadata,
            provider,
            config,
            model,
            endpoint,
            unread,
        })
}

#[derive(Clone, Debug)]
enum Step {
    /// The call of this number, so many seconds after the last; its clock may have been read a little before.
    Admit { call: usize, stage: Stage, passed: i64, late: i64 },
    /// The oldest, the second oldest … of the holds.
    Release(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let passed = prop_oneof![6 => Just(0_i64), 3 => 1..40_i64, 1 => 3_000..90_000_i64];
    let late = prop_oneof![4 => Just(0_i64), 1 => 1..50_i64];
    let stage = prop_oneof![Just(Stage::Caller), Just(Stage::Target)];
    prop_oneof![
        5 => (0..6_usize, stage, passed, late)
            .prop_map(|(call, stage, passed, late)| Step::Admit { call, stage, passed, late }),
        1 => (0..4_usize).prop_map(Step::Release),
    ]
}

proptest! {
    #[test]
    fn the_engine_is_its_model(
        written in prop::collection::vec(rule(), 1..8),
        calls in prop::collection::vec(call(), 6),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let policies = policies(&written);
        let rules: Vec<RateLimitPolicy> = policies.values().map(|p| p.rule.clone()).collect();
        let (engine, index, mut model) = (Engine::default(), Index::build(&policies, &BTreeMap::new()), Model::default());
        let mut holds: Vec<(Hold, Vec<Place>)> = Vec::new();
        let mut now = NOW;
        for step in steps {
            let (call, stage, at) = match step {
                Step::Admit { call, stage, passed, late } => {
                    now = now.plus_micros(passed * 1_000_000);
                    (&calls[call], stage, now.plus_micros(-late * 1_000_000))
                }
                Step::Release(at) => {
                    if at < holds.len() {
                        let (hold, places) = holds.remove(at);
                        hold.release();
                        model.release(places);
                    }
                    continue;
                }
            };
            let expected = model.admit(&rules, stage, call, at);
            match (engine.admit(&index, stage, &call.subject(), at), expected) {
                (Ok(hold), Ok(places)) => {
                    let left = places.iter().map(|p| rules[p.0].value - model.used[p]).min();
                    prop_assert_eq!(hold.standings().requests.map(|s| s.remaining), left);
                    prop_assert_eq!(hold.is_empty(), places.is_empty());
                    holds.push((hold, places));
                }
                (Err(denied), Err(full)) => {
                    let last = full.iter().map(|p| end(rules[p.0].unit, p.2)).max();
                    prop_assert_eq!(Some(denied.reset_at), last);
                    let named = |p: &Place| denied.name.to_string().contains(&format!("(policy-{})", p.0 + 1));
                    prop_assert!(full.iter().any(named));
                    prop_assert!(denied.reset_at > at);
                }
                (real, expected) => prop_assert!(false, "{real:?} where the model says {expected:?}"),
            }
        }
    }
}
