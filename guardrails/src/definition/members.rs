//! The members of an object whose keys may be written in snake or camel case. Knows no key's meaning.

use crate::problem::Problems;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// A key in snake case.
pub(super) fn snake(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    // Camel case writes the number without a mark of its own.
    if out == "soft_deny200" { "soft_deny_200".to_owned() } else { out }
}

pub(super) struct ObjectMembers<'v> {
    map: Vec<(String, &'v Value)>,
    prefix: String,
    asked: RefCell<BTreeSet<&'static str>>,
    problems: &'v RefCell<Problems>,
}

impl<'v> ObjectMembers<'v> {
    pub(super) fn read(map: &'v Map<String, Value>, problems: &'v RefCell<Problems>, prefix: &str) -> Self {
        let mut out: Vec<(String, &Value)> = Vec::with_capacity(map.len());
        for (key, value) in map {
            let name = snake(key);
            if out.iter().any(|(k, _)| *k == name) {
                problems.borrow_mut().add("", &format!("{prefix}{key}"), "is given twice, in two casings");
            } else {
                out.push((name, value));
            }
        }
        Self { map: out, prefix: prefix.to_owned(), asked: RefCell::default(), problems }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.map.iter().map(|(k, _)| k.as_str())
    }

    /// The value of a key; null counts as absent.
    pub(super) fn value(&self, key: &'static str) -> Option<&'v Value> {
        self.asked.borrow_mut().insert(key);
        self.map.iter().find(|(k, _)| k == key).map(|(_, v)| *v).filter(|v| !v.is_null())
    }

    pub(super) fn has(&self, key: &'static str) -> bool {
        self.value(key).is_some()
    }

    fn problem(&self, key: &str, message: impl Into<String>) {
        self.problems.borrow_mut().add("", &format!("{}{key}", self.prefix), message);
    }

    pub(super) fn flag(&self, key: &'static str) -> bool {
        match self.value(key) {
            None => false,
            Some(Value::Bool(b)) => *b,
            Some(_) => {
                self.problem(key, "must be true or false");
                false
            }
        }
    }

    pub(super) fn number(&self, key: &'static str, default: u64, range: RangeInclusive<u64>) -> u64 {
        let Some(value) = self.value(key) else { return default };
        value.as_u64().filter(|n| range.contains(n)).unwrap_or_else(|| {
            self.problem(key, format!("must be an integer of {}..{}", range.start(), range.end()));
            default
        })
    }

    pub(super) fn object(&self, key: &'static str) -> Option<&'v Map<String, Value>> {
        match self.value(key)? {
            Value::Object(map) => Some(map),
            _ => {
                self.problem(key, "must be an object");
                None
            }
        }
    }

    /// A key that says nothing here and may be there.
    pub(super) fn ignore(&self, key: &'static str) {
        self.asked.borrow_mut().insert(key);
    }

    /// Refuses what nothing asked for.
    pub(super) fn finish(&self) {
        let asked = self.asked.borrow();
        for (key, _) in self.map.iter().filter(|(k, _)| !asked.contains(k.as_str())) {
            self.problem(key, "is not a known key");
        }
    }
}
