//! Holds a resource, as it is shown, against a filter. Texts are compared as their attribute says: with or without
//! regard to the case of letters; times as moments.

use super::expression::{Comparison, ScimFilter};
use super::parse::leaf;
use crate::scim::path::AttributePath;
use crate::scim::schema::{AttributeType, SchemaAttribute};
use gateway_domain::time::Timestamp;
use serde_json::{Map, Value};
use std::cmp::Ordering;

pub(crate) fn holds(filter: &ScimFilter, resource: &Map<String, Value>) -> bool {
    match filter {
        ScimFilter::All(all) => all.iter().all(|filter| holds(filter, resource)),
        ScimFilter::Any(any) => any.iter().any(|filter| holds(filter, resource)),
        ScimFilter::Not(inner) => !holds(inner, resource),
        ScimFilter::Present(path) => path.is_some_and(|path| values(resource, path).into_iter().any(is_something)),
        ScimFilter::Compare(path, comparison, wanted) => {
            let Some(path) = path else { return compare_all(&[], None, *comparison, wanted) };
            compare_all(&values(resource, *path), leaf(*path), *comparison, wanted)
        }
        ScimFilter::Within(path, inner) => {
            let Some(attribute) = path.and_then(|path| path.attribute) else { return false };
            let held = path.and_then(|path| place(resource, path)).and_then(|place| place.get(attribute.name));
            held.is_some_and(|held| items(held).any(|item| fits(inner, item)))
        }
    }
}

/// Whether one value of an attribute fits a filter on its parts.
pub(crate) fn fits(filter: &ScimFilter, item: &Value) -> bool {
    match filter {
        ScimFilter::All(all) => all.iter().all(|filter| fits(filter, item)),
        ScimFilter::Any(any) => any.iter().any(|filter| fits(filter, item)),
        ScimFilter::Not(inner) => !fits(inner, item),
        ScimFilter::Present(path) => part(item, *path).is_some_and(is_something),
        ScimFilter::Compare(path, comparison, wanted) => {
            let found: Vec<&Value> = part(item, *path).into_iter().collect();
            compare_all(&found, path.and_then(|path| path.part), *comparison, wanted)
        }
        ScimFilter::Within(..) => false,
    }
}

fn part(item: &Value, path: Option<AttributePath>) -> Option<&Value> {
    item.get(path?.part?.name)
}

/// Where an attribute stands: in the resource, or in one of its extensions.
fn place(resource: &Map<String, Value>, path: AttributePath) -> Option<&Map<String, Value>> {
    match path.extension {
        Some(extension) => resource.get(extension.id)?.as_object(),
        None => Some(resource),
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    let (many, one) = match value {
        Value::Array(items) => (items.as_slice(), None),
        other => (&[][..], Some(other)),
    };
    many.iter().chain(one)
}

fn values(resource: &Map<String, Value>, path: AttributePath) -> Vec<&Value> {
    let Some(attribute) = path.attribute else {
        return path.extension.and_then(|e| resource.get(e.id)).into_iter().collect();
    };
    let Some(held) = place(resource, path).and_then(|place| place.get(attribute.name)) else { return Vec::new() };
    let name = path.part.map(|part| part.name);
    items(held)
        .filter_map(|item| match (item, name) {
            (Value::Object(parts), Some(name)) => parts.get(name),
            // A filter that names no part of a complex attribute means the part `value`, where there is one.
            (Value::Object(parts), None) => parts.get("value").or(Some(item)),
            (_, Some(_)) => None,
            (plain, None) => Some(plain),
        })
        .collect()
}

fn is_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(parts) => !parts.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

fn compare_all(found: &[&Value], attribute: Option<&SchemaAttribute>, comparison: Comparison, wanted: &Value) -> bool {
    let equal = |value: &Value| order(value, wanted, attribute) == Some(Ordering::Equal);
    match comparison {
        Comparison::Equal if wanted.is_null() => found.is_empty(),
        Comparison::NotEqual if wanted.is_null() => !found.is_empty(),
        Comparison::Equal => found.iter().any(|value| equal(value)),
        Comparison::NotEqual => !found.iter().any(|value| equal(value)),
        Comparison::Contains | Comparison::StartsWith | Comparison::EndsWith => {
            found.iter().any(|value| has_text(value, wanted, attribute, comparison))
        }
        Comparison::Greater | Comparison::AtLeast | Comparison::Less | Comparison::AtMost => {
            found.iter().any(|value| {
                order(value, wanted, attribute).is_some_and(|order| match comparison {
                    Comparison::Greater => order.is_gt(),
                    Comparison::AtLeast => order.is_ge(),
                    Comparison::Less => order.is_lt(),
                    _ => order.is_le(),
                })
            })
        }
    }
}

fn folded(text: &str, attribute: Option<&SchemaAttribute>) -> String {
    if attribute.is_some_and(|a| a.is_exact) { text.to_owned() } else { text.to_lowercase() }
}

/// Compares two texts without a copy where that can be: a group's members are compared by the thousand.
fn compare_texts(value: &str, wanted: &str, attribute: Option<&SchemaAttribute>) -> Ordering {
    if attribute.is_some_and(|a| a.is_exact) {
        return value.cmp(wanted);
    }
    if value.is_ascii() && wanted.is_ascii() {
        return value.bytes().map(|b| b.to_ascii_lowercase()).cmp(wanted.bytes().map(|b| b.to_ascii_lowercase()));
    }
    value.to_lowercase().cmp(&wanted.to_lowercase())
}

fn has_text(value: &Value, wanted: &Value, attribute: Option<&SchemaAttribute>, comparison: Comparison) -> bool {
    let (Some(value), Some(wanted)) = (value.as_str(), wanted.as_str()) else { return false };
    let (value, wanted) = (folded(value, attribute), folded(wanted, attribute));
    match comparison {
        Comparison::StartsWith => value.starts_with(&wanted),
        Comparison::EndsWith => value.ends_with(&wanted),
        _ => value.contains(&wanted),
    }
}

fn order(value: &Value, wanted: &Value, attribute: Option<&SchemaAttribute>) -> Option<Ordering> {
    match (value, wanted) {
        (Value::String(value), Value::String(wanted)) => {
            if attribute.is_some_and(|a| a.of == AttributeType::Time) {
                let (value, wanted): (Timestamp, Timestamp) = (value.parse().ok()?, wanted.parse().ok()?);
                return Some(value.cmp(&wanted));
            }
            Some(compare_texts(value, wanted, attribute))
        }
        (Value::Bool(value), Value::Bool(wanted)) => Some(value.cmp(wanted)),
        // Some clients write it in quotes.
        (Value::Bool(value), Value::String(wanted)) => {
            Some(value.cmp(&wanted.to_ascii_lowercase().parse::<bool>().ok()?))
        }
        (Value::Number(value), Value::Number(wanted)) => value.as_f64()?.partial_cmp(&wanted.as_f64()?),
        _ => None,
    }
}
