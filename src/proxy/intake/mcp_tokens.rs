//! Tokens that open MCP servers alone: of the gateway's own authorisation server, and of issuers that servers have of
//! their own.

use super::IntakeParts;
use super::caller::{in_force, tenant};
use crate::issuers::ServerAsk;
use crate::proxy::own_tokens::OwnTokenError;
use crate::proxy::refusal::Refused;
use crate::proxy::request::{Route, Tenant};
use gateway_domain::denied_caller::{Stranger, Unwelcome};
use gateway_domain::keys::KeyHash;
use gateway_domain::token;
use gateway_domain::{Fault, FaultKind, Operation, Timestamp};
use std::net::IpAddr;
use std::sync::Arc;

/// Whom such a token stands for. `None`: it is none, or no MCP server is called.
pub(super) fn caller(
    parts: &IntakeParts<'_>,
    (text, route): (&str, &Route),
    from: Option<IpAddr>,
    now: Timestamp,
) -> Result<Option<Arc<Tenant>>, Refused> {
    if route.operation != Operation::McpSession || !token::looks_signed(text) {
        return Ok(None);
    }
    match own_token(parts, text, from, now)? {
        None => server_token(parts, (text, route), from, now),
        own => Ok(own),
    }
}

/// Whom a token of the gateway's own stands for, which MCP servers alone take. `None`: it is no such token.
fn own_token(
    parts: &IntakeParts<'_>,
    text: &str,
    from: Option<IpAddr>,
    now: Timestamp,
) -> Result<Option<Arc<Tenant>>, Refused> {
    let Some(authorization) = parts.signing_in else { return Ok(None) };
    let (world, hash, own) = (parts.live.current(), KeyHash::of(text), parts.own_tokens);
    if !own.knows(&hash) && parts.shield.is_flooded_by(from) {
        return Err(parts.shield.unknown_keys().into());
    }
    let refused = |told: &str| {
        Refused::stranger(
            Fault::new(FaultKind::Unauthenticated, told.to_owned()),
            Stranger::unknown(Unwelcome::BadToken),
        )
    };
    let key = match own.key(authorization.issuer(), &world.snapshot, (text, &hash), now) {
        Ok(key) => key,
        Err(OwnTokenError::Foreign) => return Ok(None),
        Err(OwnTokenError::Invalid(told)) => return Err(refused(told)),
        Err(OwnTokenError::Ahead(revision)) => {
            return Err(Refused { awaits: Some(revision), ..refused("This node does not know the token yet") });
        }
    };
    in_force(&key, now)?;
    tenant(&world, key).map(|tenant| Some(Arc::new(tenant)))
}

/// Whom a token of an issuer stands for that the called MCP server has of its own. `None`: it is no such token.
fn server_token(
    parts: &IntakeParts<'_>,
    (text, route): (&str, &Route),
    from: Option<IpAddr>,
    now: Timestamp,
) -> Result<Option<Arc<Tenant>>, Refused> {
    let Some((slug, resource)) = parts.signing_in.and_then(|signing_in| signing_in.asked_of(&route.path)) else {
        return Ok(None);
    };
    let (world, hash) = (parts.live.current(), KeyHash::of(text));
    if !parts.issuers.knows_for_server(&hash) && world.snapshot.has_server_issuers() && parts.shield.is_flooded_by(from)
    {
        return Err(parts.shield.unknown_keys().into());
    }
    let ask = ServerAsk { slug, resource: &resource, token: text, hash: &hash, now };
    let found = parts.issuers.server_key(&world.snapshot, &ask).map_err(|error| Refused::token(&error, None))?;
    let Some(key) = found else { return Ok(None) };
    in_force(&key, now)?;
    tenant(&world, key).map(|tenant| Some(Arc::new(tenant)))
}
