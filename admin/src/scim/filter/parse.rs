//! Reads a filter by its grammar. `not` binds closer than `and`, `and` closer than `or`; words are in any case.

use super::expression::{Comparison, ScimFilter};
use crate::problem::Problem;
use crate::scim::path::{AttributePath, NoPath};
use crate::scim::refusal::invalid_filter;
use crate::scim::schema::{AttributeType, ResourceType, SchemaAttribute};
use serde_json::Value;

const LONGEST: usize = 4096;
const DEEPEST: usize = 16;
const MOST_TERMS: usize = 100;

pub(crate) fn parse(text: &str, of: &'static ResourceType) -> Result<ScimFilter, Problem> {
    FilterParser::new(text, of, None)?.whole()
}

/// A filter on the values of one attribute, as it stands between brackets.
pub(crate) fn parse_values(
    text: &str,
    of: &'static ResourceType,
    parent: AttributePath,
) -> Result<ScimFilter, Problem> {
    FilterParser::new(text, of, Some(parent))?.whole()
}

struct FilterParser<'t> {
    rest: &'t str,
    of: &'static ResourceType,
    /// Names are those of parts of this.
    parent: Option<AttributePath>,
    depth: usize,
    terms: usize,
}

impl<'t> FilterParser<'t> {
    fn new(text: &'t str, of: &'static ResourceType, parent: Option<AttributePath>) -> Result<Self, Problem> {
        if text.len() > LONGEST {
            return Err(invalid_filter(format_args!("must be at most {LONGEST} bytes")));
        }
        Ok(Self { rest: text, of, parent, depth: 0, terms: 0 })
    }

    fn whole(mut self) -> Result<ScimFilter, Problem> {
        let filter = self.any()?;
        self.skip();
        if self.rest.is_empty() { Ok(filter) } else { Err(invalid_filter("has something behind its end")) }
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes a sign.
    fn takes(&mut self, sign: char) -> bool {
        self.skip();
        let Some(rest) = self.rest.strip_prefix(sign) else { return false };
        self.rest = rest;
        true
    }

    /// The next word, which stays where it is.
    fn word(&self) -> &'t str {
        let rest = self.rest.trim_start();
        let end =
            rest.find(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '[' | ']' | '"')).unwrap_or(rest.len());
        &rest[..end]
    }

    fn next_word(&mut self) -> &'t str {
        let word = self.word();
        self.skip();
        self.rest = &self.rest[word.len()..];
        word
    }

    fn takes_word(&mut self, wanted: &str) -> bool {
        let found = self.word().eq_ignore_ascii_case(wanted);
        if found {
            self.next_word();
        }
        found
    }

    fn deeper<T>(&mut self, run: impl FnOnce(&mut Self) -> Result<T, Problem>) -> Result<T, Problem> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(invalid_filter(format_args!("must not be nested deeper than {DEEPEST}")));
        }
        let done = run(self);
        self.depth -= 1;
        done
    }

    fn any(&mut self) -> Result<ScimFilter, Problem> {
        let mut all = vec![self.all()?];
        while self.takes_word("or") {
            all.push(self.all()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { ScimFilter::Any(all) })
    }

    fn all(&mut self) -> Result<ScimFilter, Problem> {
        let mut all = vec![self.one()?];
        while self.takes_word("and") {
            all.push(self.one()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { ScimFilter::All(all) })
    }

    fn one(&mut self) -> Result<ScimFilter, Problem> {
        if self.takes('(') {
            return self.group();
        }
        // An attribute may be called so; a group behind it says that it is the word.
        if self.word().eq_ignore_ascii_case("not") && self.rest.trim_start()[3..].trim_start().starts_with('(') {
            self.next_word();
            self.takes('(');
            return Ok(ScimFilter::Not(Box::new(self.group()?)));
        }
        self.terms += 1;
        if self.terms > MOST_TERMS {
            return Err(invalid_filter(format_args!("must hold at most {MOST_TERMS} comparisons")));
        }
        let path = self.path()?;
        if self.rest.starts_with('[') {
            return self.within(path);
        }
        let operator = self.next_word().to_ascii_lowercase();
        if operator == "pr" {
            return Ok(ScimFilter::Present(path));
        }
        let comparison = comparison(&operator).ok_or_else(|| {
            invalid_filter("must have one of eq, ne, co, sw, ew, gt, ge, lt, le, pr behind an attribute")
        })?;
        let value = self.value()?;
        check(path, comparison, &value)?;
        Ok(ScimFilter::Compare(path, comparison, value))
    }

    fn group(&mut self) -> Result<ScimFilter, Problem> {
        let inner = self.deeper(Self::any)?;
        if self.takes(')') { Ok(inner) } else { Err(invalid_filter("lacks a closing parenthesis")) }
    }

    fn within(&mut self, path: Option<AttributePath>) -> Result<ScimFilter, Problem> {
        if self.parent.is_some() {
            return Err(invalid_filter("must not have brackets inside brackets"));
        }
        self.takes('[');
        self.parent = path;
        let unknown = path.is_none();
        let inner = self.deeper(Self::any)?;
        self.parent = None;
        if !self.takes(']') {
            return Err(invalid_filter("lacks a closing bracket"));
        }
        Ok(ScimFilter::Within(path.filter(|_| !unknown), Box::new(inner)))
    }

    fn path(&mut self) -> Result<Option<AttributePath>, Problem> {
        let name = self.next_word();
        if let Some(parent) = self.parent {
            let part = parent.attribute.and_then(|attribute| attribute.part(name));
            return Ok(part.map(|part| AttributePath { part: Some(part), ..parent }));
        }
        match AttributePath::read(name, self.of) {
            Ok(path) => Ok(Some(path)),
            // What no resource has, has no value (RFC 7644, 3.4.2.2).
            Err(NoPath::Unknown) => Ok(None),
            Err(NoPath::Malformed) if name.is_empty() => Err(invalid_filter("ends where an attribute is expected")),
            Err(NoPath::Malformed) => Err(invalid_filter("holds what is no name of an attribute")),
        }
    }

    fn value(&mut self) -> Result<Value, Problem> {
        self.skip();
        if !self.rest.starts_with('"') {
            let word = self.next_word();
            let plain = ["true", "false", "null"].iter().find(|known| word.eq_ignore_ascii_case(known));
            let value: Option<Value> = serde_json::from_str(plain.copied().unwrap_or(word)).ok();
            let rule = "must compare with a text in quotes, a number, true, false or null";
            return value.filter(|value| !value.is_object() && !value.is_array()).ok_or_else(|| invalid_filter(rule));
        }
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter::<String>();
        let text = values.next().and_then(Result::ok);
        let text = text.ok_or_else(|| invalid_filter("holds a text that does not end, or is no JSON"))?;
        self.rest = &self.rest[values.byte_offset()..];
        Ok(Value::String(text))
    }
}

fn comparison(word: &str) -> Option<Comparison> {
    Some(match word {
        "eq" => Comparison::Equal,
        "ne" => Comparison::NotEqual,
        "co" => Comparison::Contains,
        "sw" => Comparison::StartsWith,
        "ew" => Comparison::EndsWith,
        "gt" => Comparison::Greater,
        "ge" => Comparison::AtLeast,
        "lt" => Comparison::Less,
        "le" => Comparison::AtMost,
        _ => return None,
    })
}

/// What is compared in the end: a part, else the value of one that has parts.
pub(super) fn leaf(path: AttributePath) -> Option<&'static SchemaAttribute> {
    let attribute = path.attribute?;
    path.part.or_else(|| attribute.part("value")).or(Some(attribute))
}

fn check(path: Option<AttributePath>, comparison: Comparison, value: &Value) -> Result<(), Problem> {
    let Some(leaf) = path.and_then(leaf) else { return Ok(()) };
    let is_equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
    match leaf.of {
        _ if is_equality => Ok(()),
        AttributeType::Flag | AttributeType::Binary | AttributeType::Complex => {
            Err(invalid_filter(format_args!("compares {}, which can only be equal or not", leaf.name)))
        }
        _ if value.is_string() => Ok(()),
        _ => Err(invalid_filter(format_args!("must compare {} with a text", leaf.name))),
    }
}
