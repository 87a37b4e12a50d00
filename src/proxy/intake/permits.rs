//! What a known caller may ask for: the scopes of routes of the data plane, and what its organisation wants told by
//! saved objects alone. Limits and budgets are no business of this.

use super::IntakeParts;
use crate::proxy::headers::SELF;
use crate::proxy::request::{Request, Tenant};
use gateway_domain::id::UserId;
use gateway_domain::scope::{Scope, Scopes};
use gateway_domain::{Fault, FaultKind, Operation};

/// The key's own scopes, and of a person's key no more than the roles of the person allow now.
fn scopes(tenant: &Tenant) -> Scopes {
    let own = tenant.key.scopes;
    let Some(person) = tenant.key.owner else { return own };
    let snapshot = &tenant.world.snapshot;
    let standing = snapshot.standing(UserId(person), &tenant.workspace);
    standing
        .map_or_else(Scopes::default, |(org, seat)| own.meet(&snapshot.security(&tenant.workspace).bound(org, seat)))
}

/// What a key without the scope of MCP servers is told.
pub(in crate::proxy) const NO_MCP: &str = "The key lacks the scope mcp.invoke";

/// The scope that routes of the data plane ask for.
pub(super) fn permit(parts: &IntakeParts<'_>, request: &Request) -> Option<Fault> {
    const RENDER: Scope = Scope::named("prompts.render");
    let scopes = scopes(&request.caller.tenant);
    if request.is_rendered_only() {
        let told = "The key lacks the scope prompts.render";
        return (!scopes.has(RENDER)).then(|| Fault::new(FaultKind::Forbidden, told));
    }
    if request.ask.route.operation == Operation::McpSession {
        let opens = scopes.has(Scope::MCP_INVOKE)
            || parts.signing_in.is_some_and(|signing_in| signing_in.admits(&request.caller.tenant));
        return (!opens).then(|| Fault::new(FaultKind::Forbidden, NO_MCP));
    }
    if request.ask.route.operation == Operation::A2aCard {
        let told = "The key lacks the scope agents.invoke";
        return (!scopes.has(Scope::AGENTS_INVOKE)).then(|| Fault::new(FaultKind::Forbidden, told));
    }
    let listing = request.ask.route.asked() == Operation::ListModels
        && (scopes.has(Scope::MODELS_LIST) || scopes.has(Scope::VIRTUAL_KEYS_LIST));
    if listing || scopes.has(Scope::COMPLETIONS_WRITE) {
        return None;
    }
    Some(Fault::new(FaultKind::Forbidden, "The key lacks the scope completions.write"))
}

/// A path that is nothing but the provider's, where the organisation wants none of those.
pub(super) fn unknown_route(request: &Request) -> Option<Fault> {
    let unknown = request.ask.route.operation == Operation::Proxy && request.caller.tenant.org.known_routes_only;
    let told = "Not Found: the organisation has opened known routes only (known_routes_only)";
    unknown.then(|| Fault::new(FaultKind::UnknownRoute, told))
}

/// Saved-only mode: of several violations the first in this order is told.
pub(super) fn saved_only(parts: &IntakeParts<'_>, request: &Request) -> Option<Fault> {
    let tenant = &request.caller.tenant;
    let here = tenant.world.snapshot.deployment(&tenant.org).is_some_and(|d| d.config.block_inline_config);
    if !parts.settings.block_inline_config && !tenant.org.block_inline_config && !here {
        return None;
    }
    let headers = &request.ask.headers;
    let inline_config = headers.config.as_ref().is_some_and(|c| c.as_bytes().trim_ascii_start().starts_with(b"{"));
    let inline_provider = headers.provider.as_deref().is_some_and(|p| !p.starts_with('@') && p != SELF);
    let (code, field, what) = if inline_config {
        ("inline_config_blocked", "x-gateway-config", "Inline configs are")
    } else if inline_provider {
        ("inline_provider_blocked", "x-gateway-provider", "Providers that are not saved are")
    } else if headers.custom_host.is_some() {
        ("inline_custom_host_blocked", "x-gateway-custom-host", "Custom hosts by header are")
    } else if let Some(field) = headers.provider_url {
        ("inline_provider_url_blocked", field, "Addresses of providers by header are")
    } else if headers.forward_headers.is_some() {
        ("inline_forward_headers_blocked", "x-gateway-forward-headers", "Forwarded headers by header are")
    } else {
        return None;
    };
    Some(Fault::new(FaultKind::InlineBlocked, format!("{what} blocked in this organisation")).code(code).on(field))
}
