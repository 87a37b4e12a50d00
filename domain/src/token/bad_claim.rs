//! A claim of a token that breaks a rule: named, never quoted. Knows no claim.

/// The claim and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The token's claim {claim} {rule}")]
pub struct BadClaim {
    pub claim: &'static str,
    pub rule: &'static str,
}

pub(super) const fn bad(claim: &'static str, rule: &'static str) -> BadClaim {
    BadClaim { claim, rule }
}
