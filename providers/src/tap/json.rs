//! JSON as it stands in an event: members of objects with their places, each as often as it is written.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
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
    /// Of a value that was borrowed from the event.
    pub(super) fn of(self, raw: &RawValue) -> Range<usize> {
        let from = (raw.get().as_ptr() as usize).saturating_sub(self.start);
        from..from + raw.get().len()
    }
}

/// The members of an object, in their order.
#[derive(Debug)]
pub(super) struct JsonObject<'j>(Vec<(Cow<'j, str>, &'j RawValue)>);

impl<'j> JsonObject<'j> {
    pub(super) fn parse(json: &'j str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    pub(super) fn of(raw: &'j RawValue) -> Option<Self> {
        if raw.get().starts_with('{') { Self::parse(raw.get()) } else { None }
    }

    pub(super) fn members(&self) -> impl Iterator<Item = (&str, &'j RawValue)> {
        self.0.iter().map(|(key, value)| (&**key, *value))
    }

    /// As readers mean it: the last of its name.
    pub(super) fn get(&self, key: &str) -> Option<&'j RawValue> {
        self.0.iter().rev().find(|(k, _)| k == key).map(|(_, value)| *value)
    }

    pub(super) fn object(&self, key: &str) -> Option<JsonObject<'j>> {
        JsonObject::of(self.get(key)?)
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        text(self.get(key)?)
    }

    pub(super) fn number(&self, key: &str) -> Option<u32> {
        self.get(key)?.get().parse().ok()
    }
}

impl<'de> Deserialize<'de> for JsonObject<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = JsonObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut out = Vec::new();
                while let Some(crate::wire::Text(key)) = map.next_key::<crate::wire::Text<'de>>()? {
                    out.push((key, map.next_value::<&'de RawValue>()?));
                }
                Ok(JsonObject(out))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

/// The elements of an array; of anything else none.
pub(super) fn elements(raw: &RawValue) -> Vec<&RawValue> {
    if raw.get().starts_with('[') { serde_json::from_str(raw.get()).unwrap_or_default() } else { Vec::new() }
}

/// What a JSON string says.
pub(super) fn text(raw: &RawValue) -> Option<String> {
    if raw.get().starts_with('"') { serde_json::from_str(raw.get()).ok() } else { None }
}
