//! Which config a request goes by, and the plan that comes out of it. Precedence of sources
//! (`spec/config-object.md`): request header, key default, the workspace's default, then the bare provider
//! of the request.

use super::Gateway;
use super::exchange::Routing;
use super::request::{Request, Tenant};
use crate::proxy::headers::GatewayHeaders;
use gateway_domain::config::{self, Config, Context, Leaf, NodeKind, ProviderRef, Retry};
use gateway_domain::{Fault, FaultKind, Secret};
use std::sync::{Arc, LazyLock};

/// A request without a config: the object itself is the target, all from headers and model.
static BARE: LazyLock<Arc<Config>> = LazyLock::new(|| {
    let leaf = Leaf {
        path: "config".into(),
        provider: ProviderRef::FromRequest,
        retry: Retry::default(),
        timeout_ms: None,
        overrides: Arc::default(),
        model: None,
        custom_host: None,
        forward_headers: Arc::default(),
        strict: true,
        cache: None,
    };
    let root = config::Node { path: "config".into(), weight: 1.0, kind: NodeKind::Leaf(Arc::new(leaf)) };
    Arc::new(Config { root, metadata: Vec::new(), fetch_integrated_models: false })
});

/// A config chosen for a request.
pub(crate) struct Chosen {
    pub(crate) config: Arc<Config>,
    pub(crate) inline: bool,
    pub(crate) name: Arc<str>,
}

pub(crate) fn choose(gateway: &Gateway, tenant: &Tenant, headers: &GatewayHeaders) -> Result<Chosen, Fault> {
    let defaults = tenant.key.defaults.as_deref();
    if let Some(value) = &headers.config {
        if defaults.is_some_and(|d| !d.allow_config_override) {
            let message = "The key does not allow a config of the request's own";
            return Err(Fault::new(FaultKind::BadConfig, message).on("x-gateway-config"));
        }
        let text = std::str::from_utf8(value.as_bytes()).map_err(|_| not_json())?.trim();
        if text.starts_with('{') {
            let config = inline(gateway, text)?;
            return Ok(Chosen { config, inline: true, name: "inline".into() });
        }
        return saved(tenant, text).ok_or_else(|| {
            let message = format!("Invalid config passed: no saved config `{text}` in this workspace, and not JSON");
            Fault::new(FaultKind::BadConfig, message).on("x-gateway-config")
        });
    }
    if let Some(name) = defaults.and_then(|d| d.config.as_deref()) {
        match saved(tenant, name) {
            Some(found) => return Ok(found),
            // What an issuer writes is checked by nobody before.
            None if tenant.key.token => {}
            None => {
                let message = format!("The key's default config `{name}` no longer exists");
                return Err(Fault::new(FaultKind::BadConfig, message));
            }
        }
    }
    if let Some(found) = tenant.workspace.default_config() {
        return Ok(Chosen { config: found.config.clone(), inline: false, name: found.slug.clone() });
    }
    Ok(Chosen { config: BARE.clone(), inline: true, name: Arc::default() })
}

fn saved(tenant: &Tenant, name: &str) -> Option<Chosen> {
    let found = tenant.workspace.config(name)?;
    Some(Chosen { config: found.config.clone(), inline: false, name: found.slug.clone() })
}

fn not_json() -> Fault {
    Fault::new(FaultKind::BadConfig, "Invalid config passed. You need to pass a valid json").on("x-gateway-config")
}

/// A config already seen costs a look-up by its text; the cache is bounded and holds no tenant's state.
fn inline(gateway: &Gateway, text: &str) -> Result<Arc<Config>, Fault> {
    if let Some(known) = gateway.inline.get(text) {
        return Ok(known);
    }
    let value = serde_json::from_str(text).map_err(|_| not_json())?;
    let known = |slug: &str| gateway_providers::adapter(slug).is_some();
    let open = |plain: &str| Some(Secret::new(plain.to_owned()));
    let context = Context { known_provider: &known, trusted: &gateway.settings.trusted, open: &open, saved: false };
    let compiled = config::compile(&value, &context).map_err(|problems| {
        let lines = problems.iter().map(config::Problem::line).collect();
        Fault::new(FaultKind::BadConfig, "Invalid config passed").on("x-gateway-config").listing(lines)
    })?;
    let compiled = Arc::new(compiled);
    gateway.inline.insert(text.to_owned(), compiled.clone());
    Ok(compiled)
}

/// Adds what the config says of the request itself, and draws the plan.
pub(crate) fn plan(chosen: &Chosen, request: &mut Request, dice: &mut dyn FnMut() -> f64) -> Routing {
    for (key, value) in &chosen.config.metadata {
        if !request.metadata.iter().any(|(have, _)| have == key) {
            request.metadata.push((key.clone(), value.clone()));
        }
    }
    request.headers.integrated_models |= chosen.config.fetch_integrated_models;
    Routing { plan: chosen.config.plan(dice), inline: chosen.inline, config: chosen.name.clone() }
}
