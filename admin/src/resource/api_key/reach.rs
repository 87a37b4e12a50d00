//! What of MCP servers a key may use, and which models it may call: checked, and never more than the key that gives it
//! may itself.

use crate::actor::Actor;
use crate::input::Edit;
use crate::problem::{Problem, bad, forbidden};
use gateway_domain::resource::api_key::{ApiKey, KeyKind};
use gateway_domain::resource::mcp_reach::McpReach;
use gateway_domain::resource::model_reach::ModelReach;

/// Sets the reach of a new key. Whoever is held to some servers makes keys that are held to the same.
pub(super) fn set(given: Edit<McpReach>, doc: &mut ApiKey, by: &Actor) -> Result<(), Problem> {
    if let Some(own) = by.mcp_access.as_ref().filter(|_| doc.kind != KeyKind::OrganisationService) {
        if matches!(&given, Edit::Set(given) if *given != **own) {
            return Err(held());
        }
        doc.mcp_access = McpReach::clone(own);
        return Ok(());
    }
    merge(given, doc)
}

/// Changes the reach of a key that there is.
pub(super) fn change(given: Edit<McpReach>, doc: &mut ApiKey, by: &Actor) -> Result<(), Problem> {
    if by.mcp_access.is_some() && given != Edit::Keep {
        return Err(held());
    }
    merge(given, doc)
}

fn held() -> Problem {
    forbidden("mcp_access cannot be given by a key that is held to one itself")
}

fn merge(given: Edit<McpReach>, doc: &mut ApiKey) -> Result<(), Problem> {
    let Some(reach) = given.or_default() else { return Ok(()) };
    if doc.kind == KeyKind::OrganisationService && !reach.is_empty() {
        return Err(bad("mcp_access", "is of no use to an organisation key"));
    }
    reach.check().map_err(|flaw| match flaw.at {
        Some(at) => bad(format_args!("mcp_access.{}[{at}]", flaw.list), flaw.rule),
        None => bad(format_args!("mcp_access.{}", flaw.list), flaw.rule),
    })?;
    doc.mcp_access = reach;
    Ok(())
}

/// Sets the models of a new key. Whoever is held to some models makes keys that are held to the same.
pub(super) fn set_models(given: Edit<Vec<String>>, doc: &mut ApiKey, by: &Actor) -> Result<(), Problem> {
    if let Some(own) = by.allowed_models.as_ref().filter(|_| doc.kind != KeyKind::OrganisationService) {
        if matches!(&given, Edit::Set(list) if !own.written().eq(list)) {
            return Err(held_to_models());
        }
        doc.allowed_models = Some(own.clone());
        return Ok(());
    }
    merge_models(given, doc)
}

/// Changes the models of a key that there is.
pub(super) fn change_models(given: Edit<Vec<String>>, doc: &mut ApiKey, by: &Actor) -> Result<(), Problem> {
    if by.allowed_models.is_some() && given != Edit::Keep {
        return Err(held_to_models());
    }
    merge_models(given, doc)
}

fn held_to_models() -> Problem {
    forbidden("allowed_models cannot be given by a key that is held to some itself")
}

fn merge_models(given: Edit<Vec<String>>, doc: &mut ApiKey) -> Result<(), Problem> {
    match given {
        Edit::Keep => {}
        Edit::Clear => doc.allowed_models = None,
        Edit::Set(_) if doc.kind == KeyKind::OrganisationService => {
            return Err(bad("allowed_models", "is of no use to an organisation key"));
        }
        Edit::Set(list) => {
            doc.allowed_models = Some(ModelReach::of(list).map_err(|flaw| match flaw.at {
                Some(at) => bad(format_args!("allowed_models[{at}]"), flaw.rule),
                None => bad("allowed_models", format_args!("{}; null allows any", flaw.rule)),
            })?);
        }
    }
    Ok(())
}
