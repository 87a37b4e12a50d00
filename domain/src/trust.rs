//! Which issuers' tokens an organisation accepts, and what these must say: who issued them, and for whom. Knows no
//! other claim, and verifies no signature.

use crate::key_set::KeySet;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A claim of a token that breaks a rule, and what is wrong with it: named, never quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The token's claim {claim} {rule}")]
pub struct BadClaim {
    pub claim: &'static str,
    pub rule: &'static str,
}

pub(crate) const fn bad(claim: &'static str, rule: &'static str) -> BadClaim {
    BadClaim { claim, rule }
}

/// Who issued a token, and for whom, as it says itself.
#[derive(Clone, Copy, Debug)]
pub struct TokenIssue<'a> {
    pub issuer: Option<&'a str>,
    pub audience: &'a [String],
}

/// The issuers whose signatures an organisation accepts.
#[derive(Debug, Default, PartialEq)]
pub struct Trust {
    /// Where its issuers publish their keys; all are merged.
    pub uris: Vec<Arc<str>>,
    /// Keys that were written down instead.
    pub inline: Arc<KeySet>,
    pub rules: Vec<TokenRule>,
}

/// What tokens of one issuer must say: who issued them, and for whom (RFC 7519, 4.1.1 and 4.1.3).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRule {
    /// Where the issuer publishes its keys; `None`: the keys that were written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_uri: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// One of them must be among the token's; without any, the token's are not looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aud: Vec<String>,
}

impl TokenRule {
    pub fn check(&self, issued: TokenIssue<'_>) -> Result<(), BadClaim> {
        if self.iss.is_some() && self.iss.as_deref() != issued.issuer {
            return Err(bad("iss", "names another issuer than the one whose key it is signed with"));
        }
        if !self.aud.is_empty() && !issued.audience.iter().any(|a| self.aud.contains(a)) {
            return Err(bad("aud", "does not name this gateway"));
        }
        Ok(())
    }
}

impl Trust {
    pub fn is_empty(&self) -> bool {
        self.uris.is_empty() && self.inline.is_empty()
    }

    /// Checks a token signed by a key that was found at `uri`; `None`: by one that was written down. `own` is what the
    /// issuer calls itself, where it is known: tokens have to say so unless a rule says what else.
    pub fn check(&self, uri: Option<&str>, own: Option<&str>, issued: TokenIssue<'_>) -> Result<(), BadClaim> {
        let mut rules = self.rules.iter().filter(|rule| rule.jwks_uri.as_deref() == uri);
        let named = rules.clone().any(|rule| rule.iss.is_some());
        if !named && own.is_some() && own != issued.issuer {
            return Err(bad("iss", "names another issuer than the one whose key it is signed with"));
        }
        rules.try_for_each(|rule| rule.check(issued))
    }
}
