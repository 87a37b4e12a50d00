//! Signatures of JSON Web Tokens, whoever issued them. Says who signed, and nothing of what the claims are worth:
//! times, issuer and audience are for who asks, by the request's own clock.

use gateway_domain::token::{KeyNumbers, PublicKey};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The claims of a token that this key signed. The algorithm is the key's to say, not the token's.
pub fn signed_by(token: &str, key: &PublicKey) -> Option<Map<String, Value>> {
    let (algorithm, key) = match &key.numbers {
        KeyNumbers::Rsa { modulus, exponent } => {
            (Algorithm::RS256, DecodingKey::from_rsa_raw_components(modulus, exponent))
        }
        KeyNumbers::P256 { x, y } => (Algorithm::ES256, DecodingKey::from_ec_components(x, y).ok()?),
    };
    signed_with(token, &key, algorithm)
}

pub(crate) fn signed_with<T: DeserializeOwned>(token: &str, key: &DecodingKey, algorithm: Algorithm) -> Option<T> {
    let mut rules = Validation::new(algorithm);
    (rules.validate_exp, rules.validate_nbf, rules.validate_aud) = (false, false, false);
    rules.required_spec_claims.clear();
    decode::<T>(token, key, &rules).ok().map(|token| token.claims)
}
