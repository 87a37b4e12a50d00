//! Parameters of one check, read by name and type. Each reading that fails adds a problem and gives the default, so
//! that everything wrong is told at once; what no reading asked for is unknown and refused.

use crate::pattern::{Pattern, PatternFlags};
use crate::problem::Problems;
use gateway_domain::egress::{Trusted, check_custom_host};
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Headers of a request that a check may not send on: credentials, what clouds ask of their own machines, and what
/// belongs to one connection only.
const NEVER_FORWARDED: &[&str] = &[
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "ocp-apim-subscription-key",
    "proxy-authorization",
    "cookie",
    "metadata",
    "metadata-flavor",
    "host",
    "connection",
    "content-length",
    "content-type",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const MOST_HEADERS: usize = 50;

pub(crate) struct Parameters<'v> {
    check: &'v str,
    map: &'v Map<String, Value>,
    /// Before the names of fields, for objects within the parameters.
    prefix: String,
    asked: RefCell<BTreeSet<&'static str>>,
    problems: &'v RefCell<Problems>,
    trusted: &'v Trusted,
}

impl<'v> Parameters<'v> {
    pub(crate) fn new(
        check: &'v str,
        map: &'v Map<String, Value>,
        problems: &'v RefCell<Problems>,
        trusted: &'v Trusted,
    ) -> Self {
        Self { check, map, prefix: String::new(), asked: RefCell::default(), problems, trusted }
    }

    pub(crate) fn problem(&self, field: &str, message: impl Into<String>) {
        self.problems.borrow_mut().add(self.check, &format!("{}{field}", self.prefix), message);
    }

    /// The value of a key; null counts as absent.
    pub(crate) fn value(&self, key: &'static str) -> Option<&'v Value> {
        self.asked.borrow_mut().insert(key);
        self.map.get(key).filter(|v| !v.is_null())
    }

    pub(crate) fn has(&self, key: &'static str) -> bool {
        self.value(key).is_some()
    }

    pub(crate) fn required(&self, key: &'static str) -> Option<&'v Value> {
        let found = self.value(key);
        if found.is_none() {
            self.problem(key, "is required");
        }
        found
    }

    pub(crate) fn flag(&self, key: &'static str, default: bool) -> bool {
        match self.value(key) {
            None => default,
            Some(Value::Bool(b)) => *b,
            Some(_) => {
                self.problem(key, "must be true or false");
                default
            }
        }
    }

    pub(crate) fn text(&self, key: &'static str) -> Option<&'v str> {
        match self.value(key)? {
            Value::String(text) => Some(text),
            _ => {
                self.problem(key, "must be a string");
                None
            }
        }
    }

    pub(crate) fn required_text(&self, key: &'static str) -> &'v str {
        match self.required(key) {
            None => "",
            Some(Value::String(text)) if !text.is_empty() => text,
            Some(_) => {
                self.problem(key, "must be a string that is not empty");
                ""
            }
        }
    }

    pub(crate) fn number(&self, key: &'static str, default: u64, range: RangeInclusive<u64>) -> u64 {
        let Some(value) = self.value(key) else { return default };
        // Forms write numbers as text.
        let found = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
        // Some writers of JSON know floating point only.
        let found =
            found.or_else(|| value.as_f64().filter(|f| f.fract() == 0.0 && *f >= 0.0 && *f < 1e15).map(|f| f as u64));
        found.filter(|n| range.contains(n)).unwrap_or_else(|| {
            self.problem(key, format!("must be an integer of {}..{}", range.start(), range.end()));
            default
        })
    }

    /// One of `choices`; the first is the default.
    pub(crate) fn choice(&self, key: &'static str, choices: &[&'static str]) -> &'static str {
        let default = choices.first().copied().unwrap_or_default();
        let Some(value) = self.value(key) else { return default };
        match choices.iter().find(|c| value.as_str() == Some(**c)) {
            Some(found) => found,
            None => {
                self.problem(key, format!("must be one of: {}", choices.join(", ")));
                default
            }
        }
    }

    /// A list of texts, also written as one text with commas.
    pub(crate) fn texts(&self, key: &'static str, most: usize) -> Option<Vec<String>> {
        let found = match self.value(key)? {
            Value::Array(list) => list.iter().map(|v| v.as_str().map(ToOwned::to_owned)).collect::<Option<Vec<_>>>(),
            Value::String(text) => {
                Some(text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(ToOwned::to_owned).collect())
            }
            _ => None,
        };
        match found {
            None => self.problem(key, "must be a list of strings"),
            Some(list) if list.len() > most => self.problem(key, format!("must have at most {most} entries")),
            Some(list) => return Some(list),
        }
        None
    }

    pub(crate) fn required_texts(&self, key: &'static str, most: usize) -> Vec<String> {
        if self.required(key).is_none() {
            return Vec::new();
        }
        let before = self.problems.borrow().len();
        let found = self.texts(key, most).unwrap_or_default();
        if found.is_empty() && self.problems.borrow().len() == before {
            self.problem(key, "must not be empty");
        }
        found
    }

    /// A pattern without flags.
    pub(crate) fn pattern(&self, key: &'static str) -> Option<Pattern> {
        let source = self.required_text(key);
        if source.is_empty() {
            return None;
        }
        self.compiled(key, source, PatternFlags::default())
    }

    pub(crate) fn compiled(&self, key: &str, source: &str, flags: PatternFlags) -> Option<Pattern> {
        let pattern = Pattern::compile(source, flags).map_err(|bad| self.problem(key, bad.0)).ok()?;
        if !self.problems.borrow_mut().weigh(pattern.memory()) {
            self.problem(key, "goes beyond what the patterns of one guardrail may take once they are compiled: 4 MiB");
            return None;
        }
        Some(pattern)
    }

    /// The object under a key as parameters of its own.
    pub(crate) fn object(&self, key: &'static str) -> Option<Parameters<'v>> {
        match self.value(key)? {
            Value::Object(map) => Some(Parameters {
                check: self.check,
                map,
                prefix: format!("{}{key}.", self.prefix),
                asked: RefCell::default(),
                problems: self.problems,
                trusted: self.trusted,
            }),
            _ => {
                self.problem(key, "must be an object");
                None
            }
        }
    }

    pub(crate) fn map(&self, key: &'static str) -> Option<&'v Map<String, Value>> {
        match self.value(key)? {
            Value::Object(map) => Some(map),
            _ => {
                self.problem(key, "must be an object");
                None
            }
        }
    }

    /// Hosts of private networks that checks may call all the same.
    pub(crate) const fn trusted(&self) -> &'v Trusted {
        self.trusted
    }

    /// An address of somebody else's service, checked as far as that can be done without looking its name up: where the
    /// name leads is checked when it is dialled.
    pub(crate) fn address(&self, key: &'static str) -> Option<String> {
        let text = self.required_text(key);
        if text.is_empty() {
            return None;
        }
        match checked_address(text, self.trusted) {
            Ok(()) => Some(text.to_owned()),
            Err(message) => {
                self.problem(key, message);
                None
            }
        }
    }

    /// Headers as an object, or as the text of one.
    pub(crate) fn headers(&self, key: &'static str) -> Vec<(HeaderName, HeaderValue)> {
        let parsed;
        let map = match self.value(key) {
            None => return Vec::new(),
            Some(Value::Object(map)) => map,
            Some(Value::String(text)) if text.trim().is_empty() => return Vec::new(),
            Some(Value::String(text)) => match serde_json::from_str::<Map<String, Value>>(text) {
                Ok(map) => {
                    parsed = map;
                    &parsed
                }
                Err(_) => {
                    self.problem(key, "must be an object, or the JSON text of one");
                    return Vec::new();
                }
            },
            Some(_) => {
                self.problem(key, "must be an object, or the JSON text of one");
                return Vec::new();
            }
        };
        if map.len() > MOST_HEADERS {
            self.problem(key, format!("must have at most {MOST_HEADERS} entries"));
        }
        let mut out = Vec::new();
        for (name, value) in map.iter().take(MOST_HEADERS) {
            let written = match value {
                Value::String(text) => Some(text.clone()),
                Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
                _ => None,
            };
            let field = format!("{key}.{name}");
            match (HeaderName::try_from(name.as_str()), written.and_then(|w| HeaderValue::try_from(w).ok())) {
                (Ok(name), Some(_)) if is_of_the_connection(name.as_str()) => {
                    self.problem(&field, "belongs to the connection and cannot be set");
                }
                (Ok(name), Some(mut value)) => {
                    value.set_sensitive(true);
                    out.push((name, value));
                }
                (Err(_), _) => self.problem(&field, "is no name of a header"),
                (_, None) => self.problem(&field, "must be a text that a header can hold"),
            }
        }
        out
    }

    /// Names of the client's headers that are sent on.
    pub(crate) fn forwarded(&self, key: &'static str) -> Vec<HeaderName> {
        let mut out = Vec::new();
        for (at, name) in self.texts(key, MOST_HEADERS).unwrap_or_default().into_iter().enumerate() {
            let field = format!("{key}[{at}]");
            let lower = name.to_ascii_lowercase();
            let plain = lower.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            let own = lower.starts_with("x-gateway-")
                && !matches!(lower.as_str(), "x-gateway-trace-id" | "x-gateway-span-id");
            let secret = NEVER_FORWARDED.contains(&lower.as_str()) || lower.starts_with("x-aws-ec2-metadata-token");
            match HeaderName::try_from(lower.as_str()) {
                Ok(name) if plain && !own && !secret => out.push(name),
                Ok(_) if plain => self.problem(&field, format!("must not be `{lower}`, which is never sent on")),
                _ => self.problem(&field, "must be a name of letters, digits and hyphens"),
            }
        }
        out
    }

    /// Refuses what nothing asked for.
    pub(crate) fn finish(&self) {
        let asked = self.asked.borrow();
        for key in self.map.keys().filter(|k| !asked.contains(k.as_str())) {
            self.problem(key, "is not a parameter of this check");
        }
    }
}

fn is_of_the_connection(name: &str) -> bool {
    matches!(name, "host" | "connection" | "content-length" | "transfer-encoding" | "upgrade" | "te" | "trailer")
        || name == "keep-alive"
        || name.starts_with("proxy-")
}

/// An address that may be asked: its form, and its host as far as that can be told without looking it up.
pub fn checked_address(text: &str, trusted: &Trusted) -> Result<(), &'static str> {
    checked_url(text)?;
    // The host is checked as it is written, and as it is read for the call: what one spells the other might not see.
    let (scheme, rest) = text.split_once("://").ok_or("must be an address")?;
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    check_custom_host(&format!("{}://{authority}", scheme.to_ascii_lowercase()), trusted)?;
    let Ok(url) = url::Url::parse(text) else { return Err("must be an address") };
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    check_custom_host(&format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default()), trusted).map(drop)
}

/// The form of an address that may be asked: a host, no credentials, no fragment.
pub(crate) fn checked_url(text: &str) -> Result<(), &'static str> {
    // Readers differ in what they make of these, so that one would check another host than the other calls.
    if text.bytes().any(|b| b.is_ascii_control() || matches!(b, b' ' | b'\\')) {
        return Err("must not contain control characters, blanks or backslashes");
    }
    let Ok(url) = url::Url::parse(text) else { return Err("must be an address that begins with https:// or http://") };
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with https:// or http://");
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("must name a host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain credentials");
    }
    if url.fragment().is_some() {
        return Err("must not contain a fragment");
    }
    Ok(())
}
