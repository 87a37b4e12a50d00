//! What prompts, partials, collections and labels have in common: their scopes, how they are searched, and the
//! collection that each workspace is by itself.

use super::{Resource, ResourceRow};
use crate::problem::{Problem, bad};
use gateway_domain::scope::Scope;
use uuid::Uuid;

pub(super) const LIST: &[Scope] = &[Scope::named("prompts.list")];
pub(super) const CREATE: &[Scope] = &[Scope::named("prompts.create")];
pub(super) const READ: &[Scope] = &[Scope::named("prompts.read")];
pub(super) const UPDATE: &[Scope] = &[Scope::named("prompts.update")];
pub(super) const DELETE: &[Scope] = &[Scope::named("prompts.delete")];
pub(super) const PUBLISH: &[Scope] = &[Scope::named("prompts.publish")];

/// What a workspace's own collection is called where its id is not known.
pub(super) const OWN: &str = "default";

/// Whether a name or a slug holds what is searched for, whatever the case.
pub(super) fn is_found<R: Resource>(row: &ResourceRow<R>, search: Option<&str>) -> bool {
    let Some(search) = search else { return true };
    let search = search.to_lowercase();
    row.name.to_lowercase().contains(&search) || row.slug.to_lowercase().contains(&search)
}

/// The id that a name of a thing on the shelf stands for.
pub(super) fn named(field: &str, found: Option<Uuid>) -> Result<Uuid, Problem> {
    found.ok_or_else(|| bad(field, "does not exist in this workspace"))
}
