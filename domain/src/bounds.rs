//! One pass over a JSON body: finds model, stream and usage wishes, and holds the body to the types, ranges
//! and sizes that `docs/data-plane.md` states. Borrows from the body and copies nothing.
//! Unknown fields pass; what a provider would refuse for its own reasons is left to it.

mod fast_path;
mod messages;
mod rules;

use crate::fault::{Fault, FaultKind};
use crate::form::ClientForm;
use crate::operation::Operation;
use rules::{FieldRule, Narrow};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// What the gateway needs to know of a body before it chooses a target.
#[derive(Debug, Default, PartialEq)]
pub struct Peek<'a> {
    pub model: Option<Cow<'a, str>>,
    /// Where the value of `model` stands, quotes included.
    pub model_span: Option<Range<usize>>,
    pub stream: bool,
    /// `stream_options.include_usage` is true.
    pub wants_usage: bool,
    /// A top-level field is spelled `Model` or the like: servers that read names without their case take it for
    /// `model`.
    pub model_respelled: bool,
    /// False for a body of a raw operation that is no JSON: nobody knows what it asks for.
    pub read: bool,
    /// No member anywhere has a name by which [kept objects](crate::kept) are named. False where nobody looked.
    pub names_no_object: bool,
}

/// Reads `body` for `operation`. For raw operations nothing is enforced: JSON that is no object has no model, and what
/// is no JSON, or names its model twice, is [not read](Peek::read).
pub fn peek(operation: Operation, body: &[u8]) -> Result<Peek<'_>, Fault> {
    let rules = rules::of(operation);
    if let Some(peek) = fast_path::look(rules, body) {
        return Ok(peek);
    }
    match read(rules, body) {
        Ok(peek) => Ok(peek),
        Err(_) if operation == Operation::Proxy => Ok(Peek { read: is_other_json(body), ..Peek::default() }),
        Err(error) => Err(fault(&error)),
    }
}

/// Finds in a form what [`peek`] finds in JSON. Its fields are held to the rules that hold for JSON of this operation;
/// its files are not looked into.
pub fn peek_form<'a>(operation: Operation, form: &ClientForm, body: &'a [u8]) -> Result<Peek<'a>, Fault> {
    let broken = |why: String| fault(&serde::de::Error::custom(why));
    let mut peek = Peek { read: true, ..Peek::default() };
    let mut narrow = Vec::new();
    for rule in rules::of(operation) {
        let mut fields = form.named(rule.field).filter(|part| part.filename.is_none());
        let Some(part) = fields.next() else { continue };
        if fields.next().is_some() {
            return Err(broken(format!("`{}` is given twice", rule.field)));
        }
        let value = body.get(part.value.clone()).unwrap_or_default();
        let text = std::str::from_utf8(value).map_err(|_| broken(format!("`{}` must be UTF-8", rule.field)))?;
        let raw = rule.raw_of(text);
        rule.check(&raw).map_err(broken)?;
        narrow.extend(rule.only_for(&raw));
        match rule.field {
            "model" if !text.is_empty() => peek.model = Some(Cow::Borrowed(text)),
            "stream" => peek.stream = raw == "true",
            _ => {}
        }
    }
    let is_like_model = |name: &str| name != "model" && name.eq_ignore_ascii_case("model");
    peek.model_respelled = form.parts().iter().any(|part| is_like_model(&part.name));
    let asked = peek.model.as_deref().unwrap_or_default();
    match narrow.into_iter().find(|narrow| narrow.is_of(asked)) {
        Some(narrow) => Err(broken(narrow.rule)),
        None => Ok(peek),
    }
}

fn read<'a>(rules: &'static [FieldRule], body: &'a [u8]) -> Result<Peek<'a>, serde_json::Error> {
    // Checked once as a whole, which is far cheaper than string by string.
    let text = std::str::from_utf8(body).map_err(|_| serde::de::Error::custom("the request body must be UTF-8"))?;
    let mut json = serde_json::Deserializer::from_str(text);
    let found = (&mut json).deserialize_map(BodyVisitor { rules })?;
    json.end()?;
    let BodyFields { model, stream, wants_usage, model_respelled, narrow } = found;
    let mut peek = Peek { stream, wants_usage, model_respelled, read: true, ..Peek::default() };
    if let Some(raw) = model {
        let text = raw.get();
        // The raw text borrows from `body`, so its place is the distance between the two.
        let start = (text.as_ptr() as usize).wrapping_sub(body.as_ptr() as usize);
        peek.model_span = Some(start..start + text.len());
        peek.model = Some(BorrowedText::deserialize(raw)?.0);
    }
    let asked = peek.model.as_deref().unwrap_or_default();
    match narrow.into_iter().find(|narrow| narrow.is_of(asked)) {
        Some(narrow) => Err(serde::de::Error::custom(narrow.rule)),
        None => Ok(peek),
    }
}

/// Whether a body is JSON, and no object.
fn is_other_json(body: &[u8]) -> bool {
    !body.trim_ascii_start().starts_with(b"{") && serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok()
}

#[derive(Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

/// Rule breaks are spelled "`field` rule" by this module, so that the field can be told to the client.
fn fault(error: &serde_json::Error) -> Fault {
    let text = error.to_string();
    if error.is_data() {
        let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(head, _)| head);
        // serde quotes the value it met as well; the field stands behind "expected".
        let named = text.split_once("expected ").map_or(text, |(_, rest)| rest);
        let field = named.split('`').nth(1).unwrap_or_default().to_owned();
        let fault = Fault::new(FaultKind::BadBody, text.replace('`', ""));
        return if field.is_empty() { fault } else { fault.on(field) };
    }
    let empty = error.is_eof() && (error.line(), error.column()) == (1, 0);
    let why = if empty { "it is empty" } else { &text };
    Fault::new(FaultKind::BadBody, format!("The request body is not valid JSON: {why}"))
}

#[derive(Default)]
struct BodyFields<'a> {
    model: Option<&'a RawValue>,
    stream: bool,
    wants_usage: bool,
    model_respelled: bool,
    /// Values that some models do not take.
    narrow: Vec<Narrow>,
}

struct BodyVisitor {
    rules: &'static [FieldRule],
}

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = BodyFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<BodyFields<'de>, A::Error> {
        let mut found = BodyFields::default();
        let mut seen = 0u64;
        while let Some(BodyKey(key)) = map.next_key::<BodyKey<'de>>()? {
            let Some(i) = self.rules.iter().position(|r| r.field == key) else {
                if rules::is_closed(self.rules) {
                    return Err(serde::de::Error::custom(format!("`{key}` is not allowed here")));
                }
                map.next_value::<serde::de::IgnoredAny>()?;
                found.model_respelled |= key.eq_ignore_ascii_case("model");
                continue;
            };
            if seen & (1 << i) != 0 {
                return Err(serde::de::Error::custom(format!("`{key}` is given twice")));
            }
            seen |= 1 << i;
            let rule = &self.rules[i];
            if matches!(rule.shape, rules::FieldShape::Messages) {
                map.next_value_seed(messages::Messages)?;
                continue;
            }
            let raw: &RawValue = map.next_value()?;
            rule.check(raw.get()).map_err(serde::de::Error::custom)?;
            found.narrow.extend(rule.only_for(raw.get()));
            match rule.field {
                "model" if raw.get() != "null" => found.model = Some(raw),
                "stream" => found.stream = raw.get() == "true",
                "stream_options" => found.wants_usage = includes_usage(raw.get()),
                _ => {}
            }
        }
        for (i, rule) in self.rules.iter().enumerate() {
            if rule.required && seen & (1 << i) == 0 {
                return Err(serde::de::Error::custom(format!("`{}` is required", rule.field)));
            }
        }
        Ok(found)
    }
}

/// Keys are borrowed unless they hold escapes.
#[derive(Deserialize)]
struct BodyKey<'a>(#[serde(borrow)] Cow<'a, str>);

fn includes_usage(raw: &str) -> bool {
    #[derive(Deserialize)]
    struct StreamOptions {
        #[serde(default)]
        include_usage: Option<bool>,
    }
    serde_json::from_str::<StreamOptions>(raw).is_ok_and(|o| o.include_usage == Some(true))
}

/// A header name that a client or config wants forwarded: valid, not hop-by-hop, and not the gateway's own.
/// Returned in lower case.
pub fn check_forward_header(name: &str) -> Result<String, &'static str> {
    static HOP_BY_HOP: &[&str] = &[
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "host",
        "expect",
    ];
    let lower = name.trim().to_ascii_lowercase();
    if http::HeaderName::from_bytes(lower.as_bytes()).is_err() {
        return Err("is not a valid header name");
    }
    if lower.ends_with("-forward-headers") {
        return Err("must not list the forward-headers header itself");
    }
    if HOP_BY_HOP.contains(&lower.as_str()) {
        return Err("belongs to one connection and cannot be forwarded");
    }
    if lower.starts_with("x-gateway-") && !matches!(lower.as_str(), "x-gateway-trace-id" | "x-gateway-span-id") {
        return Err("is the gateway's own and is never forwarded");
    }
    Ok(lower)
}

#[cfg(test)]
mod tests;
