//! What a client of OpenAI's asks for when it makes a fine-tuning job, read once for all families.

use crate::adapter::Call;
use gateway_domain::path::decoded;
use gateway_domain::{Fault, FaultKind};
use serde_json::{Map, Value};

/// Fields that mean something to every family.
const ALWAYS: &[&str] = &["model", "training_file", "validation_file", "suffix", "method", "hyperparameters"];
const LONGEST_SUFFIX: usize = 64;
/// Those that are numbers wherever they are known. What others are is the family's to say.
const NUMBERS: &[&str] = &["n_epochs", "learning_rate_multiplier", "beta"];

pub(super) fn refused(field: &str, rule: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::Refused, format!("{field} {rule}")).on(field)
}

/// How a model is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TuningMethod {
    Supervised,
    Dpo,
    Reinforcement,
}

impl TuningMethod {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Supervised => "supervised",
            Self::Dpo => "dpo",
            Self::Reinforcement => "reinforcement",
        }
    }

    fn of(body: &Map<String, Value>) -> Result<Self, Fault> {
        let Some(method) = body.get("method").filter(|method| !method.is_null()) else { return Ok(Self::Supervised) };
        match method["type"].as_str() {
            Some("supervised") => Ok(Self::Supervised),
            Some("dpo") => Ok(Self::Dpo),
            Some("reinforcement") => Ok(Self::Reinforcement),
            _ => Err(refused("method.type", "must be supervised, dpo or reinforcement")),
        }
    }
}

/// Letters, digits and what stands between them in names of buckets, of Amazon and of Google: no port, and no name of a
/// user.
fn is_bucket(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

/// Those that say something, from where the client put them: the older place is read where the newer one is not there.
fn hyperparameters(body: &Map<String, Value>, method: TuningMethod) -> Result<Map<String, Value>, Fault> {
    let of = format!("method.{}", method.name());
    let members = |field: &str, value: Option<&Value>| match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(members)) => Ok(Some(members.clone())),
        Some(_) => Err(refused(field, "must be an object")),
    };
    let parameters = members(&of, body.get("method").and_then(|told| told.get(method.name())))?;
    let mut place = format!("{of}.hyperparameters");
    let mut told = members(&place, parameters.as_ref().and_then(|told| told.get("hyperparameters")))?;
    if told.is_none() {
        "hyperparameters".clone_into(&mut place);
        told = members(&place, body.get("hyperparameters"))?;
    }
    let mut told = told.unwrap_or_default();
    told.retain(|_, value| !value.is_null() && *value != "auto");
    let is_wrong = |value: &Value| value.as_f64().is_none_or(|number| number <= 0.0);
    match told.iter().find(|(name, value)| NUMBERS.contains(&name.as_str()) && is_wrong(value)) {
        Some((name, _)) => Err(refused(&format!("{place}.{name}"), "must be a number above 0, or auto")),
        None => Ok(told),
    }
}

#[derive(Debug)]
pub(super) struct TuningAsk {
    slug: &'static str,
    body: Map<String, Value>,
    pub(super) method: TuningMethod,
    /// Those that say something: `auto` is what a family does by itself.
    pub(super) hyperparameters: Map<String, Value>,
}

impl TuningAsk {
    pub(super) fn read(slug: &'static str, call: &Call<'_>) -> Result<Self, Fault> {
        let not = || refused("body", "must be a JSON object");
        let body: Map<String, Value> = serde_json::from_slice(call.body).map_err(|_| not())?;
        let method = TuningMethod::of(&body)?;
        let hyperparameters = hyperparameters(&body, method)?;
        let ask = Self { slug, body, method, hyperparameters };
        if ask.text("suffix")?.is_some_and(|suffix| suffix.chars().count() > LONGEST_SUFFIX) {
            return Err(refused("suffix", "must be of 64 characters at most"));
        }
        Ok(ask)
    }

    /// Refuses what the family cannot express; `fields`: what it knows beside what every family does.
    pub(super) fn takes(&self, methods: &[TuningMethod], fields: &[&str]) -> Result<(), Fault> {
        if !methods.contains(&self.method) {
            let rule = format!("is not one that {} trains by: {}", self.slug, self.method.name());
            return Err(refused("method.type", rule));
        }
        let says = |value: &Value| !value.is_null() && value.as_array().is_none_or(|all| !all.is_empty());
        let known = |name: &str| ALWAYS.contains(&name) || fields.contains(&name);
        match self.body.iter().find(|(name, value)| !known(name) && says(value)) {
            Some((name, _)) => Err(refused(name, format!("cannot be expressed at {}", self.slug))),
            None => Ok(()),
        }
    }

    /// Refuses hyperparameters but for these.
    pub(super) fn tunes_by(&self, names: &[&str]) -> Result<(), Fault> {
        match self.hyperparameters.keys().find(|name| !names.contains(&name.as_str())) {
            Some(name) => {
                let field = format!("method.{}.hyperparameters.{name}", self.method.name());
                Err(refused(&field, format!("cannot be expressed at {}", self.slug)))
            }
            None => Ok(()),
        }
    }

    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.body.get(field).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, field: &'static str) -> Result<Option<&str>, Fault> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(refused(field, "must be a text")),
        }
    }

    pub(super) fn needed(&self, field: &'static str) -> Result<&str, Fault> {
        self.text(field)?.ok_or_else(|| refused(field, format!("is needed for a fine-tuning job at {}", self.slug)))
    }

    /// The address of a file in a bucket; such ids are percent-encoded addresses.
    pub(super) fn address(&self, field: &'static str, scheme: &str) -> Result<Option<String>, Fault> {
        let Some(text) = self.text(field)? else { return Ok(None) };
        let address = decoded(text).into_owned();
        let bucket = address.strip_prefix(scheme).and_then(|rest| rest.split('/').next()).unwrap_or_default();
        if is_bucket(bucket) {
            return Ok(Some(address));
        }
        Err(refused(field, format!("must be the address of a file in a bucket at {}, {scheme}bucket/file", self.slug)))
    }

    /// The parameters of the method, beside its hyperparameters.
    pub(super) fn of_method(&self, name: &str) -> Option<&Value> {
        self.get("method")?.get(self.method.name())?.get(name).filter(|value| !value.is_null())
    }
}
