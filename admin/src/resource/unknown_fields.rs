//! What a newer node wrote into a document and this one does not know: kept when this one changes the document.
//! Knows no kind of resource; a field is unknown when it does not come out again of what was read.

use serde_json::{Map, Value};

/// Puts into `new` what `raw` has beyond `known`, wherever the place still is. `known` is `raw` read and written by
/// this version, `new` the same after changes. What is in `new` already wins.
pub(super) fn keep_unknown(raw: &Value, known: &Value, new: &mut Value) {
    match (raw, known) {
        (Value::Object(raw), Value::Object(known)) => {
            if let Value::Object(new) = new {
                carry_fields(raw, known, new);
            }
        }
        // Lists are carried as a whole or by item: an item that did not change is as it was.
        (Value::Array(raw), Value::Array(known)) => {
            let Value::Array(now) = new else { return };
            if now == known {
                now.clone_from(raw);
            } else if raw.len() == known.len() {
                carry_items(raw, known, now);
            }
        }
        _ => {}
    }
}

fn carry_fields(raw: &Map<String, Value>, known: &Map<String, Value>, new: &mut Map<String, Value>) {
    for (name, raw) in raw {
        match (known.get(name), new.get_mut(name)) {
            (Some(known), Some(new)) => keep_unknown(raw, known, new),
            (None, None) => {
                new.insert(name.clone(), raw.clone());
            }
            _ => {}
        }
    }
}

fn carry_items(raw: &[Value], known: &[Value], now: &mut [Value]) {
    for (raw, known) in raw.iter().zip(known).filter(|(raw, known)| raw != known) {
        if let Some(same) = now.iter_mut().find(|item| *item == known) {
            same.clone_from(raw);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_unknown_stays_where_its_place_stays() {
        for (raw, known, new, want) in [
            (json!({"a": 1, "z": 2}), json!({"a": 1}), json!({"a": 3}), json!({"a": 3, "z": 2})),
            (
                json!({"a": {"b": 1, "z": 2}}),
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 3}}),
                json!({"a": {"b": 3, "z": 2}}),
            ),
            // Removed by this version, with all that stood in it.
            (json!({"a": {"b": 1, "z": 2}}), json!({"a": {"b": 1}}), json!({}), json!({})),
            (json!({"m": {"k": {"e": 1, "z": 2}}}), json!({"m": {"k": {"e": 1}}}), json!({"m": {}}), json!({"m": {}})),
            // A list as it was, with items changed, with items gone.
            (json!(["x", "new"]), json!(["x"]), json!(["x"]), json!(["x", "new"])),
            (json!(["x", "new"]), json!(["x"]), json!(["y"]), json!(["y"])),
            (
                json!([{"k": 1, "z": 1}, {"k": 2, "z": 2}]),
                json!([{"k": 1}, {"k": 2}]),
                json!([{"k": 2}, {"k": 5}]),
                json!([{"k": 2, "z": 2}, {"k": 5}]),
            ),
            // Left out since it was empty: set by this version, what it set wins.
            (json!({"n": null}), json!({}), json!({"n": 1}), json!({"n": 1})),
        ] {
            let mut made = new.clone();
            keep_unknown(&raw, &known, &mut made);
            assert_eq!(made, want, "{raw} {known} {new}");
        }
    }
}
