//! A set of public keys as issuers publish it (RFC 7517), cut down to what may sign tokens: RSA of at least
//! 2048 bits, named by a `kid`, not meant for another algorithm or use.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;

/// Big-endian, without leading zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    pub kid: String,
    pub modulus: Vec<u8>,
    pub exponent: Vec<u8>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet(Vec<PublicKey>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKeySet {
    #[error("must be a key set: an object with an array `keys` of objects")]
    Shape,
    #[error("must hold public keys only; one of these is private")]
    Private,
    #[error("holds no RSA key of at least 2048 bits with a kid and for RS256")]
    Nothing,
}

/// More than any issuer rotates through at once.
const MOST_KEYS: usize = 256;
const LEAST_BYTES: usize = 256;
/// 8192 bits: larger ones only make checking slow.
const MOST_BYTES: usize = 1024;

#[derive(Deserialize)]
struct Published {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Entry {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    key_ops: Option<Vec<String>>,
    n: Option<String>,
    e: Option<String>,
}

impl Entry {
    fn key(self) -> Option<PublicKey> {
        let fits = self.kty == "RSA"
            && self.purpose.is_none_or(|u| u == "sig")
            && self.alg.is_none_or(|a| a == "RS256")
            && self.key_ops.is_none_or(|ops| ops.iter().any(|o| o == "verify"));
        let number = |text: Option<String>| {
            let bytes = URL_SAFE_NO_PAD.decode(text?.trim_end_matches('=')).ok()?;
            let zeros = bytes.iter().take_while(|b| **b == 0).count();
            Some(bytes[zeros..].to_vec())
        };
        let kid = self.kid.filter(|k| fits && !k.is_empty())?;
        let (modulus, exponent) = (number(self.n)?, number(self.e)?);
        let long = (LEAST_BYTES..=MOST_BYTES).contains(&modulus.len())
            && (modulus.len() > LEAST_BYTES || modulus.first().is_some_and(|top| *top >= 0x80));
        (long && !exponent.is_empty() && exponent.len() <= 8).then_some(PublicKey { kid, modulus, exponent })
    }
}

impl KeySet {
    /// Keys that may not sign tokens are left out; a set in which none may is refused.
    pub fn parse(json: &Value) -> Result<Self, BadKeySet> {
        let published = Published::deserialize(json).map_err(|_| BadKeySet::Shape)?;
        if published.keys.iter().any(|k| k.get("d").is_some()) {
            return Err(BadKeySet::Private);
        }
        let read = |k: &Value| Entry::deserialize(k).ok()?.key();
        let keys: Vec<PublicKey> = published.keys.iter().take(MOST_KEYS).filter_map(read).collect();
        if keys.is_empty() { Err(BadKeySet::Nothing) } else { Ok(Self(keys)) }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Two issuers may have given the same name to different keys.
    pub fn named<'a>(&'a self, kid: &'a str) -> impl Iterator<Item = &'a PublicKey> {
        self.0.iter().filter(move |k| k.kid == kid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn modulus(bytes: usize, top: u8) -> String {
        let mut n = vec![1; bytes];
        n[0] = top;
        URL_SAFE_NO_PAD.encode(n)
    }

    fn rsa(extra: &Value) -> Value {
        let mut key = json!({"kty": "RSA", "kid": "a", "n": modulus(256, 0x80), "e": "AQAB"});
        key.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        key
    }

    #[test]
    fn only_what_may_sign_is_kept() {
        let good = KeySet::parse(
            &json!({"keys": [{"kty": "EC", "kid": "e"}, 7, rsa(&json!({"use": "sig", "alg": "RS256"}))]}),
        );
        let good = good.expect("one fits");
        assert_eq!(good.named("a").count(), 1);
        assert_eq!(good.named("a").next().map(|k| k.exponent.as_slice()), Some(&[1, 0, 1][..]));
        assert_eq!(good.named("e").count(), 0);
        for extra in [
            json!({"use": "enc"}),
            json!({"alg": "RS512"}),
            json!({"alg": "HS256"}),
            json!({"kty": "oct"}),
            json!({"kid": ""}),
            json!({"kid": null}),
            json!({"key_ops": ["encrypt"]}),
            json!({"n": modulus(128, 0x80)}),
            json!({"n": modulus(256, 0x7f)}),
            json!({"n": "***"}),
            json!({"e": ""}),
        ] {
            assert_eq!(KeySet::parse(&json!({"keys": [rsa(&extra)]})), Err(BadKeySet::Nothing), "{extra}");
        }
    }

    #[test]
    fn what_is_no_set_is_told_apart() {
        for (json, why) in [
            (json!([]), BadKeySet::Shape),
            (json!({"keys": {}}), BadKeySet::Shape),
            (json!({"keys": []}), BadKeySet::Nothing),
            (json!({"keys": [rsa(&json!({"d": "AQ"}))]}), BadKeySet::Private),
        ] {
            assert_eq!(KeySet::parse(&json), Err(why), "{json}");
        }
    }
}
