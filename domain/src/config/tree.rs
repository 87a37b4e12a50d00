//! A compiled config: the tree of its targets, each with all that it inherited. Knows neither the document that it was
//! read from nor how a target is chosen.

use super::breaker::BreakerRules;
use super::hooks::{HookSet, LeafHooks};
use super::params::Path;
use super::query::{Query, QueryKey};
use crate::cloud::CloudSettings;
use crate::egress::BaseUrl;
use crate::secret::Secret;
use std::sync::Arc;

/// A compiled config: a tree, laid out parent before child. The first node is the root.
#[derive(Debug)]
pub struct Config {
    pub(super) nodes: Box<[ConfigNode]>,
    /// Metadata that the config adds to the request's.
    pub metadata: Vec<(String, String)>,
    pub fetch_integrated_models: bool,
    /// Top-level keys of the body that conditions or sticky fields ask for; nothing else of it is read.
    pub params: Box<[Box<str>]>,
    /// Some target sets the model, so that it is not known before the target is.
    pub sets_model: bool,
    /// Guardrails as they were written; each target knows its own by their places.
    pub hooks: Box<[HookSet]>,
    pub(super) guarded: Box<[Guarded]>,
    pub(super) memory: usize,
    /// A digest of the document, so that what is kept about one state of a config never counts for another.
    pub(super) fingerprint: [u8; 16],
}

/// One object of the tree. `path` is what `x-gateway-last-used-option-index` says: `config.targets[1]`.
#[derive(Debug)]
pub(super) struct ConfigNode {
    pub(super) path: Arc<str>,
    pub(super) weight: f64,
    pub(super) parent: usize,
    /// Index among the parent's targets.
    pub(super) place: usize,
    /// This target's own list of statuses that move a fallback on, where the strategy has none.
    pub(super) on: Option<Arc<[u16]>>,
    pub(super) kind: NodeKind,
}

#[derive(Debug)]
pub(super) enum NodeKind {
    Leaf(Arc<Leaf>),
    Branch { mode: Mode, targets: Box<[usize]> },
}

#[derive(Debug)]
pub(super) enum Mode {
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
pub(super) struct Sticky {
    pub(super) fields: Box<[QueryKey]>,
    pub(super) ttl_ms: i64,
}

/// A target with all that it inherited.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub path: Arc<str>,
    pub provider: ProviderRef,
    /// The saved prompt that says what is asked there, as the config names it.
    pub prompt: Option<Arc<str>>,
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
    /// Settings of the cloud that the provider belongs to.
    pub settings: Arc<CloudSettings>,
    /// `strict_open_ai_compliance`, where the config says it; else what comes back is held to OpenAI's API.
    pub strict: Option<bool>,
    pub cache: Option<Cache>,
    pub hooks: LeafHooks,
    pub(super) breaker: Option<usize>,
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

/// The statuses that a retry acts on when the config lists none.
pub static RETRY_STATUSES: &[u16] = &[429, 500, 502, 503, 504, 529];

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 0, statuses: Arc::from(RETRY_STATUSES), use_retry_after: false, jitter: false }
    }
}

/// A target of a config that has a circuit breaker. The config says by which rules; whoever serves keeps the breaker.
#[derive(Debug)]
pub struct Guarded {
    pub path: Arc<str>,
    pub rules: Arc<BreakerRules>,
    /// Who answers there and by which rules it is judged: a target that stays the same through an edit of its config
    /// keeps its breaker, wherever it moves to.
    pub(super) target: [u8; 16],
}

impl Config {
    /// What a request without a config goes by: one target, all from headers and model.
    pub fn bare() -> Self {
        let leaf = Leaf {
            path: "config".into(),
            provider: ProviderRef::FromRequest,
            prompt: None,
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
        let root = ConfigNode { path: "config".into(), weight: 1.0, parent: 0, place: 0, on: None, kind };
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

    /// A digest of the document: it differs between any two configs that are not the same text.
    pub const fn fingerprint(&self) -> [u8; 16] {
        self.fingerprint
    }
}
