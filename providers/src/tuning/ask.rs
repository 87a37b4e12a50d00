//! What a client of OpenAI's asks for when it makes a fine-tuning job, read once for all families.

use crate::adapter::Call;
use gateway_domain::path::decoded;
use gateway_domain::{Fault, FaultKind};
use serde_json::{Map, Value};

/// Fields that mean something to every family.
const ALWAYS: &[&str] = &["model", "training_file", "validation_file", "suffix", "method", "hyperparameters"];
const LONGEST_SUFFIX: usize = 64;

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
        // The older place is read where the newer one is not there.
        let newer = &body.get("method").unwrap_or(&Value::Null)[method.name()]["hyperparameters"];
        let told = newer.as_object().or_else(|| body.get("hyperparameters")?.as_object());
        let says = |(_, value): &(&String, &Value)| !value.is_null() && *value != "auto";
        let hyperparameters =
            told.into_iter().flatten().filter(says).map(|(name, value)| (name.clone(), value.clone()));
        let hyperparameters = hyperparameters.collect();
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
        let is_one = address.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
        if is_one {
            return Ok(Some(address));
        }
        Err(refused(field, format!("must be the address of a file in a bucket at {}, {scheme}bucket/file", self.slug)))
    }

    /// The parameters of the method, beside its hyperparameters.
    pub(super) fn of_method(&self, name: &str) -> Option<&Value> {
        self.get("method")?.get(self.method.name())?.get(name).filter(|value| !value.is_null())
    }
}
