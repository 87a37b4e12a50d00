//! What a call costs does not grow with the policies that it does not match: conditions looked at are counted.

use super::fixture::{KEY, NOW, index, pairs, requests, subject};
use crate::condition::EVALUATIONS;
use crate::{ReservationRequest, Stage, Subject};
use serde_json::{Value, json};

/// Conditions looked at and policies found, among `n` policies made by `rule` from their number.
fn cost(n: usize, rule: &dyn Fn(usize) -> (Value, Vec<&'static str>), call: &Subject<'_>) -> (u64, usize) {
    let rules: Vec<_> = (0..n).map(rule).map(|(conditions, groups)| requests("rpm", 9, &conditions, &groups)).collect();
    let index = index(&rules);
    EVALUATIONS.set(0);
    let found = [Stage::Caller, Stage::Target].map(|stage| {
        let mut wants = ReservationRequest::default();
        wants.gather(&index, stage, call, NOW);
        wants.asks().len()
    });
    (EVALUATIONS.get(), found.iter().sum())
}

#[test]
fn ten_thousand_cost_no_more_than_ten() {
    let metadata = pairs(&[("user", "u3"), ("k3", "yes"), ("team", "t3")]);
    let call = Subject {
        metadata: &metadata,
        model: Some("@p3/m3"),
        config: Some("c3"),
        virtual_key: Some("v3"),
        provider: Some("openai"),
        ..subject()
    };
    let unread = Subject { model: None, unread: true, ..call };
    let key = |i: usize| if i == 3 { KEY.to_owned() } else { format!("0191e0a0-0000-7000-8001-{i:012x}") };
    type Shape<'a> = (&'a str, &'a dyn Fn(usize) -> (Value, Vec<&'static str>), &'a Subject<'a>);
    let shapes: [Shape<'_>; 11] = [
        ("key", &|i| (json!([{"key": "api_key", "value": key(i)}]), vec![]), &call),
        ("metadata", &|i| (json!([{"key": "metadata.user", "value": format!("u{i}")}]), vec!["metadata.user"]), &call),
        ("metadata's name", &|i| (json!([{"key": format!("metadata.k{i}"), "value": "*"}]), vec![]), &call),
        ("config", &|i| (json!([{"key": "config", "value": [format!("c{i}"), format!("d{i}")]}]), vec![]), &call),
        ("model", &|i| (json!([{"key": "model", "value": format!("@p{i}/m{i}")}]), vec![]), &call),
        ("model, however addressed", &|i| (json!([{"key": "model", "value": format!("m{i}")}]), vec![]), &call),
        ("model's prefix", &|i| (json!([{"key": "model", "value": format!("@p{i}/*")}]), vec![]), &call),
        ("target", &|i| (json!([{"key": "virtual_key", "value": format!("v{i}")}]), vec!["api_key"]), &call),
        (
            "one of many shared conditions",
            &|i| {
                let shared = json!([
                    {"key": "endpoint_type", "value": "chatComplete"},
                    {"key": "workspace_id", "value": super::fixture::WORKSPACE},
                    {"key": "api_key", "value": KEY},
                    {"key": "model", "excludes": "x*"},
                    {"key": "metadata.team", "value": format!("t{i}")},
                ]);
                (shared, vec!["api_key"])
            },
            &call,
        ),
        (
            "key, model unread",
            &|i| (json!([{"key": "model", "value": format!("m{i}")}, {"key": "api_key", "value": key(i)}]), vec![]),
            &unread,
        ),
        ("nothing", &|i| (json!([{"key": "metadata.user", "value": format!("nobody-{i}")}]), vec![]), &call),
    ];
    for (name, rule, call) in shapes {
        let (few, many) = (cost(10, rule, call), cost(10_000, rule, call));
        assert_eq!(few, many, "{name}");
        assert_eq!(few.1, usize::from(name != "nothing"), "{name}");
        assert!(few.0 <= 5, "{name} looked at {} conditions", few.0);
    }
}

#[test]
fn many_values_in_one_condition_are_one_look() {
    let users: Vec<_> = (0..10_000).map(|i| format!("u{i}")).collect();
    let metadata = pairs(&[("user", "u9999")]);
    let rule = |_| (json!([{"key": "metadata.user", "value": users}]), vec![]);
    assert_eq!(cost(1, &rule, &Subject { metadata: &metadata, ..subject() }), (1, 1));
    assert_eq!(cost(1, &rule, &subject()), (0, 0));
}
