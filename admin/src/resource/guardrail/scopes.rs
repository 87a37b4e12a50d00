//! What may be done to guardrails, first to those of a workspace, then to those of the organisation.

use gateway_domain::scope::Scope;

pub(super) const LIST: &[Scope] = &[Scope::named("guardrails.list"), Scope::named("organisation_guardrails.list")];
pub(super) const CREATE: &[Scope] =
    &[Scope::named("guardrails.create"), Scope::named("organisation_guardrails.create")];
pub(super) const READ: &[Scope] = &[Scope::named("guardrails.read"), Scope::named("organisation_guardrails.read")];
pub(super) const UPDATE: &[Scope] =
    &[Scope::named("guardrails.update"), Scope::named("organisation_guardrails.update")];
pub(super) const DELETE: &[Scope] =
    &[Scope::named("guardrails.delete"), Scope::named("organisation_guardrails.delete")];
