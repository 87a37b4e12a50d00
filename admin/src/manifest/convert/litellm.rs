//! The file of LiteLLM's proxy, as <https://docs.litellm.ai/docs/proxy/configs> has it. Each deployment is an
//! integration with a provider; each group of deployments under one name is a target of one config, which is the
//! default of the workspace, so that clients go on asking for the names that they know.

use super::conversion::{CarriedParts, Conversion, secret_of, slug_of, text};
use crate::problem::{Problem, bad};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Prefixes of models, and the families that they mean where those are called otherwise.
const FAMILIES: &[(&str, &str)] = &[
    ("azure", "azure-openai"),
    ("azure_ai", "azure-ai"),
    ("cloudflare", "workers-ai"),
    ("cohere_chat", "cohere"),
    ("fireworks_ai", "fireworks-ai"),
    ("gemini", "google"),
    ("hosted_vllm", "openai"),
    ("jina_ai", "jina"),
    ("mistral", "mistral-ai"),
    ("ollama_chat", "ollama"),
    ("openai_like", "openai"),
    ("perplexity", "perplexity-ai"),
    ("text-completion-openai", "openai"),
    ("together_ai", "together-ai"),
    ("vertex_ai", "vertex-ai"),
    ("vertex_ai_beta", "vertex-ai"),
    ("xai", "x-ai"),
];

/// Parameters of requests that a deployment may have defaults for.
const PARAMETERS: &[&str] = &[
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "n",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "response_format",
    "tools",
    "tool_choice",
    "user",
    "logit_bias",
    "reasoning_effort",
];

/// Settings of clouds: what LiteLLM calls them, and what they are called here.
const CLOUD: &[(&str, &str)] = &[
    ("aws_access_key_id", "aws_access_key_id"),
    ("aws_secret_access_key", "aws_secret_access_key"),
    ("aws_region_name", "aws_region"),
    ("aws_role_name", "aws_role_arn"),
    ("vertex_project", "vertex_project_id"),
    ("vertex_location", "vertex_region"),
    ("vertex_credentials", "vertex_service_account_json"),
];
const SECRET: &[&str] = &["aws_access_key_id", "aws_secret_access_key", "vertex_credentials"];

/// Deployments of one name, as targets.
type ModelGroups = BTreeMap<String, Vec<Value>>;

pub(super) fn convert(file: &Value, with: &Conversion<'_>) -> Result<CarriedParts, Problem> {
    let Value::Object(file) = file else { return Err(bad("the file", "must be a mapping with model_list")) };
    let models = file.get("model_list").and_then(Value::as_array).ok_or_else(|| bad("model_list", "is required"))?;
    let mut reading =
        LiteLlmReading { with, carried: CarriedParts::default(), groups: ModelGroups::new(), slugs: BTreeMap::new() };
    for (at, model) in models.iter().enumerate() {
        reading.deployment(at, model);
    }
    let settings = LiteLlmSettings::read(file, &mut reading.carried);
    reading.config(&settings);
    reading.master_key(file);
    for name in file.keys() {
        if !["model_list", "router_settings", "litellm_settings", "general_settings"].contains(&name.as_str()) {
            reading.carried.note(name, "is not carried");
        }
    }
    Ok(reading.carried)
}

struct LiteLlmReading<'a> {
    with: &'a Conversion<'a>,
    carried: CarriedParts,
    groups: ModelGroups,
    slugs: BTreeMap<String, usize>,
}

/// A value that may be read from the environment there.
fn plain_or_secret(value: &str, name: &str) -> String {
    match value.strip_prefix("os.environ/") {
        Some(variable) => secret_of(variable),
        None => secret_of(name),
    }
}

impl LiteLlmReading<'_> {
    fn deployment(&mut self, at: usize, model: &Value) {
        let place = format!("model_list[{at}]");
        let (name, params) = (model["model_name"].as_str(), model["litellm_params"].as_object());
        let (Some(name), Some(params)) = (name, params) else {
            return self.carried.note(place, "has no model_name or no litellm_params; left out");
        };
        let Some(model_id) = text(params, "model") else {
            return self.carried.note(place, "has no litellm_params.model; left out");
        };
        let (prefix, own) = model_id.split_once('/').unwrap_or(("openai", model_id));
        let family = FAMILIES.iter().find(|(theirs, _)| *theirs == prefix).map_or(prefix, |(_, ours)| *ours);
        if self.with.catalog.provider(family).is_none() {
            return self.carried.note(place, format_args!("`{prefix}` is no provider of this gateway; left out"));
        }
        if name.contains('*') || own.contains('*') {
            return self.carried.note(place, "wildcards are not carried: ask for @provider/model instead; left out");
        }
        let slug = self.slug(&slug_of(name));
        let mut integration = json!({"slug": slug, "name": name, "ai_provider_id": family});
        if let Some(key) = text(params, "api_key") {
            integration["key"] = plain_or_secret(key, &format!("{slug}_API_KEY")).into();
            if !key.starts_with("os.environ/") {
                let named = integration["key"].clone();
                self.carried.note(&place, format_args!("holds a credential: give it as {named}"));
            }
        }
        let configurations = self.configurations(&place, family, own, params);
        if !configurations.is_empty() {
            integration["configurations"] = Value::Object(configurations);
        }
        if let Some(price) = price(own, model) {
            integration["models"] = json!([price]);
        }
        self.carried.add("integrations", integration);
        let mut provider =
            json!({"workspace": self.with.workspace, "slug": slug, "name": name, "integration_id": slug});
        let limits = limits(params);
        if !limits.is_empty() {
            provider["rate_limits"] = limits.into();
        }
        self.carried.add("providers", provider);
        let target = self.target(&place, (&slug, own), params);
        self.groups.entry(name.to_owned()).or_default().push(target);
    }

    /// One that no other deployment has.
    fn slug(&mut self, wanted: &str) -> String {
        let number = self.slugs.entry(wanted.to_owned()).or_default();
        *number += 1;
        if *number == 1 { wanted.to_owned() } else { format!("{wanted}-{number}") }
    }

    fn configurations(
        &mut self,
        place: &str,
        family: &str,
        model: &str,
        params: &Map<String, Value>,
    ) -> Map<String, Value> {
        let mut out = Map::new();
        let base = text(params, "api_base").or_else(|| text(params, "base_url"));
        if base.is_some_and(|base| base.starts_with("os.environ/")) {
            self.carried.note(place, "api_base is read from the environment there: write the address as custom_host");
        } else if family == "azure-openai" {
            let host = base.and_then(|base| base.split("://").nth(1)).unwrap_or_default();
            let resource = host.split('.').next().unwrap_or_default();
            let mut deployment = json!({"azure_deployment_name": model, "is_default": true});
            deployment["azure_api_version"] = text(params, "api_version").unwrap_or("2024-10-21").into();
            out.insert("azure_auth_mode".into(), "default".into());
            out.insert("azure_resource_name".into(), resource.into());
            out.insert("azure_deployment_config".into(), json!([deployment]));
        } else if let Some(base) = base {
            out.insert("custom_host".into(), base.into());
        }
        if let Some(organisation) = text(params, "organization").filter(|_| family == "openai") {
            out.insert("openai_organization".into(), organisation.into());
        }
        for (theirs, ours) in CLOUD {
            let Some(value) = text(params, theirs) else { continue };
            let from_environment = value.starts_with("os.environ/");
            let shown = if SECRET.contains(theirs) || from_environment {
                plain_or_secret(value, &format!("{place}_{theirs}"))
            } else {
                value.to_owned()
            };
            out.insert((*ours).into(), shown.into());
        }
        if family == "bedrock" {
            let kind = if out.contains_key("aws_role_arn") { "assumedRole" } else { "accessKey" };
            out.insert("aws_auth_type".into(), kind.into());
        }
        if family == "vertex-ai" && out.contains_key("vertex_service_account_json") {
            out.insert("vertex_auth_type".into(), "serviceAccount".into());
        }
        out
    }

    fn target(&mut self, place: &str, (slug, model): (&str, &str), params: &Map<String, Value>) -> Value {
        let mut target = json!({"provider": format!("@{slug}"), "override_params": {"model": model}});
        let mut defaults = Map::new();
        for (name, value) in params {
            match name.as_str() {
                "weight" => target["weight"] = value.clone(),
                "timeout" => match millis(value) {
                    Some(ms) => target["request_timeout"] = ms.into(),
                    None => self.carried.note(format_args!("{place}.timeout"), "is no number of seconds; left out"),
                },
                "max_retries" | "num_retries" => match retries(value) {
                    Some(retry) => target["retry"] = retry,
                    None => self.carried.note(format_args!("{place}.{name}"), "is no number; left out"),
                },
                known if PARAMETERS.contains(&known) => _ = defaults.insert(name.clone(), value.clone()),
                "model" | "api_key" | "api_base" | "base_url" | "api_version" | "organization" | "rpm" | "tpm" => {}
                cloud if CLOUD.iter().any(|(theirs, _)| *theirs == cloud) => {}
                _ => self.carried.note(format_args!("{place}.litellm_params.{name}"), "is not carried"),
            }
        }
        if !defaults.is_empty() {
            target["default_params"] = Value::Object(defaults);
        }
        target
    }

    fn config(&mut self, settings: &LiteLlmSettings) {
        let mut asked: BTreeMap<&str, &str> = self.groups.keys().map(|name| (name.as_str(), name.as_str())).collect();
        let known = |name: &str| self.groups.contains_key(name);
        asked.extend(settings.aliases.iter().filter(|(_, to)| known(to)).map(|(a, to)| (a.as_str(), to.as_str())));
        let conditions =
            asked.iter().map(|(asked, group)| json!({"query": {"params.model": {"$eq": asked}}, "then": group}));
        let conditions: Vec<Value> = conditions.collect();
        if conditions.is_empty() {
            return;
        }
        let targets: Vec<Value> = self.groups.keys().map(|name| self.route(name, settings)).collect();
        let mut config = json!({"strategy": {"mode": "conditional", "conditions": conditions}, "targets": targets});
        if let Some(retry) = &settings.retry {
            config["retry"] = retry.clone();
        }
        if let Some(ms) = settings.timeout {
            config["request_timeout"] = ms.into();
        }
        let item = json!({"workspace": self.with.workspace, "slug": "pc-litellm", "name": "Models of LiteLLM",
            "is_default": true, "config": config});
        self.carried.add("configs", item);
    }

    /// All deployments of a name, and those that step in for them.
    fn route(&self, name: &str, settings: &LiteLlmSettings) -> Value {
        let own = self.group(name);
        let after: Vec<Value> = settings
            .fallbacks
            .get(name)
            .or(settings.fallbacks.get("*"))
            .into_iter()
            .flatten()
            .filter(|other| other.as_str() != name && self.groups.contains_key(*other))
            .map(|other| self.group(other))
            .collect();
        let mut route = if after.is_empty() {
            own
        } else {
            let targets: Vec<Value> = std::iter::once(own).chain(after).collect();
            json!({"strategy": {"mode": "fallback"}, "targets": targets})
        };
        route["name"] = name.into();
        route
    }

    fn group(&self, name: &str) -> Value {
        match self.groups.get(name).map(Vec::as_slice) {
            Some([one]) => {
                let mut one = one.clone();
                if let Some(fields) = one.as_object_mut() {
                    fields.shift_remove("weight");
                }
                one
            }
            targets => json!({"strategy": {"mode": "loadbalance"}, "targets": targets.unwrap_or_default()}),
        }
    }

    /// The one key that the file knows; others lie in LiteLLM's database.
    fn master_key(&mut self, file: &Map<String, Value>) {
        let Some(Value::Object(general)) = file.get("general_settings") else { return };
        for (name, value) in general {
            if name != "master_key" {
                self.carried.note(format_args!("general_settings.{name}"), "is not carried");
                continue;
            }
            let key = plain_or_secret(value.as_str().unwrap_or_default(), "LITELLM_MASTER_KEY");
            let scopes = ["completions.write", "virtual_keys.list"];
            self.carried.add(
                "api_keys",
                json!({"workspace": self.with.workspace, "name": "LiteLLM master key",
                "type": "workspace-service", "key": key, "scopes": scopes}),
            );
            let why =
                format!("calls models with it, given as {key} (at least 32 characters); Admin keys are separate here");
            self.carried.note("general_settings.master_key", why);
        }
        self.carried.note("keys", "virtual keys lie in LiteLLM's database, not in its file: declare them in api_keys");
    }
}

/// What holds for all models.
struct LiteLlmSettings {
    retry: Option<Value>,
    timeout: Option<u64>,
    aliases: BTreeMap<String, String>,
    fallbacks: BTreeMap<String, Vec<String>>,
}

impl LiteLlmSettings {
    fn read(file: &Map<String, Value>, carried: &mut CarriedParts) -> Self {
        let mut settings = Self { retry: None, timeout: None, aliases: BTreeMap::new(), fallbacks: BTreeMap::new() };
        for section in ["litellm_settings", "router_settings"] {
            let Some(Value::Object(given)) = file.get(section) else { continue };
            for (name, value) in given {
                settings.take(&format!("{section}.{name}"), name, value, carried);
            }
        }
        settings
    }

    fn take(&mut self, place: &str, name: &str, value: &Value, carried: &mut CarriedParts) {
        match name {
            "num_retries" => self.retry = retries(value),
            "timeout" | "request_timeout" => self.timeout = millis(value),
            "model_group_alias" => {
                for (alias, to) in value.as_object().into_iter().flatten() {
                    let to = to.as_str().or_else(|| to["model"].as_str());
                    self.aliases.extend(to.map(|to| (alias.clone(), to.to_owned())));
                }
            }
            "fallbacks" => {
                for (from, to) in value.as_array().into_iter().flatten().filter_map(Value::as_object).flatten() {
                    self.fallbacks.insert(from.clone(), names(to));
                }
            }
            "default_fallbacks" => _ = self.fallbacks.insert("*".to_owned(), names(value)),
            "routing_strategy" if value == "simple-shuffle" => {}
            "routing_strategy" => carried.note(place, "is carried as load balancing by weight"),
            "allowed_fails" | "cooldown_time" => carried.note(place, "is not carried: see cb_config of configs"),
            "drop_params" => carried.note(place, "is how this gateway translates anyway"),
            _ => carried.note(place, "is not carried"),
        }
    }
}

fn names(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Seconds there, milliseconds here.
fn millis(value: &Value) -> Option<u64> {
    const MOST: f64 = 86_400.0;
    let seconds = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    (seconds > 0.0 && seconds <= MOST).then_some((seconds * 1000.0) as u64)
}

fn retries(value: &Value) -> Option<Value> {
    const MOST: u64 = 5;
    Some(json!({"attempts": value.as_u64()?.min(MOST)}))
}

fn limits(params: &Map<String, Value>) -> Vec<Value> {
    let limit = |name: &str, kind: &str| {
        let value = params.get(name)?.as_u64()?;
        Some(json!({"type": kind, "unit": "rpm", "value": value}))
    };
    [limit("rpm", "requests"), limit("tpm", "tokens")].into_iter().flatten().collect()
}

/// Dollars for a token there, cents here.
fn price(model: &str, given: &Value) -> Option<Value> {
    let info = &given["model_info"];
    let cents =
        |name: &str| info[name].as_f64().or_else(|| given["litellm_params"][name].as_f64()).map(|usd| usd * 100.0);
    let (input, output) = (cents("input_cost_per_token"), cents("output_cost_per_token"));
    if input.is_none() && output.is_none() {
        return None;
    }
    let mut rates = Map::new();
    for (name, cents) in [("request_token", input), ("response_token", output)] {
        if let Some(cents) = cents {
            rates.insert(name.to_owned(), json!({"price": cents}));
        }
    }
    Some(json!({"slug": model, "enabled": true, "pricing_config": {"type": "static", "pay_as_you_go": rates}}))
}
