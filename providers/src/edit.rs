//! JSON changed in place: keys of one object are replaced, added or removed while every other byte, the order of
//! keys and the spelling of numbers stay as they came (prompt caches upstream hash the prefix).
//! Knows JSON only; what a field means is the caller's business.

mod remove;

pub use remove::remove;

use bytes::{Bytes, BytesMut};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Error;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

/// One `"key": value` of an object; the ranges count from the start of the text that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSpan<'a> {
    pub key: Cow<'a, str>,
    /// Where the key stands, quotes included.
    pub name: Range<usize>,
    pub value: Range<usize>,
}

/// Bytes to put in the place of a range; an empty range inserts.
pub type BodyEdit<'a> = (Range<usize>, Cow<'a, [u8]>);

/// The members of an object in the order they stand, duplicates included. Validates the whole text.
pub fn members(json: &[u8]) -> Result<Vec<MemberSpan<'_>>, Error> {
    let text = utf8(json)?;
    let raw: RawMembers<'_> = serde_json::from_str(text)?;
    let at = |part: &RawValue| place(text, part);
    raw.0
        .into_iter()
        .map(|(key, value)| Ok(MemberSpan { key: unquote(key)?, name: at(key), value: at(value) }))
        .collect()
}

/// The ranges of an array's elements.
pub fn elements(json: &[u8]) -> Result<Vec<Range<usize>>, Error> {
    let text = utf8(json)?;
    let raw: RawElements<'_> = serde_json::from_str(text)?;
    Ok(raw.0.into_iter().map(|part| place(text, part)).collect())
}

/// `part` was borrowed from `text`, so its address tells where it stands.
fn place(text: &str, part: &RawValue) -> Range<usize> {
    let start = part.get().as_ptr() as usize - text.as_ptr() as usize;
    start..start + part.get().len()
}

/// Replaces, adds (at the end) or removes (`None`) top-level keys of a JSON object. Of a key that stands there
/// twice the last one counts and the earlier ones go. Values are raw JSON and are checked.
pub fn set_top_level(body: &Bytes, changes: &[(&str, Option<&str>)]) -> Result<Bytes, Error> {
    for value in changes.iter().filter_map(|(_, value)| *value) {
        serde_json::from_str::<&RawValue>(value)?;
    }
    rewrite(body, &members(body)?, changes)
}

/// Adds `defaults` where the key is absent (`null` is there), and sets `overrides`; a key of both is set. The
/// values must be JSON: they were checked when the config was compiled.
pub fn fill_and_set<'c>(
    body: &Bytes,
    defaults: impl Iterator<Item = (&'c str, &'c str)>,
    overrides: impl Iterator<Item = (&'c str, &'c str)>,
) -> Result<Bytes, Error> {
    let found = members(body)?;
    let absent = defaults.filter(|(key, _)| found.iter().all(|m| m.key != *key));
    let changes: Vec<(&str, Option<&str>)> = absent.chain(overrides).map(|(key, value)| (key, Some(value))).collect();
    if changes.is_empty() { Ok(body.clone()) } else { rewrite(body, &found, &changes) }
}

/// [`set_top_level`], for members that were found and values that were checked.
fn rewrite(body: &Bytes, found: &[MemberSpan<'_>], changes: &[(&str, Option<&str>)]) -> Result<Bytes, Error> {
    let wanted: HashMap<&str, Option<&str>> = changes.iter().copied().collect();
    let last: HashMap<&str, usize> = found.iter().enumerate().map(|(i, m)| (&*m.key, i)).collect();
    let kept = |i: usize, m: &MemberSpan<'_>| match wanted.get(&*m.key) {
        Some(change) => change.is_some() && last.get(&*m.key) == Some(&i),
        None => true,
    };
    let added = distinct(changes).filter(|(key, value)| value.is_some() && !last.contains_key(key));

    let open = body.iter().position(|b| *b == b'{').unwrap_or_default() + 1;
    let mut out = BytesMut::with_capacity(
        body.len() + changes.iter().map(|(k, v)| k.len() + v.map_or(0, str::len) + 8).sum::<usize>(),
    );
    out.extend_from_slice(&body[..open]);
    let mut first = true;
    for (i, m) in found.iter().enumerate().filter(|(i, m)| kept(*i, m)) {
        // The first one left keeps the space after the brace; any other brings the comma that stood before it.
        let before = match (first, i) {
            (true, _) => open..found.first().map_or(open, |m| m.name.start),
            (false, i) => found[i - 1].value.end..m.name.start,
        };
        out.extend_from_slice(&body[before]);
        out.extend_from_slice(&body[m.name.start..m.value.start]);
        match wanted.get(&*m.key).copied().flatten() {
            Some(value) => out.extend_from_slice(value.as_bytes()),
            None => out.extend_from_slice(&body[m.value.clone()]),
        }
        first = false;
    }
    for (key, value) in added {
        if !std::mem::take(&mut first) {
            out.extend_from_slice(b",");
        }
        out.extend_from_slice(serde_json::to_string(key)?.as_bytes());
        out.extend_from_slice(b":");
        out.extend_from_slice(value.unwrap_or_default().as_bytes());
    }
    out.extend_from_slice(&body[found.last().map_or(open, |m| m.value.end)..]);
    Ok(out.freeze())
}

/// One copy with all edits made. They may come in any order but must not overlap.
pub fn splice(body: &[u8], mut edits: Vec<BodyEdit<'_>>) -> Bytes {
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut out = BytesMut::with_capacity(body.len() + edits.iter().map(|(_, new)| new.len()).sum::<usize>());
    let mut at = 0;
    for (range, new) in edits {
        out.extend_from_slice(&body[at..range.start.max(at)]);
        out.extend_from_slice(&new);
        at = range.end.max(at);
    }
    out.extend_from_slice(&body[at..]);
    out.freeze()
}

/// Edits that take member `i` away together with one comma.
pub fn without(found: &[MemberSpan<'_>], i: usize) -> Range<usize> {
    match (i.checked_sub(1).and_then(|p| found.get(p)), found.get(i + 1)) {
        (_, Some(next)) => found[i].name.start..next.name.start,
        (Some(previous), None) => previous.value.end..found[i].value.end,
        (None, None) => found[i].name.start..found[i].value.end,
    }
}

/// The last change of each key, in the order in which the keys were first named.
fn distinct<'c>(changes: &'c [(&'c str, Option<&'c str>)]) -> impl Iterator<Item = (&'c str, Option<&'c str>)> {
    let first = |i: usize, key: &str| changes[..i].iter().all(|(k, _)| *k != key);
    let latest = |key: &str| changes.iter().rev().find(|(k, _)| *k == key).and_then(|(_, v)| *v);
    changes.iter().enumerate().filter(move |(i, (key, _))| first(*i, key)).map(move |(_, (key, _))| (*key, latest(key)))
}

fn utf8(json: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(json).map_err(|e| Error::custom(format_args!("invalid UTF-8: {e}")))
}

fn unquote(raw: &RawValue) -> Result<Cow<'_, str>, Error> {
    let text = raw.get();
    match text.strip_prefix('"').and_then(|t| t.strip_suffix('"')) {
        Some(plain) if !plain.contains('\\') => Ok(Cow::Borrowed(plain)),
        _ => serde_json::from_str(text).map(Cow::Owned),
    }
}

struct RawMembers<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de> Deserialize<'de> for RawMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct RawMembersVisitor;
        impl<'de> Visitor<'de> for RawMembersVisitor {
            type Value = RawMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::with_capacity(16);
                while let Some(member) = map.next_entry::<&RawValue, &RawValue>()? {
                    all.push(member);
                }
                Ok(RawMembers(all))
            }
        }
        d.deserialize_map(RawMembersVisitor)
    }
}

struct RawElements<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for RawElements<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Elements;
        impl<'de> Visitor<'de> for Elements {
            type Value = RawElements<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(element) = seq.next_element::<&RawValue>()? {
                    all.push(element);
                }
                Ok(RawElements(all))
            }
        }
        d.deserialize_seq(Elements)
    }
}

#[cfg(test)]
mod tests;
