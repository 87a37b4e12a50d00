//! JSON as it stands in an event: members of objects with their places, each as often as it is written. An event is
//! checked to be JSON once; what lies in it is found by quotes and brackets alone.

use crate::wire::JsonStr;
use crate::wire::members::{self, MemberCursor, Odd};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// Where the event's bytes begin in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventPlaces {
    pub(super) start: usize,
}

impl EventPlaces {
    /// The place in the event of a value that was borrowed from it.
    pub(super) fn of(self, raw: &str) -> Range<usize> {
        let from = (raw.as_ptr() as usize).saturating_sub(self.start);
        from..from + raw.len()
    }
}

/// The members of an object, in their order.
#[derive(Debug)]
pub(super) struct JsonObject<'j>(Vec<(Cow<'j, str>, &'j str)>);

impl<'j> JsonObject<'j> {
    /// `None`: it is no JSON, or no object.
    pub(super) fn parse(json: &'j str) -> Option<Self> {
        serde_json::from_str::<IgnoredAny>(json).ok()?;
        Self::of(json.trim_ascii())
    }

    /// A value of what was parsed.
    pub(super) fn of(raw: &'j str) -> Option<Self> {
        if !raw.starts_with('{') {
            return None;
        }
        // Keys with escapes want a real parser.
        all(raw).or_else(|Odd| serde_json::from_str::<EscapedMembers<'j>>(raw).map(|all| all.0)).ok().map(Self)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &'j str)> {
        self.0.iter().map(|(key, value)| (&**key, *value))
    }

    /// The last value of this name, which is the one that readers of JSON take.
    pub(super) fn get(&self, key: &str) -> Option<&'j str> {
        self.0.iter().rev().find(|(k, _)| k == key).map(|(_, value)| *value)
    }

    pub(super) fn object(&self, key: &str) -> Option<JsonObject<'j>> {
        JsonObject::of(self.get(key)?)
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        text(self.get(key)?)
    }

    pub(super) fn number(&self, key: &str) -> Option<u32> {
        self.get(key)?.parse().ok()
    }
}

fn all(raw: &str) -> Result<Vec<(Cow<'_, str>, &str)>, Odd> {
    let (mut found, mut members) = (Vec::with_capacity(8), MemberCursor::of(raw)?);
    while let Some(key) = members.key()? {
        found.push((Cow::Borrowed(key), members.value()?));
    }
    members.end().map(|()| found)
}

struct EscapedMembers<'j>(Vec<(Cow<'j, str>, &'j str)>);

impl<'de> Deserialize<'de> for EscapedMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = EscapedMembers<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut out = Vec::new();
                while let Some(JsonStr(key)) = map.next_key::<JsonStr<'de>>()? {
                    out.push((key, map.next_value::<&'de RawValue>()?.get()));
                }
                Ok(EscapedMembers(out))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// The elements of an array; of anything else none.
pub(super) fn elements(raw: &str) -> Vec<&str> {
    if raw.starts_with('[') { members::elements(raw).unwrap_or_default() } else { Vec::new() }
}

/// What a JSON string says.
pub(super) fn text(raw: &str) -> Option<String> {
    if raw.starts_with('"') { serde_json::from_str(raw).ok() } else { None }
}
