//! The query language of conditional routing, compiled when a config is: operators are known, patterns are built,
//! and what a key names is decided. Asking a query about a request is pure.

mod parser;
mod pattern;

use super::cost::{MATCHING, VALUE_TEXT, start};
use super::request_attributes::RequestAttributes;
use pattern::QueryPattern;
use serde_json::Value;
use std::borrow::Cow;
use std::io;

/// Steps in the order in which they stand; the first that decides ends it.
#[derive(Debug, Default)]
pub struct Query(Vec<QueryClause>);

#[derive(Debug)]
enum QueryClause {
    /// Decides at once: what stands behind it in the same object is not looked at.
    And(Vec<Query>),
    Or(Vec<Query>),
    Field(QueryKey, FieldTest),
}

/// What a key path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum QueryKey {
    Metadata(Box<str>),
    /// A key of the body, and steps below it (only for sticky fields: queries have exactly two segments).
    Param(Box<str>, Box<[Box<str>]>),
    Pathname,
    /// Any other path: legal, and never there.
    Nothing,
}

#[derive(Debug)]
enum FieldTest {
    Is(Value),
    All(Vec<Op>),
}

#[derive(Debug)]
enum Op {
    Eq(Value),
    Ne(Value),
    Gt(Option<f64>),
    Gte(Option<f64>),
    Lt(Option<f64>),
    Lte(Option<f64>),
    /// `None`: not an array, which is never true.
    In(Option<Vec<Value>>),
    Nin(Option<Vec<Value>>),
    /// Decides at once, as `$and` does.
    Regex(QueryPattern),
}

/// The value that a key names in one request, where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) enum QueryValue<'a> {
    Text(&'a str),
    Json(&'a Value),
}

impl<'a> QueryValue<'a> {
    const fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Json(Value::String(text)) => Some(text.as_str()),
            Self::Json(_) => None,
        }
    }
}

impl QueryKey {
    pub(super) fn parse(path: &str) -> Self {
        let mut segments = path.split('.');
        match (segments.next(), segments.next(), segments.next()) {
            (Some("metadata"), Some(key), None) => Self::Metadata(key.into()),
            (Some("params"), Some(key), None) => Self::Param(key.into(), Box::default()),
            (Some("url"), Some("pathname"), None) => Self::Pathname,
            _ => Self::Nothing,
        }
    }

    /// A field of `sticky`: as above, but params may be deep, and a path that names nothing is an error.
    pub(super) fn parse_field(path: &str) -> Option<Self> {
        if let Some((key, below)) = path.strip_prefix("params.").and_then(|rest| rest.split_once('.')) {
            let below: Box<[Box<str>]> = below.split('.').map(Into::into).collect();
            let whole = !key.is_empty() && below.iter().all(|s| !s.is_empty());
            return whole.then(|| Self::Param(key.into(), below));
        }
        let key = Self::parse(path);
        let named = match &key {
            Self::Metadata(name) | Self::Param(name, _) => !name.is_empty(),
            Self::Pathname => true,
            Self::Nothing => false,
        };
        named.then_some(key)
    }

    pub(super) fn find<'a>(&self, look: &'a dyn RequestAttributes) -> Option<QueryValue<'a>> {
        match self {
            Self::Metadata(key) => look.metadata(key).map(QueryValue::Text),
            Self::Param(key, below) => {
                let value = below.iter().try_fold(look.param(key)?, |v, step| v.get(&**step))?;
                Some(QueryValue::Json(value))
            }
            Self::Pathname => Some(QueryValue::Text(look.pathname())),
            Self::Nothing => None,
        }
    }
}

/// What is left of the work that patterns may do for one request.
#[derive(Clone, Debug)]
pub struct Effort(u64);

impl Default for Effort {
    fn default() -> Self {
        Self(MATCHING)
    }
}

/// The patterns of a config would take longer for this request than they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

impl Effort {
    fn spend(&mut self, pattern: &QueryPattern, text: &str) -> Result<(), Exhausted> {
        let cost = pattern.memory() as u64 * text.len() as u64;
        match self.0.checked_sub(cost) {
            Some(left) => self.0 = left,
            None => return Err(Exhausted),
        }
        Ok(())
    }
}

impl Query {
    pub(super) fn matches(&self, look: &dyn RequestAttributes, effort: &mut Effort) -> Result<bool, Exhausted> {
        for part in &self.0 {
            match part {
                QueryClause::And(queries) => return each(queries, false, look, effort).map(|found| !found),
                QueryClause::Or(queries) => return each(queries, true, look, effort),
                QueryClause::Field(key, test) => {
                    if !test.holds(key.find(look), effort)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// The body's keys that this query may ask for.
    pub(super) fn params(&self, out: &mut Vec<Box<str>>) {
        for part in &self.0 {
            match part {
                QueryClause::And(queries) | QueryClause::Or(queries) => queries.iter().for_each(|q| q.params(out)),
                QueryClause::Field(key, _) => key.params(out),
            }
        }
    }
}

/// Whether any query gives `wanted`; those behind it are not asked.
fn each(queries: &[Query], wanted: bool, look: &dyn RequestAttributes, effort: &mut Effort) -> Result<bool, Exhausted> {
    for query in queries {
        if query.matches(look, effort)? == wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

impl QueryKey {
    pub(super) fn params(&self, out: &mut Vec<Box<str>>) {
        if let Self::Param(key, _) = self
            && !out.contains(key)
        {
            out.push(key.clone());
        }
    }
}

impl FieldTest {
    fn holds(&self, found: Option<QueryValue<'_>>, effort: &mut Effort) -> Result<bool, Exhausted> {
        match self {
            Self::Is(value) => Ok(found.is_some_and(|f| same(f, value))),
            Self::All(ops) => {
                for op in ops {
                    if let Op::Regex(pattern) = op {
                        let text = text(found);
                        effort.spend(pattern, &text)?;
                        return Ok(pattern.is_match(&text));
                    }
                    if !op.holds(found) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

impl Op {
    fn holds(&self, found: Option<QueryValue<'_>>) -> bool {
        let compare =
            |bound: &Option<f64>, by: fn(&f64, &f64) -> bool| match (found.and_then(QueryValue::number), bound) {
                (Some(found), Some(bound)) => by(&found, bound),
                _ => false,
            };
        let among = |list: &Vec<Value>| found.is_some_and(|f| list.iter().any(|v| same(f, v)));
        match self {
            Self::Eq(value) => found.is_some_and(|f| same(f, value)),
            Self::Ne(value) => !found.is_some_and(|f| same(f, value)),
            Self::Gt(bound) => compare(bound, f64::gt),
            Self::Gte(bound) => compare(bound, f64::ge),
            Self::Lt(bound) => compare(bound, f64::lt),
            Self::Lte(bound) => compare(bound, f64::le),
            Self::In(list) => list.as_ref().is_some_and(among),
            Self::Nin(list) => list.as_ref().is_some_and(|l| !among(l)),
            // Asked where it stands, since it decides there.
            Self::Regex(_) => true,
        }
    }
}

/// Equal in type and value; 1 and 1.0 are one number, as they are in JSON. Objects and arrays equal nothing.
fn same(found: QueryValue<'_>, wanted: &Value) -> bool {
    let json = match found {
        QueryValue::Text(text) => return wanted.as_str() == Some(text),
        QueryValue::Json(json) => json,
    };
    match (json, wanted) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Null, Value::Null) => true,
        _ => false,
    }
}

impl QueryValue<'_> {
    /// A number, or that at the start of a text: `"12 items"` is 12, `"x"` and `true` are none.
    fn number(self) -> Option<f64> {
        match self {
            Self::Json(Value::Number(number)) => number.as_f64(),
            other => leading(other.text()?),
        }
    }
}

fn leading(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(sign);
    let mut end = sign + whole;
    let mut fraction = 0;
    if bytes.get(end) == Some(&b'.') {
        fraction = digits(end + 1);
        end += if whole + fraction > 0 { 1 + fraction } else { 0 };
    }
    if whole + fraction == 0 {
        return None;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let signed = end + 1 + usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = if signed <= bytes.len() { digits(signed) } else { 0 };
        if exponent > 0 {
            end = signed + exponent;
        }
    }
    text[..end].parse().ok()
}

/// What `$regex` reads: a value that is missing reads `undefined`, and of a long one the start.
fn text(found: Option<QueryValue<'_>>) -> Cow<'_, str> {
    match found {
        None => Cow::Borrowed("undefined"),
        Some(found) => match (found.text(), found) {
            (Some(text), _) | (None, QueryValue::Text(text)) => Cow::Borrowed(start(text, VALUE_TEXT)),
            (None, QueryValue::Json(other)) => Cow::Owned(written(other)),
        },
    }
}

/// JSON text of a value, as far as it is read.
pub(super) fn written(value: &Value) -> String {
    struct TextStart(Vec<u8>);
    impl io::Write for TextStart {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let room = VALUE_TEXT - self.0.len();
            self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if bytes.len() > room { Err(io::ErrorKind::StorageFull.into()) } else { Ok(bytes.len()) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut out = TextStart(Vec::new());
    // It fails when the room is used up, and what was written until then is what is wanted.
    let _ = serde_json::to_writer(&mut out, value);
    match String::from_utf8(out.0) {
        Ok(text) => text,
        Err(cut) => String::from_utf8_lossy(cut.as_bytes()).into_owned(),
    }
}

#[cfg(test)]
mod tests;
