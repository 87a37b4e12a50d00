//! Edits in place against a plain map, over random objects.

use super::*;
use proptest::prelude::*;
use serde_json::{Map, Value};

fn set(body: &str, changes: &[(&str, Option<&str>)]) -> String {
    let out = set_top_level(&Bytes::copy_from_slice(body.as_bytes()), changes).expect("valid");
    String::from_utf8(out.to_vec()).expect("UTF-8")
}

#[test]
fn only_the_named_keys_change() {
    let body = "{ \"b\" : 1.10,\n  \"a\": {\"x\":[1,2]} , \"c\":\"\\u00e9\" }";
    assert_eq!(set(body, &[("a", Some("2"))]), "{ \"b\" : 1.10,\n  \"a\": 2 , \"c\":\"\\u00e9\" }");
    assert_eq!(set(body, &[("b", None)]), "{ \"a\": {\"x\":[1,2]} , \"c\":\"\\u00e9\" }");
    assert_eq!(set(body, &[("a", None)]), "{ \"b\" : 1.10 , \"c\":\"\\u00e9\" }");
    assert_eq!(set(body, &[("c", None)]), "{ \"b\" : 1.10,\n  \"a\": {\"x\":[1,2]} }");
    assert_eq!(
        set(body, &[("d", Some("[]")), ("e", Some("null"))]),
        "{ \"b\" : 1.10,\n  \"a\": {\"x\":[1,2]} , \"c\":\"\\u00e9\",\"d\":[],\"e\":null }"
    );
    assert_eq!(set(body, &[("absent", None)]), body);
    assert_eq!(set(body, &[]), body);
}

#[test]
fn nothing_left_and_nothing_there() {
    assert_eq!(set("{}", &[("a", Some("1"))]), "{\"a\":1}");
    assert_eq!(set(" { } ", &[("a", Some("1"))]), " {\"a\":1 } ");
    assert_eq!(set("{\"a\":1,\"b\":2}", &[("a", None), ("b", None)]), "{}");
    assert_eq!(set("{\"a\":1,\"b\":2}", &[("a", None), ("b", None), ("c", Some("3"))]), "{\"c\":3}");
}

#[test]
fn of_a_key_given_twice_the_last_counts() {
    assert_eq!(set("{\"a\":1,\"b\":2,\"a\":3}", &[("a", Some("9"))]), "{\"b\":2,\"a\":9}");
    assert_eq!(set("{\"a\":1,\"b\":2,\"a\":3}", &[("a", None)]), "{\"b\":2}");
    assert_eq!(
        set("{\"a\":1,\"\\u0061\":2}", &[("a", Some("9"))]),
        "{\"\\u0061\":9}",
        "an escaped name is the same name"
    );
    assert_eq!(set("{}", &[("a", Some("1")), ("a", Some("2"))]), "{\"a\":2}");
    assert_eq!(set("{\"a\":0}", &[("a", Some("1")), ("a", None)]), "{}");
}

#[test]
fn what_is_not_an_object_is_refused() {
    for bad in ["", "[]", "1", "{", "{\"a\":1,}", "{\"a\":1} x", "{\"a\":01}"] {
        assert!(set_top_level(&Bytes::copy_from_slice(bad.as_bytes()), &[("a", None)]).is_err(), "{bad}");
    }
    let object = Bytes::from_static(b"{}");
    assert!(set_top_level(&object, &[("a", Some("1,\"b\":2"))]).is_err(), "a value cannot smuggle in a key");
    assert!(set_top_level(&Bytes::from_static(b"{\"a\":\"\xff\"}"), &[]).is_err());
}

#[test]
fn members_and_elements_say_where() {
    let body = b" {\"a\" : [ 1 ,{} ], \"b\":null}";
    let found = members(body).expect("valid");
    assert_eq!(found.iter().map(|m| &*m.key).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(&body[found[0].value.clone()], b"[ 1 ,{} ]");
    let array = &body[found[0].value.clone()];
    let parts: Vec<_> = elements(array).expect("valid").into_iter().map(|r| &array[r]).collect();
    assert_eq!(parts, [&b"1"[..], b"{}"]);
}

#[test]
fn splices_come_in_any_order() {
    let out = splice(b"0123456789", vec![(8..9, b"H"[..].into()), (0..2, b""[..].into()), (5..5, b"-"[..].into())]);
    assert_eq!(out, &b"234-567H9"[..]);
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z\"\\\\\u{e9}{},:\\[\\]]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-d\"]{1,2}", inner), 0..4).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Against the slow way: parse, change the map, compare what both mean and that kept values kept their bytes.
    #[test]
    fn agrees_with_a_map(
        object in prop::collection::vec(("[a-e]", json()), 0..6),
        changes in prop::collection::vec(("[a-g]", prop::option::of(json())), 0..4),
        pretty in any::<bool>(),
    ) {
        let mut map: Map<String, Value> = object.into_iter().collect();
        let body = if pretty { serde_json::to_string_pretty(&map) } else { serde_json::to_string(&map) }.expect("writes");
        let raw: Vec<(String, Option<String>)> =
            changes.iter().map(|(k, v)| (k.clone(), v.as_ref().map(Value::to_string))).collect();
        let raw: Vec<(&str, Option<&str>)> = raw.iter().map(|(k, v)| (k.as_str(), v.as_deref())).collect();
        let out = set_top_level(&Bytes::from(body.clone()), &raw).expect("valid");

        let order: Vec<String> = map.keys().cloned().collect();
        for (key, value) in changes.iter().cloned() {
            match value {
                Some(value) => { map.insert(key, value); }
                None => { map.shift_remove(&key); }
            }
        }
        let got: Map<String, Value> = serde_json::from_slice(&out).expect("still JSON");
        prop_assert_eq!(&got, &map);
        let kept: Vec<&String> = order.iter().filter(|k| got.contains_key(*k)).collect();
        prop_assert_eq!(got.keys().take(kept.len()).collect::<Vec<_>>(), kept, "order of what stood there");
        let before = members(body.as_bytes()).expect("valid");
        for m in members(&out).expect("valid").iter().filter(|m| changes.iter().all(|(k, _)| *k != m.key)) {
            let old = before.iter().find(|b| b.key == m.key).expect("was there");
            prop_assert_eq!(&body.as_bytes()[old.value.clone()], &out[m.value.clone()]);
        }
    }
}
