//! Changes of a resource by operations (RFC 7644, 3.5.2): add, replace and remove, each at a path or at the top. They
//! are made on a copy, which is then held to its schema whole: all of them, or none.

mod operation;

use super::filter::fits;
use super::refusal::{invalid_path, invalid_value};
use super::schema::{Mutability, ResourceType, SchemaAttribute};
use crate::problem::{Problem, unreadable};
use operation::{PatchOp, PatchOperation, PatchTarget};
pub(super) use operation::{PatchOperations, read};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::HashSet;

/// `most`: values that all operations together may be held against, each as often as its filter has comparisons. A
/// group has thousands of them, and one request brings many operations.
pub(super) fn apply(
    doc: &mut Map<String, Value>,
    of: &'static ResourceType,
    changes: &PatchOperations,
    most: usize,
) -> Result<(), Problem> {
    let mut work = 0_usize;
    for operation in changes {
        work = work.saturating_add(cost(doc, operation));
        if work > most {
            let rule = "are too much work for what is there: send fewer at a time, or shorter filters";
            return Err(invalid_value("Operations", rule));
        }
        apply_one(doc, of, operation)?;
    }
    Ok(())
}

fn cost(doc: &Map<String, Value>, operation: &PatchOperation) -> usize {
    let held = |name: &str| doc.get(name).and_then(Value::as_array).map_or(1, Vec::len);
    match &operation.target {
        None => doc.keys().map(|name| held(name)).sum(),
        Some(target) => {
            let terms = target.filter.as_ref().map_or(1, super::filter::ScimFilter::terms);
            target.path.attribute.map_or(1, |attribute| held(attribute.name)).saturating_mul(terms)
        }
    }
}

fn apply_one(
    doc: &mut Map<String, Value>,
    of: &'static ResourceType,
    operation: &PatchOperation,
) -> Result<(), Problem> {
    if let Some(target) = &operation.target {
        return at(doc, operation.op, target, &operation.value);
    }
    let Value::Object(fields) = &operation.value else {
        return Err(invalid_value("value", "must be an object where there is no path"));
    };
    for (name, value) in fields {
        // Some directories send names with dots, and what only the service says.
        let target = PatchTarget::read(name, of)?;
        if target.is_read_only() || name.eq_ignore_ascii_case("schemas") {
            continue;
        }
        at(doc, operation.op, &target, value)?;
    }
    Ok(())
}

fn no_target() -> Problem {
    unreadable("path leads to no value that is there").keyed("noTarget")
}

fn at(doc: &mut Map<String, Value>, op: PatchOp, target: &PatchTarget, value: &Value) -> Result<(), Problem> {
    let place = match target.path.extension {
        None => doc,
        Some(extension) => {
            let inner = doc.entry(extension.id).or_insert_with(|| Value::Object(Map::new()));
            inner.as_object_mut().ok_or_else(no_target)?
        }
    };
    let Some(attribute) = target.path.attribute else { return all_of_extension(place, op, target, value) };
    if attribute.mutability == Mutability::ReadOnly {
        return Err(unreadable(format!("{} is not for clients to change", attribute.name)).keyed("mutability"));
    }
    match (attribute.is_multi, target.path.part) {
        (false, None) => single(place, attribute, op, value),
        (false, Some(part)) => single_part(place, attribute, part, (op, value)),
        (true, _) => several(place, attribute, target, (op, value)),
    }
    .map(|()| place.retain(|_, held| !held.as_array().is_some_and(Vec::is_empty)))
}

fn all_of_extension(
    place: &mut Map<String, Value>,
    op: PatchOp,
    target: &PatchTarget,
    value: &Value,
) -> Result<(), Problem> {
    if op == PatchOp::Remove {
        place.clear();
        return Ok(());
    }
    let Value::Object(fields) = value else { return Err(invalid_value("value", "must be an object")) };
    let schema = target.path.extension.ok_or_else(no_target)?;
    for (name, value) in fields {
        let found = super::schema::find(schema.attributes, name);
        let attribute = found.ok_or_else(|| invalid_path(name, "is no attribute of this extension"))?;
        single(place, attribute, op, value)?;
    }
    Ok(())
}

fn single(
    place: &mut Map<String, Value>,
    attribute: &SchemaAttribute,
    op: PatchOp,
    value: &Value,
) -> Result<(), Problem> {
    if op == PatchOp::Remove || value.is_null() {
        place.shift_remove(attribute.name);
        return Ok(());
    }
    match (place.get_mut(attribute.name), value) {
        // Parts that are not named stay.
        (Some(Value::Object(held)), Value::Object(given)) => merge(held, attribute, given),
        _ => {
            place.insert(attribute.name.to_owned(), value.clone());
            Ok(())
        }
    }
}

fn merge(
    held: &mut Map<String, Value>,
    attribute: &SchemaAttribute,
    given: &Map<String, Value>,
) -> Result<(), Problem> {
    for (name, value) in given {
        let part = attribute.part(name).ok_or_else(|| invalid_path(name, "is no part of this attribute"))?;
        held.insert(part.name.to_owned(), value.clone());
    }
    Ok(())
}

fn single_part(
    place: &mut Map<String, Value>,
    attribute: &SchemaAttribute,
    part: &SchemaAttribute,
    (op, value): (PatchOp, &Value),
) -> Result<(), Problem> {
    let held = place.entry(attribute.name).or_insert_with(|| Value::Object(Map::new()));
    let held = held.as_object_mut().ok_or_else(no_target)?;
    if op == PatchOp::Remove {
        held.shift_remove(part.name)
    } else {
        held.insert(part.name.to_owned(), value.clone())
    };
    Ok(())
}

fn several(
    place: &mut Map<String, Value>,
    attribute: &'static SchemaAttribute,
    target: &PatchTarget,
    (op, value): (PatchOp, &Value),
) -> Result<(), Problem> {
    let held = place.entry(attribute.name).or_insert_with(|| Value::Array(Vec::new()));
    let items = held.as_array_mut().ok_or_else(no_target)?;
    // Only what can be primary is looked at for that: groups have thousands of members.
    let before = if attribute.part("primary").is_some() { items.clone() } else { Vec::new() };
    match (&target.filter, target.path.part) {
        (None, None) => whole(items, op, value),
        (_, None) if op == PatchOp::Remove => items.retain(|item| !target.fits(item)),
        (_, Some(part)) if op == PatchOp::Remove => {
            for item in items.iter_mut().filter(|item| target.fits(item)) {
                if let Some(parts) = item.as_object_mut() {
                    parts.shift_remove(part.name);
                }
            }
        }
        _ => change_fitting(items, attribute, target, (op, value))?,
    }
    settle_primary(&before, items);
    Ok(())
}

/// Changes the values themselves, where the path has neither a filter nor a part.
fn whole(items: &mut Vec<Value>, op: PatchOp, value: &Value) {
    let given = match value {
        Value::Array(given) => given.as_slice(),
        Value::Null => &[],
        one => std::slice::from_ref(one),
    };
    match op {
        PatchOp::Replace => *items = given.to_vec(),
        // What is there stays as it is, and is not there twice.
        PatchOp::Add => {
            let mut known: HashSet<ValueIdentity<'_>> = items.iter().map(identity).collect();
            let new: Vec<Value> = given.iter().filter(|item| known.insert(identity(item))).cloned().collect();
            items.extend(new);
        }
        PatchOp::Remove if given.is_empty() => items.clear(),
        // Microsoft Entra ID names the values beside the path.
        PatchOp::Remove => {
            let gone: HashSet<ValueIdentity<'_>> = given.iter().map(identity).collect();
            items.retain(|item| !gone.contains(&identity(item)));
        }
    }
}

/// What makes two values the same: the value, and its type where there is one.
#[derive(PartialEq, Eq, Hash)]
struct ValueIdentity<'v> {
    value: Cow<'v, str>,
    kind: &'v str,
}

fn identity(item: &Value) -> ValueIdentity<'_> {
    let (value, kind) = match item {
        Value::Object(fields) => match fields.get("value").and_then(Value::as_str) {
            Some(value) => {
                let kind = fields.get("type").and_then(Value::as_str);
                (Cow::Borrowed(value), kind.filter(|kind| !kind.eq_ignore_ascii_case("user")).unwrap_or_default())
            }
            None => (Cow::Owned(item.to_string()), ""),
        },
        Value::String(text) => (Cow::Borrowed(text.as_str()), ""),
        other => (Cow::Owned(other.to_string()), ""),
    };
    ValueIdentity { value, kind }
}

fn change_fitting(
    items: &mut Vec<Value>,
    attribute: &'static SchemaAttribute,
    target: &PatchTarget,
    (op, value): (PatchOp, &Value),
) -> Result<(), Problem> {
    let part = target.path.part;
    let mut found = false;
    for item in items.iter_mut().filter(|item| target.fits(item)) {
        found = true;
        let Some(parts) = item.as_object_mut() else { continue };
        match (part, value) {
            (Some(part), _) => _ = parts.insert(part.name.to_owned(), value.clone()),
            (None, Value::Object(given)) => merge(parts, attribute, given)?,
            (None, _) => return Err(invalid_value("value", "must be an object")),
        }
    }
    if found {
        return Ok(());
    }
    // Nothing fits: what is added is made so that it does.
    let Some(mut fresh) = target.filter.as_ref().map_or_else(|| Some(Map::new()), operation::described) else {
        return Err(no_target());
    };
    if op == PatchOp::Replace {
        return Err(no_target());
    }
    match (part, value) {
        (Some(part), _) => _ = fresh.insert(part.name.to_owned(), value.clone()),
        (None, Value::Object(given)) => merge(&mut fresh, attribute, given)?,
        (None, _) => return Err(invalid_value("value", "must be an object")),
    }
    items.push(Value::Object(fresh));
    Ok(())
}

/// A value that becomes primary takes that from the one that was (RFC 7644, 3.5.2).
fn settle_primary(before: &[Value], now: &mut [Value]) {
    let is_primary = |item: &Value| item["primary"].as_bool() == Some(true) || is_true(&item["primary"]);
    let news = |item: &Value| is_primary(item) && !before.contains(item);
    if now.iter().filter(|item| is_primary(item)).count() < 2 || !now.iter().any(news) {
        return;
    }
    for item in now.iter_mut() {
        if is_primary(item) && before.contains(item) {
            item["primary"] = Value::Bool(false);
        }
    }
}

fn is_true(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.eq_ignore_ascii_case("true"))
}

impl PatchTarget {
    fn fits(&self, item: &Value) -> bool {
        self.filter.as_ref().is_none_or(|filter| fits(filter, item))
    }
}

#[cfg(test)]
mod tests;
