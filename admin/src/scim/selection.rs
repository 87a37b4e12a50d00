//! Which attributes an answer shows (RFC 7644, 3.9): those that are named, or all but those. `id` and `schemas` always.

use super::path::AttributePath;
use super::refusal::invalid_value;
use super::schema::ResourceType;
use crate::input::QueryString;
use crate::problem::Problem;
use serde_json::{Map, Value};

pub(super) const PARAMETERS: &[&str] = &["attributes", "excludedAttributes"];

const MOST: usize = 100;

#[derive(Debug)]
pub(super) enum AttributeSelection {
    Everything,
    Only(Vec<AttributePath>),
    AllBut(Vec<AttributePath>),
}

impl AttributeSelection {
    pub(super) fn read(query: &QueryString, of: &'static ResourceType) -> Result<Self, Problem> {
        let named = |name: &str| -> Result<Option<Vec<AttributePath>>, Problem> {
            let Some(list) = query.text(name) else { return Ok(None) };
            let names: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
            if names.len() > MOST {
                return Err(invalid_value(name, format_args!("must name at most {MOST} attributes")));
            }
            // What no resource has is not shown anyway.
            Ok(Some(names.into_iter().filter_map(|name| AttributePath::read(name, of).ok()).collect()))
        };
        match (named("attributes")?, named("excludedAttributes")?) {
            (None, None) => Ok(Self::Everything),
            (Some(only), None) => Ok(Self::Only(only)),
            (None, Some(but)) => Ok(Self::AllBut(but)),
            (Some(_), Some(_)) => Err(invalid_value("excludedAttributes", "must not stand beside attributes")),
        }
    }

    /// Whether this attribute of the top is shown, in part at least.
    pub(super) fn shows(&self, name: &str) -> bool {
        let names = |path: &AttributePath| path.extension.is_none() && path.attribute.is_some_and(|a| a.name == name);
        match self {
            Self::Everything => true,
            Self::Only(only) => only.iter().any(names),
            Self::AllBut(but) => !but.iter().any(|path| names(path) && path.part.is_none()),
        }
    }

    pub(super) fn cut(&self, resource: Map<String, Value>) -> Map<String, Value> {
        match self {
            Self::Everything => resource,
            Self::Only(only) => {
                let mut out = Map::new();
                for name in ["schemas", "id"] {
                    out.extend(resource.get(name).map(|value| (name.to_owned(), value.clone())));
                }
                only.iter().for_each(|path| copy(&resource, &mut out, *path));
                out
            }
            Self::AllBut(but) => {
                let mut out = resource;
                but.iter().for_each(|path| drop_one(&mut out, *path));
                out
            }
        }
    }
}

fn copy(from: &Map<String, Value>, to: &mut Map<String, Value>, path: AttributePath) {
    let (from, to) = match path.extension {
        None => (from, to),
        Some(extension) => {
            let Some(from) = from.get(extension.id).and_then(Value::as_object) else { return };
            let to = to.entry(extension.id).or_insert_with(|| Value::Object(Map::new()));
            let Some(to) = to.as_object_mut() else { return };
            (from, to)
        }
    };
    let Some(attribute) = path.attribute else { return to.extend(from.clone()) };
    let Some(held) = from.get(attribute.name) else { return };
    match path.part {
        None => _ = to.insert(attribute.name.to_owned(), held.clone()),
        Some(part) => add_part(to.entry(attribute.name).or_insert(Value::Null), held, part.name),
    }
}

/// The part of each value beside the parts that are there already.
fn add_part(to: &mut Value, held: &Value, part: &str) {
    match held {
        Value::Array(items) => {
            let mut before = match to.take() {
                Value::Array(before) => before,
                _ => vec![Value::Null; items.len()],
            };
            before.iter_mut().zip(items).for_each(|(to, held)| add_part(to, held, part));
            *to = Value::Array(before);
        }
        held => {
            if !to.is_object() {
                *to = Value::Object(Map::new());
            }
            if let (Some(parts), Some(value)) = (to.as_object_mut(), held.get(part)) {
                parts.insert(part.to_owned(), value.clone());
            }
        }
    }
}

fn drop_one(resource: &mut Map<String, Value>, path: AttributePath) {
    let place = match path.extension {
        None => Some(resource),
        Some(extension) if path.attribute.is_none() => {
            resource.shift_remove(extension.id);
            None
        }
        Some(extension) => resource.get_mut(extension.id).and_then(Value::as_object_mut),
    };
    let (Some(place), Some(attribute)) = (place, path.attribute) else { return };
    if ["id", "schemas"].contains(&attribute.name) {
        return;
    }
    let Some(part) = path.part else {
        place.shift_remove(attribute.name);
        return;
    };
    let items: &mut [Value] = match place.get_mut(attribute.name) {
        Some(Value::Array(items)) => items,
        Some(one) => std::slice::from_mut(one),
        None => return,
    };
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.shift_remove(part.name);
    }
}
