//! The catalogue of models: what a workspace can call, by `GET /v1/models` and `GET /v1/models/@slug/model`, in one
//! form that the clients of OpenAI and of Anthropic both read. Prices are not told here; models without one are.

mod listing;

use crate::proxy::request::Request;
use crate::proxy::routing::Routing;
use gateway_domain::cloud::azure::AzureDeployment;
use gateway_domain::config::{ProviderRef, split_model};
use gateway_domain::price::{CatalogModel, DEPLOYING, PriceBook, PriceQuery};
use gateway_domain::snapshot::{ManagedProvider, Upstream};
use gateway_domain::{Fault, FaultKind};

use listing::Listing;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the catalogue answers.
pub(super) fn list(request: &Request, routing: &Routing) -> Result<Value, Fault> {
    let listing = Listing::read(request.ask.route.query.as_deref())?;
    let named = named(request, routing);
    let mut items = Vec::new();
    for (provider, upstream) in usable(request) {
        if named.as_ref().is_none_or(|named| named.contains(&&*provider.slug)) {
            items.extend(models(request, provider, upstream));
        }
    }
    Ok(listing.page(items))
}

/// One model, where the id names a provider of the workspace. `None`: what the path asks for is a provider's own
/// business. A key that is held to some models asks no provider; it may name the provider elsewhere.
pub(super) fn one(request: &Request, routing: &Routing, id: &str) -> Option<Result<Value, Fault>> {
    let is_held = request.caller.tenant.key.allowed_models.is_some();
    let elsewhere = || named(request, routing).filter(|_| is_held)?.first().map(|slug| (*slug, id));
    let of_ours = split_model(id).filter(|(slug, _)| request.caller.tenant.workspace.provider(slug).is_some());
    let (slug, model) = of_ours.or_else(elsewhere)?;
    let found = usable(request).find(|(provider, _)| &*provider.slug == slug);
    let item = found.and_then(|(provider, upstream)| models(request, provider, upstream).find(|i| i.model == model));
    Some(item.map(|item| item.value()).ok_or_else(|| unknown(id)))
}

/// What is not there and what may not be called are told alike.
pub(super) fn unknown(id: &str) -> Fault {
    let shown: String = id.chars().take(200).collect();
    let message = format!("The model `{shown}` does not exist or you do not have access to it");
    Fault::new(FaultKind::UnknownRoute, message).code("model_not_found").on("model")
}

/// The providers that a config or the headers name; `None` where nothing narrows the catalogue: nothing names one, or
/// something is passed through to a provider that the workspace does not manage.
fn named<'a>(request: &'a Request, routing: &'a Routing) -> Option<Vec<&'a str>> {
    let headers = &request.ask.headers;
    let header = headers.provider.as_deref();
    let mut slugs: Vec<&str> = headers.virtual_key.as_deref().into_iter().collect();
    match header.map(|name| name.strip_prefix('@')) {
        Some(Some(slug)) => slugs.push(slug),
        Some(None) => return None,
        None => {}
    }
    for leaf in routing.plan.config().leaves() {
        match &leaf.provider {
            ProviderRef::Managed(slug) => slugs.push(slug),
            ProviderRef::Family { .. } | ProviderRef::Passthrough => return None,
            ProviderRef::FromRequest => {}
        }
    }
    (!slugs.is_empty()).then_some(slugs)
}

/// Providers that this workspace can call now, with what stands behind them.
fn usable(request: &Request) -> impl Iterator<Item = (&Arc<ManagedProvider>, &Arc<Upstream>)> {
    let tenant = &request.caller.tenant;
    tenant.workspace.providers().filter_map(|provider| {
        let upstream = tenant.world.snapshot.upstream(provider.integration)?;
        let usable = provider.active && provider.expires_at.is_none_or(|t| t > request.caller.at);
        (usable && upstream.open_to(tenant.workspace.id)).then_some((provider, upstream))
    })
}

/// A model of the catalogue.
struct CatalogItem<'a> {
    /// The slug of the workspace's provider; `family` is what stands behind it.
    provider: &'a str,
    family: &'static str,
    model: Cow<'a, str>,
    known: Option<&'static CatalogModel>,
}

/// Models that a provider has by the public list, and those that an admin named; switched on, not past their end, and
/// none that the key may not call.
fn models<'a>(
    request: &'a Request,
    provider: &'a ManagedProvider,
    upstream: &'a Upstream,
) -> impl Iterator<Item = CatalogItem<'a>> {
    let (book, family, at) = (PriceBook::builtin(), upstream.provider.slug, request.caller.at);
    let reach = request.caller.tenant.key.allowed_models.as_ref();
    let mut all: BTreeMap<&str, Option<&'static CatalogModel>> = BTreeMap::new();
    if family == DEPLOYING {
        let named = |d: &'a AzureDeployment| {
            let known =
                d.model.as_deref().and_then(|model| book.model(PriceQuery { provider: family, model, region: "", at }));
            (d.alias.as_deref().unwrap_or(&d.name), known)
        };
        all.extend(upstream.settings.deployments().iter().map(named));
    } else {
        all.extend(book.models(family, at).map(|model| (model.model, Some(model))));
    }
    for (model, own) in &upstream.models.list {
        let like = own.base_model_slug.as_deref().unwrap_or(model);
        let known = || book.model(PriceQuery { provider: family, model: like, region: "", at });
        all.entry(model).or_insert_with(known);
    }
    all.into_iter()
        .filter(move |(model, known)| upstream.models.allow(model) && known.is_none_or(|k| !k.is_shut(at)))
        .filter(move |(model, _)| reach.is_none_or(|r| r.allows(&provider.slug, std::iter::once(*model))))
        .map(move |(model, known)| CatalogItem { provider: &provider.slug, family, model: model.into(), known })
}

impl CatalogItem<'_> {
    fn id(&self) -> String {
        format!("@{}/{}", self.provider, self.model)
    }

    fn value(&self) -> Value {
        let since = self.known.and_then(|k| k.from).unwrap_or_default();
        let mut value = Map::new();
        let mut put = |name: &str, of: Value| drop(value.insert(name.to_owned(), of));
        put("id", self.id().into());
        put("slug", json!(self.model));
        put("canonical_slug", format!("{}/{}", self.family, self.model).into());
        put("object", "model".into());
        put("type", "model".into());
        put("created", since.secs().into());
        put("created_at", since.to_string().into());
        put("owned_by", self.family.into());
        put("provider", self.provider.into());
        put("ai_service", self.family.into());
        put("display_name", self.known.and_then(|k| k.title).unwrap_or(&self.model).into());
        let shutdown = self.known.and_then(|k| k.shutdown);
        put("shutdown_date", json!(shutdown));
        // These fields say it in Anthropic's words. Its `capabilities` are an object of its own models' doings: ours
        // are `features`.
        put("lifecycle", if shutdown.is_some() { "deprecated" } else { "active" }.into());
        put("retires_at", json!(shutdown.map(|day| format!("{day}T00:00:00Z"))));
        if let Some(known) = self.known {
            put("kind", json!(known.kind));
            let (room, most) = (known.context, known.output_limit);
            let limits = [
                ("context_window", room),
                ("max_output_tokens", most),
                ("max_input_tokens", room),
                ("max_tokens", most),
            ];
            for (name, tokens) in limits.into_iter().filter(|(_, tokens)| *tokens > 0) {
                put(name, tokens.into());
            }
            let sets = [("input_modalities", known.reads), ("output_modalities", known.writes)];
            for (name, set) in sets.into_iter().filter(|(_, set)| !set.is_empty()) {
                put(name, set.iter().collect());
            }
            if !known.abilities.is_empty() {
                put("features", known.abilities.iter().collect());
            }
        }
        Value::Object(value)
    }
}
