//! Turns a leaf of the plan into where and as whom to call: provider, address, credential, model.

mod permit;

use super::request::{AskedModel, Request};
use super::routing::Routing;
use ahash::AHashMap;
use gateway_domain::catalog::{EndedService, ended};
use gateway_domain::cloud::{self, CloudService, CloudSettings, Grant, Signing, Wrong};
use gateway_domain::config::{Leaf, ProviderRef, split_model};
use gateway_domain::egress::BaseUrl;
use gateway_domain::keys::KeyHash;
use gateway_domain::price::{PriceBook, PriceCard, PriceQuery};
use gateway_domain::snapshot::{ManagedProvider, Org, Upstream, is_listed_apart, region};
use gateway_domain::{Fault, FaultKind, Operation, Secret, Timestamp};
use gateway_providers::{Adapter, ModelPlace, Untouched};
use permit::WantedModel;
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

/// Which credential goes upstream.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    None,
    /// The integration's; with it come its fixed headers, prepared once per state of the integration.
    Managed(Arc<Upstream>),
    /// The credential that the request or a config brings.
    Own(Secret<String>),
}

/// One target, ready to be called.
#[derive(Clone)]
pub(crate) struct Aim {
    pub(crate) adapter: &'static dyn Adapter,
    pub(crate) base: Arc<BaseUrl>,
    pub(crate) credential: Credential,
    /// Slug of the managed provider, or empty.
    pub(crate) virtual_key: Arc<str>,
    /// What to ask the provider for; `None` when no model is named.
    pub(crate) model: Option<Arc<str>>,
    /// Tells credentials apart ([`gateway_providers::Call::origin`]).
    pub(crate) origin: u64,
    pub(crate) settings: Arc<CloudSettings>,
    /// How the token that goes upstream is come by; without it the credential goes itself.
    pub(crate) grant: Option<Arc<Grant>>,
}

impl Aim {
    /// That the provider ended the service which stands at its own address.
    pub(crate) fn ended(&self) -> Option<&'static EndedService> {
        let own = self.adapter.info();
        let service = ended(own.slug)?;
        own.base_url.is_some_and(|url| url.contains(&*self.base.authority())).then_some(service)
    }

    fn wanted(&self) -> WantedModel<'_> {
        let (provider, model) = (&*self.virtual_key, self.model.as_deref());
        WantedModel { adapter: self.adapter, settings: &self.settings, provider, model }
    }

    pub(crate) fn prices(&self, request: &Request) -> TargetPrices {
        let upstream = match &self.credential {
            Credential::Managed(upstream) => Some(upstream.clone()),
            Credential::None | Credential::Own(_) => None,
        };
        let (org, settings) = (request.caller.tenant.org.clone(), self.settings.clone());
        TargetPrices { provider: self.adapter.info().slug, upstream, org, settings, at: request.caller.at }
    }
}

/// What models cost at one target, for a call that began at its time.
#[derive(Debug)]
pub(crate) struct TargetPrices {
    provider: &'static str,
    upstream: Option<Arc<Upstream>>,
    org: Arc<Org>,
    settings: Arc<CloudSettings>,
    at: Timestamp,
}

impl TargetPrices {
    /// Whether [`Self::own`] looks into the public list, which must be open by then.
    pub(crate) fn own_are_listed(&self) -> bool {
        self.upstream.as_ref().map_or_else(|| is_listed_apart(&self.settings), |own| own.own_prices_are_listed())
    }

    /// The price where it is not what everybody pays.
    pub(crate) fn own(&self, model: Option<&str>) -> Option<PriceCard> {
        let model = model?;
        if let Some(upstream) = &self.upstream {
            return upstream.own_card(model, &self.org.prices, self.at);
        }
        if let Some(card) = self.org.prices.card(self.provider, model) {
            return Some(card.clone());
        }
        match cloud::azure::model_behind(&self.settings, Some(model)) {
            Some(behind) => PriceBook::builtin().deployed(self.query(behind)).cloned(),
            None if region(&self.settings).is_empty() => None,
            None => PriceBook::builtin().regional(self.query(model)).cloned(),
        }
    }

    /// The price, as the record of a call will have it.
    pub(crate) fn of(&self, model: Option<&str>) -> Option<PriceCard> {
        self.own(model).or_else(|| PriceBook::builtin().card(self.query(model?)).cloned())
    }

    /// The day on which the provider ended this model, if it did. A book that nobody has opened yet is not opened for
    /// this: a request would wait for it.
    pub(crate) fn shutdown(&self, model: Option<&str>) -> Option<&'static str> {
        let known = PriceBook::opened()?.model(self.query(model?))?;
        known.shutdown.filter(|_| known.is_shut(self.at))
    }

    fn query<'a>(&'a self, model: &'a str) -> PriceQuery<'a> {
        PriceQuery { provider: self.provider, model, region: region(&self.settings), at: self.at }
    }
}

impl std::fmt::Debug for Aim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let provider = self.adapter.info().slug;
        f.debug_struct("Aim")
            .field("provider", &provider)
            .field("virtual_key", &self.virtual_key)
            .finish_non_exhaustive()
    }
}

/// The provider that applies: the leaf's, else the headers', else the model's `@slug/`.
fn choose<'a>(leaf: &'a Leaf, request: &Request) -> Result<Cow<'a, ProviderRef>, Fault> {
    let passthrough = matches!(leaf.provider, ProviderRef::Passthrough);
    if !passthrough && !matches!(leaf.provider, ProviderRef::FromRequest) {
        return Ok(Cow::Borrowed(&leaf.provider));
    }
    if let Some(slug) = &request.ask.headers.virtual_key {
        return Ok(Cow::Owned(ProviderRef::Managed(slug.clone())));
    }
    if let Some(name) = request.ask.headers.provider.as_ref().filter(|n| !passthrough || n.starts_with('@')) {
        return Ok(Cow::Owned(match name.strip_prefix('@') {
            Some(slug) => ProviderRef::Managed(slug.into()),
            None => ProviderRef::Family { slug: name.clone(), key: None },
        }));
    }
    // What asks to be passed through is led by the request alone.
    let set = leaf.model.as_deref().filter(|_| !passthrough);
    let model = set.or(request.ask.content.model.as_deref()).or(leaf.default_model.as_deref());
    match model.and_then(split_model) {
        Some((slug, _)) => Ok(Cow::Owned(ProviderRef::Managed(slug.into()))),
        None if passthrough => {
            let message = "A passthrough target takes its provider from x-gateway-provider: @slug, or from a model written @slug/model";
            Err(Fault::new(FaultKind::NoProvider, message))
        }
        None => Err(no_provider(request)),
    }
}

fn no_provider(request: &Request) -> Fault {
    let message = if request.ask.headers.config.is_some() {
        "The config names no provider: give `provider` or `targets` in it, x-gateway-provider, or a model written @slug/model"
    } else {
        "Either x-gateway-config or x-gateway-provider header is required (or a model written @slug/model)"
    };
    Fault::new(FaultKind::NoProvider, message)
}

/// Finds a target like [`resolve`], for callers that only ask where it is and call nothing.
pub(crate) fn resolve_place(leaf: &Leaf, inline: bool, request: &Request) -> Result<Aim, Fault> {
    aim(leaf, inline, request)
}

pub(crate) fn resolve(leaf: &Leaf, inline: bool, request: &Request) -> Result<Aim, Fault> {
    let mut aim = aim(leaf, inline, request)?;
    let own = leaf.custom_host.is_some() || request.ask.headers.custom_host.is_some();
    match request.caller.tenant.line.as_ref().and_then(|line| line.native()) {
        Some(service) => go_to_service(&mut aim, service, own)?,
        None if !own => {
            let route = &request.ask.route;
            let reshapes = route.raw && aim.adapter.reshapes(route.operation) && !route.path.starts_with("/v1/proxy/");
            let operation = if reshapes { route.operation } else { route.asked() };
            go_aside(&mut aim, operation);
        }
        None => {}
    }
    Ok(aim)
}

/// Leads a target to another service of its provider.
pub(crate) fn at_service(aim: &Aim, leaf: &Leaf, request: &Request, service: CloudService) -> Result<Aim, Fault> {
    let mut aim = aim.clone();
    let own = leaf.custom_host.is_some() || request.ask.headers.custom_host.is_some();
    go_to_service(&mut aim, service, own)?;
    Ok(aim)
}

/// Leads a call about a batch of the provider's to the service that it asks. An address of the admin's own serves all.
fn go_to_service(aim: &mut Aim, service: CloudService, own: bool) -> Result<(), Fault> {
    let slug = aim.adapter.info().slug;
    let known = |url: Result<Option<String>, Wrong>| url.ok().flatten().and_then(|url| BaseUrl::parse(&url).ok());
    let fixed = || aim.adapter.info().base_url.and_then(|url| BaseUrl::parse(url).ok());
    let home = known(cloud::base_url(slug, &aim.settings)).or_else(fixed);
    let is_at_home = home.is_some_and(|home| home.authority() == aim.base.authority());
    if let Some(place) = known(cloud::service_url(slug, service, &aim.settings)).filter(|_| !own && is_at_home) {
        aim.base = Arc::new(place);
    }
    let Some(service) = cloud::signed_service(service) else { return Ok(()) };
    match &aim.grant {
        Some(grant) => {
            if let Some(signing) = &grant.signing {
                let signing = Some(Signing { service, ..signing.clone() });
                aim.grant = Some(Arc::new(Grant { signing, ..(**grant).clone() }));
            }
            Ok(())
        }
        // Google takes its tokens everywhere.
        None if slug != "bedrock" => Ok(()),
        None => {
            let why = "S3 takes no API keys of Bedrock's: files and batches need AWS keys or a role";
            Err(Fault::new(FaultKind::Refused, why).on("aws_auth_type"))
        }
    }
}

/// What a family serves at another address than it is called at (lists of models, rerank, transcripts, jobs) is asked
/// for there, unless its address is one of the admin's own.
pub(super) fn go_aside(aim: &mut Aim, operation: Operation) {
    let may = matches!(operation, Operation::ListModels | Operation::Rerank | Operation::Transcription);
    if !may && !operation.is_about_tuning() {
        return;
    }
    let slug = aim.adapter.info().slug;
    let known = |url: Result<Option<String>, Wrong>| url.ok().flatten().and_then(|url| BaseUrl::parse(&url).ok());
    let Some(list) = known(cloud::aside_url(slug, operation, aim.model.as_deref(), &aim.settings)) else { return };
    let own = aim.adapter.info().base_url.and_then(|url| BaseUrl::parse(url).ok());
    let home = known(cloud::base_url(slug, &aim.settings)).or(own);
    if home.is_some_and(|home| home.authority() == aim.base.authority()) {
        aim.base = Arc::new(list);
    }
}

fn aim(leaf: &Leaf, inline: bool, request: &Request) -> Result<Aim, Fault> {
    let aim = match &*choose(leaf, request)? {
        ProviderRef::Managed(slug) => managed(slug, leaf, inline, request)?,
        ProviderRef::Family { slug, key } => {
            // Settings of a saved config may hold a secret as well as its key does.
            let saved = !inline && (key.is_some() || !leaf.settings.is_empty());
            match request.ask.headers.settings.first_binding() {
                _ if saved && request.ask.headers.custom_host.is_some() => return Err(foreign_host()),
                Some(name) if saved => return Err(foreign_setting(name)),
                _ => family(slug, key.clone(), leaf, request)?,
            }
        }
        ProviderRef::FromRequest | ProviderRef::Passthrough => return Err(no_provider(request)),
    };
    permit::by_key(aim.wanted(), request)?;
    Ok(aim)
}

/// A provider of the workspace that may be called, with its integration.
fn kept<'a>(slug: &str, request: &'a Request) -> Result<(&'a ManagedProvider, Arc<Upstream>), Fault> {
    let tenant = &request.caller.tenant;
    let unknown = || Fault::new(FaultKind::NoProvider, format!("No provider @{slug} in this workspace")).on("provider");
    let provider = tenant.workspace.provider(slug).ok_or_else(unknown)?;
    if !provider.active || provider.expires_at.is_some_and(|t| t <= request.caller.at) {
        return Err(Fault::new(FaultKind::NoProvider, format!("Provider @{slug} has expired or is not active")));
    }
    let upstream = tenant.world.snapshot.upstream(provider.integration).ok_or_else(unknown)?.clone();
    if !upstream.open_to(tenant.workspace.id) {
        return Err(Fault::new(
            FaultKind::NoProvider,
            format!("The integration of @{slug} is not open to this workspace"),
        ));
    }
    if let Some(why) = &upstream.missing {
        return Err(Fault::new(FaultKind::SecretAway, format!("@{slug} cannot be called now: {why}")));
    }
    Ok((provider, upstream))
}

/// The family of the provider that the request itself names, which may be called; `None`: it names none.
pub(crate) fn named_family(request: &Request) -> Option<Result<&'static dyn Adapter, Fault>> {
    let named = request.ask.headers.provider.as_deref()?;
    let found = match named.strip_prefix('@') {
        Some(slug) => kept(slug, request).map(|(_, upstream)| upstream),
        None => return Some(adapter(named, &request.ask.headers.settings)),
    };
    Some(found.and_then(|upstream| adapter(upstream.provider.slug, &with_free(&upstream.settings, request))))
}

fn managed(slug: &Arc<str>, leaf: &Leaf, inline: bool, request: &Request) -> Result<Aim, Fault> {
    let (provider, upstream) = kept(slug, request)?;
    if request.ask.headers.custom_host.is_some() || (inline && leaf.custom_host.is_some()) {
        return Err(foreign_host());
    }
    if let Some(name) = request.ask.headers.settings.first_binding() {
        return Err(foreign_setting(name));
    }
    let settings = with_free(&upstream.settings, request);
    let named = adapter(upstream.provider.slug, &settings)?;
    // `@slug/` is taken off only where it names this very provider.
    let model = asked(named, &settings, leaf, request).map(|m| match split_model(&m) {
        Some((named, rest)) if named == &*provider.slug || named == &**slug => rest.into(),
        _ => m,
    });
    let wanted = WantedModel { adapter: named, settings: &settings, provider: &provider.slug, model: model.as_deref() };
    permit::by_integration(&upstream, wanted, request)?;
    let upstream = upstream.for_model(model.as_deref());
    let base = leaf.custom_host.clone().or_else(|| upstream.base.clone());
    let base = base.ok_or_else(|| no_host(upstream.provider.slug))?;
    let settings = with_free(&upstream.settings, request);
    let adapter = adapter(upstream.provider.slug, &settings)?;
    let (origin, virtual_key) = (number(upstream.integration.0.as_bytes()), provider.slug.clone());
    let grant = upstream.grant.clone();
    let credential = Credential::Managed(upstream);
    Ok(Aim { adapter, base, credential, virtual_key, model, origin, settings, grant })
}

/// A saved credential is never sent to a host that the request names.
fn foreign_host() -> Fault {
    let message = "A custom host from the request must come with its own credential, never with a saved one";
    Fault::new(FaultKind::BadHost, message).on("custom_host")
}

/// A saved credential is never used with settings of the request either: they decide the host as well.
fn foreign_setting(name: &str) -> Fault {
    let why = "comes with the request and is not taken beside a saved credential";
    Fault::new(FaultKind::BadHost, format!("The setting {name} {why}")).on(name)
}

/// Whether a session with this target may be led to another model.
pub(crate) fn permit_other(aim: &Aim, model: &str, request: &Request) -> Result<(), Fault> {
    let wanted = WantedModel { model: Some(model), ..aim.wanted() };
    if let Credential::Managed(upstream) = &aim.credential {
        permit::by_integration(upstream, wanted, request)?;
    }
    permit::by_key(wanted, request)
}

/// The model to ask a provider for. What goes up as it came asks for what it says itself, in the provider's own way,
/// whatever the config would set.
fn asked(adapter: &dyn Adapter, settings: &CloudSettings, leaf: &Leaf, request: &Request) -> Option<Arc<str>> {
    let body = request.ask.content.model.as_ref();
    // The model of a session that a key is asked for stands inside of it, and was read there.
    let is_read = || request.ask.route.operation == Operation::RealtimeSecret || request.beside().is_some();
    if !request.is_untouched() || is_read() {
        return leaf.model.as_ref().or(body).or(leaf.default_model.as_ref()).cloned();
    }
    let call = Untouched { tail: request.ask.route.tail(), query: request.ask.route.query.as_deref(), settings };
    match adapter.model_place(&call) {
        ModelPlace::Named(model) => Some(model.into()),
        ModelPlace::Body => body.cloned(),
        ModelPlace::Unknown => None,
    }
}

/// What a call that goes up as it came asks for, where all targets of its config would read that alike. Where they
/// would not it may be any of them, until a target is chosen.
pub(crate) fn untouched_model(routing: &Routing, request: &Request) -> AskedModel {
    let mut found: Option<Option<Arc<str>>> = None;
    for leaf in routing.plan.config().leaves() {
        let Some((adapter, settings)) = spoken_to(leaf, request) else { continue };
        let model = asked(adapter, &settings, leaf, request);
        if found.as_ref().is_some_and(|have| *have != model) {
            return AskedModel { name: None, unread: true };
        }
        found = Some(model);
    }
    let name = found.unwrap_or_else(|| request.ask.content.model.clone());
    AskedModel { unread: name.is_none() && request.ask.content.unread, name }
}

/// The family that a leaf leads to, with its settings; `None` where it leads nowhere.
fn spoken_to(leaf: &Leaf, request: &Request) -> Option<(&'static dyn Adapter, Arc<CloudSettings>)> {
    let (slug, settings) = match &*choose(leaf, request).ok()? {
        ProviderRef::Managed(slug) => {
            let provider = request.caller.tenant.workspace.provider(slug)?;
            let upstream = request.caller.tenant.world.snapshot.upstream(provider.integration)?;
            (upstream.provider.slug.to_owned(), with_free(&upstream.settings, request))
        }
        ProviderRef::Family { slug, .. } => (slug.to_string(), with_free(&leaf.settings, request)),
        ProviderRef::FromRequest | ProviderRef::Passthrough => return None,
    };
    Some((adapter(&slug, &settings).ok()?, settings))
}

/// Where families are that have one address for all: read once.
static HOMES: LazyLock<AHashMap<&'static str, Arc<BaseUrl>>> = LazyLock::new(|| {
    let all = gateway_providers::catalog().providers().into_iter();
    all.filter_map(|info| Some((info.slug, Arc::new(BaseUrl::parse(info.base_url?).ok()?)))).collect()
});

fn family(slug: &str, key: Option<Secret<String>>, leaf: &Leaf, request: &Request) -> Result<Aim, Fault> {
    let settings = with_free(&leaf.settings, request);
    let adapter = adapter(slug, &settings)?;
    let host = request.ask.headers.custom_host.clone().or_else(|| leaf.custom_host.clone());
    let wrong = |wrong: Wrong| Fault::new(FaultKind::BadHeader, wrong.to_string()).on(wrong.field);
    let parsed = |url: &str| {
        let base = BaseUrl::parse(url).map(Arc::new);
        base.map_err(|why| Fault::new(FaultKind::Internal, format!("The base URL of {slug} {why}")))
    };
    let base = match (host, adapter.info().base_url) {
        (Some(host), _) => host,
        (None, Some(url)) => match HOMES.get(slug) {
            Some(home) => home.clone(),
            None => parsed(url)?,
        },
        (None, None) => match cloud::base_url(slug, &settings).map_err(wrong)? {
            Some(url) => parsed(&url)?,
            None => return Err(no_host(slug)),
        },
    };
    let credential = key.or_else(|| request.ask.credential.clone()).map_or(Credential::None, Credential::Own);
    let grant = cloud::grant(slug, &settings, matches!(credential, Credential::Own(_)), false).map_err(wrong)?;
    let origin = match (&grant, &credential) {
        (Some(grant), _) => number(&grant.id),
        (None, Credential::Own(key)) => number(&KeyHash::of(key.expose()).0),
        (None, _) => cloud::bearer(&settings).map_or(0, |token| number(&KeyHash::of(token).0)),
    };
    let model = asked(adapter, &settings, leaf, request);
    let (virtual_key, grant) = (Arc::default(), grant.map(Arc::new));
    Ok(Aim { adapter, base, credential, virtual_key, model, origin, settings, grant })
}

/// The last eight bytes: of ids and hashes alike they are random.
fn number(bytes: &[u8]) -> u64 {
    bytes.last_chunk().map_or(0, |last| u64::from_be_bytes(*last))
}

fn adapter(slug: &str, settings: &CloudSettings) -> Result<&'static dyn Adapter, Fault> {
    let family = gateway_providers::adapter(slug).ok_or_else(|| {
        let why = format!("Invalid provider passed: `{slug}` is no family; a provider of the workspace is `@{slug}`");
        Fault::new(FaultKind::NoProvider, why).on("x-gateway-provider")
    })?;
    Ok(family.at(settings).unwrap_or(family))
}

/// What a request may say beside a saved credential, over what is saved with it.
fn with_free(saved: &Arc<CloudSettings>, request: &Request) -> Arc<CloudSettings> {
    if request.ask.headers.settings.is_empty() {
        saved.clone()
    } else {
        Arc::new(request.ask.headers.settings.over(saved))
    }
}

fn no_host(slug: &str) -> Fault {
    Fault::new(FaultKind::BadHost, format!("Provider {slug} has no address of its own: a custom host is required"))
        .on("custom_host")
}
