//! Shapes of what providers send and want, dialect by dialect, as borrowed serde types.
//! They hold no decision: what becomes of a field is said in `convert/` and in the adapters.

pub(crate) mod chat;
pub(crate) mod cohere;
pub(crate) mod converse;
pub(crate) mod gemini;
pub(crate) mod members;
pub(crate) mod messages;
pub(crate) mod tree;
pub(crate) mod usage;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A string borrowed from the JSON where it has no escapes (`Option<Cow<str>>` never borrows).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonStr<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for JsonStr<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);
        Borrowed::deserialize(d).map(|b| Self(b.0))
    }
}

/// Whether a raw JSON value says anything: null, empty strings, arrays and objects do not.
pub(crate) fn speaks(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| says(raw.get()))
}

/// Whether a JSON value, given as its text, says anything, by the rule of [`speaks`].
pub(crate) fn says(raw: &str) -> bool {
    !matches!(raw, "null" | "\"\"" | "[]" | "{}" | "false")
}

/// Parses `json` into a borrowed type after checking that it is UTF-8.
pub(crate) fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> Option<T> {
    serde_json::from_str(std::str::from_utf8(json).ok()?).ok()
}
