//! JSON that is put together from parts: keys keep the order they are given in, strings and whole values of the
//! source are borrowed, so that large ones are copied once.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Debug)]
pub(crate) enum Tree<'a> {
    Raw(&'a RawValue),
    Text(Cow<'a, str>),
    Flag(bool),
    Number(u64),
    List(Vec<Self>),
    Map(Vec<(&'static str, Self)>),
}

impl<'a> Tree<'a> {
    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn map<const N: usize>(members: [(&'static str, Self); N]) -> Self {
        Self::Map(Vec::from(members))
    }

    /// Adds a member to a map.
    pub(crate) fn with(mut self, key: &'static str, value: Option<Self>) -> Self {
        if let (Self::Map(members), Some(value)) = (&mut self, value) {
            members.push((key, value));
        }
        self
    }
}

impl Serialize for Tree<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Raw(raw) => raw.serialize(s),
            Self::Text(text) => s.serialize_str(text),
            Self::Flag(flag) => s.serialize_bool(*flag),
            Self::Number(number) => s.serialize_u64(*number),
            Self::List(list) => s.collect_seq(list),
            Self::Map(members) => s.collect_map(members.iter().map(|(key, value)| (key, value))),
        }
    }
}
