//! What may be done to one saved config.

use gateway_domain::scope::Scope;

pub(super) const READ: &[Scope] = &[Scope::named("configs.read")];
pub(super) const UPDATE: &[Scope] = &[Scope::named("configs.update")];
