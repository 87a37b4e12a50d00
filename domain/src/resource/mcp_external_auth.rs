//! People sign in for one MCP server at an issuer of its own, in place of the gateway: who that is, and what tokens of
//! it must say.

use regex_automata::meta::{self, Regex};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpExternalAuth {
    /// The issuer's identifier, as the issuer states it itself.
    pub issuer: String,
}

/// How tokens of that issuer are checked, beyond what holds for all tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JwtValidation {
    /// Where it publishes its keys; `None`: what its discovery document says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    /// Keys that were written down instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<Value>,
    /// Algorithms by which tokens may be signed, each one of [`Self::ALGORITHMS`].
    pub algorithms: Vec<String>,
    /// Seconds by which its clock may be off.
    pub clock_tolerance: u32,
    /// Seconds since it was issued after which a token is over, whatever it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_token_age: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub required_claims: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claim_values: BTreeMap<String, ClaimValues>,
}

impl Default for JwtValidation {
    fn default() -> Self {
        Self {
            jwks_uri: None,
            jwks: None,
            algorithms: vec![Self::ALGORITHMS[0].to_owned()],
            clock_tolerance: 5,
            max_token_age: None,
            required_claims: Vec::new(),
            claim_values: BTreeMap::new(),
        }
    }
}

/// What a claim must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimValues {
    pub values: Vec<String>,
    pub match_type: ClaimMatch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ClaimMatch {
    /// The text, or one of a list of them, is one of the values.
    Exact,
    /// One of the values is among its words.
    Contains,
    /// All of the values are among its words.
    ContainsAll,
    /// One of the values, a pattern, is found in the text, or in one of a list of them.
    Regex,
}

/// A list of texts is its texts; what is neither text nor list is as it is written.
fn texts(claim: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match claim {
        Value::Null => Vec::new(),
        Value::Array(many) => many.iter().map(text).collect(),
        one => vec![text(one)],
    }
}

impl JwtValidation {
    pub const ALGORITHMS: [&'static str; 2] = ["RS256", "ES256"];
    pub const LONGEST_TOLERANCE: u32 = 300;
    pub const MOST_CLAIMS: usize = 20;
    pub const MOST_VALUES: usize = 50;
    pub const LONGEST_TEXT: usize = 200;

    /// The claim that does not say what it must; `None`: all do.
    pub fn lacking<'v>(&'v self, claims: &Map<String, Value>) -> Option<&'v str> {
        let is_there = |name: &String| claims.get(name).is_some_and(|value| !value.is_null());
        let missing = self.required_claims.iter().find(|name| !is_there(name));
        let says =
            |(name, wanted): &(&String, &ClaimValues)| claims.get(*name).is_some_and(|value| wanted.holds(value));
        missing
            .or_else(|| self.claim_values.iter().find(|entry| !says(entry)).map(|(name, _)| name))
            .map(String::as_str)
    }
}

impl ClaimValues {
    /// Bytes that one pattern may take when it is compiled.
    const PATTERN_MEMORY: usize = 64 << 10;

    pub fn holds(&self, claim: &Value) -> bool {
        let texts = texts(claim);
        let words = || texts.iter().flat_map(|text| text.split_ascii_whitespace());
        match self.match_type {
            ClaimMatch::Exact => texts.iter().any(|text| self.values.contains(text)),
            ClaimMatch::Contains => words().any(|word| self.values.iter().any(|value| value == word)),
            ClaimMatch::ContainsAll => self.values.iter().all(|value| words().any(|word| value == word)),
            ClaimMatch::Regex => {
                let mut patterns = self.values.iter().filter_map(|value| Self::pattern(value));
                patterns.any(|pattern| texts.iter().any(|text| pattern.is_match(text)))
            }
        }
    }

    /// Takes time linear in the text. `None`: it cannot be read, or is too large.
    pub fn pattern(text: &str) -> Option<Regex> {
        let config =
            meta::Config::new().nfa_size_limit(Some(Self::PATTERN_MEMORY)).onepass(false).dfa(false).hybrid(false);
        meta::Builder::new().configure(config).build(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn claims_say_what_they_must() {
        let holds = |kind: ClaimMatch, values: &[&str], claim: Value| {
            ClaimValues { values: values.iter().map(|v| (*v).to_owned()).collect(), match_type: kind }.holds(&claim)
        };
        assert!(
            holds(ClaimMatch::Exact, &["a", "b"], json!("b")) && holds(ClaimMatch::Exact, &["b"], json!(["a", "b"]))
        );
        assert!(!holds(ClaimMatch::Exact, &["a"], json!("a b")) && holds(ClaimMatch::Exact, &["true"], json!(true)));
        assert!(
            holds(ClaimMatch::Contains, &["b", "c"], json!("a b")) && !holds(ClaimMatch::Contains, &["b"], json!("ab"))
        );
        assert!(holds(ClaimMatch::ContainsAll, &["a", "b"], json!(["b", "a", "c"])));
        assert!(!holds(ClaimMatch::ContainsAll, &["a", "b"], json!("a")));
        assert!(holds(ClaimMatch::Regex, &["^.+@example[.]com$"], json!("ann@example.com")));
        assert!(!holds(ClaimMatch::Regex, &["^.+@example[.]com$"], json!("ann@example.com.evil")));
        assert!(!holds(ClaimMatch::Exact, &["null"], json!(null)) && !holds(ClaimMatch::Regex, &["("], json!("(")));
        assert!(ClaimValues::pattern("(a{900}){900}").is_none(), "its size is bounded");
    }

    #[test]
    fn the_first_claim_that_lacks_is_named() {
        let rules = JwtValidation {
            required_claims: vec!["team".to_owned()],
            claim_values: BTreeMap::from([(
                "role".to_owned(),
                ClaimValues { values: vec!["dev".to_owned()], match_type: ClaimMatch::Exact },
            )]),
            ..JwtValidation::default()
        };
        let lacks = |claims: Value| rules.lacking(claims.as_object().expect("an object")).map(str::to_owned);
        assert_eq!(lacks(json!({"team": "x", "role": "dev"})), None);
        assert_eq!(lacks(json!({"team": null, "role": "dev"})).as_deref(), Some("team"));
        assert_eq!(lacks(json!({"team": "x", "role": "ops"})).as_deref(), Some("role"));
        assert_eq!(lacks(json!({"team": "x"})).as_deref(), Some("role"));
    }
}
