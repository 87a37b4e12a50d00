//! Where an operation lives at an OpenAI-like provider, and paths that a body decides.

use super::{CompatRow, Quirk};
use crate::adapter::Call;
use gateway_domain::{Fault, FaultKind, Operation};
use std::borrow::Cow;

pub(super) fn endpoint(row: &CompatRow, operation: Operation) -> Option<Cow<'static, str>> {
    // Who makes responses keeps them.
    let listed = if operation.facts().about_kept_response { Operation::Responses } else { operation };
    if !operation.facts().passed_to_all && !row.serves.has(listed) {
        return None;
    }
    if let Some(listed) = row.listed.filter(|_| operation == Operation::ListModels) {
        return Some(listed.into());
    }
    Some(match row.quirk {
        _ if operation == Operation::Proxy => "".into(),
        Some(Quirk::TenantInPath) => {
            format!("/{{user}}/deployments/v2/llms/{{model}}/v1{}", operation.facts().base).into()
        }
        _ if row.prefix.is_empty() => operation.facts().base.into(),
        _ => [row.prefix, operation.facts().base].concat().into(),
    })
}

/// The path of this call, when it is not the endpoint's.
pub(super) fn of(row: &CompatRow, call: &Call<'_>) -> Result<Option<String>, Fault> {
    let version = call.settings.get("oracle_api_version").filter(|_| row.has(Quirk::Compartment));
    let endpoint = call.settings.get("databricks_serving_endpoint_name").filter(|_| row.has(Quirk::Endpoints));
    let mut path = match (row.quirk, call.operation) {
        (_, operation) if operation.keeps_its_path() || operation.facts().about_kept_response => {
            [&prefix(row, version), call.tail].concat()
        }
        (_, Operation::ChatCompletions | Operation::Completions | Operation::Embeddings) if endpoint.is_some() => {
            [row.prefix, "/", endpoint.unwrap_or_default(), "/invocations"].concat()
        }
        (Some(Quirk::TenantInPath), operation) => {
            let user = serde_json::from_slice::<PathTenant>(call.body).ok().and_then(|t| t.user);
            let user = user.filter(|user| safe(user) && !user.contains('/'));
            let user =
                user.ok_or_else(|| refused("user", "names the tenant at this provider: letters, digits, `-` and `_`"))?;
            format!("/{user}/deployments/v2/llms/{}/v1{}", base_model(model_path(call)?).0, operation.facts().base)
        }
        _ if call.query.is_none() && version.is_none() => return Ok(None),
        (_, Operation::ListModels) if row.listed.is_some() => row.listed.unwrap_or_default().to_owned(),
        (_, operation) => [&prefix(row, version), operation.facts().base].concat(),
    };
    if let Some(query) = call.query {
        path.push('?');
        path.push_str(query);
    }
    Ok(Some(path))
}

/// Oracle's begins with the version of its API.
fn prefix(row: &CompatRow, version: Option<&str>) -> Cow<'static, str> {
    match (version, row.prefix.split_once("/actions")) {
        (Some(version), Some((_, rest))) => format!("/{version}/actions{rest}").into(),
        _ => row.prefix.into(),
    }
}

#[derive(serde::Deserialize)]
struct PathTenant {
    user: Option<String>,
}

/// `base:adapter` → both, the adapter empty for the base model itself.
pub(super) fn base_model(model: &str) -> (&str, &str) {
    model.split_once(':').unwrap_or((model, ""))
}

fn model_path<'c>(call: &Call<'c>) -> Result<&'c str, Fault> {
    let model = call.model.ok_or_else(|| refused("model", "is needed: it is part of this provider's path"))?;
    if !safe(model) || !safe(base_model(model).0) {
        return Err(refused(
            "model",
            "does not fit into a path: only letters, digits, `-`, `_`, `.`, `:` and single `/`",
        ));
    }
    Ok(model)
}

/// Cannot leave its place in a path: no dot segments, no empty ones, nothing that needs an escape.
pub(crate) fn safe(part: &str) -> bool {
    part.split('/').all(|segment| !segment.is_empty() && segment.bytes().any(|b| b != b'.'))
        && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':' | b'/'))
}

fn refused(field: &'static str, rule: &str) -> Fault {
    Fault::new(FaultKind::Refused, format!("{field} {rule}")).on(field)
}
