//! What may be done to integrations, first to those of the organisation, then to those of a workspace.

use gateway_domain::scope::Scope;

pub(super) const LIST: &[Scope] =
    &[Scope::named("organisation_integrations.list"), Scope::named("workspace_integrations.list")];
pub(super) const CREATE: &[Scope] =
    &[Scope::named("organisation_integrations.create"), Scope::named("workspace_integrations.create")];
pub(in crate::resource) const READ: &[Scope] =
    &[Scope::named("organisation_integrations.read"), Scope::named("workspace_integrations.read")];
pub(in crate::resource) const UPDATE: &[Scope] =
    &[Scope::named("organisation_integrations.update"), Scope::named("workspace_integrations.update")];
pub(super) const DELETE: &[Scope] =
    &[Scope::named("organisation_integrations.delete"), Scope::named("workspace_integrations.delete")];
