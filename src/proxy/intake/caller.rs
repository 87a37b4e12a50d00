//! Whom a request comes from: the tenant behind a key, a token or a short key, where it is in force and has a place
//! here. Every refusal says of whom it is, as far as that is known. Knows no scope and no route but that of MCP
//! servers.

use super::IntakeParts;
use crate::proxy::refusal::Refused;
use crate::proxy::request::{Tenant, TenantGuardrails};
use crate::proxy::short_keys::ShortKey;
use crate::proxy::tenants;
use crate::runtime_config::RuntimeConfig;
use gateway_domain::denied_caller::{Stranger, Unwelcome};
use gateway_domain::keys::{KeyHash, looks_minted};
use gateway_domain::ports::Tokens as _;
use gateway_domain::resource::api_key::KeyKind;
use gateway_domain::snapshot::Key;
use gateway_domain::{Fault, FaultKind, Timestamp, token};
use std::net::IpAddr;
use std::sync::Arc;

/// A gateway key found where an upstream credential belongs is dropped, never forwarded.
pub(super) fn is_gateway_key(tenant: &Tenant, text: &str) -> bool {
    looks_minted(text) || tenant.world.snapshot.key(&KeyHash::of(text)).is_some()
}

pub(super) fn authenticate(
    parts: &IntakeParts<'_>,
    text: &str,
    from: Option<IpAddr>,
    now: Timestamp,
) -> Result<Arc<Tenant>, Refused> {
    let world = parts.live.current();
    if let Some(tenant) = tenants::find(&world, text) {
        return in_force(&tenant.key, now).map(|()| tenant);
    }
    let hash = KeyHash::of(text);
    let known = world.snapshot.key(&hash);
    let mut guest = None;
    let key = match known {
        Some(key) => key.clone(),
        None if token::looks_signed(text) && parts.shield.is_flooded_by(from) && !parts.issuers.knows(&hash) => {
            // Checking a signature takes longer than all else: an address that floods gets none checked.
            return Err(parts.shield.unknown_keys().into());
        }
        None if token::looks_signed(text) => {
            let found = parts.issuers.key(&world.snapshot, text, &hash, now);
            found.map_err(|error| Refused::token(&error, parts.issuers.named(&world.snapshot, text)))?
        }
        None => {
            guest = parts.callers.guest(&hash);
            let of_guest = guest.as_ref().and_then(|guest| world.snapshot.key_by_id(guest.key));
            let unknown = || unknown_key(Stranger::unknown(Unwelcome::UnknownKey));
            of_guest.ok_or_else(unknown)?.clone()
        }
    };
    in_force(&key, now)?;
    let supposed = guest.as_ref().is_some_and(|guest| guest.supposes);
    let line = guest.and_then(|guest| guest.line);
    let tenant = Arc::new(Tenant { supposed, line, ..tenant(&world, key)? });
    if known.is_some() {
        tenants::keep(&world, text, &tenant);
    }
    Ok(tenant)
}

pub(super) fn in_force(key: &Key, now: Timestamp) -> Result<(), Refused> {
    let why = match key.expires_at {
        Some(at) if at <= now => Unwelcome::ExpiredKey,
        _ if key.active => return Ok(()),
        _ => Unwelcome::InactiveKey,
    };
    Err(Refused::unauthenticated("The gateway key has expired or is not active", Stranger::with_key(why, key)))
}

/// Whom a short key stands for.
pub(super) fn parent(parts: &IntakeParts<'_>, short: &ShortKey, now: Timestamp) -> Result<Arc<Tenant>, Refused> {
    let world = parts.live.current();
    let unknown = || unknown_key(Stranger::unknown(Unwelcome::UnknownKey));
    let key = world.snapshot.key_by_id(short.parent()).ok_or_else(unknown)?.clone();
    in_force(&key, now)?;
    tenant(&world, key).map(Arc::new)
}

fn unknown_key(stranger: Stranger) -> Refused {
    Refused::unauthenticated("The gateway key is not valid", stranger)
}

pub(super) fn tenant(world: &Arc<RuntimeConfig>, key: Arc<Key>) -> Result<Tenant, Refused> {
    let workspace = match (key.kind, key.workspace) {
        (KeyKind::WorkspaceService | KeyKind::WorkspaceUser, Some(id)) => id,
        _ => {
            let fault = Fault::new(FaultKind::Forbidden, "Admin keys cannot call models; use a workspace key");
            return Err(Refused::stranger(fault, Stranger::with_key(Unwelcome::WrongKind, &key)));
        }
    };
    let homeless = || unknown_key(Stranger::with_key(Unwelcome::InactiveKey, &key));
    let workspace = world.snapshot.workspace(workspace).filter(|w| w.active).ok_or_else(homeless)?.clone();
    let org = world.snapshot.org(key.org).ok_or_else(homeless)?.clone();
    if !world.snapshot.serves(&org, workspace.id) {
        return Err(Refused::stranger(Tenant::served_elsewhere(), Stranger::with_key(Unwelcome::NoPlace, &key)));
    }
    let guardrails = TenantGuardrails::of(&world.snapshot, &org, &workspace);
    Ok(Tenant { world: world.clone(), key, org, workspace, guardrails, supposed: false, line: None })
}
