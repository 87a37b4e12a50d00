//! Reading a config document: keys in either casing, typed values, and problems that know their place.
//! Knows no single key's meaning.

use super::Problem;
use super::cost::{KEYS, PROBLEMS, STATUSES, quoted, start};
use super::fields::Compiler;
use serde_json::{Map, Value};
use std::sync::Arc;

/// snake_case of a key that may be camelCase.
pub(super) fn canonical(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    // Two more spellings of one key are about, and camelCase of an acronym is one of them.
    match out.as_str() {
        "strict_openai_compliance" | "strict_open_a_i_compliance" => "strict_open_ai_compliance".to_owned(),
        _ => out,
    }
}

/// Where in the document we are, as keys and indices.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) parent: Option<&'a At<'a>>,
    pub(super) step: &'a str,
}

impl<'a> At<'a> {
    pub(super) const ROOT: At<'static> = At { parent: None, step: "" };

    pub(super) const fn then(&'a self, step: &'a str) -> Self {
        At { parent: Some(self), step }
    }

    pub(super) fn path(&self) -> String {
        match self.parent {
            Some(p) if !p.step.is_empty() => format!("{},{}", p.path(), quoted(self.step)),
            _ => quoted(self.step).to_owned(),
        }
    }
}

/// A message that quotes what a client wrote is cut off here.
const LONGEST: usize = 256;

/// The keys of one object in snake_case. A key that is null counts as absent.
pub(super) struct Fields<'v>(Vec<(String, &'v Value)>);

impl<'v> Fields<'v> {
    pub(super) fn get(&self, key: &str) -> Option<&'v Value> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| *v)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(k, _)| k.as_str())
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Compiler<'_> {
    /// A broken rule of the key `step` of the object at `at`.
    pub(super) fn problem(&mut self, at: &At<'_>, step: &str, message: impl Into<String>) {
        self.here(&at.then(step), message);
    }

    /// A broken rule of the value at `at` itself.
    pub(super) fn here(&mut self, at: &At<'_>, message: impl Into<String>) {
        if self.problems.len() >= PROBLEMS {
            self.untold += 1;
            return;
        }
        let message: String = message.into();
        let message = if message.len() <= LONGEST { message } else { format!("{}…", start(&message, LONGEST)) };
        self.problems.push(Problem { path: at.path(), message });
    }

    pub(super) fn fields<'v>(&mut self, at: &At<'_>, map: &'v Map<String, Value>) -> Fields<'v> {
        if map.len() > KEYS {
            self.here(at, format!("must have at most {KEYS} keys"));
            return Fields(Vec::new());
        }
        let mut out: Vec<(String, &'v Value)> = Vec::with_capacity(map.len());
        for (key, value) in map {
            let name = canonical(key);
            if out.iter().any(|(k, _)| *k == name) {
                self.problem(at, key, "is given twice, in two casings");
            } else if !value.is_null() {
                out.push((name, value));
            }
        }
        Fields(out)
    }

    /// The object at `at`, whose keys must be among `known`.
    pub(super) fn object<'v>(&mut self, at: &At<'_>, value: &'v Value, known: &[&str]) -> Option<Fields<'v>> {
        let Value::Object(map) = value else {
            self.here(at, "must be an object");
            return None;
        };
        let fields = self.fields(at, map);
        for key in fields.keys().filter(|k| !known.contains(k)) {
            self.problem(at, key, "is not a known key");
        }
        Some(fields)
    }

    pub(super) fn string<'v>(&mut self, at: &At<'_>, fields: &Fields<'v>, key: &str) -> Option<&'v str> {
        match fields.get(key)? {
            Value::String(s) if !s.is_empty() => Some(s),
            _ => {
                self.problem(at, key, "must be a string that is not empty");
                None
            }
        }
    }

    pub(super) fn boolean(&mut self, at: &At<'_>, fields: &Fields<'_>, key: &str) -> Option<bool> {
        match fields.get(key)? {
            Value::Bool(b) => Some(*b),
            _ => {
                self.problem(at, key, "must be true or false");
                None
            }
        }
    }

    /// An integer within `least..=most`.
    pub(super) fn integer(
        &mut self,
        at: &At<'_>,
        fields: &Fields<'_>,
        key: &str,
        (least, most): (u64, u64),
    ) -> Option<u64> {
        let value = fields.get(key)?;
        let found = value.as_u64().filter(|n| (least..=most).contains(n));
        if found.is_none() {
            let rule = match most {
                u64::MAX => format!("must be an integer of at least {least}"),
                _ => format!("must be an integer of {least}..{most}"),
            };
            self.problem(at, key, rule);
        }
        found
    }

    pub(super) fn statuses(&mut self, at: &At<'_>, fields: &Fields<'_>, key: &str) -> Option<Arc<[u16]>> {
        let status = |v: &Value| v.as_u64().and_then(|n| u16::try_from(n).ok()).filter(|n| (100..=599).contains(n));
        let listed = fields.get(key)?.as_array().filter(|l| l.len() <= STATUSES);
        let codes = listed.and_then(|l| l.iter().map(status).collect());
        if codes.is_none() {
            self.problem(at, key, format!("must be an array of at most {STATUSES} status codes 100..599"));
        }
        codes
    }

    /// An array of strings, or `None` and a problem.
    pub(super) fn strings<'v>(
        &mut self,
        at: &At<'_>,
        fields: &Fields<'v>,
        key: &str,
        of: &str,
    ) -> Option<Vec<&'v str>> {
        let list = fields.get(key)?.as_array().and_then(|l| l.iter().map(Value::as_str).collect());
        if list.is_none() {
            self.problem(at, key, format!("must be an array of {of}"));
        }
        list
    }
}
