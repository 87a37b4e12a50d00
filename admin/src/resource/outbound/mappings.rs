//! Which headers of an integration with an MCP server or an agent come from secret references. What comes from there is
//! not stored beside it.

use super::settings::check_name;
use crate::input::Edit;
use crate::problem::{Problem, bad};
use crate::resource::integration::mappings::{FIELD, check_open, read_all};
use crate::route::AdminCall;
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::outbound::{OutboundAuth, OutboundSettings};
use gateway_domain::resource::secret_reference::{MappedPlace, SecretMapping};
use serde_json::{Map, Value};

/// Takes mappings in place of those before, and drops what they fill.
pub(super) fn merge(
    doc: &mut OutboundSettings,
    given: Edit<Vec<Map<String, Value>>>,
    call: &AdminCall,
) -> Result<(), Problem> {
    let Some(given) = given.or_default() else { return Ok(()) };
    let mappings = read_all(given, call)?;
    for (at, mapping) in mappings.iter().enumerate() {
        let field = format!("{FIELD}[{at}].target_field");
        let name = header(mapping).ok_or_else(|| bad(&field, "must be `configurations.custom_headers.<name>`"))?;
        check_name(name).map_err(|rule| bad(&field, rule))?;
        doc.custom_headers.remove(name);
    }
    doc.secret_mappings = mappings;
    Ok(())
}

fn header(mapping: &SecretMapping) -> Option<&str> {
    match MappedPlace::read(&mapping.target_field) {
        Ok(MappedPlace::Header(name)) => Some(name),
        _ => None,
    }
}

/// What is filled stands nowhere else, is sent at all, and comes from what is open to the workspace.
pub(super) fn check(doc: &OutboundSettings, home: Option<WorkspaceId>, call: &AdminCall) -> Result<(), Problem> {
    let snapshot = call.snapshot();
    if doc.auth_type == OutboundAuth::None && !doc.secret_mappings.is_empty() {
        return Err(bad(FIELD, "fills headers, which are sent where auth_type is headers, and not where it is none"));
    }
    for (at, mapping) in doc.secret_mappings.iter().enumerate() {
        if header(mapping).is_some_and(|name| doc.custom_headers.contains_key(name)) {
            let why = "is filled by secret_mappings: take the mapping out to give a value";
            return Err(bad(&mapping.target_field, why));
        }
        check_open((at, mapping), home, &snapshot)?;
    }
    Ok(())
}
