//! Google's ways to a token: an assertion of a service account, a token of another issuer, the machine's identity.

use super::clock::{self, now_secs};
use super::fetch::{Fetched, Fetcher, Pass, TokenRefusal, ask, fetched, judge, token};
use crate::outbound::send;
use gateway_domain::Timestamp;
use gateway_domain::cloud::{Federation, ServiceAccount, SubjectFormat, SubjectSource};
use http::{Method, header};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

/// What Google allows at most.
const LIFE: i64 = 3600;
/// Ahead of the endpoint's clock by so much, ours is still taken.
const EARLIER: i64 = 10;

#[derive(Serialize)]
struct AssertionClaims<'a> {
    iss: &'a str,
    scope: &'a str,
    aud: &'a str,
    iat: i64,
    exp: i64,
}

/// RFC 7523: the endpoint's token for an assertion of our own. Where it says by its `date` that our clock is off, the
/// assertion is made anew by its time.
pub(super) async fn service_account(fetcher: &Fetcher, account: &ServiceAccount) -> Result<Fetched, TokenRefusal> {
    let now = now_secs();
    let answer = exchange(fetcher, account, now).await?;
    let refused = match judge(&answer) {
        Ok(json) => return token(&json),
        Err(refused) => refused,
    };
    match clock::ahead(&answer.headers).filter(|_| refused.denied) {
        Some(ahead) => token(&judge(&exchange(fetcher, account, now + ahead).await?)?),
        None => Err(refused),
    }
}

async fn exchange(
    fetcher: &Fetcher,
    account: &ServiceAccount,
    now: i64,
) -> Result<crate::outbound::OutboundAnswer, TokenRefusal> {
    let form =
        [("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"), ("assertion", &assertion(account, now)?)];
    let request = fetcher.outbound.request(Method::POST, &account.token_uri)?.form(&form);
    Ok(send(request).await?)
}

pub(super) fn assertion(account: &ServiceAccount, now: i64) -> Result<String, TokenRefusal> {
    let key = EncodingKey::from_rsa_pem(account.key.expose().as_bytes())
        .map_err(|_| TokenRefusal::denied("the private_key of the service account is no RSA key in PEM form"))?;
    let mut head = Header::new(Algorithm::RS256);
    head.kid.clone_from(&account.key_id);
    let iat = now - EARLIER;
    let claims =
        AssertionClaims { iss: &account.email, scope: &account.scope, aud: &account.token_uri, iat, exp: iat + LIFE };
    jsonwebtoken::encode(&head, &claims, &key)
        .map_err(|_| TokenRefusal::denied("the assertion of the service account could not be signed"))
}

/// RFC 8693, and on to a service account where the file names one.
pub(super) async fn federation(fetcher: &Fetcher, federation: &Federation) -> Result<Fetched, TokenRefusal> {
    let addresses = std::iter::once(&federation.token_url).chain(&federation.impersonation_url);
    if let SubjectSource::File(_) = federation.source
        && !addresses.into_iter().all(|url| fetcher.outbound.trusts(url) || is_googles(url))
    {
        // Else whoever writes such a file could have any file of this machine sent anywhere.
        return Err(TokenRefusal::denied("a credential file with a `file` source may name addresses of Google's only"));
    }
    let subject = subject(fetcher, federation).await?;
    let form = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("audience", &federation.audience),
        ("scope", &federation.scope),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("subject_token", &subject),
        ("subject_token_type", &federation.subject_token_type),
    ];
    let exchanged = token(&ask(fetcher.outbound.request(Method::POST, &federation.token_url)?.form(&form)).await?)?;
    let Some(url) = &federation.impersonation_url else { return Ok(exchanged) };
    let wanted = json!({ "scope": [federation.scope], "lifetime": format!("{LIFE}s") });
    let Pass::Header(bearer) = exchanged.pass else { return Err(TokenRefusal::failed("no token to go on with")) };
    let request = fetcher.outbound.request(Method::POST, url)?;
    let answer = send(request.header(header::AUTHORIZATION, bearer).json(&wanted)).await?;
    let json = judge(&answer)?;
    let access = json.get("accessToken").and_then(Value::as_str);
    let access =
        access.ok_or_else(|| TokenRefusal::failed("the service account's token came without an accessToken"))?;
    let until = json.get("expireTime").and_then(|t| t.as_str()?.parse::<Timestamp>().ok());
    let lives = until.map_or(LIFE, |until| until.secs() - clock::now_of(&answer.headers));
    fetched(access, Duration::from_secs(u64::try_from(lives).unwrap_or(0)))
}

fn is_googles(url: &str) -> bool {
    let host = url.strip_prefix("https://").and_then(|rest| rest.split(['/', '?', '#']).next());
    host.is_some_and(|host| host.ends_with(".googleapis.com") && !host.contains('@'))
}

async fn subject(fetcher: &Fetcher, federation: &Federation) -> Result<String, TokenRefusal> {
    let text = match &federation.source {
        SubjectSource::File(path) => tokio::fs::read_to_string(path).await.map_err(|e| {
            TokenRefusal::failed(format!("the file with the token to exchange cannot be read: {}", e.kind()))
        })?,
        SubjectSource::Url { url, headers } => {
            let mut request = fetcher.outbound.request(Method::GET, url)?;
            for (name, value) in headers {
                request = request.header(name, value);
            }
            let answer = send(request).await?;
            if !(200..300).contains(&answer.status) {
                let why = format!("the source of the token to exchange answered with status {}", answer.status);
                return Err(TokenRefusal::failed(why));
            }
            String::from_utf8(answer.body).unwrap_or_default()
        }
    };
    let found = match &federation.format {
        SubjectFormat::Text => Some(text.trim().to_owned()),
        SubjectFormat::Json(field) => {
            let json: Option<Value> = serde_json::from_str(&text).ok();
            json.and_then(|json| json.get(field)?.as_str().map(str::to_owned))
        }
    };
    found.filter(|t| !t.is_empty()).ok_or_else(|| TokenRefusal::failed("the source of the token to exchange gave none"))
}

/// <https://cloud.google.com/compute/docs/access/authenticate-workloads>: what the machine is, asked of its metadata
/// service.
pub(super) async fn host(fetcher: &Fetcher, scope: &str) -> Result<Fetched, TokenRefusal> {
    let base = fetcher.places.google_metadata.trim_end_matches('/');
    let url = format!("{base}/computeMetadata/v1/instance/service-accounts/default/token");
    let request = fetcher.outbound.operator_request(Method::GET, &url).query(&[("scopes", scope)]);
    token(&ask(request.header("metadata-flavor", "Google")).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use gateway_domain::Secret;
    use std::process::Command;

    fn openssl(folder: &std::path::Path, args: &str) -> String {
        let output = Command::new("openssl").current_dir(folder).args(args.split(' ')).output().expect("openssl");
        assert!(output.status.success(), "openssl {args}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    #[test]
    fn openssl_verifies_the_assertion() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path();
        openssl(dir, "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out key.pem");
        openssl(dir, "pkey -in key.pem -pubout -out public.pem");
        let account = ServiceAccount {
            email: "robot@p.iam.gserviceaccount.com".into(),
            key_id: Some("k1".into()),
            key: Secret::new(std::fs::read_to_string(dir.join("key.pem")).expect("a key")),
            token_uri: "https://oauth2.googleapis.com/token".into(),
            scope: "https://www.googleapis.com/auth/cloud-platform".into(),
        };
        let assertion = assertion(&account, 1_750_000_000).expect("signed");
        let (signed, signature) = assertion.rsplit_once('.').expect("three parts");
        std::fs::write(dir.join("signed"), signed).expect("written");
        std::fs::write(dir.join("signature"), URL_SAFE_NO_PAD.decode(signature).expect("base64")).expect("written");
        let told = openssl(dir, "dgst -sha256 -verify public.pem -signature signature signed");
        assert_eq!(told.trim(), "Verified OK");
        let part = |part: &str| -> Value {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("base64")).expect("JSON")
        };
        let (head, claims) = signed.split_once('.').expect("two parts");
        assert_eq!(part(head), json!({ "typ": "JWT", "alg": "RS256", "kid": "k1" }));
        let claims = part(claims);
        assert_eq!((&claims["iss"], &claims["aud"]), (&json!(account.email), &json!(account.token_uri)));
        assert_eq!(claims["exp"].as_i64().expect("exp") - claims["iat"].as_i64().expect("iat"), LIFE);
    }

    #[test]
    fn only_googles_own_addresses_are_googles() {
        assert!(is_googles("https://sts.googleapis.com/v1/token"));
        for url in ["http://sts.googleapis.com/", "https://googleapis.com.evil.example/", "https://x@y.googleapis.com/"]
        {
            assert!(!is_googles(url), "{url}");
        }
    }
}
