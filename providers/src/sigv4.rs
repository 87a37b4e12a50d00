//! Signatures of AWS's, version 4, on the final head and body of a request. The clock is the caller's.

use crate::adapter::Pieces;
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use gateway_domain::cloud::{AwsKeys, Signing};
use http::{HeaderName, HeaderValue};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::time::SystemTime;

/// A request as it will be sent, but for its signature.
#[derive(Debug)]
pub struct Unsigned<'a> {
    pub method: &'a str,
    /// As in the request's first line, escapes included.
    pub target: &'a str,
    /// What the header `host` says.
    pub host: &'a str,
    /// Further headers that the signature covers; values must be text.
    pub headers: Vec<(&'a str, &'a str)>,
    pub body: &'a Pieces,
}

/// The request has a form that cannot be signed; names the reason and no secret.
#[derive(Debug)]
pub struct Unsignable(String);

impl std::fmt::Display for Unsignable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a header is covered: those that decide what is done, not those that proxies or clients put around them.
pub fn covers(name: &str) -> bool {
    name == "content-type" || name.starts_with("x-amz")
}

/// The headers that sign the request: `x-amz-date`, `authorization`, and the token of keys that end.
pub fn headers(
    request: Unsigned<'_>,
    keys: &AwsKeys,
    signing: &Signing,
    now: SystemTime,
) -> Result<Vec<(HeaderName, HeaderValue)>, Unsignable> {
    let token = keys.token.as_ref().map(|token| token.expose().clone());
    let identity = Credentials::new(&keys.id, keys.secret.expose(), token, None, "gateway").into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(&signing.region)
        .name(signing.service)
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|e| Unsignable(e.to_string()))?
        .into();
    let uri = format!("https://{}{}", request.host, request.target);
    let covered = request.headers.into_iter().chain([("host", request.host)]);
    let body = SignableBody::Precomputed(digest(request.body));
    let signable = SignableRequest::new(request.method, uri, covered, body).map_err(|e| Unsignable(e.to_string()))?;
    let signed = sign(signable, &params).map_err(|e| Unsignable(e.to_string()))?;
    let mut out = Vec::with_capacity(3);
    for header in signed.into_parts().0.into_parts().0 {
        let mut value = HeaderValue::from_str(header.value())
            .map_err(|_| Unsignable("the credential cannot be sent in a header".to_owned()))?;
        value.set_sensitive(header.sensitive());
        out.push((HeaderName::from_static(header.name()), value));
    }
    Ok(out)
}

/// SHA-256 in hexadecimal, without joining the pieces.
fn digest(body: &Pieces) -> String {
    let mut hash = Sha256::new();
    body.iter().for_each(|piece| hash.update(piece));
    hash.finalize().iter().fold(String::with_capacity(64), |mut out, byte| {
        // Writing to a String does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use gateway_domain::Secret;
    use std::time::Duration;

    /// `get-vanilla` and `post-x-www-form-urlencoded` of AWS's signature version 4 test suite
    /// (<https://github.com/awslabs/aws-c-auth/tree/main/tests/aws-signing-test-suite>): 2015-08-30T12:36:00Z.
    #[test]
    fn the_suite_of_aws() {
        let keys = AwsKeys {
            id: "AKIDEXAMPLE".into(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into()),
            token: None,
        };
        let signing = Signing { region: "us-east-1".into(), service: "service" };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160);
        let sign = |method, headers, body: &'static str| {
            let body = Pieces::One(Bytes::from_static(body.as_bytes()));
            let request = Unsigned { method, target: "/", host: "example.amazonaws.com", headers, body: &body };
            let signed = headers_of(&super::headers(request, &keys, &signing, now).expect("signed"));
            assert_eq!(signed[0], ("x-amz-date".to_owned(), "20150830T123600Z".to_owned()));
            signed[1].1.clone()
        };
        assert_eq!(
            sign("GET", Vec::new(), ""),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=host;x-amz-date, \
             Signature=5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
        );
        assert_eq!(
            sign("POST", vec![("content-type", "application/x-www-form-urlencoded")], "Param1=value1"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"
        );
    }

    fn headers_of(signed: &[(HeaderName, HeaderValue)]) -> Vec<(String, String)> {
        let text = |v: &HeaderValue| v.to_str().expect("text").to_owned();
        let mut all: Vec<_> = signed.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        all.sort_by_key(|(name, _)| name == "authorization");
        all
    }
}
