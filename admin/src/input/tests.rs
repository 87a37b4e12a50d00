//! Which words a broken body is answered with.

use super::*;
use gateway_domain::time::Timestamp;
use serde_json::json;
use std::collections::BTreeMap;
use uuid::Uuid;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only the reading is under test")]
struct Sample {
    name: String,
    #[serde(default)]
    at: Edit<Timestamp>,
    #[serde(default)]
    id: Option<Uuid>,
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    inner: Option<NestedSample>,
    #[serde(default)]
    flag: Option<Flag>,
    #[serde(default)]
    count: Option<WholeNumber>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Fast,
    Slow,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only the reading is under test")]
struct NestedSample {
    headers: BTreeMap<String, String>,
}

fn message(v: Value) -> String {
    let Value::Object(map) = v else { panic!("not an object") };
    JsonBody(map).read::<Sample>().expect_err("broken").message
}

#[test]
fn field_and_rule_are_named_and_values_are_not() {
    for (body, says) in [
        (json!({}), "name is required"),
        (json!({"name": 5}), "name must be a string"),
        (json!({"name": {"a": "sk-secret"}}), "name must be a string"),
        (json!({"name": "x", "colour": 1}), "colour is not a known field"),
        (json!({"name": "x", "at": "sk-secret"}), "at must be an RFC 3339 date-time such as 2026-01-31T00:00:00Z"),
        (json!({"name": "x", "id": "sk-secret"}), "id must be a UUID"),
        (json!({"name": "x", "mode": "sk-secret"}), "mode must be one of fast, slow"),
        (json!({"name": "x", "inner": "sk-secret"}), "inner must be an object"),
        (json!({"name": "x", "inner": {}}), "inner.headers is required"),
        (json!({"name": "x", "inner": {"headers": {"a": 7}}}), "inner.headers.a must be a string"),
        (json!({"name": "x", "inner": {"headers": {}, "b": 1}}), "inner.b is not a known field"),
        (json!({"name": "x", "flag": "sk-secret"}), "flag must be true or false"),
        (json!({"name": "x", "count": 1.5}), "count must be an integer of at least 0"),
    ] {
        assert_eq!(message(body), says);
    }
}

#[test]
fn bodies_that_are_no_objects() {
    assert_eq!(JsonBody::parse(b"[1]").expect_err("no object").message, "the body must be a JSON object");
    assert_eq!(
        JsonBody::parse(b"{\"a\": }").expect_err("broken").message,
        "the body is not valid JSON (line 1, column 7)"
    );
    assert!(JsonBody::parse(b" \n").expect("empty").0.is_empty());
}

#[test]
fn three_states() {
    #[derive(Deserialize)]
    struct SamplePatch {
        #[serde(default)]
        a: Edit<String>,
    }
    let read = |v| JsonBody(serde_json::from_value(v).expect("a map")).read::<SamplePatch>().expect("readable").a;
    assert_eq!(read(json!({})), Edit::Keep);
    assert_eq!(read(json!({"a": null})), Edit::Clear);
    assert_eq!(read(json!({"a": "x"})), Edit::Set("x".into()));
}

#[test]
fn what_is_not_in_force_passes_only_as_its_default() {
    for (value, passes) in [
        (json!(null), true),
        (json!([]), true),
        (json!({}), true),
        (json!(false), true),
        (json!([{"type": "requests"}]), false),
        (json!(true), false),
        (json!("x"), false),
    ] {
        let mut body = JsonBody(serde_json::from_value(json!({"limits": value})).expect("a map"));
        let outcome = body.refuse_later("", &["limits"]);
        assert_eq!(outcome.is_ok(), passes, "{outcome:?}");
        assert!(body.0.is_empty());
    }
}
