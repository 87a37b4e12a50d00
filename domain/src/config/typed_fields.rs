//! Typed values out of a config document, or a problem for each that is not what it must be.
//! Knows no single key's meaning.

use super::compiler::Compiler;
use super::cost::{KEYS, STATUSES};
use super::place::{At, canonical};
use serde_json::{Map, Value};
use std::sync::Arc;

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
