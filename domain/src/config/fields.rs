//! Field by field: reads a JSON config into the compiled tree, collecting every problem with its path.

use super::{Config, Context, Leaf, Mode, Node, NodeKind, Problem, ProviderRef, RETRY_STATUSES, Retry};
use crate::egress::{BaseUrl, check_custom_host};
use serde_json::{Map, Value};
use std::sync::Arc;

/// `MAX_ROOT_CONFIG_TARGETS` and `MAX_NESTED_CONFIG_TARGETS` of the contract.
const MAX_ROOT_TARGETS: usize = 100;
const MAX_NESTED_TARGETS: usize = 50;
const MAX_DEPTH: usize = 8;
const MAX_ATTEMPTS: u64 = 5;

/// Keys of the contract that wait for their feature: named, so that the refusal says which.
static LATER: &[&str] = &[
    "cache",
    "default_params",
    "drop_params",
    "input_guardrails",
    "output_guardrails",
    "before_request_hooks",
    "after_request_hooks",
    "input_mutators",
    "output_mutators",
    "cb_config",
    "prompt_id",
    "passthrough",
    "deployments",
    "conditions",
    "default",
    "sticky",
];

/// snake_case of a key that may be camelCase.
pub(super) fn canonical(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// What flows from parent to child.
#[derive(Clone, Default)]
struct Inherited {
    retry: Retry,
    timeout_ms: Option<u64>,
    overrides: Vec<(String, String)>,
    custom_host: Option<Arc<BaseUrl>>,
    forward_headers: Arc<[String]>,
    strict: Option<bool>,
}

pub(super) struct Compiler<'a> {
    context: &'a Context<'a>,
    pub(super) problems: Vec<Problem>,
}

/// Where in the document we are, as keys and indices.
#[derive(Clone, Copy)]
struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: &'a str,
}

impl At<'_> {
    fn path(&self) -> String {
        match self.parent {
            Some(p) if !p.step.is_empty() => format!("{},{}", p.path(), self.step),
            _ => self.step.to_owned(),
        }
    }
}

impl<'a> Compiler<'a> {
    pub(super) const fn new(context: &'a Context<'a>) -> Self {
        Self { context, problems: Vec::new() }
    }

    fn problem(&mut self, at: &At<'_>, step: &str, message: impl Into<String>) {
        let path = At { parent: Some(at), step }.path();
        self.problems.push(Problem { path, message: message.into() });
    }

    pub(super) fn compile(&mut self, value: &Value) -> Config {
        let at = At { parent: None, step: "" };
        let mut config = Config { root: empty_node("config"), metadata: Vec::new(), fetch_integrated_models: false };
        let Value::Object(map) = value else {
            self.problem(&at, "config", "must be an object");
            return config;
        };
        let map = self.canonical_keys(&at, map);
        if map.contains_key("options") {
            self.problem(&at, "options", "this version of the config format is not supported");
        }
        match map.get("metadata") {
            Some(Value::Object(m)) => {
                for (k, v) in m {
                    match v {
                        Value::String(s) if s.chars().count() <= 128 => config.metadata.push((k.clone(), s.clone())),
                        _ => self.problem(&at, "metadata", format!("`{k}` must be a string of at most 128 characters")),
                    }
                }
            }
            Some(Value::Null) | None => {}
            Some(_) => self.problem(&at, "metadata", "must be an object of strings"),
        }
        config.fetch_integrated_models = self.boolean(&at, &map, "fetch_integrated_models").unwrap_or(false);
        config.root = self.node(&at, &map, "config", &Inherited::default(), 0);
        config
    }

    fn canonical_keys<'v>(&mut self, at: &At<'_>, map: &'v Map<String, Value>) -> Map<String, Value>
    where
        'a: 'v,
    {
        let mut out = Map::new();
        for (key, value) in map {
            if out.insert(canonical(key), value.clone()).is_some() {
                self.problem(at, key, "is given twice, in two casings");
            }
        }
        out
    }

    fn node(&mut self, at: &At<'_>, map: &Map<String, Value>, path: &str, from: &Inherited, depth: usize) -> Node {
        self.refuse_unknown(at, map, depth);
        let own = self.inherit(at, map, from);
        let weight = match map.get("weight") {
            None | Some(Value::Null) => 1.0,
            Some(v) => match v.as_f64() {
                Some(w) if w >= 0.0 && w.is_finite() => w,
                _ => {
                    self.problem(at, "weight", "must be a number of at least 0");
                    1.0
                }
            },
        };
        let targets = map.get("targets").filter(|t| !t.is_null());
        let strategy = map.get("strategy").filter(|s| !s.is_null());
        if strategy.is_some() || targets.is_some() {
            for key in ["provider", "virtual_key", "api_key"] {
                if map.get(key).is_some_and(|v| !v.is_null()) {
                    self.problem(at, key, "has no effect beside targets; name it in each target");
                }
            }
        }
        let kind = match (strategy, targets) {
            (None, None) => NodeKind::Leaf(Arc::new(self.leaf(at, map, path, own))),
            (None, Some(_)) => {
                self.problem(at, "strategy", "is required with targets");
                return empty_node(path);
            }
            (Some(strategy), targets) => self.branch(at, strategy, targets, path, &own, depth),
        };
        Node { path: path.into(), weight, kind }
    }

    fn refuse_unknown(&mut self, at: &At<'_>, map: &Map<String, Value>, depth: usize) {
        const KNOWN: &[&str] = &[
            "strategy",
            "targets",
            "name",
            "provider",
            "virtual_key",
            "api_key",
            "weight",
            "retry",
            "request_timeout",
            "override_params",
            "forward_headers",
            "custom_host",
            "strict_open_ai_compliance",
            "on_status_codes",
            "options",
        ];
        for (key, value) in map {
            let root_only = depth == 0 && matches!(key.as_str(), "metadata" | "fetch_integrated_models");
            if KNOWN.contains(&key.as_str()) || root_only || value.is_null() {
                continue;
            }
            if LATER.contains(&key.as_str()) {
                self.problem(at, key, "is not available in this version");
            } else {
                self.problem(at, key, "is not a known key");
            }
        }
    }

    fn branch(
        &mut self,
        at: &At<'_>,
        strategy: &Value,
        targets: Option<&Value>,
        path: &str,
        own: &Inherited,
        depth: usize,
    ) -> NodeKind {
        let mode = self.mode(at, strategy);
        let none = Vec::new();
        let list = match targets {
            Some(Value::Array(list)) if !list.is_empty() => list,
            _ => {
                self.problem(at, "targets", "must be an array of at least 1 target with a strategy");
                &none
            }
        };
        let cap = if depth == 0 { MAX_ROOT_TARGETS } else { MAX_NESTED_TARGETS };
        if list.len() > cap {
            self.problem(at, "targets", format!("must hold at most {cap} targets"));
        } else if depth >= MAX_DEPTH {
            self.problem(at, "targets", format!("must not be nested deeper than {MAX_DEPTH} levels"));
        }
        let mut nodes = Vec::with_capacity(list.len());
        if list.len() <= cap && depth < MAX_DEPTH {
            let at = At { parent: Some(at), step: "targets" };
            for (i, target) in list.iter().enumerate() {
                let index = i.to_string();
                let at = At { parent: Some(&at), step: &index };
                match target {
                    Value::Object(map) => {
                        let map = self.canonical_keys(&at, map);
                        nodes.push(self.node(&at, &map, &format!("{path}.targets[{i}]"), own, depth + 1));
                    }
                    _ => self.problems.push(Problem { path: at.path(), message: "must be an object".into() }),
                }
            }
        }
        let mode = match mode {
            Mode::LoadBalance { .. } => {
                let total: f64 = nodes.iter().map(|n| n.weight).sum();
                if !nodes.is_empty() && total <= 0.0 {
                    self.problem(at, "targets", "must have a weight above 0 on at least one target");
                }
                Mode::LoadBalance { total }
            }
            other => other,
        };
        NodeKind::Branch { mode, targets: nodes }
    }

    fn mode(&mut self, at: &At<'_>, strategy: &Value) -> Mode {
        let at = At { parent: Some(at), step: "strategy" };
        let Value::Object(map) = strategy else {
            self.problems.push(Problem { path: at.path(), message: "must be an object".into() });
            return Mode::Single;
        };
        let map = self.canonical_keys(&at, map);
        for key in map.keys().filter(|k| !matches!(k.as_str(), "mode" | "on_status_codes")) {
            let later = LATER.contains(&key.as_str());
            self.problem(&at, key, if later { "is not available in this version" } else { "is not a known key" });
        }
        let statuses = self.statuses(&at, &map);
        match map.get("mode").and_then(Value::as_str) {
            Some("single") => Mode::Single,
            Some("fallback") => Mode::Fallback(statuses),
            Some("loadbalance") => Mode::LoadBalance { total: 0.0 },
            Some("conditional") => {
                self.problem(&at, "mode", "`conditional` is not available in this version");
                Mode::Single
            }
            _ => {
                self.problem(&at, "mode", "must be one of single, fallback, loadbalance, conditional");
                Mode::Single
            }
        }
    }

    fn leaf(&mut self, at: &At<'_>, map: &Map<String, Value>, path: &str, own: Inherited) -> Leaf {
        let provider = self.provider(at, map);
        let model = own.overrides.iter().rev().find(|(k, _)| k == "model");
        let model = model.and_then(|(_, raw)| serde_json::from_str::<String>(raw).ok()).map(Arc::from);
        if own.custom_host.is_some() && !self.context.saved && matches!(provider, ProviderRef::Managed(_)) {
            self.problem(at, "custom_host", "must not be used with a managed provider; save it with the integration");
        }
        Leaf {
            path: path.into(),
            provider,
            retry: own.retry,
            timeout_ms: own.timeout_ms,
            overrides: own.overrides.into(),
            model,
            custom_host: own.custom_host,
            forward_headers: own.forward_headers,
            strict: own.strict.unwrap_or(true),
            cache: None,
        }
    }

    fn provider(&mut self, at: &At<'_>, map: &Map<String, Value>) -> ProviderRef {
        let key = self.string(at, map, "api_key");
        let key = key.and_then(|k| {
            let opened = (self.context.open)(k);
            if opened.is_none() {
                self.problem(at, "api_key", "cannot be opened with this master key");
            }
            opened
        });
        if let Some(slug) = self.string(at, map, "virtual_key") {
            return ProviderRef::Managed(slug.strip_prefix('@').unwrap_or(slug).into());
        }
        let Some(name) = self.string(at, map, "provider") else {
            if key.is_some() {
                self.problem(at, "provider", "is required with api_key");
            }
            return ProviderRef::FromRequest;
        };
        if let Some(slug) = name.strip_prefix('@') {
            return ProviderRef::Managed(slug.into());
        }
        if !(self.context.known_provider)(name) {
            self.problem(at, "provider", format!("`{name}` is not a known provider; a managed one is written @slug"));
        }
        ProviderRef::Family { slug: name.into(), key }
    }

    fn inherit(&mut self, at: &At<'_>, map: &Map<String, Value>, from: &Inherited) -> Inherited {
        let mut own = from.clone();
        if let Some(retry) = map.get("retry").filter(|r| !r.is_null()) {
            own.retry = self.retry(at, retry);
        }
        match map.get("request_timeout") {
            None | Some(Value::Null) => {}
            Some(v) => match v.as_u64() {
                Some(ms) if ms > 0 => own.timeout_ms = Some(ms),
                _ => self.problem(at, "request_timeout", "must be an integer of at least 1 (milliseconds)"),
            },
        }
        match map.get("override_params") {
            None | Some(Value::Null) => {}
            Some(Value::Object(params)) => {
                for (key, value) in params {
                    own.overrides.retain(|(k, _)| k != key);
                    own.overrides.push((key.clone(), value.to_string()));
                }
            }
            Some(_) => self.problem(at, "override_params", "must be an object"),
        }
        if let Some(url) = self.string(at, map, "custom_host") {
            match check_custom_host(url, self.context.trusted) {
                Ok(base) => own.custom_host = Some(Arc::new(base)),
                Err(why) => self.problem(at, "custom_host", why),
            }
        }
        if let Some(list) = map.get("forward_headers").filter(|v| !v.is_null()) {
            own.forward_headers = self.forward_headers(at, list);
        }
        if let Some(strict) = self.boolean(at, map, "strict_open_ai_compliance") {
            own.strict = Some(strict);
        }
        if map.contains_key("on_status_codes") {
            self.problem(at, "on_status_codes", "belongs inside strategy");
        }
        if let Some(name) = map.get("name").filter(|n| !n.is_null() && !n.is_string()) {
            self.problem(at, "name", format!("must be a string, not {name}"));
        }
        own
    }

    fn forward_headers(&mut self, at: &At<'_>, list: &Value) -> Arc<[String]> {
        let names = list.as_array().and_then(|l| l.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let Some(names) = names else {
            self.problem(at, "forward_headers", "must be an array of header names");
            return Arc::default();
        };
        let mut out = Vec::with_capacity(names.len());
        for name in names {
            match crate::bounds::check_forward_header(name) {
                Ok(name) => out.push(name),
                Err(rule) => self.problem(at, "forward_headers", format!("`{name}` {rule}")),
            }
        }
        out.into()
    }

    fn retry(&mut self, at: &At<'_>, value: &Value) -> Retry {
        let at = At { parent: Some(at), step: "retry" };
        let Value::Object(map) = value else {
            self.problems.push(Problem { path: at.path(), message: "must be an object".into() });
            return Retry::default();
        };
        let map = self.canonical_keys(&at, map);
        let attempts = match map.get("attempts").and_then(Value::as_u64) {
            Some(n) if n <= MAX_ATTEMPTS => u32::try_from(n).unwrap_or(0),
            _ => {
                self.problem(&at, "attempts", format!("must be an integer of 0..{MAX_ATTEMPTS}"));
                0
            }
        };
        let statuses = self.statuses(&at, &map).unwrap_or_else(|| Arc::from(RETRY_STATUSES));
        let singular = self.boolean(&at, &map, "use_retry_after_header");
        let plural = self.boolean(&at, &map, "use_retry_after_headers");
        let known = ["attempts", "on_status_codes", "use_retry_after_header", "use_retry_after_headers"];
        for key in map.keys().filter(|k| !known.contains(&k.as_str())) {
            self.problem(&at, key, "is not a known key");
        }
        Retry { attempts, statuses, use_retry_after: singular.or(plural).unwrap_or(false) }
    }

    fn statuses(&mut self, at: &At<'_>, map: &Map<String, Value>) -> Option<Arc<[u16]>> {
        let value = map.get("on_status_codes").filter(|v| !v.is_null())?;
        let codes = value.as_array().and_then(|l| {
            l.iter()
                .map(|v| v.as_u64().and_then(|n| u16::try_from(n).ok()).filter(|n| (100..=599).contains(n)))
                .collect()
        });
        match codes {
            Some(codes) => Some(codes),
            None => {
                self.problem(at, "on_status_codes", "must be an array of status codes 100..599");
                None
            }
        }
    }

    fn string<'v>(&mut self, at: &At<'_>, map: &'v Map<String, Value>, key: &str) -> Option<&'v str> {
        match map.get(key) {
            None | Some(Value::Null) => None,
            Some(Value::String(s)) if !s.is_empty() => Some(s),
            Some(_) => {
                self.problem(at, key, "must be a string that is not empty");
                None
            }
        }
    }

    fn boolean(&mut self, at: &At<'_>, map: &Map<String, Value>, key: &str) -> Option<bool> {
        match map.get(key) {
            None | Some(Value::Null) => None,
            Some(Value::Bool(b)) => Some(*b),
            Some(_) => {
                self.problem(at, key, "must be true or false");
                None
            }
        }
    }
}

fn empty_node(path: &str) -> Node {
    Node { path: path.into(), weight: 1.0, kind: NodeKind::Branch { mode: Mode::Single, targets: Vec::new() } }
}
