//! What shares a counter and what has one of its own.

use super::fixture::{Engine, KEY, NOW, index, pairs, policies, policy, requests, subject};
use crate::{Index, Subject};
use gateway_domain::Timestamp;
use gateway_domain::id::KeyId;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

fn base() -> Value {
    let conditions = json!([
        {"key": "api_key", "value": ["*", KEY]},
        {"key": "metadata.team", "value": "a", "excludes": ["x", "y"]},
    ]);
    requests("rph", 3, &conditions, &["model", "metadata.team"])
}

/// The last minute of a Sunday: windows of every unit end at the same moment.
const LAST_MINUTE: Timestamp = Timestamp::from_secs(1_795_391_970);

/// Whether requests taken under one version of a policy still count under the other.
fn share(before: &Value, after: &Value) -> bool {
    let metadata = pairs(&[("team", "a"), ("team2", "a")]);
    let call = Subject { metadata: &metadata, ..subject() };
    let engine = Engine::default();
    assert_eq!(engine.admitted(&index(std::slice::from_ref(before)), &call, LAST_MINUTE, 2), 2);
    let admitted = engine.admitted(&index(std::slice::from_ref(after)), &call, LAST_MINUTE, 3);
    assert!(admitted == 1 || admitted == 3, "{admitted} of {after}");
    admitted == 1
}

#[test]
fn what_does_not_change_the_rule_keeps_the_count() {
    let mut spelled = base();
    spelled["conditions"] = json!([
        {"key": "metadata.team", "value": ["a", "a"], "excludes": ["y", "x"]},
        {"key": "api_key", "value": [KEY, "*"]},
    ]);
    spelled["group_by"] = json!([{"key": "metadata.team"}, {"key": "model"}, {"key": "model"}]);
    spelled["description"] = json!("the same in other words");
    assert!(share(&base(), &base()) && share(&base(), &spelled) && share(&spelled, &base()));
}

#[test]
fn a_changed_rule_counts_anew() {
    let but = |key: &str, value: Value, excludes: Value| json!([{"key": "api_key", "value": ["*", KEY]}, {"key": key, "value": value, "excludes": excludes}]);
    for (field, value) in [
        ("unit", json!("rpd")),
        ("unit", json!("rpm")),
        ("unit", json!("rpw")),
        ("conditions", but("metadata.team2", json!("a"), json!(["x", "y"]))),
        ("conditions", but("metadata.team", json!(["a", "b"]), json!(["x", "y"]))),
        ("conditions", but("metadata.team", json!(["a"]), json!(["x"]))),
        ("conditions", but("metadata.team", json!(["a"]), json!(["xxy"]))),
        ("conditions", json!([{"key": "api_key", "value": "*"}])),
        ("conditions", json!([{"key": "api_key", "value": "*"}, {"key": "metadata.team", "value": "a"}])),
        ("group_by", json!([{"key": "model"}])),
        ("group_by", json!([])),
        ("group_by", json!([{"key": "model"}, {"key": "metadata.team2"}])),
    ] {
        let mut after = base();
        after[field] = value;
        assert!(!share(&base(), &after), "{after}");
    }
}

#[test]
fn a_changed_value_keeps_the_count() {
    let engine = Engine::default();
    let all = json!([{"key": "api_key", "value": "*"}]);
    let of = |value| index(&[requests("rpd", value, &all, &[])]);
    assert_eq!(engine.admitted(&of(3), &subject(), NOW, 5), 3);
    assert_eq!(engine.admitted(&of(10), &subject(), NOW, 20), 7);
    assert_eq!(engine.admitted(&of(4), &subject(), NOW, 5), 0);
    assert_eq!(engine.admitted(&of(11), &subject(), NOW, 5), 1);
}

#[test]
fn two_policies_of_the_same_words_count_apart() {
    let engine = Engine::default();
    let rule = requests("rpd", 1, &json!([{"key": "api_key", "value": "*"}]), &[]);
    let of = |n| {
        let policy = policy(n, &rule);
        Index::build(&[(policy.id, policy)].into(), &BTreeMap::new())
    };
    assert_eq!(engine.admitted(&of(1), &subject(), NOW, 2), 1);
    assert_eq!(engine.admitted(&of(2), &subject(), NOW, 2), 1);
}

#[test]
fn each_combination_of_groups_has_its_own_count() {
    let engine = Engine::default();
    let all = json!([{"key": "workspace_id", "value": "*"}]);
    let index = index(&[requests("rpm", 2, &all, &["metadata.a", "metadata.b", "api_key", "model"])]);
    let other = Some(KeyId(Uuid::nil()));
    let calls = [
        (pairs(&[("a", "x"), ("b", "y")]), subject()),
        (pairs(&[("a", "y"), ("b", "x")]), subject()),
        (pairs(&[("a", "xy"), ("b", "y")]), subject()),
        (pairs(&[("a", "x"), ("b", "yy")]), subject()),
        // Written one after the other these two would read the same.
        (pairs(&[("a", "xty"), ("b", "z")]), subject()),
        (pairs(&[("a", "x"), ("b", "ytz")]), subject()),
        (pairs(&[("a", "x"), ("b", "y")]), Subject { api_key: other, ..subject() }),
        (pairs(&[("a", "x"), ("b", "y")]), Subject { model: Some("o3"), ..subject() }),
        (pairs(&[("a", "x"), ("b", "y")]), Subject { model: None, unread: true, ..subject() }),
    ];
    for (metadata, call) in &calls {
        let call = Subject { metadata, ..*call };
        assert_eq!(engine.admitted(&index, &call, NOW, 5), 2, "{call:?}");
        assert_eq!(engine.admitted(&index, &call, NOW, 5), 0, "{call:?}");
    }
    assert_eq!(engine.len(), calls.len());
    let ungrouped = pairs(&[("a", "x")]);
    assert_eq!(engine.admitted(&index, &Subject { metadata: &ungrouped, ..subject() }, NOW, 5), 5);
}

#[test]
fn a_rebuilt_index_is_the_same_as_a_new_one() {
    let engine = Engine::default();
    let rule = |value| requests("rpd", value, &json!([{"key": "api_key", "value": "*"}]), &[]);
    let mut all = policies(&[rule(2), rule(5)]);
    let first = Index::build(&all, &BTreeMap::new());
    assert_eq!(engine.admitted(&first, &subject(), NOW, 9), 2);
    let raised = policy(1, &rule(4));
    all.insert(raised.id, raised);
    let second = first.rebuild(&all, &BTreeMap::new());
    assert_eq!(engine.admitted(&second, &subject(), NOW, 9), 2);
    all.pop_first();
    let third = second.rebuild(&all, &BTreeMap::new());
    assert_eq!(engine.admitted(&third, &subject(), NOW, 9), 1);
    all.clear();
    assert!(third.rebuild(&all, &BTreeMap::new()).is_empty());
}
