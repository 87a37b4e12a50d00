//! Signatures of Oracle's cloud: RSA with SHA-256 over chosen headers, in the form of HTTP signatures before they were
//! a standard (<https://docs.oracle.com/en-us/iaas/Content/API/Concepts/signingrequests.htm>). The clock is the
//! caller's.

use crate::sigv4::{Unsignable, Unsigned};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gateway_domain::cloud::OciKey;
use http::{HeaderName, HeaderValue, header};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use sha2::{Digest, Sha256};
use std::time::SystemTime;

/// A user's key, read once: reading it costs more than a signature.
#[derive(Debug)]
pub struct OciSigner {
    key_id: String,
    pair: RsaKeyPair,
}

impl OciSigner {
    pub fn new(key: &OciKey) -> Result<Self, &'static str> {
        let pem = key.private_key.expose();
        let label = |name: &str| pem.contains(&format!("-----BEGIN {name}-----"));
        let text: String =
            pem.lines().map(str::trim).filter(|line| !line.contains("-----") && !line.contains(':')).collect();
        let der = STANDARD.decode(text).map_err(|_| "the private key is no PEM")?;
        let pair = match (label("RSA PRIVATE KEY"), label("PRIVATE KEY")) {
            (true, _) => RsaKeyPair::from_der(&der),
            (_, true) => RsaKeyPair::from_pkcs8(&der),
            _ => return Err("the private key must be PEM without a passphrase"),
        };
        let pair = pair.map_err(|_| "the private key must be one of RSA with 2048 bits or more")?;
        Ok(Self { key_id: format!("{}/{}/{}", key.tenancy, key.user, key.fingerprint), pair })
    }

    /// The headers that sign the request: `date`, the digest of a body, `authorization`.
    pub fn headers(
        &self,
        request: &Unsigned<'_>,
        now: SystemTime,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, Unsignable> {
        let date = httpdate::fmt_http_date(now);
        let mut names = vec!["(request-target)", "date", "host"];
        let mut lines = vec![
            format!("(request-target): {} {}", request.method.to_ascii_lowercase(), request.target),
            format!("date: {date}"),
            format!("host: {}", request.host),
        ];
        let value = |text: &str| {
            HeaderValue::from_str(text).map_err(|_| Unsignable("the signature cannot be sent in a header".to_owned()))
        };
        let mut out = vec![(header::DATE, value(&date)?)];
        if matches!(request.method, "POST" | "PUT" | "PATCH") {
            let mut hash = Sha256::new();
            request.body.iter().for_each(|piece| hash.update(piece));
            let digest = STANDARD.encode(hash.finalize());
            let media = request.headers.iter().find(|(name, _)| *name == "content-type").map_or("", |(_, value)| value);
            names.extend(["x-content-sha256", "content-type", "content-length"]);
            lines.push(format!("x-content-sha256: {digest}"));
            lines.push(format!("content-type: {media}"));
            lines.push(format!("content-length: {}", request.body.len()));
            out.push((HeaderName::from_static("x-content-sha256"), value(&digest)?));
        }
        let mut signature = vec![0; self.pair.public().modulus_len()];
        self.pair
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), lines.join("\n").as_bytes(), &mut signature)
            .map_err(|_| Unsignable("the key does not sign".to_owned()))?;
        let told = format!(
            "Signature version=\"1\",keyId=\"{}\",algorithm=\"rsa-sha256\",headers=\"{}\",signature=\"{}\"",
            self.key_id,
            names.join(" "),
            STANDARD.encode(signature)
        );
        let mut told = value(&told)?;
        told.set_sensitive(true);
        out.push((header::AUTHORIZATION, told));
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::Secret;

    #[test]
    fn keys_that_are_none_are_told_apart() {
        for (pem, why) in [
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----", "passphrase"),
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "2048"),
            ("-----BEGIN RSA PRIVATE KEY-----\n!\n-----END RSA PRIVATE KEY-----", "PEM"),
        ] {
            let key = OciKey {
                tenancy: "t".into(),
                user: "u".into(),
                fingerprint: "f".into(),
                private_key: Secret::new(pem.to_owned()),
            };
            let told = OciSigner::new(&key).expect_err("no key");
            assert!(told.contains(why) && !told.contains("AAAA"), "{told}");
        }
    }
}
