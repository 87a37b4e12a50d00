//! A set of public keys as issuers publish it (RFC 7517), cut down to what may sign tokens: RSA of at least 2048 bits
//! for RS256 and the curve P-256 for ES256, named by a `kid`, not meant for another algorithm or use.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    pub kid: String,
    pub numbers: KeyNumbers,
}

/// What a key is made of, which says by what algorithm it signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyNumbers {
    /// RS256. Big-endian, without leading zeros.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// ES256: a point, each coordinate 32 bytes in the base64 of URLs.
    P256 { x: String, y: String },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet(Vec<PublicKey>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKeySet {
    #[error("must be a key set: an object with an array `keys` of objects")]
    Shape,
    #[error("must hold public keys only; one of these is private")]
    Private,
    #[error("holds no key with a kid that is RSA of at least 2048 bits for RS256, or on P-256 for ES256")]
    Nothing,
}

/// More than any issuer rotates through at once.
const MOST_KEYS: usize = 256;
const LEAST_BYTES: usize = 256;
/// Bytes of an RSA modulus at most, 8192 bits: larger ones only make checking slow.
const MOST_BYTES: usize = 1024;
/// Bytes of a coordinate on P-256.
const COORDINATE: usize = 32;

#[derive(Deserialize)]
struct Published {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct JsonWebKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    key_ops: Option<Vec<String>>,
    n: Option<String>,
    e: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
}

impl JsonWebKey {
    fn key(self) -> Option<PublicKey> {
        let signs = self.purpose.as_ref().is_none_or(|u| u == "sig")
            && self.key_ops.as_ref().is_none_or(|ops| ops.iter().any(|o| o == "verify"));
        let by = |algorithm: &str| signs && self.alg.as_ref().is_none_or(|a| a == algorithm);
        let numbers = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) if by("RS256") => self.rsa()?,
            ("EC", Some("P-256")) if by("ES256") => self.point()?,
            _ => return None,
        };
        Some(PublicKey { kid: self.kid.filter(|kid| !kid.is_empty())?, numbers })
    }

    fn rsa(&self) -> Option<KeyNumbers> {
        let number = |text: &Option<String>| {
            let bytes = bytes(text.as_ref()?)?;
            let zeros = bytes.iter().take_while(|b| **b == 0).count();
            Some(bytes[zeros..].to_vec())
        };
        let (modulus, exponent) = (number(&self.n)?, number(&self.e)?);
        let long = (LEAST_BYTES..=MOST_BYTES).contains(&modulus.len())
            && (modulus.len() > LEAST_BYTES || modulus.first().is_some_and(|top| *top >= 0x80));
        (long && !exponent.is_empty() && exponent.len() <= 8).then_some(KeyNumbers::Rsa { modulus, exponent })
    }

    fn point(&self) -> Option<KeyNumbers> {
        let coordinate = |text: &Option<String>| {
            let bytes = bytes(text.as_ref()?)?;
            (bytes.len() == COORDINATE).then(|| URL_SAFE_NO_PAD.encode(bytes))
        };
        Some(KeyNumbers::P256 { x: coordinate(&self.x)?, y: coordinate(&self.y)? })
    }
}

impl KeySet {
    /// Keys that may not sign tokens are left out; a set in which none may is refused.
    pub fn parse(json: &Value) -> Result<Self, BadKeySet> {
        let published = Published::deserialize(json).map_err(|_| BadKeySet::Shape)?;
        if published.keys.iter().any(|k| k.get("d").is_some()) {
            return Err(BadKeySet::Private);
        }
        let read = |k: &Value| JsonWebKey::deserialize(k).ok()?.key();
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
        let exponent = good.named("a").next().map(|key| match &key.numbers {
            KeyNumbers::Rsa { exponent, .. } => exponent.as_slice(),
            KeyNumbers::P256 { .. } => &[],
        });
        assert_eq!(exponent, Some(&[1, 0, 1][..]));
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
    fn points_are_of_one_curve_and_whole() {
        let coordinate = |bytes: usize| URL_SAFE_NO_PAD.encode(vec![0; bytes]);
        let point = |extra: &Value| {
            let mut key = json!({"kty": "EC", "crv": "P-256", "kid": "e", "x": coordinate(32), "y": coordinate(32)});
            key.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
            KeySet::parse(&json!({"keys": [key]}))
        };
        for extra in [json!({}), json!({"alg": "ES256", "use": "sig"}), json!({"x": coordinate(32) + "="})] {
            let set = point(&extra).expect("one fits");
            let key = set.named("e").next().expect("a key");
            assert_eq!(key.numbers, KeyNumbers::P256 { x: coordinate(32), y: coordinate(32) }, "zeros stay: {extra}");
        }
        for extra in [
            json!({"crv": "P-384"}),
            json!({"crv": null}),
            json!({"alg": "RS256"}),
            json!({"use": "enc"}),
            json!({"x": coordinate(31)}),
            json!({"y": coordinate(33)}),
            json!({"y": null}),
            json!({"kid": ""}),
        ] {
            assert_eq!(point(&extra), Err(BadKeySet::Nothing), "{extra}");
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
