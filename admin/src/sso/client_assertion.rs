//! How the gateway proves to a provider which client it is, by a key of its own (RFC 7523, 3; OpenID Connect Core 1.0,
//! 9: `private_key_jwt`). The key never leaves: what is sent is a statement for this provider alone, good once and for
//! two minutes.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use gateway_domain::time::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;
use sha2::{Digest, Sha256};
use uuid::Uuid;

pub(super) const TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// A key of 4096 bits takes some 3,300 bytes; to sign with a longer one would hold up others.
pub(super) const LONGEST_KEY: usize = 4096;
/// Bytes of a certificate, with the chain behind it.
pub(super) const LONGEST_CERTIFICATE: usize = 16 * 1024;
const SECONDS: i64 = 120;
/// Bytes of a signature by 2048 to 4096 bits.
const RSA_SIGNATURES: std::ops::RangeInclusive<usize> = 256..=512;

/// What signs, and how the provider finds the public half of it.
pub(super) struct AssertionKey<'a> {
    pub(super) pem: &'a str,
    pub(super) id: Option<&'a str>,
    pub(super) certificate: Option<&'a str>,
}

/// What is said of the client, and to whom.
pub(super) struct Asserted<'a> {
    pub(super) client_id: &'a str,
    /// The address that the statement is sent to.
    pub(super) audience: &'a str,
    pub(super) id: Uuid,
    pub(super) now: Timestamp,
}

impl AssertionKey<'_> {
    pub(super) fn sign(&self, said: &Asserted<'_>) -> Result<String, &'static str> {
        let (algorithm, key) = read(self.pem)?;
        let mut header = Header { kid: self.id.map(ToOwned::to_owned), ..Header::new(algorithm) };
        header.x5t_s256 = self.certificate.map(thumbprint).transpose()?;
        let seconds = said.now.micros() / 1_000_000;
        let claims = json!({
            "iss": said.client_id, "sub": said.client_id, "aud": said.audience, "jti": said.id,
            "iat": seconds, "exp": seconds + SECONDS,
        });
        encode(&header, &claims, &key).map_err(|_| UNUSABLE)
    }

    /// What is saved can sign.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let said = Asserted { client_id: "c", audience: "a", id: Uuid::nil(), now: Timestamp(0) };
        let signed = self.sign(&said)?;
        let signature = signed.rsplit('.').next().and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
        let length = signature.map_or(0, |signature| signature.len());
        let (algorithm, _) = read(self.pem)?;
        if algorithm == Algorithm::RS256 && !RSA_SIGNATURES.contains(&length) {
            return Err("must be of 2048 to 4096 bits where it is an RSA key");
        }
        Ok(())
    }
}

const UNUSABLE: &str = "must be a private key in PEM, of RSA or on the curve P-256, without a passphrase";

/// Which kind of key it is shows by what reads it.
fn read(pem: &str) -> Result<(Algorithm, EncodingKey), &'static str> {
    let rsa = EncodingKey::from_rsa_pem(pem.as_bytes()).map(|key| (Algorithm::RS256, key));
    let found = rsa.or_else(|_| EncodingKey::from_ec_pem(pem.as_bytes()).map(|key| (Algorithm::ES256, key)));
    found.map_err(|_| UNUSABLE)
}

/// The thumbprint of the first certificate in a PEM text: the SHA-256 of its bytes (RFC 7515, 4.1.8).
pub(super) fn thumbprint(pem: &str) -> Result<String, &'static str> {
    const RULE: &str = "must be a certificate in PEM";
    let (_, rest) = pem.split_once("-----BEGIN CERTIFICATE-----").ok_or(RULE)?;
    let (inner, _) = rest.split_once("-----END CERTIFICATE-----").ok_or(RULE)?;
    let text: String = inner.split_ascii_whitespace().collect();
    let bytes = STANDARD.decode(text).ok().filter(|bytes| bytes.first() == Some(&0x30)).ok_or(RULE)?;
    Ok(URL_SAFE_NO_PAD.encode(Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jsonwebtoken::decode_header;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    use serde_json::Value;

    fn curve() -> String {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let text = STANDARD.encode(made.expect("a key").as_ref());
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).expect("text")).collect();
        format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
    }

    fn signed(key: &AssertionKey<'_>) -> (Header, Value) {
        let said = Asserted {
            client_id: "c",
            audience: "https://idp/token",
            id: Uuid::from_u128(7),
            now: Timestamp(9_000_000),
        };
        let text = key.sign(&said).expect("signed");
        let claims = URL_SAFE_NO_PAD.decode(text.split('.').nth(1).expect("claims")).expect("base64");
        (decode_header(&text).expect("a header"), serde_json::from_slice(&claims).expect("JSON"))
    }

    #[test]
    fn a_statement_names_client_provider_and_end() {
        let (header, claims) = signed(&AssertionKey { pem: &curve(), id: Some("k1"), certificate: None });
        assert_eq!((header.alg, header.kid.as_deref(), header.x5t_s256), (Algorithm::ES256, Some("k1"), None));
        let jti = Uuid::from_u128(7);
        let want = json!({"iss": "c", "sub": "c", "aud": "https://idp/token", "jti": jti, "iat": 9, "exp": 129});
        assert_eq!(claims, want);
    }

    #[test]
    fn keys_that_cannot_sign_are_told() {
        for pem in ["", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            assert_eq!(AssertionKey { pem, id: None, certificate: None }.check(), Err(UNUSABLE), "{pem}");
        }
        assert_eq!(AssertionKey { pem: &curve(), id: None, certificate: None }.check(), Ok(()));
        let certificate = Some("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----");
        assert!(AssertionKey { pem: &curve(), id: None, certificate }.check().is_err());
    }

    #[test]
    fn a_thumbprint_is_of_the_certificates_bytes() {
        // The DER of an empty sequence stands for a certificate here.
        let pem = "text\n-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\nmore";
        assert_eq!(thumbprint(pem), Ok(URL_SAFE_NO_PAD.encode(Sha256::digest([0x30, 0]))));
        assert!(thumbprint("-----BEGIN CERTIFICATE-----\nMAA=").is_err());
    }
}
