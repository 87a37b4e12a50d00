//! Field by field: reads a JSON config into the compiled tree, collecting every problem with its path.

use super::breaker::{Breaker, BreakerRules};
use super::compiler::Compiler;
use super::cost::{Cost, FORWARDED, PARAMS, READ, quoted};
use super::hooks::{HookKey, LeafHooks};
use super::identity::identity;
use super::params::{self, Path};
use super::place::At;
use super::strategy::StrategyMode;
use super::tree::{
    Cache, CacheMode, Config, ConfigNode, Guarded, Leaf, Mode, NodeKind, ProviderRef, RETRY_STATUSES, Retry,
};
use super::typed_fields::Fields;
use crate::cloud;
use crate::egress::{BaseUrl, check_custom_host};
use crate::metadata;
use crate::resource::prompt::split_version;
use http::HeaderValue;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// `MAX_ROOT_CONFIG_TARGETS`, `MAX_CONDITIONAL_ROOT_CONFIG_TARGETS` and `MAX_NESTED_CONFIG_TARGETS`.
const MAX_ROOT_TARGETS: usize = 100;
const MAX_CONDITIONAL_TARGETS: usize = 1000;
const MAX_NESTED_TARGETS: usize = 50;
/// The contract sets none; a bound keeps what walks the tree from running out of stack.
const MAX_DEPTH: usize = 32;
const MAX_ATTEMPTS: u64 = 5;
const MAX_DROPS: usize = 100;
/// A slug and a label, with room.
const PROMPT_NAME: usize = 512;
/// Seconds: documented least and most of `cache.max_age`.
const CACHE_AGE: (u64, u64) = (60, 7_776_000);

/// Where a key may stand, or why it may not.
enum FieldPlacement {
    Anywhere,
    Root,
}

static KEYS: &[(&str, FieldPlacement)] = &[
    ("strategy", FieldPlacement::Anywhere),
    ("targets", FieldPlacement::Anywhere),
    ("name", FieldPlacement::Anywhere),
    ("provider", FieldPlacement::Anywhere),
    ("virtual_key", FieldPlacement::Anywhere),
    ("api_key", FieldPlacement::Anywhere),
    ("passthrough", FieldPlacement::Anywhere),
    ("weight", FieldPlacement::Anywhere),
    ("on_status_codes", FieldPlacement::Anywhere),
    ("retry", FieldPlacement::Anywhere),
    ("cache", FieldPlacement::Anywhere),
    ("request_timeout", FieldPlacement::Anywhere),
    ("default_params", FieldPlacement::Anywhere),
    ("override_params", FieldPlacement::Anywhere),
    ("drop_params", FieldPlacement::Anywhere),
    ("forward_headers", FieldPlacement::Anywhere),
    ("custom_host", FieldPlacement::Anywhere),
    ("strict_open_ai_compliance", FieldPlacement::Anywhere),
    ("cb_config", FieldPlacement::Anywhere),
    ("openai_organization", FieldPlacement::Anywhere),
    ("openai_project", FieldPlacement::Anywhere),
    ("openai_beta", FieldPlacement::Anywhere),
    ("anthropic_beta", FieldPlacement::Anywhere),
    ("anthropic_version", FieldPlacement::Anywhere),
    ("metadata", FieldPlacement::Root),
    ("fetch_integrated_models", FieldPlacement::Root),
    ("options", FieldPlacement::Root),
    ("prompt_id", FieldPlacement::Anywhere),
    ("input_guardrails", FieldPlacement::Anywhere),
    ("output_guardrails", FieldPlacement::Anywhere),
    ("before_request_hooks", FieldPlacement::Anywhere),
    ("after_request_hooks", FieldPlacement::Anywhere),
    ("input_mutators", FieldPlacement::Anywhere),
    ("output_mutators", FieldPlacement::Anywhere),
];

const RETRY_KEYS: &[&str] =
    &["attempts", "on_status_codes", "use_retry_after_header", "use_retry_after_headers", "jitter"];
const CACHE_KEYS: &[&str] = &["mode", "max_age"];

/// Every key that a config may hold, or is refused for by name, as `retry.attempts`. Settings of clouds are told by
/// [`crate::cloud`].
pub fn keys() -> Vec<String> {
    let mut out: Vec<String> = KEYS.iter().map(|(key, _)| (*key).to_owned()).collect();
    for (under, keys) in [("retry", RETRY_KEYS), ("cache", CACHE_KEYS)].into_iter().chain(super::strategy::keys()) {
        out.extend(keys.iter().map(|key| format!("{under}.{key}")));
    }
    out
}

/// Settings of providers that cannot be given in a config yet, by the start of their names.
static CLOUD: &[&str] = &["azure_", "aws_", "vertex_", "resource_name", "deployment_id", "api_version"];

/// Provider settings that ride on headers.
static HEADERS: &[(&str, &str)] = &[
    ("openai_organization", "openai-organization"),
    ("openai_project", "openai-project"),
    ("openai_beta", "openai-beta"),
    ("anthropic_beta", "anthropic-beta"),
    ("anthropic_version", "anthropic-version"),
];

/// What flows from parent to child.
#[derive(Clone, Default)]
struct Inherited {
    retry: Retry,
    timeout_ms: Option<u64>,
    /// Shared with every target below that adds nothing to them.
    defaults: Arc<[(String, String)]>,
    overrides: Arc<[(String, String)]>,
    drops: Arc<[Path]>,
    custom_host: Option<Arc<BaseUrl>>,
    forward_headers: Arc<[String]>,
    strict: Option<bool>,
    cache: Option<Cache>,
    hooks: LeafHooks,
    breaker: Option<Arc<BreakerRules>>,
}

/// The place of a node in the tree.
#[derive(Clone, Copy)]
struct Spot<'p> {
    path: &'p str,
    parent: usize,
    place: usize,
    depth: usize,
    /// Directly below a fallback.
    falls_back: bool,
    /// The strategy right above skips targets whose breaker is open; a conditional one does not look at breakers.
    watched: bool,
}

/// What makes a node more than one target.
struct Branch<'v> {
    strategy: &'v Value,
    targets: Option<&'v Value>,
    /// The index of the branch itself among the nodes of the config.
    number: usize,
}

impl Compiler<'_> {
    pub(super) fn compile(&mut self, value: &Value) -> Config {
        let at = At::ROOT;
        let mut config = Config::bare();
        let Value::Object(map) = value else {
            self.problem(&at, "config", "must be an object");
            return config;
        };
        let text = value.to_string();
        let root = at.then("config");
        // Strings and their places take about as much again as the text that they came from.
        if !self.spend(&root, Cost::Text, text.len()) || !self.spend(&root, Cost::Memory, text.len() * 2) {
            return config;
        }
        let fields = self.fields(&at, map);
        if fields.is_empty() && self.problems.is_empty() {
            let rule = "holds nothing to go by: give provider, strategy with targets, or another key of a config";
            self.problem(&at, "config", rule);
        }
        if fields.has("options") {
            self.problem(&at, "options", "this version of the config format is not supported");
        }
        config.metadata = self.metadata(&at, &fields);
        config.fetch_integrated_models = self.boolean(&at, &fields, "fetch_integrated_models").unwrap_or(false);
        let spot = Spot { path: "config", parent: 0, place: 0, depth: 0, falls_back: false, watched: true };
        self.node(&at, &fields, spot, &Inherited::default());
        config.params = self.asked_params();
        if config.params.len() > READ {
            self.here(&root, format!("must name at most {READ} keys of the body in its conditions and sticky fields"));
        }
        config.memory = self.spent.memory();
        config.fingerprint.copy_from_slice(&Sha256::digest(text)[..16]);
        config.hooks = std::mem::take(&mut self.hook_sets).into();
        config.nodes = std::mem::take(&mut self.nodes).into();
        config.guarded = std::mem::take(&mut self.guarded).into();
        let sets_model = config.leaves().any(|l| l.model.is_some() || l.default_model.is_some() || l.prompt.is_some());
        config.sets_model = sets_model;
        config
    }

    fn metadata(&mut self, at: &At<'_>, fields: &Fields<'_>) -> Vec<(String, String)> {
        match fields.get("metadata") {
            Some(Value::Object(map)) => match metadata::read(map) {
                Ok(pairs) => return pairs,
                Err(refused) => self.problem(at, "metadata", refused.rule()),
            },
            None => {}
            Some(_) => self.problem(at, "metadata", "must be an object of strings"),
        }
        Vec::new()
    }

    /// Keys of the body that any condition or sticky field reads.
    fn asked_params(&self) -> Box<[Box<str>]> {
        let mut out = Vec::new();
        for node in &self.nodes {
            match &node.kind {
                NodeKind::Branch { mode: Mode::Conditional { conditions, .. }, .. } => {
                    conditions.iter().for_each(|(query, _)| query.params(&mut out));
                }
                NodeKind::Branch { mode: Mode::LoadBalance { sticky: Some(sticky), .. }, .. } => {
                    sticky.fields.iter().for_each(|key| key.params(&mut out));
                }
                _ => {}
            }
        }
        out.into()
    }

    /// Lays the node and all below it; gives its number.
    fn node(&mut self, at: &At<'_>, fields: &Fields<'_>, spot: Spot<'_>, from: &Inherited) -> usize {
        self.refuse_unknown(at, fields, spot.depth);
        let own = self.inherit(at, fields, from);
        let weight = match fields.get("weight").map(Value::as_f64) {
            None => 1.0,
            Some(Some(w)) if w >= 0.0 && w.is_finite() => w,
            Some(_) => {
                self.problem(at, "weight", "must be a number of at least 0");
                1.0
            }
        };
        let on = self.statuses(at, fields, "on_status_codes");
        if on.is_some() && !spot.falls_back {
            self.problem(at, "on_status_codes", "belongs inside strategy, or to a target of a fallback");
        }
        let (strategy, targets) = (fields.get("strategy"), fields.get("targets"));
        let number = self.nodes.len();
        let kind = NodeKind::Branch { mode: Mode::Single, targets: Box::default() };
        let (parent, place) = (spot.parent, spot.place);
        self.spend(at, Cost::Memory, size_of::<ConfigNode>() + size_of::<Leaf>() + 2 * spot.path.len());
        self.nodes.push(ConfigNode { path: spot.path.into(), weight, parent, place, on, kind });
        self.refuse_beside(at, fields, spot.depth, strategy.is_some() || targets.is_some());
        let kind = match (strategy, targets) {
            (None, None) => NodeKind::Leaf(Arc::new(self.leaf(at, fields, spot, own))),
            (None, Some(_)) => {
                self.problem(at, "strategy", "is required with targets");
                return number;
            }
            (Some(strategy), targets) => self.branch(at, Branch { strategy, targets, number }, spot, own),
        };
        self.nodes[number].kind = kind;
        number
    }

    fn refuse_unknown(&mut self, at: &At<'_>, fields: &Fields<'_>, depth: usize) {
        for key in fields.keys() {
            match KEYS.iter().find(|(name, _)| *name == key).map(|(_, place)| place) {
                Some(FieldPlacement::Anywhere) => {}
                Some(FieldPlacement::Root) if depth == 0 => {}
                Some(FieldPlacement::Root) => self.problem(at, key, "belongs at the root of the config"),
                None if cloud::setting(key).is_some() => {}
                None if CLOUD.iter().any(|start| key.starts_with(start)) => {
                    self.problem(at, key, "is not available in this version; save it with an integration");
                }
                None => self.problem(at, key, "is not a known key"),
            }
        }
    }

    /// What names an answerer has no place beside targets, and `passthrough` none beside another answerer.
    fn refuse_beside(&mut self, at: &At<'_>, fields: &Fields<'_>, depth: usize, branch: bool) {
        let passthrough = fields.get("passthrough") == Some(&Value::Bool(true));
        if branch {
            for key in ["provider", "virtual_key", "api_key", "prompt_id"].into_iter().filter(|k| fields.has(k)) {
                self.problem(at, key, "has no effect beside targets; name it in each target");
            }
            for (key, _) in HEADERS.iter().filter(|(key, _)| fields.has(key)) {
                self.problem(at, key, "has no effect beside targets; name it in each target");
            }
            for key in fields.keys().filter(|key| cloud::setting(key).is_some()) {
                self.problem(at, key, "has no effect beside targets; name it in each target");
            }
        }
        if passthrough {
            let besides = ["provider", "virtual_key", "api_key", "prompt_id", "strategy", "targets"];
            let hooks = HookKey::ALL.map(HookKey::name);
            let at_root = ["override_params"].into_iter().chain(hooks).filter(|_| depth == 0);
            for key in besides.into_iter().chain(at_root).filter(|k| fields.has(k)) {
                self.problem(at, key, "must not stand beside passthrough");
            }
        }
    }

    fn branch(
        &mut self,
        at: &At<'_>,
        Branch { strategy, targets, number }: Branch<'_>,
        spot: Spot<'_>,
        mut own: Inherited,
    ) -> NodeKind {
        let strategy = self.strategy(&at.then("strategy"), strategy);
        if strategy.breaker.is_some() {
            own.breaker = strategy.breaker;
        }
        let conditional = matches!(strategy.mode, StrategyMode::Conditional { .. });
        let cap = match spot.depth {
            0 if conditional => MAX_CONDITIONAL_TARGETS,
            0 => MAX_ROOT_TARGETS,
            _ => MAX_NESTED_TARGETS,
        };
        let list: &[Value] = match targets {
            Some(Value::Array(list)) if list.len() > cap => {
                self.problem(at, "targets", format!("must hold at most {cap} targets"));
                &[]
            }
            Some(Value::Array(_)) if spot.depth >= MAX_DEPTH => {
                self.problem(at, "targets", format!("must not be nested deeper than {MAX_DEPTH} levels"));
                &[]
            }
            Some(Value::Array(list)) if !list.is_empty() => list,
            _ => {
                self.problem(at, "targets", "must be an array of at least 1 target with a strategy");
                &[]
            }
        };
        let (falls_back, watched) = (matches!(strategy.mode, StrategyMode::Fallback(_)), !conditional);
        let (mut numbers, mut names) = (Vec::with_capacity(list.len()), Vec::with_capacity(list.len()));
        let all = at.then("targets");
        for (place, target) in list.iter().enumerate() {
            let index = place.to_string();
            let at = all.then(&index);
            if !self.spend(&at, Cost::Targets, 1) {
                return NodeKind::Branch { mode: Mode::Single, targets: Box::default() };
            }
            let Value::Object(map) = target else {
                self.here(&at, "must be an object");
                names.push(None);
                continue;
            };
            let fields = self.fields(&at, map);
            let path = format!("{}.targets[{place}]", spot.path);
            let spot = Spot { path: &path, parent: number, place, depth: spot.depth + 1, falls_back, watched };
            numbers.push(self.node(&at, &fields, spot, &own));
            let name = self.string(&at, &fields, "name");
            if conditional && name.is_some() && names.contains(&name) {
                self.problem(&at, "name", "is given to another target of this strategy, too");
            }
            names.push(name);
        }
        let weights: Vec<f64> = numbers.iter().map(|n| self.nodes[*n].weight).collect();
        let mode = self.settle(at, strategy.mode, &names, &weights);
        NodeKind::Branch { mode, targets: numbers.into() }
    }

    fn leaf(&mut self, at: &At<'_>, fields: &Fields<'_>, spot: Spot<'_>, own: Inherited) -> Leaf {
        let provider = self.provider(at, fields);
        let named = |params: &[(String, String)]| {
            let model = params.iter().find(|(k, _)| k == "model");
            model.and_then(|(_, raw)| serde_json::from_str::<String>(raw).ok()).map(Arc::from)
        };
        let (model, default_model) = (named(&own.overrides), named(&own.defaults));
        if own.custom_host.is_some() && !self.context.saved && matches!(provider, ProviderRef::Managed(_)) {
            self.problem(at, "custom_host", "must not be used with a managed provider; save it with the integration");
        }
        let settings = self.settings(at, fields, &provider);
        let mut leaf = Leaf {
            path: spot.path.into(),
            provider,
            prompt: self.prompt(at, fields),
            retry: own.retry,
            timeout_ms: own.timeout_ms,
            defaults: own.defaults,
            overrides: own.overrides,
            drops: own.drops,
            model,
            default_model,
            custom_host: own.custom_host,
            forward_headers: own.forward_headers,
            provider_headers: self.provider_headers(at, fields),
            settings,
            strict: own.strict,
            cache: own.cache,
            hooks: own.hooks,
            breaker: None,
        };
        if let Some(rules) = own.breaker.filter(|_| spot.watched) {
            self.spend(at, Cost::Memory, size_of::<Breaker>() + size_of::<Guarded>());
            let target = identity(&leaf, &rules);
            leaf.breaker = Some(self.guarded.len());
            self.guarded.push(Guarded { path: leaf.path.clone(), rules, target });
        }
        leaf
    }

    fn provider(&mut self, at: &At<'_>, fields: &Fields<'_>) -> ProviderRef {
        let key = self.string(at, fields, "api_key");
        let key = key.and_then(|k| {
            let opened = (self.context.open)(k);
            if opened.is_none() {
                self.problem(at, "api_key", "cannot be opened with this master key");
            }
            opened
        });
        if self.boolean(at, fields, "passthrough") == Some(true) {
            return ProviderRef::Passthrough;
        }
        if let Some(slug) = self.string(at, fields, "virtual_key") {
            return ProviderRef::Managed(slug.strip_prefix('@').unwrap_or(slug).into());
        }
        let Some(name) = self.string(at, fields, "provider") else {
            if key.is_some() {
                self.problem(at, "provider", "is required with api_key");
            }
            return ProviderRef::FromRequest;
        };
        if let Some(slug) = name.strip_prefix('@') {
            return ProviderRef::Managed(slug.into());
        }
        if !(self.context.known_provider)(name) {
            let rule = format!("`{}` is not a known provider; a managed one is written @slug", quoted(name));
            self.problem(at, "provider", rule);
        }
        ProviderRef::Family { slug: name.into(), key }
    }

    /// A saved prompt by slug or id, with a version behind it or not. Whether it is there is not known here.
    fn prompt(&mut self, at: &At<'_>, fields: &Fields<'_>) -> Option<Arc<str>> {
        let name = self.string(at, fields, "prompt_id")?;
        let (bare, version) = split_version(name);
        if bare.is_empty() || version == Some("") || name.len() > PROMPT_NAME {
            let rule = "must be the slug or the id of a prompt, with @ and a version behind it or not";
            self.problem(at, "prompt_id", rule);
        }
        Some(name.into())
    }

    fn provider_headers(&mut self, at: &At<'_>, fields: &Fields<'_>) -> Arc<[(&'static str, HeaderValue)]> {
        let mut out = Vec::new();
        for (key, header) in HEADERS {
            let Some(text) = self.string(at, fields, key) else { continue };
            match HeaderValue::from_str(text) {
                Ok(value) => out.push((*header, value)),
                Err(_) => self.problem(at, key, "holds characters that no header can carry"),
            }
        }
        out.into()
    }

    fn inherit(&mut self, at: &At<'_>, fields: &Fields<'_>, from: &Inherited) -> Inherited {
        let mut own = from.clone();
        if let Some(retry) = fields.get("retry") {
            own.retry = self.retry(at, retry);
        }
        if let Some(cache) = fields.get("cache") {
            own.cache = self.cache(at, cache);
        }
        if let Some(rules) = fields.get("cb_config") {
            own.breaker = self.breaker(&at.then("cb_config"), rules);
        }
        own.timeout_ms = self.integer(at, fields, "request_timeout", (1, u64::MAX)).or(own.timeout_ms);
        self.merge(at, fields, "default_params", &mut own.defaults);
        self.merge(at, fields, "override_params", &mut own.overrides);
        self.drop_params(at, fields, &mut own.drops);
        if let Some(url) = self.string(at, fields, "custom_host") {
            match check_custom_host(url, self.context.trusted) {
                Ok(base) => own.custom_host = Some(Arc::new(base)),
                Err(why) => self.problem(at, "custom_host", why),
            }
        }
        if fields.has("forward_headers") {
            own.forward_headers = self.forward_headers(at, fields);
        }
        own.strict = self.boolean(at, fields, "strict_open_ai_compliance").or(own.strict);
        self.hooks(at, fields, &mut own.hooks);
        self.string(at, fields, "name");
        own
    }

    /// Key by key: the child's value takes the place of the parent's.
    fn merge(&mut self, at: &At<'_>, fields: &Fields<'_>, key: &str, into: &mut Arc<[(String, String)]>) {
        let Some(Value::Object(params)) = fields.get(key) else {
            if fields.has(key) {
                self.problem(at, key, "must be an object");
            }
            return;
        };
        if params.is_empty() {
            return;
        }
        let kept: Vec<&(String, String)> = into.iter().filter(|(key, _)| !params.contains_key(key)).collect();
        if kept.len() + params.len() > PARAMS {
            self.problem(at, key, format!("must hold at most {PARAMS} parameters, inherited ones among them"));
            return;
        }
        let own = params.iter().map(|(key, value)| (key.clone(), value.to_string()));
        let merged: Arc<[(String, String)]> = kept.into_iter().cloned().chain(own).collect();
        let bytes = merged.iter().map(|(key, value)| key.len() + value.len() + size_of::<(String, String)>()).sum();
        if self.spend(&at.then(key), Cost::Memory, bytes) {
            *into = merged;
        }
    }

    fn drop_params(&mut self, at: &At<'_>, fields: &Fields<'_>, into: &mut Arc<[Path]>) {
        let own = self.strings(at, fields, "drop_params", "paths").unwrap_or_default();
        if own.len() + into.len() > MAX_DROPS {
            self.problem(at, "drop_params", format!("must hold at most {MAX_DROPS} paths, inherited ones among them"));
            return;
        }
        let mut all = into.to_vec();
        for text in own {
            match params::parse(text) {
                Ok(path) if *path == [params::Step::Key("model".into())] => {
                    self.problem(at, "drop_params", "`model` cannot be dropped; set it with override_params");
                }
                Ok(path) if !all.contains(&path) => all.push(path),
                Ok(_) => {}
                Err(rule) => self.problem(at, "drop_params", format!("`{}` {rule}", quoted(text))),
            }
        }
        if all.len() > into.len() {
            // A key of a path is counted with the text that it stands in, once more for each target that adds to it.
            let bytes = all.iter().map(|path| (path.len() + 1) * size_of::<params::Step>()).sum();
            self.spend(&at.then("drop_params"), Cost::Memory, bytes);
            *into = all.into();
        }
    }

    fn forward_headers(&mut self, at: &At<'_>, fields: &Fields<'_>) -> Arc<[String]> {
        let mut out = Vec::new();
        let names = self.strings(at, fields, "forward_headers", "header names").unwrap_or_default();
        if names.len() > FORWARDED {
            self.problem(at, "forward_headers", format!("must name at most {FORWARDED} headers"));
        }
        for name in names.into_iter().take(FORWARDED) {
            match crate::bounds::check_forward_header(name) {
                Ok(name) => out.push(name),
                Err(rule) => self.problem(at, "forward_headers", format!("`{}` {rule}", quoted(name))),
            }
        }
        out.into()
    }

    fn retry(&mut self, at: &At<'_>, value: &Value) -> Retry {
        let at = at.then("retry");
        let Some(fields) = self.object(&at, value, RETRY_KEYS) else { return Retry::default() };
        if !fields.has("attempts") {
            self.problem(&at, "attempts", format!("must be an integer of 0..{MAX_ATTEMPTS}"));
        }
        let attempts = self.integer(&at, &fields, "attempts", (0, MAX_ATTEMPTS)).unwrap_or(0);
        let statuses = self.statuses(&at, &fields, "on_status_codes").unwrap_or_else(|| Arc::from(RETRY_STATUSES));
        let singular = self.boolean(&at, &fields, "use_retry_after_header");
        let plural = self.boolean(&at, &fields, "use_retry_after_headers");
        Retry {
            attempts: u32::try_from(attempts).unwrap_or(0),
            statuses,
            use_retry_after: singular.or(plural).unwrap_or(false),
            jitter: self.boolean(&at, &fields, "jitter").unwrap_or(false),
        }
    }

    /// An object, or the mode alone. Semantic is read, and refused until something acts on it.
    fn cache(&mut self, at: &At<'_>, value: &Value) -> Option<Cache> {
        let at = at.then("cache");
        let bare: Map<String, Value> = Map::from_iter([("mode".to_owned(), value.clone())]);
        let fields = match value {
            Value::String(_) => self.fields(&at, &bare),
            _ => self.object(&at, value, CACHE_KEYS)?,
        };
        let max_age = self.integer(&at, &fields, "max_age", CACHE_AGE).and_then(|n| u32::try_from(n).ok());
        let mode = match fields.get("mode").and_then(Value::as_str) {
            Some("simple") => CacheMode::Simple,
            Some("semantic") => {
                self.problem(&at, "mode", "`semantic` is not available in this version; `simple` is");
                CacheMode::Semantic
            }
            _ => {
                self.problem(&at, "mode", "must be one of simple, semantic");
                return None;
            }
        };
        Some(Cache { mode, max_age })
    }
}
