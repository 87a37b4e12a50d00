//! Conditions of policies in files: workspaces and keys by their names.

use crate::problem::{Problem, bad};
use crate::resource::declared::{Assuming, Declaring, take};
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::Kind;
use gateway_domain::resource::policy::{Condition, OneOrMany};
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredCondition {
    key: String,
    value: Option<OneOrMany>,
    excludes: Option<OneOrMany>,
}

/// What the texts of a condition name, where they are ids in force.
fn named(key: &str) -> Option<Kind> {
    match key {
        "workspace_id" => Some(Kind::Workspace),
        "api_key" => Some(Kind::ApiKey),
        _ => None,
    }
}

fn each(list: &OneOrMany, name: impl Fn(&str) -> Result<String, Problem>) -> Result<OneOrMany, Problem> {
    Ok(match list {
        OneOrMany::One(one) => OneOrMany::One(name(one)?),
        OneOrMany::Many(many) => OneOrMany::Many(many.iter().map(|one| name(one)).collect::<Result<_, _>>()?),
    })
}

pub(in crate::resource) fn declare_conditions(
    conditions: &[Condition],
    to: &Declaring<'_>,
) -> Result<Vec<Condition>, Problem> {
    let name = |text: &str| Ok(text.parse::<Uuid>().map_or_else(|_| text.to_owned(), |id| to.names.name(id)));
    let told = |condition: &Condition| {
        if named(&condition.key).is_none() {
            return Ok(condition.clone());
        }
        Ok(Condition {
            key: condition.key.clone(),
            value: condition.value.as_ref().map(|list| each(list, name)).transpose()?,
            excludes: condition.excludes.as_ref().map(|list| each(list, name)).transpose()?,
        })
    };
    conditions.iter().map(told).collect()
}

/// Takes them out, and leaves none in their place.
pub(in crate::resource) fn take_conditions(
    fields: &mut Map<String, Value>,
    home: Option<WorkspaceId>,
    from: &Assuming<'_>,
) -> Result<Vec<Condition>, Problem> {
    let given: Option<Vec<DeclaredCondition>> = take(fields, "conditions")?;
    let given = given.ok_or_else(|| bad("conditions", "is required"))?;
    fields.insert("conditions".to_owned(), Value::Array(Vec::new()));
    let mut conditions = Vec::new();
    for (at, DeclaredCondition { key, value, excludes }) in given.into_iter().enumerate() {
        let id = |text: &str| match named(&key) {
            // What a policy named may be gone; its id still says that it was meant.
            Some(_) if text == "*" || text.parse::<Uuid>().is_ok() => Ok(text.to_owned()),
            Some(kind) => Ok(from.find(kind, home, &format!("conditions[{at}]"), text)?.to_string()),
            None => Ok(text.to_owned()),
        };
        let value = value.as_ref().map(|list| each(list, id)).transpose()?;
        let excludes = excludes.as_ref().map(|list| each(list, id)).transpose()?;
        conditions.push(Condition { key, value, excludes });
    }
    Ok(conditions)
}
