//! How one declaration differs from another, down to the fields. Secrets are compared, and told by their mask.

use crate::resource::declared::secrets::{ShownSecret, spot};
use gateway_domain::secret::MASK;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A row as a document tells it, an empty text in the place of each secret.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StoredDeclaration {
    pub(super) fields: Map<String, Value>,
    pub(super) shown: Vec<ShownSecret>,
}

/// A field that is not as it was. Secrets are told by their mask.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// `config.targets.0.provider`.
    pub path: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// What differs, field by field down to the places where it does.
pub(super) fn differences(before: Option<&StoredDeclaration>, after: &StoredDeclaration) -> Vec<FieldChange> {
    let Some(before) = before else { return Vec::new() };
    let (mut old, mut new) = (masked(before), masked(after));
    // A secret that is another one has the same mask.
    let mut changes = Vec::new();
    for now in &after.shown {
        let then = before.shown.iter().find(|then| then.path == now.path);
        if then.is_some_and(|then| then.plain != now.plain) {
            let path = now.path.join(".");
            changes.push(FieldChange { path, before: Some(MASK.into()), after: Some(MASK.into()) });
        }
    }
    compare("", &Value::Object(std::mem::take(&mut old)), &Value::Object(std::mem::take(&mut new)), &mut changes);
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    changes
}

fn masked(told: &StoredDeclaration) -> Map<String, Value> {
    let mut fields = told.fields.clone();
    for one in &told.shown {
        if let Some(place) = spot(&mut fields, &one.path) {
            *place = MASK.into();
        }
    }
    fields
}

fn compare(path: &str, old: &Value, new: &Value, changes: &mut Vec<FieldChange>) {
    if old == new {
        return;
    }
    let at = |part: &str| if path.is_empty() { part.to_owned() } else { format!("{path}.{part}") };
    let (then, now) = (parts(old), parts(new));
    let (Some(then), Some(now)) = (then, now) else {
        changes.push(FieldChange { path: path.to_owned(), before: Some(old.clone()), after: Some(new.clone()) });
        return;
    };
    if old.is_array() != new.is_array() {
        changes.push(FieldChange { path: path.to_owned(), before: Some(old.clone()), after: Some(new.clone()) });
        return;
    }
    for (part, value) in &then {
        match now.get(part) {
            Some(new) => compare(&at(part), value, new, changes),
            None => changes.push(FieldChange { path: at(part), before: Some((*value).clone()), after: None }),
        }
    }
    for (part, value) in now.iter().filter(|(part, _)| !then.contains_key(*part)) {
        changes.push(FieldChange { path: at(part), before: None, after: Some((*value).clone()) });
    }
}

/// What a value is made of, by name or number; `None` for one that is made of nothing.
fn parts(value: &Value) -> Option<BTreeMap<String, &Value>> {
    match value {
        Value::Object(fields) => Some(fields.iter().map(|(name, value)| (name.clone(), value)).collect()),
        Value::Array(items) => Some(items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()),
        _ => None,
    }
}
