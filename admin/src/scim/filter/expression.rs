//! A filter that was read, and what can be told of it without a resource.

use crate::scim::path::AttributePath;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Contains,
    StartsWith,
    EndsWith,
    Greater,
    AtLeast,
    Less,
    AtMost,
}

/// `None` as a path: an attribute that no resource of this type has, which has no value then.
#[derive(Clone, Debug)]
pub(crate) enum ScimFilter {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Present(Option<AttributePath>),
    Compare(Option<AttributePath>, Comparison, Value),
    /// The attribute has a value that fits all of this.
    Within(Option<AttributePath>, Box<Self>),
}

impl ScimFilter {
    /// Every attribute that it looks at.
    pub(crate) fn paths(&self) -> Vec<AttributePath> {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::paths).collect(),
            Self::Not(inner) => inner.paths(),
            Self::Present(path) | Self::Compare(path, ..) | Self::Within(path, _) => path.iter().copied().collect(),
        }
    }

    /// How many comparisons it is made of.
    pub(crate) fn terms(&self) -> usize {
        match self {
            Self::All(parts) | Self::Any(parts) => parts.iter().map(Self::terms).sum(),
            Self::Not(inner) | Self::Within(_, inner) => inner.terms(),
            Self::Present(_) | Self::Compare(..) => 1,
        }
    }

    /// Texts that some attributes must equal for this to hold, by the names of attribute and part.
    pub(crate) fn equals(&self) -> Vec<Equality<'_>> {
        match self {
            Self::All(all) => all.iter().flat_map(Self::equals).collect(),
            Self::Compare(Some(path), Comparison::Equal, Value::String(text)) if path.extension.is_none() => {
                let attribute = path.attribute.map_or("", |a| a.name);
                vec![Equality { attribute, part: path.part.map(|p| p.name), text }]
            }
            _ => Vec::new(),
        }
    }
}

pub(crate) struct Equality<'f> {
    pub(crate) attribute: &'static str,
    pub(crate) part: Option<&'static str>,
    pub(crate) text: &'f str,
}
