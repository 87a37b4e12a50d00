//! The config object (`spec/config-object.md`), compiled once into an immutable template: inheritance is
//! resolved, casings are one, secrets are opened. Per request only choosing is left, see `plan`.
//! A key that the gateway does not yet act on is a problem, never ignored.

mod fields;
pub mod plan;

use crate::egress::{BaseUrl, Trusted};
use crate::secret::Secret;
use serde_json::Value;
use std::sync::Arc;

/// A compiled config.
#[derive(Debug)]
pub struct Config {
    pub root: Node,
    /// Metadata that the config adds to the request's.
    pub metadata: Vec<(String, String)>,
    pub fetch_integrated_models: bool,
}

/// One object of the tree. `path` is what `x-gateway-last-used-option-index` says: `config.targets[1]`.
#[derive(Debug)]
pub struct Node {
    pub path: Arc<str>,
    pub weight: f64,
    pub kind: NodeKind,
}

#[derive(Debug)]
pub enum NodeKind {
    Leaf(Arc<Leaf>),
    Branch { mode: Mode, targets: Vec<Node> },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    Single,
    /// `None`: move on at any status outside 2xx. A list: only at those.
    Fallback(Option<Arc<[u16]>>),
    LoadBalance {
        total: f64,
    },
}

impl Mode {
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Fallback(_) => "fallback",
            Self::LoadBalance { .. } => "loadbalance",
        }
    }
}

/// A target with all that it inherited.
#[derive(Clone, Debug)]
pub struct Leaf {
    pub path: Arc<str>,
    pub provider: ProviderRef,
    pub retry: Retry,
    pub timeout_ms: Option<u64>,
    /// Top-level keys to set in the body, values as raw JSON.
    pub overrides: Arc<[(String, String)]>,
    /// `override_params.model`, when it is a string: decides provider and model before the body does.
    pub model: Option<Arc<str>>,
    pub custom_host: Option<Arc<BaseUrl>>,
    pub forward_headers: Arc<[String]>,
    pub strict: bool,
    pub cache: Option<Cache>,
}

/// `cache` of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    pub mode: CacheMode,
    /// Seconds.
    pub max_age: u32,
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
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// 0 is no retry; at most 5.
    pub attempts: u32,
    pub statuses: Arc<[u16]>,
    pub use_retry_after: bool,
}

/// Without a list of its own, what a retry acts on.
pub static RETRY_STATUSES: &[u16] = &[429, 500, 502, 503, 504, 529];

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 0, statuses: Arc::from(RETRY_STATUSES), use_retry_after: false }
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
    /// Credentials of the same config, so that a custom host is never met by a managed one (invariant 6).
    pub saved: bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("saved", &self.saved).finish_non_exhaustive()
    }
}

/// Checks and compiles a config. Every problem is listed, not only the first.
pub fn compile(config: &Value, context: &Context<'_>) -> Result<Config, Vec<Problem>> {
    let mut compiler = fields::Compiler::new(context);
    let compiled = compiler.compile(config);
    if compiler.problems.is_empty() { Ok(compiled) } else { Err(compiler.problems) }
}

/// Visits each credential (`api_key` of any target) in a config document, to seal, open or mask it.
pub fn visit_secrets(config: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    let Value::Object(map) = config else { return };
    for (key, value) in map.iter_mut() {
        match (fields::canonical(key).as_str(), value) {
            ("api_key", Value::String(secret)) => visit(secret),
            ("targets", Value::Array(targets)) => targets.iter_mut().for_each(|t| visit_secrets(t, visit)),
            _ => {}
        }
    }
}

/// Every managed provider that a config names, for the check of dangling references at save.
pub fn managed_slugs(config: &Config) -> Vec<Arc<str>> {
    fn walk(node: &Node, out: &mut Vec<Arc<str>>) {
        match &node.kind {
            NodeKind::Leaf(leaf) => {
                if let ProviderRef::Managed(slug) = &leaf.provider {
                    out.push(slug.clone());
                }
                if let Some((slug, _)) = leaf.model.as_deref().and_then(split_model) {
                    out.push(slug.into());
                }
            }
            NodeKind::Branch { targets, .. } => targets.iter().for_each(|t| walk(t, out)),
        }
    }
    let mut out = Vec::new();
    walk(&config.root, &mut out);
    out
}

/// `@slug/model` taken apart; the model may itself hold slashes.
pub fn split_model(model: &str) -> Option<(&str, &str)> {
    model.strip_prefix('@')?.split_once('/').filter(|(slug, rest)| !slug.is_empty() && !rest.is_empty())
}

#[cfg(test)]
mod tests;
