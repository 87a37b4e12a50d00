//! What of a stored row is not as it was, for the audit trail: each place in its document with what stood there and
//! what stands there now. Secrets lie sealed or hashed in documents, and are told as four stars.

use gateway_domain::resource::{Audit, Stored};
use serde_json::{Map, Value, json};

/// Changes of one row that are told one by one.
const MOST_CHANGES: usize = 100;
/// Longer ones are told by their places: the trail must not outgrow what it tells of.
const MOST_BYTES: usize = 32 * 1024;

/// Digests of secrets, by which they could be tried.
fn is_digest(name: &str) -> bool {
    name == "hash" || name.ends_with("_hash")
}

/// Each difference with its JSON Pointer (RFC 6901). Items of arrays are told apart by their place.
pub(crate) fn compare(path: &str, old: &Value, new: &Value, out: &mut Vec<Value>) {
    let below = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
    let pairs: Vec<(String, Option<&Value>, Option<&Value>)> = match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let kept = old.iter().map(|(name, value)| (below(name), Some(value), new.get(name)));
            let added = new.iter().filter(|(name, _)| !old.contains_key(*name));
            kept.chain(added.map(|(name, value)| (below(name), None, Some(value)))).collect()
        }
        (Value::Array(old), Value::Array(new)) => {
            (0..old.len().max(new.len())).map(|i| (below(&i.to_string()), old.get(i), new.get(i))).collect()
        }
        (old, new) if old == new => return,
        (old, new) => {
            out.push(json!({"op": "replace", "path": path, "before": old, "after": new}));
            return;
        }
    };
    for (path, old, new) in pairs {
        match (old, new) {
            (Some(old), Some(new)) => compare(&path, old, new, out),
            (Some(old), None) => out.push(json!({"op": "remove", "path": path, "before": old})),
            (None, Some(new)) => out.push(json!({"op": "add", "path": path, "after": new})),
            (None, None) => {}
        }
    }
}

/// Adds to what is told of a change what the row was before it.
pub(crate) fn note_changes(before: &Stored, after: &Stored, told: &mut Audit) {
    let Ok(Value::Object(mut details)) = serde_json::from_str(&told.details) else { return };
    let mut changes = Vec::new();
    if after.deleted_at.is_some() {
        changes.push(json!({"op": "remove", "path": "", "before": masked(whole(before))}));
    } else {
        compare("", &whole(before), &whole(after), &mut changes);
        // Told apart by what is sealed, and masked behind that: another secret is a change.
        changes = changes.into_iter().map(masked_at).collect();
    }
    if changes.is_empty() {
        return;
    }
    let is_long = changes.len() > MOST_CHANGES || Value::from(changes.clone()).to_string().len() > MOST_BYTES;
    if is_long {
        let places = changes.iter().take(MOST_CHANGES).map(|c| json!({"op": c["op"], "path": c["path"]}));
        changes = places.collect();
    }
    details.insert("changes".to_owned(), changes.into());
    told.details = Value::Object(details).to_string();
}

/// A row as one document: what stands in its columns beside what stands in its own.
fn whole(row: &Stored) -> Value {
    let mut doc: Map<String, Value> = serde_json::from_str(&row.doc).unwrap_or_default();
    for (name, text) in [("name", &row.name), ("slug", &row.slug), ("status", &row.status)] {
        doc.insert(name.to_owned(), text.as_str().into());
    }
    Value::Object(doc)
}

fn masked_at(mut change: Value) -> Value {
    let path = change["path"].as_str().unwrap_or_default();
    let is_digest = path.rsplit('/').next().is_some_and(is_digest);
    for side in ["before", "after"] {
        if let Some(value) = change.get_mut(side) {
            *value = if is_digest { "****".into() } else { masked(value.take()) };
        }
    }
    change
}

fn masked(value: Value) -> Value {
    match value {
        Value::String(text) if text.starts_with("sealed:") => "****".into(),
        Value::Array(items) => items.into_iter().map(masked).collect(),
        Value::Object(fields) => {
            let masked = |(name, value): (String, Value)| {
                let value = if is_digest(&name) { "****".into() } else { masked(value) };
                (name, value)
            };
            fields.into_iter().map(masked).collect()
        }
        plain => plain,
    }
}
