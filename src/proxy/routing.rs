//! Which config a request goes by, and the plan that comes out of it. Precedence of sources: request header, key
//! default, the workspace's default, then the bare provider of the request.

mod breakers;
mod inline;

pub(crate) use breakers::BreakerStates;
pub(crate) use inline::InlineConfigs;

use super::request::{Request, Tenant};
use super::sticky_assignments::{Assignments, View};
use crate::batches::{ConfigOfBatch, PinnedConfig};
use crate::guardrails::ConfigGuards;
use crate::ids;
use crate::proxy::headers::GatewayHeaders;
use gateway_domain::config::candidates::Prospect;
use gateway_domain::config::plan::{Asks, NoTarget, Plan, RequestAttributes};
use gateway_domain::config::{Breaker, Breakers, Config, Leaf, params, split_model};
use gateway_domain::id::ConfigId;
use gateway_domain::ports::Assignment;
use gateway_domain::record::mask;
use gateway_domain::snapshot::ConfigEntry;
use gateway_domain::{Fault, FaultKind};
use inline::not_json;
use serde::de::IgnoredAny;
use serde_json::Value;
use std::sync::{Arc, LazyLock, OnceLock};
use uuid::Uuid;

/// A request without a config: the object itself is the target, all from headers and model.
static BARE: LazyLock<Arc<Config>> = LazyLock::new(|| Arc::new(Config::bare()));

/// A config chosen for a request.
pub(crate) struct ChosenConfig {
    pub(crate) config: Arc<Config>,
    pub(crate) inline: bool,
    pub(crate) name: Arc<str>,
    pub(crate) saved: Option<Saved>,
}

/// Which saved config, and which of its versions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saved {
    pub(crate) id: ConfigId,
    pub(crate) version: Uuid,
}

/// Which target a request about kept objects has, and how its answer tells of them.
#[derive(Debug, Default)]
pub(crate) struct ObjectRoute {
    /// The one target; `None`: the strategy decides.
    pub(crate) only: Option<Arc<Leaf>>,
    /// Ids in the answer are bound.
    pub(crate) binds: bool,
}

/// The plan of a request and where it came from.
#[derive(Debug)]
pub(crate) struct Routing {
    pub(crate) plan: Plan,
    /// Brought by the request itself: its hosts may not meet a managed credential.
    pub(crate) inline: bool,
    /// Slug of the saved config, `inline`, or empty.
    pub(crate) config: Arc<str>,
    pub(crate) saved: Option<Saved>,
    /// The guardrails that the config names; `None`: none.
    pub(crate) guards: Option<Arc<ConfigGuards>>,
    /// Ids of kept objects in its answers are bound to the target.
    pub(crate) binds: bool,
    /// What conditions read of the body, once one has asked, in the order of the config's `params`.
    read: OnceLock<Vec<Option<Value>>>,
    breakers: Option<Breakers>,
    sticks: Arc<Assignments>,
    /// Assignments that were drawn for the current target and no other node has heard of.
    untold: Option<Box<Untold>>,
}

#[derive(Debug)]
struct Untold {
    drawn: Vec<Assignment>,
    /// How the current target was come to: by the answer of the one before, unless it is the first.
    after: Option<(Plan, u16)>,
}

pub(crate) async fn choose(
    inline: &InlineConfigs,
    tenant: &Tenant,
    headers: &GatewayHeaders,
) -> Result<ChosenConfig, Fault> {
    match tenant.line.as_ref().map(|line| &line.config) {
        None | Some(PinnedConfig::Request) => {}
        Some(PinnedConfig::Saved(pinned)) => return Ok(ChosenConfig::saved(pinned)),
        Some(PinnedConfig::None) => return Ok(ChosenConfig::bare()),
    }
    let defaults = tenant.key.defaults.as_deref();
    if let Some(value) = &headers.config {
        if defaults.is_some_and(|d| !d.allow_config_override) {
            let message = "The key does not allow a config of the request's own";
            return Err(Fault::new(FaultKind::BadConfig, message).on("x-gateway-config"));
        }
        let text = std::str::from_utf8(value.as_bytes()).map_err(|_| not_json())?.trim();
        if text.starts_with('{') {
            let config = inline.find(tenant.workspace.id, text).await?;
            return Ok(ChosenConfig::inline(config));
        }
        return saved(tenant, text).ok_or_else(|| {
            if serde_json::from_str::<IgnoredAny>(text).is_ok() && !mask::is_name(text) {
                let message = "Invalid config passed: a config is a JSON object, or the slug of a saved one";
                return Fault::new(FaultKind::BadConfig, message).on("x-gateway-config");
            }
            // What is no name may be anything, a broken object with a credential in it too.
            let named = if mask::is_name(text) { format!("`{text}` ") } else { String::new() };
            let message = format!("Invalid config passed: no saved config {named}in this workspace, and not JSON");
            Fault::new(FaultKind::BadConfig, message).on("x-gateway-config")
        });
    }
    if let Some(name) = defaults.and_then(|d| d.config.as_deref()) {
        match saved(tenant, name) {
            Some(found) => return Ok(found),
            // What an issuer writes is checked by nobody before.
            None if tenant.key.token.is_some() => {}
            None => {
                let message = format!("The key's default config `{name}` no longer exists");
                return Err(Fault::new(FaultKind::BadConfig, message));
            }
        }
    }
    if let Some(found) = tenant.workspace.default_config() {
        return Ok(ChosenConfig::saved(found));
    }
    Ok(ChosenConfig::bare())
}

fn saved(tenant: &Tenant, name: &str) -> Option<ChosenConfig> {
    tenant.workspace.config(name).map(|found| ChosenConfig::saved(found))
}

impl ChosenConfig {
    pub(crate) fn inline(config: Arc<Config>) -> Self {
        Self { config, inline: true, name: "inline".into(), saved: None }
    }

    pub(crate) fn bare() -> Self {
        Self { config: BARE.clone(), inline: true, name: Arc::default(), saved: None }
    }

    /// Which config it is, in the form that a batch keeps for its lines.
    pub(crate) fn of_batch(&self) -> ConfigOfBatch {
        kept_as(self.saved, &self.name)
    }

    pub(crate) fn saved(found: &ConfigEntry) -> Self {
        let saved = Some(Saved { id: found.id, version: found.version_id });
        Self { config: found.config.clone(), inline: false, name: found.slug.clone(), saved }
    }
}

/// Which config it is, for what outlives the request.
fn kept_as(saved: Option<Saved>, name: &str) -> ConfigOfBatch {
    match saved {
        Some(Saved { id, version }) => {
            ConfigOfBatch::Saved { id: id.0, version, slug: name.to_owned(), document: Value::Null }
        }
        None if name.is_empty() => ConfigOfBatch::None,
        None => ConfigOfBatch::Request,
    }
}

/// Adds what the config says of the request itself, and finds the first target.
pub(crate) async fn plan(
    (states, sticks): (&BreakerStates, &Arc<Assignments>),
    (chosen, objects): (ChosenConfig, ObjectRoute),
    request: &mut Request,
) -> Result<Routing, Fault> {
    if chosen.saved.is_some() && request.is_held_to_config() {
        refuse_overrides(request)?;
    }
    let breakers = states.of(&chosen, request);
    let ChosenConfig { config, inline, name, saved } = chosen;
    for (key, value) in &config.metadata {
        if !request.caller.metadata.iter().any(|(have, _)| have == key) {
            request.caller.metadata.push((key.clone(), value.clone()));
        }
    }
    request.ask.headers.integrated_models |= config.fetch_integrated_models;
    let ObjectRoute { only, binds } = objects;
    let view = sticks.view();
    let read = OnceLock::new();
    let asked = RoutingAttributes { request, config: &config, read: &read, breakers: breakers.as_deref() };
    let plan = match only {
        Some(leaf) => Plan::at(config.clone(), leaf),
        None => asked.choose(&view, |asks| Plan::begin(config.clone(), asks)).map_err(no_target)?,
    };
    let sticks = sticks.clone();
    let guards = None;
    let mut routing =
        Routing { plan, inline, config: name, saved, guards, binds, read, breakers, sticks, untold: None };
    routing.note(view.drawn(), None);
    routing.agree(request).await;
    Ok(routing)
}

/// A key that is held to its config lets a request say nothing that a config says, but for fields of the body.
fn refuse_overrides(request: &Request) -> Result<(), Fault> {
    let headers = &request.ask.headers;
    let slug = request.ask.content.model.as_deref().is_some_and(|model| split_model(model).is_some());
    let said = [
        (headers.provider.is_some(), "x-gateway-provider"),
        (headers.virtual_key.is_some(), "x-gateway-virtual-key"),
        (headers.custom_host.is_some(), "x-gateway-custom-host"),
        (headers.forward_headers.is_some(), "x-gateway-forward-headers"),
    ];
    let said = said.iter().find_map(|(given, name)| given.then_some(*name));
    let said = said.or_else(|| headers.settings.iter().next().map(|(name, _)| name));
    let refused = |why: String, field: &str| Err(Fault::new(FaultKind::BadConfig, why).on(field));
    match said {
        Some(name) => refused(format!("The key is held to its config: {name} cannot be given beside it"), name),
        None if slug => {
            refused("The key is held to its config: the model must not name a provider".to_owned(), "model")
        }
        None => Ok(()),
    }
}

fn no_target(why: NoTarget) -> Fault {
    let message = match why {
        NoTarget::NoMatch(path) => {
            format!("Invalid config passed: no condition of {path} matches the request, and it has no default")
        }
        NoTarget::TooMuchWork(path) => format!(
            "Invalid config passed: the patterns in conditions of {path} would take too long for this request: \
             make them shorter or fewer, or let them read shorter values"
        ),
    };
    Fault::new(FaultKind::BadConfig, message).on("conditions")
}

impl Routing {
    /// The current target and no other, for what comes of a request beside its answer.
    pub(crate) fn here(&self) -> Self {
        Self {
            plan: Plan::at(self.plan.config().clone(), self.plan.leaf().clone()),
            inline: self.inline,
            config: self.config.clone(),
            saved: self.saved,
            guards: self.guards.clone(),
            binds: self.binds,
            read: OnceLock::new(),
            breakers: None,
            sticks: self.sticks.clone(),
            untold: None,
        }
    }

    /// The target at this place of a config and no other, for what began with it elsewhere; `None`: there is none.
    pub(crate) fn resumed(chosen: ChosenConfig, target: &str, sticks: &Arc<Assignments>) -> Option<Self> {
        let ChosenConfig { config, inline, name, saved } = chosen;
        let leaf = config.leaves().find(|leaf| &*leaf.path == target)?.clone();
        let (plan, sticks, read) = (Plan::at(config, leaf), sticks.clone(), OnceLock::new());
        let (guards, binds, breakers, untold) = (None, false, None, None);
        Some(Self { plan, inline, config: name, saved, guards, binds, read, breakers, sticks, untold })
    }

    /// Which config it is, in the form that is kept for what goes on without this request.
    pub(crate) fn of_batch(&self) -> ConfigOfBatch {
        kept_as(self.saved, &self.config)
    }

    /// All targets that the request may come to; a named object leads to one alone.
    pub(crate) fn prospects(&self, request: &Request) -> Result<Vec<Prospect>, Fault> {
        if request.ask.pin.is_some() {
            let why = vec!["the object that the request names is kept there".to_owned()];
            return Ok(vec![Prospect { leaf: self.plan.leaf().clone(), chance: 1.0, later: false, why }]);
        }
        let (config, view) = (self.plan.config(), self.sticks.view());
        let asked = RoutingAttributes { request, config, read: &self.read, breakers: self.breakers.as_deref() };
        asked.choose(&view, |asks| config.prospects(asks)).map_err(no_target)
    }

    /// Reads what conditions may ask of the body, before targets change it.
    pub(crate) fn read_params(&self, request: &Request) {
        let config = self.plan.config();
        if let Some(first) = config.params.first() {
            RoutingAttributes { request, config, read: &self.read, breakers: None }.param(first);
        }
    }

    /// Books what the current target answered with its circuit breaker.
    pub(crate) fn record(&self, request: &Request, status: u16) {
        self.plan.record(status, request.now().micros() / 1000, self.breakers.as_deref().unwrap_or_default());
    }

    /// Moves to the target that comes after an answer of `status`, if one does. Before it is used,
    /// [`Self::agree`] is to be called.
    pub(crate) fn next(&mut self, request: &Request, status: u16, exception: bool) -> bool {
        let config = self.plan.config().clone();
        let before = self.sticks.are_shared().then(|| self.plan.clone());
        let (plan, view) = (&mut self.plan, self.sticks.view());
        let asked =
            RoutingAttributes { request, config: &config, read: &self.read, breakers: self.breakers.as_deref() };
        let moved = asked.choose(&view, |asks| plan.next(status, exception, asks));
        let drawn = view.drawn();
        self.note(drawn, before.map(|plan| (plan, status)));
        moved
    }

    fn note(&mut self, drawn: Vec<Assignment>, after: Option<(Plan, u16)>) {
        self.untold = (self.sticks.are_shared() && !drawn.is_empty()).then(|| Box::new(Untold { drawn, after }));
    }

    /// Comes to the target that the other nodes come to, where it depends on an assignment that was drawn just now.
    pub(crate) async fn agree(&mut self, request: &Request) {
        let mut told: Vec<u128> = Vec::new();
        while let Some(mut untold) = self.untold.take() {
            // One that was told of and drawn again leads to a target that is ill: there is nothing to agree on.
            untold.drawn.retain(|drawn| !told.contains(&drawn.key));
            if untold.drawn.is_empty() {
                return;
            }
            told.extend(untold.drawn.iter().map(|drawn| drawn.key));
            let (now_ms, waited) = (request.now().micros() / 1000, request.caller.waited.so_far());
            if !request.caller.waited.during(self.sticks.agree(&untold.drawn, now_ms, waited)).await {
                return;
            }
            self.again(request, untold.after);
        }
    }

    /// Makes the last step once more, by what is known now.
    fn again(&mut self, request: &Request, after: Option<(Plan, u16)>) {
        if let Some((before, status)) = after {
            self.plan = before;
            // It led somewhere before, by the same rules.
            self.next(request, status, false);
            return;
        }
        let (config, view) = (self.plan.config().clone(), self.sticks.view());
        let asked =
            RoutingAttributes { request, config: &config, read: &self.read, breakers: self.breakers.as_deref() };
        let again = asked.choose(&view, |asks| Plan::begin(config.clone(), asks));
        let drawn = view.drawn();
        self.note(drawn, None);
        if let Ok(plan) = again {
            self.plan = plan;
        }
    }
}

/// A request as conditions see it. The body is read when the first of them asks, and then only for the keys that
/// any of them names.
struct RoutingAttributes<'a> {
    request: &'a Request,
    config: &'a Config,
    read: &'a OnceLock<Vec<Option<Value>>>,
    breakers: Option<&'a [Arc<Breaker>]>,
}

impl RoutingAttributes<'_> {
    /// Hands on all that a choice for this request goes by.
    fn choose<T>(&self, sticks: &View<'_>, then: impl FnOnce(&mut Asks<'_>) -> T) -> T {
        let now_ms = self.request.now().micros() / 1000;
        let tenant = self.request.caller.tenant.workspace.id.0;
        then(&mut Asks {
            dice: &mut ids::dice,
            now_ms,
            look: self,
            sticks,
            breakers: self.breakers.unwrap_or_default(),
            tenant: tenant.as_bytes(),
        })
    }
}

/// A field of a form as JSON would have it: text, unless it is a number or a boolean.
fn field(text: &str) -> Value {
    let scalar = serde_json::from_str::<Value>(text).ok().filter(|value| value.is_number() || value.is_boolean());
    scalar.unwrap_or_else(|| text.into())
}

impl RequestAttributes for RoutingAttributes<'_> {
    fn metadata(&self, key: &str) -> Option<&str> {
        self.request.caller.metadata.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    fn param(&self, key: &str) -> Option<&Value> {
        let place = self.config.params.iter().position(|name| **name == *key)?;
        let (content, names) = (&self.request.ask.content, &self.config.params);
        let read = self.read.get_or_init(|| match &content.form {
            Some(form) => names.iter().map(|name| form.text(&content.bytes, name).map(field)).collect(),
            None => params::read(&content.bytes, names),
        });
        read.get(place)?.as_ref()
    }

    fn pathname(&self) -> &str {
        &self.request.ask.route.path
    }
}
