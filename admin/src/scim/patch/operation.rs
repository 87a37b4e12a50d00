//! Operations of a PATCH as they come: their words in any case, paths with a filter on values in brackets.

use crate::input::JsonBody;
use crate::problem::Problem;
use crate::scim::document::check_schemas;
use crate::scim::filter::{Comparison, ScimFilter, parse_values};
use crate::scim::path::{AttributePath, NoPath};
use crate::scim::refusal::{invalid_path, invalid_syntax, invalid_value};
use crate::scim::schema::{Mutability, ResourceType};
use serde_json::{Map, Value};

const MESSAGE: &str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";
const MOST: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchOp {
    Add,
    Replace,
    Remove,
}

#[derive(Debug)]
pub(crate) struct PatchOperation {
    pub(super) op: PatchOp,
    pub(super) target: Option<PatchTarget>,
    pub(super) value: Value,
}

pub(crate) type PatchOperations = Vec<PatchOperation>;

/// What a path leads to.
#[derive(Debug)]
pub(crate) struct PatchTarget {
    pub(super) path: AttributePath,
    /// Which values of it are meant.
    pub(super) filter: Option<ScimFilter>,
}

impl PatchTarget {
    pub(super) fn read(text: &str, of: &'static ResourceType) -> Result<Self, Problem> {
        let refuse = |why: NoPath| match why {
            NoPath::Malformed => invalid_path(text, "is no path"),
            NoPath::Unknown => invalid_path(text, "leads to no attribute of this resource"),
        };
        let Some((front, rest)) = text.split_once('[') else {
            let path = AttributePath::read(text.trim(), of).map_err(refuse)?;
            return Ok(Self { path, filter: None });
        };
        let path = AttributePath::read(front.trim(), of).map_err(refuse)?;
        // A bracket may stand inside a text of the filter: the last one closes.
        let (inner, behind) = rest.rsplit_once(']').ok_or_else(|| invalid_path(text, "lacks a closing bracket"))?;
        let attribute = path.attribute.filter(|a| a.is_multi && path.part.is_none());
        let attribute = attribute.ok_or_else(|| invalid_path(text, "has brackets behind what has one value only"))?;
        let part = match behind.trim().strip_prefix('.') {
            Some(name) => Some(attribute.part(name).ok_or(NoPath::Unknown).map_err(refuse)?),
            None if behind.trim().is_empty() => None,
            None => return Err(invalid_path(text, "is no path")),
        };
        let filter = parse_values(inner, of, path).map_err(|why| Problem { keyword: Some("invalidPath"), ..why })?;
        Ok(Self { path: AttributePath { part, ..path }, filter: Some(filter) })
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.path.attribute.is_some_and(|attribute| attribute.mutability == Mutability::ReadOnly)
    }
}

/// The parts that a value has which fits: `type eq "work"` says one. `None` where it does not say.
pub(super) fn described(filter: &ScimFilter) -> Option<Map<String, Value>> {
    match filter {
        ScimFilter::Compare(Some(path), Comparison::Equal, value) => {
            Some(Map::from_iter([(path.part?.name.to_owned(), value.clone())]))
        }
        ScimFilter::All(all) => {
            let mut parts = Map::new();
            for one in all {
                parts.extend(described(one)?);
            }
            Some(parts)
        }
        _ => None,
    }
}

pub(crate) fn read(body: JsonBody, of: &'static ResourceType) -> Result<PatchOperations, Problem> {
    let mut fields = body.0;
    check_schemas(take(&mut fields, "schemas").as_ref(), MESSAGE)?;
    let given = take(&mut fields, "Operations");
    if let Some(name) = fields.keys().next() {
        return Err(invalid_syntax(format!("{} is not known here", name.chars().take(64).collect::<String>())));
    }
    let Some(Value::Array(given)) = given else { return Err(invalid_syntax("Operations must be an array")) };
    if given.is_empty() || given.len() > MOST {
        return Err(invalid_syntax(format!("Operations must hold at least one and at most {MOST}")));
    }
    given.into_iter().map(|one| operation(one, of)).collect()
}

fn take(fields: &mut Map<String, Value>, wanted: &str) -> Option<Value> {
    let name = fields.keys().find(|name| name.eq_ignore_ascii_case(wanted)).cloned()?;
    fields.shift_remove(&name)
}

fn operation(given: Value, of: &'static ResourceType) -> Result<PatchOperation, Problem> {
    let Value::Object(mut fields) = given else { return Err(invalid_syntax("Operations must hold objects")) };
    let word = take(&mut fields, "op");
    let word = word.as_ref().and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    let op = match word.as_str() {
        "add" => PatchOp::Add,
        "replace" => PatchOp::Replace,
        "remove" => PatchOp::Remove,
        _ => return Err(invalid_syntax("op must be one of add, replace, remove")),
    };
    let target = match take(&mut fields, "path") {
        None | Some(Value::Null) => None,
        Some(Value::String(path)) if path.is_empty() => None,
        Some(Value::String(path)) => Some(PatchTarget::read(&path, of)?),
        Some(_) => return Err(invalid_path("", "must be a text")),
    };
    let value = take(&mut fields, "value");
    if op == PatchOp::Remove && target.is_none() {
        return Err(Problem { keyword: Some("noTarget"), ..invalid_path("", "is required by remove") });
    }
    if op != PatchOp::Remove && value.is_none() {
        return Err(invalid_value("value", "is required by add and replace"));
    }
    Ok(PatchOperation { op, target, value: value.unwrap_or(Value::Null) })
}
