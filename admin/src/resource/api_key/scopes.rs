//! What may be done to keys: each kind has scopes of its own.

use gateway_domain::resource::api_key::KeyKind;
use gateway_domain::scope::Scope;

/// One scope per kind, in the order of [`fn@column`].
macro_rules! scopes {
    ($action:literal) => {
        &[
            Scope::named(concat!("organisation_service_api_keys.", $action)),
            Scope::named(concat!("workspace_service_api_keys.", $action)),
            Scope::named(concat!("workspace_user_api_keys.", $action)),
        ]
    };
}

pub(super) const LIST: &[Scope] = scopes!("list");
pub(super) const CREATE: &[Scope] = scopes!("create");
pub(in crate::resource) const READ: &[Scope] = scopes!("read");
pub(in crate::resource) const UPDATE: &[Scope] = scopes!("update");
pub(super) const DELETE: &[Scope] = scopes!("delete");
pub(super) const ROTATE: &[Scope] = scopes!("rotate");

pub(super) const fn column(kind: KeyKind) -> usize {
    match kind {
        KeyKind::OrganisationService => 0,
        KeyKind::WorkspaceService => 1,
        KeyKind::WorkspaceUser => 2,
    }
}
