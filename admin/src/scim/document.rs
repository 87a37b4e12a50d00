//! A body held to its schemas: names in the spelling of the schema, values of the type that it says, nothing that it
//! does not know. What only the service says is passed by (RFC 7644, 3.3), passwords are dropped.

use super::refusal::{invalid_path, invalid_syntax, invalid_value};
use super::schema::{AttributeType, Mutability, ResourceType, SchemaAttribute, find};
use crate::problem::Problem;
use serde_json::{Map, Value};

const LONGEST_TEXT: usize = 4096;
const LONGEST_BINARY: usize = 16 * 1024;
const MOST_VALUES: usize = 100;
/// Bytes of a resource, apart from the members of a group, which are kept as ids.
const LARGEST: usize = 64 * 1024;

/// A whole resource; its `schemas` must name the one of its type.
pub(super) fn read(mut body: Map<String, Value>, of: &'static ResourceType) -> Result<Map<String, Value>, Problem> {
    let named = body.keys().find(|name| name.eq_ignore_ascii_case("schemas")).cloned();
    let schemas = named.and_then(|name| body.shift_remove(&name));
    check_schemas(schemas.as_ref(), of.core.id)?;
    settled(body, of)
}

/// Names of schemas that are not known are passed by: some directories add their own, and nothing of them.
pub(super) fn check_schemas(given: Option<&Value>, wanted: &str) -> Result<(), Problem> {
    let given = given.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let found = given.iter().filter_map(Value::as_str).any(|schema| schema.eq_ignore_ascii_case(wanted));
    if found { Ok(()) } else { Err(invalid_syntax(format!("schemas must hold {wanted}"))) }
}

/// Holds the attributes of a resource to its schemas; `schemas` itself need not be among them.
pub(super) fn settled(body: Map<String, Value>, of: &'static ResourceType) -> Result<Map<String, Value>, Problem> {
    let mut out = Map::new();
    for (name, value) in body {
        if let Some(extension) = of.extension(&name) {
            let fields = match value {
                Value::Object(fields) => fields,
                Value::Null => continue,
                _ => return Err(invalid_value(extension.id, "must be an object")),
            };
            let inner = known(fields, |name| find(extension.attributes, name))?;
            if !inner.is_empty() {
                put(&mut out, extension.id, Value::Object(inner))?;
            }
            continue;
        }
        let attribute = of.top(&name).ok_or_else(|| unknown(&name))?;
        if let Some(value) = accepted(attribute, value)? {
            put(&mut out, attribute.name, value)?;
        }
    }
    check_size(&out)?;
    Ok(out)
}

fn unknown(name: &str) -> Problem {
    let problem = invalid_path(name, "is no attribute of this resource");
    Problem { keyword: Some("invalidSyntax"), ..problem }
}

fn check_size(fields: &Map<String, Value>) -> Result<(), Problem> {
    let size: usize = fields.iter().filter(|(name, _)| *name != "members").map(|(_, v)| v.to_string().len()).sum();
    if size > LARGEST {
        return Err(invalid_value("the resource", format_args!("must be at most {LARGEST} bytes without members")));
    }
    Ok(())
}

fn put(out: &mut Map<String, Value>, name: &str, value: Value) -> Result<(), Problem> {
    match out.insert(name.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(invalid_syntax(format!("{name} is given twice, in two spellings"))),
    }
}

fn known(
    fields: Map<String, Value>,
    find: impl Fn(&str) -> Option<&'static SchemaAttribute>,
) -> Result<Map<String, Value>, Problem> {
    let mut out = Map::new();
    for (name, value) in fields {
        let attribute = find(&name).ok_or_else(|| unknown(&name))?;
        if let Some(value) = accepted(attribute, value)? {
            put(&mut out, attribute.name, value)?;
        }
    }
    Ok(out)
}

/// `None`: it says nothing, or is not for clients to say.
fn accepted(attribute: &'static SchemaAttribute, value: Value) -> Result<Option<Value>, Problem> {
    if attribute.mutability == Mutability::ReadOnly || value.is_null() {
        return Ok(None);
    }
    if attribute.mutability == Mutability::WriteOnly {
        return if value.is_string() { Ok(None) } else { Err(invalid_value(attribute.name, "must be a text")) };
    }
    if !attribute.is_multi {
        return one(attribute, value);
    }
    let items = match value {
        Value::Array(items) => items,
        single => vec![single],
    };
    if ["roles", "entitlements"].contains(&attribute.name) && !items.is_empty() {
        return Err(invalid_value(attribute.name, "must be empty: groups give roles here"));
    }
    if attribute.name != "members" && items.len() > MOST_VALUES {
        return Err(invalid_value(attribute.name, format_args!("must hold at most {MOST_VALUES} values")));
    }
    let mut out = Vec::with_capacity(items.len());
    for item in items {
        out.extend(one(attribute, item)?);
    }
    let primary = |item: &&Value| item["primary"] == Value::Bool(true);
    if out.iter().filter(primary).count() > 1 {
        return Err(invalid_value(attribute.name, "must not have more than one that is primary"));
    }
    Ok((!out.is_empty()).then_some(Value::Array(out)))
}

/// One value of an attribute.
fn one(attribute: &'static SchemaAttribute, value: Value) -> Result<Option<Value>, Problem> {
    let value = match (attribute.of, value) {
        (_, Value::Null) => return Ok(None),
        (AttributeType::Complex, Value::Object(fields)) => {
            let parts = known(fields, |name| attribute.part(name))?;
            return Ok((!parts.is_empty()).then_some(Value::Object(parts)));
        }
        // Some directories send the one part that counts alone.
        (AttributeType::Complex, Value::String(text)) if attribute.part("value").is_some() => {
            Value::Object(Map::from_iter([("value".to_owned(), Value::String(text))]))
        }
        (AttributeType::Complex, _) => return Err(invalid_value(attribute.name, "must be an object")),
        (AttributeType::Flag, Value::Bool(flag)) => Value::Bool(flag),
        // Microsoft Entra ID writes "True" and "False".
        (AttributeType::Flag, Value::String(text)) => {
            let flag = text.to_ascii_lowercase().parse::<bool>();
            Value::Bool(flag.map_err(|_| invalid_value(attribute.name, "must be true or false"))?)
        }
        (AttributeType::Flag, _) => return Err(invalid_value(attribute.name, "must be true or false")),
        (of, Value::String(text)) => {
            let most = if of == AttributeType::Binary { LONGEST_BINARY } else { LONGEST_TEXT };
            if text.len() > most {
                return Err(invalid_value(attribute.name, format_args!("must be at most {most} bytes")));
            }
            if text.is_empty() {
                return Ok(None);
            }
            Value::String(text)
        }
        _ => return Err(invalid_value(attribute.name, "must be a text")),
    };
    Ok(Some(value))
}

/// A text at the top.
pub(super) fn take_text(fields: &mut Map<String, Value>, name: &str) -> Option<String> {
    match fields.shift_remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}
