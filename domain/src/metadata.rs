//! What a caller may hang on a request as metadata, from whichever place it comes: a header, `baggage`, a token, a
//! config. One rule for all, since all of it goes into every record of the request.

use serde_json::{Map, Value};
use std::fmt;

/// Most pairs from one place.
pub const PAIRS: usize = 64;
/// Longest key and longest value, in characters.
pub const CHARACTERS: usize = 128;

/// Why metadata is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataRefusal {
    TooMany,
    /// The start of the key.
    LongKey(String),
    LongValue(String),
    NoText(String),
}

impl MetadataRefusal {
    /// The broken rule, worded to follow the name of the place where the metadata stands.
    pub fn rule(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for MetadataRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany => write!(f, "must hold at most {PAIRS} pairs"),
            Self::LongKey(key) => write!(f, "key `{key}…` must be at most {CHARACTERS} characters"),
            Self::LongValue(key) => write!(f, "value of `{key}` must be at most {CHARACTERS} characters"),
            Self::NoText(key) => write!(f, "value of `{key}` must be a string"),
        }
    }
}

/// Whether a key or value is short enough.
pub fn is_short(text: &str) -> bool {
    text.len() <= CHARACTERS || text.len() <= 4 * CHARACTERS && text.chars().count() <= CHARACTERS
}

/// The pairs of an object of texts.
pub fn read(given: &Map<String, Value>) -> Result<Vec<(String, String)>, MetadataRefusal> {
    if given.len() > PAIRS {
        return Err(MetadataRefusal::TooMany);
    }
    let pair = |(key, value): (&String, &Value)| {
        if !is_short(key) {
            return Err(MetadataRefusal::LongKey(key.chars().take(32).collect()));
        }
        match value {
            Value::String(text) if is_short(text) => Ok((key.clone(), text.clone())),
            Value::String(_) => Err(MetadataRefusal::LongValue(key.clone())),
            _ => Err(MetadataRefusal::NoText(key.clone())),
        }
    };
    given.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_is_named() {
        let of = |pairs: Vec<(String, Value)>| read(&pairs.into_iter().collect());
        let text = |n: usize| "é".repeat(n);
        let pairs = |n: usize| (0..n).map(|i| (i.to_string(), "v".into())).collect();
        assert_eq!(of(vec![(text(128), text(128).into())]), Ok(vec![(text(128), text(128))]));
        assert_eq!(of(pairs(64)).map(|pairs| pairs.len()), Ok(64));
        for (given, rule) in [
            (pairs(65), "must hold at most 64 pairs"),
            (vec![("a".repeat(129), "v".into())], "must be at most 128 characters"),
            (vec![("k".into(), text(129).into())], "value of `k` must be at most 128 characters"),
            (vec![("k".into(), 1.into())], "value of `k` must be a string"),
        ] {
            let refused = of(given).expect_err(rule).rule();
            assert!(refused.contains(rule) && refused.len() < 200, "{refused}");
        }
    }
}
