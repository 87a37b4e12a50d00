//! What a client sent, read strictly: an unknown field, a wrong type or a feature that is not in force yet
//! is a 400 that names field and rule. Values are never echoed, since any of them may be a secret.

mod explain;
mod names;
mod query;

pub(crate) use names::{KnownNames, Variable, is_nul};
pub(crate) use query::{Paging, QueryString};

use crate::problem::{Problem, bad, unreadable};
use serde::de::{DeserializeOwned, Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A JSON object on its way to becoming a typed input.
#[derive(Clone, Debug, Default)]
pub(crate) struct JsonBody(pub(crate) Map<String, Value>);

impl JsonBody {
    /// No body at all reads as an empty object, so that what is missing gets named.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::default());
        }
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(map)) if map.iter().any(|(k, v)| is_nul(k) || holds_nul(v)) => {
                Err(unreadable("no text of the body may hold the character U+0000"))
            }
            Ok(Value::Object(map)) => Ok(Self(map)),
            Ok(_) => Err(unreadable("the body must be a JSON object")),
            Err(e) => Err(unreadable(format!("the body is not valid JSON (line {}, column {})", e.line(), e.column()))),
        }
    }

    /// Drops what says again what the path said, and refuses what says otherwise; known names get the spelling that
    /// they are read in. Before anything is told of the body, so that what is masked there goes by one name.
    pub(crate) fn aligned(mut self, known: &KnownNames, vars: &[Variable]) -> Result<Self, Problem> {
        let schema = known.body.map_or(Value::Null, |schema| schema());
        let own = |name: &str| schema["properties"].get(name).is_some() || known.more.contains(&name);
        let given: Vec<String> = self.0.keys().cloned().collect();
        for name in given {
            let variable = vars.iter().any(|(variable, _)| *variable == name);
            let Some(said) = names::said(&name, known.path, vars).filter(|_| variable || !own(&name)) else { continue };
            match self.0.shift_remove(&name) {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) if text == said => {}
                Some(_) => return Err(bad(names::shown(&name), names::OTHERWISE)),
            }
        }
        let everywhere: &[&str] = if known.body.is_some() { &["workspace_id", "organisation_id"] } else { &[] };
        respell(&mut self.0, &schema, &[known.more, everywhere].concat())?;
        Ok(self)
    }

    /// Takes out a text that is read apart from the rest; null is as good as absent.
    pub(crate) fn take_text(&mut self, field: &str) -> Result<Option<String>, Problem> {
        match self.0.shift_remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(_) => Err(bad(field, "must be a string that is not empty")),
        }
    }

    /// Fields of the contract that wait for their feature: their defaults pass, anything else is refused
    /// rather than stored and ignored.
    pub(crate) fn refuse_later(&mut self, under: &str, names: &[&str]) -> Result<(), Problem> {
        for name in names {
            if self.0.shift_remove(*name).is_some_and(|v| !is_nothing(&v)) {
                return Err(bad(format_args!("{under}{name}"), "is not available in this version"));
            }
        }
        Ok(())
    }

    pub(crate) fn read<T: DeserializeOwned>(self) -> Result<T, Problem> {
        self.read_under("")
    }

    /// `under`: where this object stands in the body, with a dot at its end.
    pub(crate) fn read_under<T: DeserializeOwned>(self, under: &str) -> Result<T, Problem> {
        serde_path_to_error::deserialize(Value::Object(self.0)).map_err(|e| explain::problem(under, &e))
    }
}

/// `more`: names that are known beside those of the schema.
fn respell(fields: &mut Map<String, Value>, schema: &Value, more: &[&str]) -> Result<(), Problem> {
    let Some(properties) = schema["properties"].as_object() else { return Ok(()) };
    let names = properties.keys().map(String::as_str).chain(more.iter().copied());
    let given: Vec<String> = fields.keys().cloned().collect();
    for name in given {
        let Some(known) = names::known(&name, names.clone()) else { continue };
        if known != name {
            if fields.contains_key(known) {
                return Err(bad(known, names::TWICE));
            }
            let value = fields.shift_remove(&name).unwrap_or_default();
            fields.insert(known.to_owned(), value);
        }
        if let Some(Value::Object(inner)) = fields.get_mut(known) {
            respell(inner, &properties.get(known).cloned().unwrap_or_default(), &[])?;
        }
    }
    Ok(())
}

fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => is_nul(text),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(fields) => fields.iter().any(|(k, v)| is_nul(k) || holds_nul(v)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
    }
}

/// A field of an update: absent keeps, null clears.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Edit<T> {
    #[default]
    Keep,
    Clear,
    Set(T),
}

impl<T> Edit<T> {
    /// Applies the edit to a field that may be empty.
    pub(crate) fn onto(self, slot: &mut Option<T>) {
        match self {
            Self::Keep => {}
            Self::Clear => *slot = None,
            Self::Set(value) => *slot = Some(value),
        }
    }

    /// The new value of a field that must hold something; `Ok(None)` keeps what is there.
    pub(crate) fn required(self, field: &str) -> Result<Option<T>, Problem> {
        match self {
            Self::Keep => Ok(None),
            Self::Clear => Err(bad(field, "must not be null")),
            Self::Set(value) => Ok(Some(value)),
        }
    }

    /// The new value of a field whose empty state is a default value; `None` keeps what is there.
    pub(crate) fn or_default(self) -> Option<T>
    where
        T: Default,
    {
        match self {
            Self::Keep => None,
            Self::Clear => Some(T::default()),
            Self::Set(value) => Some(value),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Edit<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Option::<T>::deserialize(d)?.map_or(Self::Clear, Self::Set))
    }
}

/// A boolean that clients also write as 0, 1 or in quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Flag(pub(crate) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Value::deserialize(d)? {
            Value::Bool(b) => Ok(Self(b)),
            Value::Number(n) if n.as_f64() == Some(0.0) => Ok(Self(false)),
            Value::Number(n) if n.as_f64() == Some(1.0) => Ok(Self(true)),
            Value::String(s) if s == "false" || s == "0" => Ok(Self(false)),
            Value::String(s) if s == "true" || s == "1" => Ok(Self(true)),
            _ => Err(D::Error::custom("must be true or false")),
        }
    }
}

/// A whole number of at least 0 that clients also write as `5.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WholeNumber(pub(crate) u64);

impl<'de> Deserialize<'de> for WholeNumber {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let value = Value::deserialize(d)?;
        if let Some(n) = value.as_u64() {
            return Ok(Self(n));
        }
        match value.as_f64() {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked to be whole and in range"
            )]
            Some(n) if n.fract() == 0.0 && (0.0..=EXACT).contains(&n) => Ok(Self(n as u64)),
            _ => Err(D::Error::custom("must be an integer of at least 0")),
        }
    }
}

#[cfg(test)]
mod tests;
