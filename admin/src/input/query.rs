//! The query string: paging, filters and the workspace an Admin key acts on.

use super::names::{self, KnownNames, Variable, is_nul};
use crate::problem::{Problem, bad, unreadable};
use axum::extract::Query as Pairs;
use http::Uri;
use serde_json::{Map, Value};
use std::str::FromStr;

const DEFAULT_PAGE_SIZE: u64 = 100;
const MAX_PAGE_SIZE: u64 = 1000;

#[derive(Clone, Debug, Default)]
pub(crate) struct QueryString(Vec<(String, String)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paging {
    /// Zero-based.
    pub(crate) page: u64,
    pub(crate) size: u64,
}

impl Paging {
    /// Its page of rows that are all here.
    pub(crate) fn cut<T>(self, rows: &[T]) -> &[T] {
        let whole = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let start = whole(self.page.saturating_mul(self.size)).min(rows.len());
        &rows[start..start.saturating_add(whole(self.size)).min(rows.len())]
    }
}

impl QueryString {
    pub(crate) fn parse(uri: &Uri) -> Result<Self, Problem> {
        let pairs = Pairs::<Vec<(String, String)>>::try_from_uri(uri);
        let pairs = pairs.map_err(|_| unreadable("the query string cannot be read"))?.0;
        match pairs.iter().find(|(name, value)| is_nul(name) || is_nul(value)) {
            Some(_) => Err(unreadable("the query string must not hold the character U+0000")),
            None => Ok(Self(pairs)),
        }
    }

    /// Every name in the spelling that the route declares. What says again what the path said is dropped; what the
    /// route does not ask for is refused, since a list or a deletion that passes a filter by does more than was meant.
    pub(crate) fn aligned(self, route: &KnownNames, vars: &[Variable]) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::with_capacity(self.0.len());
        let mut spelled: Vec<(&str, String)> = Vec::new();
        for (name, value) in self.0 {
            if let Some(known) = names::known(&name, route.query.iter().copied()) {
                if spelled.iter().any(|(seen, as_given)| *seen == known && *as_given != name) {
                    return Err(bad(known, names::TWICE));
                }
                spelled.push((known, name));
                pairs.push((known.to_owned(), value));
                continue;
            }
            match names::said(&name, route.path, vars) {
                Some(said) if said == value => {}
                Some(_) => return Err(bad(names::shown(&name), names::OTHERWISE)),
                None if route.later.contains(&name.as_str()) && value.is_empty() => {}
                None if route.later.contains(&name.as_str()) => {
                    return Err(bad(name, "is not available in this version"));
                }
                None if name.is_empty() => return Err(unreadable("the query string holds a value without a name")),
                None => return Err(bad(names::shown(&name), "is not a known parameter of the query")),
            }
        }
        Ok(Self(pairs))
    }

    /// Filters as an object of a body holds them: texts, numbers, lists, objects.
    pub(crate) fn of_filters(given: &Map<String, Value>, known: &'static [&'static str]) -> Result<Self, Problem> {
        let mut pairs: Vec<(String, String)> = Vec::with_capacity(given.len());
        for (name, value) in given {
            let Some(text) = written(value) else { return Err(bad(names::shown(name), "must be a text or a number")) };
            if text.is_empty() {
                continue;
            }
            match names::known(name, known.iter().copied()) {
                Some(known) if pairs.iter().any(|(seen, _)| seen == known) => return Err(bad(known, names::TWICE)),
                Some(known) => pairs.push((known.to_owned(), text)),
                None => return Err(bad(names::shown(name), "is not a known filter")),
            }
        }
        Ok(Self(pairs))
    }

    /// An empty value is as good as none.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.as_str())
    }

    pub(crate) fn parsed<T: FromStr>(&self, name: &str, rule: &str) -> Result<Option<T>, Problem> {
        self.text(name).map(|v| v.parse().map_err(|_| bad(name, rule))).transpose()
    }

    /// Comma-separated, each item held to `rule`.
    pub(crate) fn list<T: FromStr>(&self, name: &str, rule: &str) -> Result<Vec<T>, Problem> {
        let items = self.0.iter().filter(|(n, _)| n == name).flat_map(|(_, v)| v.split(','));
        let items = items.map(str::trim).filter(|v| !v.is_empty());
        items.map(|v| v.parse().map_err(|_| bad(name, rule))).collect()
    }

    pub(crate) fn one_of<'a>(&'a self, name: &str, allowed: &[&str]) -> Result<Option<&'a str>, Problem> {
        match self.text(name) {
            Some(v) if !allowed.contains(&v) => Err(bad(name, format_args!("must be one of {}", allowed.join(", ")))),
            v => Ok(v),
        }
    }

    pub(crate) fn paging(&self) -> Result<Paging, Problem> {
        self.paging_by("current_page", "page_size", MAX_PAGE_SIZE)
    }

    /// Some lists name their pages otherwise, or have smaller ones.
    pub(crate) fn paging_by(&self, page: &str, size: &str, most: u64) -> Result<Paging, Problem> {
        let at = self.parsed::<u32>(page, "must be an integer of 0..4294967295")?.map_or(0, u64::from);
        let rule = format!("must be an integer of 0..{most}");
        let length = self.parsed(size, &rule)?.unwrap_or(DEFAULT_PAGE_SIZE);
        if length > most {
            return Err(bad(size, format_args!("must be at most {most}")));
        }
        Ok(Paging { page: at, size: length })
    }
}

/// The value as a query string would write it: empty for one that says nothing, `None` for one that has no such form.
fn written(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(items) => {
            let plain = |item: &Value| (item.is_string() || item.is_number()).then(|| written(item)).flatten();
            Some(items.iter().map(plain).collect::<Option<Vec<String>>>()?.join(","))
        }
        Value::Object(fields) if fields.is_empty() => Some(String::new()),
        Value::Object(_) => Some(value.to_string()),
        Value::Bool(_) => None,
    }
}
