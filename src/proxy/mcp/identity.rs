//! What a server is told of whoever calls it, where its integration says so: claims, a token that the gateway signs for
//! this server alone, or the caller's own token if that was issued for the server. No key and no token that was meant
//! for the gateway is among it.

use super::McpParts;
use super::target::McpServed;
use crate::clock;
use crate::proxy::request::Tenant;
use gateway_admin::{IdentityClaims, sign_identity};
use gateway_domain::id::UserId;
use gateway_domain::resource::mcp_sign_in::{IdentityForwarding, IdentityMethod};
use gateway_domain::snapshot::OutboundUpstream;
use gateway_domain::{Fault, FaultKind};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::{Map, Value, json};

const KEY: HeaderName = HeaderName::from_static("x-gateway-api-key");
const BEARER: &str = "Bearer ";
const NOUN: &str = "MCP server";

/// Fills in what goes to each server; `headers` as the caller sent them.
pub(super) fn identify(
    parts: McpParts<'_>,
    headers: &HeaderMap,
    tenant: &Tenant,
    served: &mut McpServed,
) -> Result<(), Fault> {
    let principal = served.principal.as_str().into();
    for target in &mut served.targets {
        let Some(header) = caller_header(parts, headers, tenant, (&target.upstream, NOUN))? else { continue };
        target.identity = Some(header);
        target.owner = Some(std::sync::Arc::clone(&principal));
    }
    Ok(())
}

/// The header that tells who calls, and what messages call the one who hears it; `None`: nothing is told.
pub(in crate::proxy) fn caller_header(
    parts: McpParts<'_>,
    headers: &HeaderMap,
    tenant: &Tenant,
    (upstream, noun): (&OutboundUpstream, &str),
) -> Result<Option<(HeaderName, HeaderValue)>, Fault> {
    let Some(rule) = &upstream.identity else { return Ok(None) };
    let value = match rule.method {
        IdentityMethod::ClaimsHeader => header_of(&ascii(&Value::Object(claims(tenant, rule))))?,
        IdentityMethod::JwtHeader => signed(parts, tenant, (rule, upstream))?,
        IdentityMethod::Bearer => own_token(headers, tenant, (upstream, noun))?,
    };
    let name = HeaderName::from_bytes(rule.header().as_bytes()).map_err(|_| unsendable())?;
    Ok(Some((name, value)))
}

fn claims(tenant: &Tenant, rule: &IdentityForwarding) -> Map<String, Value> {
    let (key, snapshot) = (&tenant.key, &tenant.world.snapshot);
    let person = key.owner.and_then(|id| snapshot.person(UserId(id)));
    let name = person.map(|p| format!("{} {}", p.first_name, p.last_name).trim().to_owned());
    let all = [
        ("sub", person.map_or_else(|| json!(key.id), |p| json!(p.id))),
        ("email", json!(person.map(|p| &*p.email))),
        ("name", json!(name)),
        ("username", json!(person.map(|p| &p.user_name))),
        ("workspace_id", json!(tenant.workspace.id)),
        ("workspace_slug", json!(tenant.workspace.slug)),
        ("organisation_id", json!(tenant.org.id)),
        ("api_key_id", json!(key.id)),
    ];
    let told = all.into_iter().filter(|(name, value)| !value.is_null() && rule.forwards(name));
    told.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn signed(
    parts: McpParts<'_>,
    tenant: &Tenant,
    (rule, upstream): (&IdentityForwarding, &OutboundUpstream),
) -> Result<HeaderValue, Fault> {
    let nobody = |why: &str| Fault::new(FaultKind::Internal, format!("The gateway cannot sign who calls: {why}"));
    let issuer = parts.state.authorization().and_then(|authorization| authorization.issuer());
    let issuer = issuer.ok_or_else(|| nobody("it issues no tokens; see --public-url"))?;
    let told = IdentityClaims {
        issuer,
        audience: &upstream.url,
        lasts: i64::from(rule.jwt_expiry_seconds),
        claims: claims(tenant, rule),
    };
    let token = sign_identity(&tenant.world.snapshot, parts.state.vault(), clock::now(), told).map_err(nobody)?;
    let is_own = rule.header() == header::AUTHORIZATION.as_str();
    header_of(&if is_own { format!("{BEARER}{token}") } else { token })
}

/// A token of an issuer elsewhere that names the server itself.
fn own_token(
    headers: &HeaderMap,
    tenant: &Tenant,
    (upstream, noun): (&OutboundUpstream, &str),
) -> Result<HeaderValue, Fault> {
    let refused =
        |why: &str| Fault::new(FaultKind::Forbidden, format!("The {noun} takes the caller's own token: {why}"));
    let token = tenant.key.token.as_ref().filter(|token| token.grant.is_none());
    let token = token.ok_or_else(|| refused("a key of the gateway is none"))?;
    let url = upstream.url.trim_end_matches('/');
    if !token.audience.iter().any(|named| named.trim_end_matches('/') == url) {
        return Err(refused("its claim aud must name where it goes"));
    }
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let bearer = || text(header::AUTHORIZATION).and_then(|value| value.strip_prefix(BEARER));
    let sent = text(KEY).or_else(bearer).ok_or_else(|| refused("it must come as a bearer token"))?;
    header_of(&format!("{BEARER}{}", sent.trim()))
}

/// JSON that any header can carry.
fn ascii(value: &Value) -> String {
    let mut out = String::new();
    for c in value.to_string().chars() {
        if c.is_ascii() {
            out.push(c);
            continue;
        }
        let mut units = [0; 2];
        for unit in c.encode_utf16(&mut units) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

fn header_of(text: &str) -> Result<HeaderValue, Fault> {
    let mut value = HeaderValue::from_str(text).map_err(|_| unsendable())?;
    value.set_sensitive(true);
    Ok(value)
}

fn unsendable() -> Fault {
    Fault::new(FaultKind::Internal, "Who calls cannot be told")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_json_whatever_a_name_is_written_in() {
        let value = json!({"name": "Zoë 😀\n"});
        let text = ascii(&value);
        assert!(text.is_ascii() && header_of(&text).is_ok(), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("json"), value);
    }
}
