//! The config object (`docs/configs.md`), compiled once into an immutable template: inheritance is
//! resolved, casings are one, names are places, secrets are opened. Per request only choosing is left, see `plan`.
//! A key that the gateway does not yet act on is a problem, never ignored.

pub mod breaker;
mod breakers;
pub mod candidates;
mod clouds;
mod compiler;
mod cost;
mod fields;
pub mod hooks;
mod identity;
pub mod params;
mod place;
pub mod plan;
mod query;
mod request_attributes;
mod strategy;
mod tree;
mod typed_fields;

pub use crate::model_name::split_model;
pub use breaker::Breaker;
pub use breakers::{BreakerSet, Breakers};
pub use compiler::{ConfigProblem, Context};
pub use cost::INLINE_TEXT;
pub use fields::keys;
pub use query::{Effort, Query};
pub use tree::{Cache, CacheMode, Config, Guarded, Leaf, ProviderRef, RETRY_STATUSES, Retry};

use crate::cloud;
use compiler::Compiler;
use hooks::HookKey;
use place::canonical;
use serde_json::Value;
use std::sync::Arc;

/// Checks and compiles a config. Every problem is listed, not only the first, up to a bound.
pub fn compile(config: &Value, context: &Context<'_>) -> Result<Config, Vec<ConfigProblem>> {
    let mut compiler = Compiler::new(context);
    let compiled = compiler.compile(config);
    let problems = compiler.verdict();
    if problems.is_empty() { Ok(compiled) } else { Err(problems) }
}

/// Visits each credential (`api_key` of any target, secret settings of a cloud, what checks of guardrails sign in with)
/// in a config document, to seal, open or mask it. A credential file that is given as an object becomes its text.
pub fn visit_secrets(config: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    visit_called_secrets(config, &mut |secret, _| visit(secret));
}

/// Visits the credentials that [`visit_secrets`] does, each with the addresses that it is sent to, as far as the check
/// that it belongs to says so.
pub fn visit_called_secrets(config: &mut Value, visit: &mut dyn FnMut(&mut String, &[String])) {
    let Value::Object(map) = config else { return };
    for (key, value) in map.iter_mut() {
        let key = canonical(key);
        let secret = key == "api_key" || cloud::setting(&key).is_some_and(|s| s.secret);
        if secret && value.is_object() {
            *value = Value::String(value.to_string());
        }
        match value {
            Value::String(text) if secret => visit(text, &[]),
            Value::Array(_) if HookKey::parse(&key).is_some() => hooks::visit_hook_secrets(value, visit),
            Value::Array(targets) if key == "targets" => {
                targets.iter_mut().for_each(|t| visit_called_secrets(t, visit))
            }
            _ => {}
        }
    }
}

/// Visits what each target says of a saved prompt, to put another name for it there.
pub fn visit_prompts(config: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    let Value::Object(map) = config else { return };
    for (key, value) in map.iter_mut() {
        match (&*canonical(key), value) {
            ("prompt_id", Value::String(name)) => visit(name),
            ("targets", Value::Array(targets)) => targets.iter_mut().for_each(|target| visit_prompts(target, visit)),
            _ => {}
        }
    }
}

/// A managed provider or a saved prompt that a config names, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigReference {
    pub slug: Arc<str>,
    /// Path of a [`ConfigProblem`]: `targets,0,provider`.
    pub path: String,
}

/// Every managed provider that a config names, for the check of dangling references at save.
pub fn managed_slugs(config: &Config) -> Vec<ConfigReference> {
    let mut out = Vec::new();
    for leaf in config.leaves() {
        let mut name = |slug: Arc<str>, key: &str| out.push(ConfigReference::at(leaf, slug, key));
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

/// Every saved prompt that a config names, with the version that it asks for.
pub fn prompt_names(config: &Config) -> Vec<ConfigReference> {
    config.leaves().filter_map(|leaf| Some(ConfigReference::at(leaf, leaf.prompt.clone()?, "prompt_id"))).collect()
}

impl ConfigReference {
    fn at(leaf: &Leaf, slug: Arc<str>, key: &str) -> Self {
        let place: Vec<&str> = leaf.path.split(['.', '[', ']']).filter(|s| !s.is_empty()).skip(1).collect();
        Self { slug, path: [&place[..], &[key]].concat().join(",") }
    }
}

#[cfg(test)]
mod tests;
