//! The config object (`docs/configs.md`), compiled once into an immutable template: inheritance is
//! resolved, casings are one, names are places, secrets are opened. Per request only choosing is left, see `plan`.
//! A key that the gateway does not yet act on is a problem, never ignored.

pub mod breaker;
mod clouds;
mod cost;
mod fields;
pub mod hooks;
mod identity;
pub mod params;
pub mod plan;
mod query;
mod read;
mod strategy;

pub use breaker::{Breaker, BreakerSet, Breakers, Guarded};
pub use cost::INLINE_TEXT;
pub use fields::keys;
pub use query::{Effort, Query};

use crate::cloud::{self, Settings};
use crate::egress::{BaseUrl, Trusted};
use crate::secret::Secret;
use hooks::{HookKey, HookSet, LeafHooks};
use params::Path;
use serde_json::Value;
use std::sync::Arc;

/// A compiled config: a tree, laid out parent before child. The first node is the root.
#[derive(Debug)]
pub struct Config {
    nodes: Box<[Node]>,
    /// Metadata that the config adds to the request's.
    pub metadata: Vec<(String, String)>,
    pub fetch_integrated_models: bool,
    /// Top-level keys of the body that conditions or sticky fields ask for; nothing else of it is read.
    pub params: Box<[Box<str>]>,
    /// Some target sets the model, so that it is not known before the target is.
    pub sets_model: bool,
    /// Guardrails as they were written; each target knows its own by their places.
    pub hooks: Box<[HookSet]>,
    guarded: Box<[Guarded]>,
    memory: usize,
    /// Of the document, so that what is kept about one state of a config never counts for another.
    fingerprint: [u8; 16],
}

/// One object of the tree. `path` is what `x-gateway-last-used-option-index` says: `config.targets[1]`.
#[derive(Debug)]
struct Node {
    path: Arc<str>,
    weight: f64,
    parent: usize,
    /// Index among the parent's targets.
    place: usize,
    /// This target's own list of statuses that move a fallback on, where the strategy has none.
    on: Option<Arc<[u16]>>,
    kind: NodeKind,
}

#[derive(Debug)]
enum NodeKind {
    Leaf(Arc<Leaf>),
    Branch { mode: Mode, targets: Box<[usize]> },
}

#[derive(Debug)]
enum Mode {
    Single,
    /// `None`: move on at any status outside 2xx. A list: only at those.
    Fallback(Option<Arc<[u16]>>),
    LoadBalance {
        total: f64,
        sticky: Option<Sticky>,
    },
    /// Conditions with the place of their target, and the place of the default.
    Conditional {
        conditions: Box<[(Query, usize)]>,
        default: Option<usize>,
    },
}

impl Mode {
    const fn name(&self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Fallback(_) => "fallback",
            Self::LoadBalance { .. } => "loadbalance",
            Self::Conditional { .. } => "conditional",
        }
    }
}

/// Requests whose fields agree go to one target for `ttl_ms`.
#[derive(Debug)]
struct Sticky {
    fields: Box<[query::Key]>,
    ttl_ms: i64,
}

/// A target with all that it inherited.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub path: Arc<str>,
    pub provider: ProviderRef,
    pub retry: Retry,
    pub timeout_ms: Option<u64>,
    /// Top-level keys to add to a body that lacks them, values as raw JSON.
    pub defaults: Arc<[(String, String)]>,
    /// Top-level keys to set in the body, values as raw JSON.
    pub overrides: Arc<[(String, String)]>,
    /// What to take out of the body, after both.
    pub drops: Arc<[Path]>,
    /// `override_params.model`, when it is a string: decides provider and model before the body does.
    pub model: Option<Arc<str>>,
    /// `default_params.model`: where the body names none.
    pub default_model: Option<Arc<str>>,
    pub custom_host: Option<Arc<BaseUrl>>,
    pub forward_headers: Arc<[String]>,
    /// Provider settings of the config, by the header that carries them; a header of the request wins.
    pub provider_headers: Arc<[(&'static str, http::HeaderValue)]>,
    /// Of the cloud that the provider belongs to.
    pub settings: Arc<Settings>,
    /// `strict_open_ai_compliance`, where the config says it; else what comes back is held to OpenAI's API.
    pub strict: Option<bool>,
    pub cache: Option<Cache>,
    pub hooks: LeafHooks,
    breaker: Option<usize>,
}

/// `cache` of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    pub mode: CacheMode,
    /// Seconds, where the config says so.
    pub max_age: Option<u32>,
}

impl Cache {
    /// Seven days.
    pub const DEFAULT_AGE: u32 = 604_800;

    /// Seconds that an answer is kept. What the organisation says counts where the config says nothing, and is the
    /// most that it may say.
    pub fn keep(&self, organisation: Option<u32>) -> u32 {
        let age = self.max_age.or(organisation).unwrap_or(Self::DEFAULT_AGE);
        organisation.map_or(age, |most| age.min(most))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheMode {
    Simple,
    Semantic,
}

/// Who answers for this target.
#[derive(Clone, Debug)]
pub enum ProviderRef {
    /// `@slug` or `virtual_key`: looked up in the caller's workspace.
    Managed(Arc<str>),
    /// A provider family, with the credential of this target or else of the request.
    Family { slug: Arc<str>, key: Option<Secret<String>> },
    /// Nothing named: the provider header or the body's `@slug/model` decides.
    FromRequest,
    /// `passthrough`: as above, but only a managed provider will do.
    Passthrough,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// 0 is no retry; at most 5.
    pub attempts: u32,
    pub statuses: Arc<[u16]>,
    pub use_retry_after: bool,
    /// Waits of the gateway's own are shortened by up to half, at random.
    pub jitter: bool,
}

/// Without a list of its own, what a retry acts on.
pub static RETRY_STATUSES: &[u16] = &[429, 500, 502, 503, 504, 529];

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 0, statuses: Arc::from(RETRY_STATUSES), use_retry_after: false, jitter: false }
    }
}

/// One broken rule: `path` as keys and indices, `message` the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub path: String,
    pub message: String,
}

impl Problem {
    /// As E2 lists it.
    pub fn line(&self) -> String {
        format!("path: {}, message: {}", self.path, self.message)
    }
}

/// What compilation needs of its surroundings.
pub struct Context<'a> {
    pub known_provider: &'a dyn Fn(&str) -> bool,
    pub trusted: &'a Trusted,
    /// Opens a stored credential; for inline configs, hands the text back.
    pub open: &'a dyn Fn(&str) -> Option<Secret<String>>,
    /// Whether it is a saved config: its custom host may meet a managed credential, and its bounds are wider.
    pub saved: bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("saved", &self.saved).finish_non_exhaustive()
    }
}

/// Checks and compiles a config. Every problem is listed, not only the first, up to a bound.
pub fn compile(config: &Value, context: &Context<'_>) -> Result<Config, Vec<Problem>> {
    let mut compiler = fields::Compiler::new(context);
    let compiled = compiler.compile(config);
    let problems = compiler.verdict();
    if problems.is_empty() { Ok(compiled) } else { Err(problems) }
}

impl Config {
    /// What a request without a config goes by: one target, all from headers and model.
    pub fn bare() -> Self {
        let leaf = Leaf {
            path: "config".into(),
            provider: ProviderRef::FromRequest,
            retry: Retry::default(),
            timeout_ms: None,
            defaults: Arc::default(),
            overrides: Arc::default(),
            drops: Arc::default(),
            model: None,
            default_model: None,
            custom_host: None,
            forward_headers: Arc::default(),
            provider_headers: Arc::default(),
            settings: Arc::default(),
            strict: None,
            cache: None,
            hooks: LeafHooks::default(),
            breaker: None,
        };
        let kind = NodeKind::Leaf(Arc::new(leaf));
        let root = Node { path: "config".into(), weight: 1.0, parent: 0, place: 0, on: None, kind };
        Self {
            nodes: Box::new([root]),
            metadata: Vec::new(),
            fetch_integrated_models: false,
            params: Box::default(),
            sets_model: false,
            hooks: Box::default(),
            guarded: Box::default(),
            memory: 0,
            fingerprint: [0; 16],
        }
    }

    /// About how many bytes it takes, its patterns as they really are.
    pub const fn memory(&self) -> usize {
        self.memory
    }

    /// Every target that may answer, in the order of the document.
    pub fn leaves(&self) -> impl Iterator<Item = &Arc<Leaf>> {
        self.nodes.iter().filter_map(|n| match &n.kind {
            NodeKind::Leaf(leaf) => Some(leaf),
            NodeKind::Branch { .. } => None,
        })
    }

    /// Mode of the root strategy; `single` for a bare target.
    pub fn strategy(&self) -> &'static str {
        match self.nodes.first().map(|n| &n.kind) {
            Some(NodeKind::Branch { mode, .. }) => mode.name(),
            _ => "single",
        }
    }

    /// The targets that have a circuit breaker.
    pub const fn guarded(&self) -> &[Guarded] {
        &self.guarded
    }

    /// Of the document: differs between any two configs that are not the same text.
    pub const fn fingerprint(&self) -> [u8; 16] {
        self.fingerprint
    }
}

/// Visits each credential (`api_key` of any target, secret settings of a cloud, what checks of guardrails sign in with) in
/// a config document, to seal, open or mask it. A credential file that is given as an object becomes its text.
pub fn visit_secrets(config: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    let Value::Object(map) = config else { return };
    for (key, value) in map.iter_mut() {
        let key = read::canonical(key);
        let secret = key == "api_key" || cloud::setting(&key).is_some_and(|s| s.secret);
        if secret && value.is_object() {
            *value = Value::String(value.to_string());
        }
        match value {
            Value::String(text) if secret => visit(text),
            Value::Array(_) if HookKey::parse(&key).is_some() => hooks::visit_hook_secrets(value, visit),
            Value::Array(targets) if key == "targets" => targets.iter_mut().for_each(|t| visit_secrets(t, visit)),
            _ => {}
        }
    }
}

/// A managed provider that a config names, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub slug: Arc<str>,
    /// Path of a [`Problem`]: `targets,0,provider`.
    pub path: String,
}

/// Every managed provider that a config names, for the check of dangling references at save.
pub fn managed_slugs(config: &Config) -> Vec<Named> {
    let mut out = Vec::new();
    for leaf in config.leaves() {
        let mut name = |slug: Arc<str>, key: &str| {
            let place: Vec<&str> = leaf.path.split(['.', '[', ']']).filter(|s| !s.is_empty()).skip(1).collect();
            out.push(Named { slug, path: [&place[..], &[key]].concat().join(",") });
        };
        if let ProviderRef::Managed(slug) = &leaf.provider {
            name(slug.clone(), "provider");
        }
        for (model, key) in [(&leaf.model, "override_params,model"), (&leaf.default_model, "default_params,model")] {
            if let Some((slug, _)) = model.as_deref().and_then(split_model) {
                name(slug.into(), key);
            }
        }
    }
    out
}

/// `@slug/model` taken apart; the model may itself hold slashes.
pub fn split_model(model: &str) -> Option<(&str, &str)> {
    model.strip_prefix('@')?.split_once('/').filter(|(slug, rest)| !slug.is_empty() && !rest.is_empty())
}

#[cfg(test)]
mod tests;
