//! Reading bodies: the flat list of values, and members that are added.

use super::{JsonKind, Tape, splice, with_last_member};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn values_are_walked_as_they_stand() {
    let text = r#" {"a" : [1, "x\"y", {"b": null}], "a": {}, "é": "\u00e9", "n": -1.5e3 } "#;
    let tape = Tape::parse(text).unwrap();
    let root = tape.root().unwrap();
    let keys: Vec<String> = root.members().map(|(k, _)| k.into_owned()).collect();
    assert_eq!(keys, ["a", "a", "é", "n"]);
    let first: Vec<&str> = root.all("a").next().unwrap().elements().map(|n| n.raw()).collect();
    assert_eq!(first, ["1", r#""x\"y""#, r#"{"b": null}"#]);
    assert_eq!(root.get("a").unwrap().kind(), JsonKind::Object, "the last of equals");
    assert_eq!(root.get("é").unwrap().text().as_deref(), Some("é"));
    assert_eq!(root.get("n").unwrap().raw(), "-1.5e3");
    assert!(root.all("a").next().unwrap().elements().nth(2).unwrap().get("b").unwrap().is_null());
    for bad in ["", "{", "{\"a\":}", "[1,]", "nul"] {
        assert!(Tape::parse(bad).is_err(), "{bad}");
    }
    assert!(Tape::parse(&"[".repeat(100_000)).is_err(), "depth is bounded");
}

#[test]
fn members_are_added_at_the_end() {
    assert_eq!(with_last_member("{\"a\":1 }", "b", "2").as_deref(), Some("{\"a\":1 ,\"b\":2}"));
    assert_eq!(with_last_member("{}", "b", "2").as_deref(), Some("{\"b\":2}"));
    assert_eq!(with_last_member("[]", "b", "2"), None);
    assert_eq!(splice("abcdef", vec![(4..5, "E".into()), (0..1, "A".into()), (4..6, "never".into())]), "AbcdEf");
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a\\\\\"{}\\[\\],:é😀\n ]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("[a\"\\\\é]{0,3}", inner), 0..5).prop_map(|m| m.into_iter().collect()),
        ]
    })
}

/// The value that a node stands for, by walking.
fn rebuilt(node: super::TapeNode<'_>) -> Value {
    match node.kind() {
        JsonKind::Object => node.members().map(|(k, v)| (k.into_owned(), rebuilt(v))).collect(),
        JsonKind::Array => node.elements().map(rebuilt).collect(),
        JsonKind::Text => json!(node.text().unwrap()),
        JsonKind::Other => serde_json::from_str(node.raw()).unwrap(),
    }
}

proptest! {
    #[test]
    fn walking_gives_what_parsing_gives(value in values(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let tape = Tape::parse(&text).unwrap();
        prop_assert_eq!(rebuilt(tape.root().unwrap()), value);
    }
}
