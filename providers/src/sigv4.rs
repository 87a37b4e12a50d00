//! Signatures of AWS's, version 4, on the final head and body of a request, or on a token that goes in their place. The
//! clock is the caller's.

use crate::adapter::BodyPieces;
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SignatureLocation, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gateway_domain::cloud::{AwsKeys, S3, Signing};
use http::{HeaderName, HeaderValue};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::time::{Duration, SystemTime};

/// A request as it will be sent, but for its signature.
#[derive(Debug)]
pub struct Unsigned<'a> {
    pub method: &'a str,
    /// The target as it stands in the request's first line, escapes included.
    pub target: &'a str,
    /// What the header `host` says.
    pub host: &'a str,
    /// Further headers that the signature covers; values must be text.
    pub headers: Vec<(&'a str, &'a str)>,
    pub body: &'a BodyPieces,
}

/// The request has a form that cannot be signed; names the reason and no secret.
#[derive(Debug)]
pub struct Unsignable(pub(crate) String);

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
    let is_file = signing.service == S3;
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(&signing.region)
        .name(signing.service)
        .time(now)
        .settings(if is_file { of_files() } else { SigningSettings::default() })
        .build()
        .map_err(|e| Unsignable(e.to_string()))?
        .into();
    let uri = format!("https://{}{}", request.host, request.target);
    let covered = request.headers.into_iter().chain([("host", request.host)]);
    let body = if is_file { SignableBody::UnsignedPayload } else { SignableBody::Precomputed(digest(request.body)) };
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

/// S3 takes paths as they are written, and is told in a header what the signature says of the body.
fn of_files() -> SigningSettings {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings
}

/// Where SageMaker's tokens are for, and what they allow, as AWS's own generator has it
/// (`sagemaker.core.token_generator`).
const TOKEN_HOST: &str = "sagemaker.amazonaws.com";
const TOKEN_ACTION: &str = "Action=CallWithBearerToken";
/// How long a token is valid; each is made for one call.
const TOKEN_LIVES: Duration = Duration::from_secs(300);

/// Whether calls to this path want a token that the keys have signed, and no signature of their own.
pub fn wants_bearer(signing: &Signing, target: &str) -> bool {
    signing.service == "sagemaker" && target.contains("/openai/v1/")
}

/// The token as the value of `authorization`: an address with a signature in its query, written in base64.
pub fn bearer(keys: &AwsKeys, signing: &Signing, now: SystemTime) -> Result<HeaderValue, Unsignable> {
    let token = keys.token.as_ref().map(|token| token.expose().clone());
    let identity = Credentials::new(&keys.id, keys.secret.expose(), token, None, "gateway").into();
    let mut settings = SigningSettings::default();
    settings.signature_location = SignatureLocation::QueryParams;
    settings.expires_in = Some(TOKEN_LIVES);
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(&signing.region)
        .name(signing.service)
        .time(now)
        .settings(settings)
        .build()
        .map_err(|e| Unsignable(e.to_string()))?
        .into();
    let uri = format!("https://{TOKEN_HOST}/?{TOKEN_ACTION}");
    let covered = std::iter::once(("host", TOKEN_HOST));
    let signable = SignableRequest::new("POST", uri, covered, SignableBody::Bytes(b""));
    let signed =
        sign(signable.map_err(|e| Unsignable(e.to_string()))?, &params).map_err(|e| Unsignable(e.to_string()))?;
    let mut address = format!("{TOKEN_HOST}/?{TOKEN_ACTION}");
    for (name, value) in signed.into_parts().0.into_parts().1 {
        address.push('&');
        address.push_str(name);
        address.push('=');
        escape(&value, &mut address);
    }
    address.push_str("&Version=1");
    let mut value = HeaderValue::from_str(&format!("Bearer sagemaker-api-key-{}", STANDARD.encode(address)))
        .map_err(|_| Unsignable("the token cannot be sent in a header".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// All but unreserved characters (RFC 3986, section 2.3).
fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => {
                // Writing to a String does not fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

/// SHA-256 in hexadecimal, without joining the pieces.
fn digest(body: &BodyPieces) -> String {
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
            let body = BodyPieces::One(Bytes::from_static(body.as_bytes()));
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

    /// What botocore 1.43 makes of the same keys at the same time, with the query in an order of its own.
    #[test]
    fn a_token_is_what_aws_generator_makes() {
        let signing = Signing { region: "us-east-1".into(), service: "sagemaker" };
        assert!(wants_bearer(&signing, "/endpoints/e/openai/v1/chat/completions"));
        assert!(!wants_bearer(&signing, "/endpoints/e/invocations"));
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160);
        for (token, expected) in [
            (None, "45aace7a1f6f6b8aeca20f1c30c9d37777df774256410543d63977c93a3e4df5"),
            (Some("tok/en+x=="), "a8b0bac5b52da66d9d852cce8e7e083fcdbe33e394366c7c6263c935d34db1b6"),
        ] {
            let keys = AwsKeys {
                id: "AKIDEXAMPLE".into(),
                secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into()),
                token: token.map(|token: &str| Secret::new(token.to_owned())),
            };
            let made = bearer(&keys, &signing, now).expect("signed");
            let text =
                made.to_str().expect("text").strip_prefix("Bearer sagemaker-api-key-").expect("its mark").to_owned();
            let address = String::from_utf8(STANDARD.decode(text).expect("base64")).expect("UTF-8");
            let query = address.strip_prefix("sagemaker.amazonaws.com/?").expect("its address");
            assert!(query.ends_with("&Version=1"), "{query}");
            let mut pairs: Vec<&str> = query.split('&').collect();
            pairs.sort_unstable();
            let signature = format!("X-Amz-Signature={expected}");
            let mut wanted = vec![
                "Action=CallWithBearerToken",
                "Version=1",
                "X-Amz-Algorithm=AWS4-HMAC-SHA256",
                "X-Amz-Credential=AKIDEXAMPLE%2F20150830%2Fus-east-1%2Fsagemaker%2Faws4_request",
                "X-Amz-Date=20150830T123600Z",
                "X-Amz-Expires=300",
                "X-Amz-SignedHeaders=host",
                &signature,
            ];
            wanted.extend(token.map(|_| "X-Amz-Security-Token=tok%2Fen%2Bx%3D%3D"));
            wanted.sort_unstable();
            assert_eq!(pairs, wanted);
        }
    }

    fn headers_of(signed: &[(HeaderName, HeaderValue)]) -> Vec<(String, String)> {
        let text = |v: &HeaderValue| v.to_str().expect("text").to_owned();
        let mut all: Vec<_> = signed.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        all.sort_by_key(|(name, _)| name == "authorization");
        all
    }
}
