//! AWS's ways to keys that sign: those that are given, a role that is assumed, and the identity that AWS gives a
//! machine (a token of the platform, an endpoint beside a container, the instance's metadata service, in the order of
//! AWS's own tools).

use super::clock;
use super::fetch::{Fetched, Fetcher, LONGEST_LIFE, LONGEST_MESSAGE, Pass, TokenRefusal, bounded};
use crate::outbound::{OutboundAnswer, send};
use gateway_domain::cloud::{AwsKeys, AwsRole, Signing, sts_url};
use gateway_domain::{Secret, Timestamp};
use gateway_providers::{BodyPieces, sigv4};
use http::{Method, header};
use reqwest::RequestBuilder;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Seconds that a token for instance metadata lives. Each fetch asks for one: there are only a few in a day.
const METADATA_TOKEN_LIFE: &str = "300";
const FORM: &str = "application/x-www-form-urlencoded";

/// What AWS's platforms tell a process in its environment, under the names that AWS's own tools read.
#[derive(Clone, Debug, Default)]
pub struct Platform {
    /// `AWS_ENDPOINT_URL_STS`, in place of the region's.
    pub sts: Option<String>,
    /// `AWS_EC2_METADATA_SERVICE_ENDPOINT`.
    pub metadata: Option<String>,
    /// `AWS_WEB_IDENTITY_TOKEN_FILE` with `AWS_ROLE_ARN`.
    pub web_identity: Option<(PathBuf, String)>,
    /// `AWS_ROLE_SESSION_NAME`.
    pub session: Option<String>,
    /// `AWS_CONTAINER_CREDENTIALS_FULL_URI`, or the relative one in its place.
    pub container: Option<String>,
    /// `AWS_CONTAINER_AUTHORIZATION_TOKEN`.
    pub container_token: Option<Secret<String>>,
    /// `AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE`, read anew each time.
    pub container_token_file: Option<PathBuf>,
    /// `AWS_ACCESS_KEY_ID` and its kin.
    pub keys: Option<AwsKeys>,
    /// `AWS_ASSUME_ROLE_ACCESS_KEY_ID` and its kin: who assumes the roles of integrations.
    pub role_keys: Option<AwsKeys>,
}

pub(super) fn given(keys: &AwsKeys) -> Fetched {
    Fetched { pass: Pass::Keys(Arc::new(keys.clone()), 0), lives: LONGEST_LIFE }
}

/// <https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html>.
pub(super) async fn role(fetcher: &Fetcher, role: &AwsRole) -> Result<Fetched, TokenRefusal> {
    let platform = &fetcher.places.aws;
    let by = match role.keys.as_ref().or(platform.role_keys.as_ref()) {
        Some(keys) => keys.clone(),
        None => match host(fetcher, &role.region).await?.pass {
            Pass::Keys(keys, _) => (*keys).clone(),
            Pass::Header(_) | Pass::Oci(_) => {
                return Err(TokenRefusal::failed("this machine has no keys to assume a role with"));
            }
        },
    };
    let mut form = form_urlencoded(&[
        ("Action", "AssumeRole"),
        ("Version", "2011-06-15"),
        ("RoleArn", &role.arn),
        ("RoleSessionName", &role.session),
    ]);
    if let Some(id) = &role.external_id {
        form = format!("{form}&{}", form_urlencoded(&[("ExternalId", id)]));
    }
    let answer = take_role(fetcher, role, &by, &form, 0).await?;
    match clock::ahead(&answer.headers).filter(|_| answer.status == 403) {
        Some(ahead) => exchanged(&take_role(fetcher, role, &by, &form, ahead).await?),
        None => exchanged(&answer),
    }
}

/// Asks, signed for a clock that is ahead of ours by so many seconds.
async fn take_role(
    fetcher: &Fetcher,
    role: &AwsRole,
    by: &AwsKeys,
    form: &str,
    ahead: i64,
) -> Result<OutboundAnswer, TokenRefusal> {
    let base = fetcher.places.aws.sts.clone().unwrap_or_else(|| sts_url(&role.region));
    let host = base.split_once("://").map_or(base.as_str(), |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or(host);
    let body = BodyPieces::One(form.to_owned().into());
    let covered = vec![("content-type", FORM)];
    let request = sigv4::Unsigned { method: "POST", target: "/", host, headers: covered, body: &body };
    let signing = Signing { region: role.region.clone(), service: "sts" };
    let signed = sigv4::headers(request, by, &signing, clock::later(ahead))
        .map_err(|why| TokenRefusal::failed(format!("the request for a role could not be signed: {why}")))?;
    let request = fetcher.outbound.operator_request(Method::POST, &format!("{}/", base.trim_end_matches('/')));
    let request = signed.into_iter().fold(request.header(header::CONTENT_TYPE, FORM), |r, (n, v)| r.header(n, v));
    Ok(send(request.body(form.to_owned())).await?)
}

/// The identity of the machine.
pub(super) async fn host(fetcher: &Fetcher, region: &str) -> Result<Fetched, TokenRefusal> {
    let platform = &fetcher.places.aws;
    if let Some(keys) = &platform.keys {
        return Ok(given(keys));
    }
    if let Some((file, role)) = &platform.web_identity {
        return web_identity(fetcher, file, role, region).await;
    }
    if let Some(url) = &platform.container {
        return container(fetcher, url).await;
    }
    instance(fetcher).await
}

/// <https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html>: the token is the proof,
/// nothing is signed.
async fn web_identity(fetcher: &Fetcher, file: &PathBuf, role: &str, region: &str) -> Result<Fetched, TokenRefusal> {
    let unreadable = |e: std::io::Error| {
        TokenRefusal::failed(format!("the file of AWS_WEB_IDENTITY_TOKEN_FILE cannot be read: {}", e.kind()))
    };
    let token = tokio::fs::read_to_string(file).await.map_err(unreadable)?;
    let platform = &fetcher.places.aws;
    let form = form_urlencoded(&[
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", role),
        ("RoleSessionName", platform.session.as_deref().unwrap_or("gateway")),
        ("WebIdentityToken", token.trim()),
    ]);
    let base = platform.sts.clone().unwrap_or_else(|| sts_url(region));
    let request = fetcher.outbound.operator_request(Method::POST, &format!("{}/", base.trim_end_matches('/')));
    exchanged(&send(request.header(header::CONTENT_TYPE, FORM).body(form)).await?)
}

/// Beside a container of ECS, or a pod with EKS Pod Identity
/// (<https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html>).
async fn container(fetcher: &Fetcher, url: &str) -> Result<Fetched, TokenRefusal> {
    let platform = &fetcher.places.aws;
    let token = match &platform.container_token_file {
        Some(file) => {
            let unreadable = |e: std::io::Error| {
                let name = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
                TokenRefusal::failed(format!("the file of {name} cannot be read: {}", e.kind()))
            };
            Some(tokio::fs::read_to_string(file).await.map_err(unreadable)?.trim().to_owned())
        }
        None => platform.container_token.as_ref().map(|token| token.expose().clone()),
    };
    let request = fetcher.outbound.operator_request(Method::GET, url);
    let request = token.into_iter().fold(request, |request, token| request.header(header::AUTHORIZATION, token));
    parse_credentials(&get(request).await?)
}

/// Version 2 of the instance metadata service
/// (<https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html>); version 1, which asks for
/// no token first, is not spoken.
async fn instance(fetcher: &Fetcher) -> Result<Fetched, TokenRefusal> {
    let base = fetcher.places.aws.metadata.as_deref().unwrap_or("http://169.254.169.254").trim_end_matches('/');
    let request = |method, path: &str| fetcher.outbound.operator_request(method, &format!("{base}{path}"));
    let token = request(Method::PUT, "/latest/api/token");
    let token = text(&get(token.header("x-aws-ec2-metadata-token-ttl-seconds", METADATA_TOKEN_LIFE)).await?);
    let ask = |path: &str| get(request(Method::GET, path).header("x-aws-ec2-metadata-token", token.trim()));
    let folder = "/latest/meta-data/iam/security-credentials/";
    let roles = text(&ask(folder).await?);
    let role = roles.lines().map(str::trim).find(|line| !line.is_empty());
    let role = role.ok_or_else(|| TokenRefusal::denied("this instance has no role"))?;
    parse_credentials(&ask(&format!("{folder}{role}")).await?)
}

fn text(answer: &OutboundAnswer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

async fn get(request: RequestBuilder) -> Result<OutboundAnswer, TokenRefusal> {
    let answer = send(request).await?;
    match answer.status {
        200..300 => Ok(answer),
        400 | 401 | 403 | 404 => {
            Err(TokenRefusal::denied(format!("the metadata service refused to tell keys: status {}", answer.status)))
        }
        status => Err(TokenRefusal::failed(format!("the metadata service failed: status {status}"))),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct MetadataCredentials {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<String>,
}

fn parse_credentials(answer: &OutboundAnswer) -> Result<Fetched, TokenRefusal> {
    let told: MetadataCredentials = serde_json::from_slice(&answer.body)
        .map_err(|_| TokenRefusal::failed("the metadata service answered with something that is no keys"))?;
    let token = told.token.filter(|token| !token.is_empty());
    let keys =
        AwsKeys { id: told.access_key_id, secret: Secret::new(told.secret_access_key), token: token.map(Secret::new) };
    fetched(keys, told.expiration.as_deref(), answer)
}

/// The answer of STS, whose XML is flat enough to be read by its tags.
fn exchanged(answer: &OutboundAnswer) -> Result<Fetched, TokenRefusal> {
    let xml = String::from_utf8_lossy(&answer.body);
    let needed = |name: &str| {
        let found = tag(&xml, name).filter(|text| !text.is_empty());
        found.ok_or_else(|| TokenRefusal::failed(format!("AWS's token service answered without {name}")))
    };
    if (200..300).contains(&answer.status) {
        let (id, secret, token) = (needed("AccessKeyId")?, needed("SecretAccessKey")?, needed("SessionToken")?);
        let keys = AwsKeys { id, secret: Secret::new(secret), token: Some(Secret::new(token)) };
        return fetched(keys, tag(&xml, "Expiration").as_deref(), answer);
    }
    let code = tag(&xml, "Code").unwrap_or_else(|| format!("status {}", answer.status));
    let why = tag(&xml, "Message").map_or_else(|| code.clone(), |message| format!("{code}: {message}"));
    let why: String = why.chars().take(LONGEST_MESSAGE).collect();
    Err(match answer.status {
        400 | 401 | 403 => TokenRefusal::denied(format!("AWS's token service refused the credential: {why}")),
        _ => TokenRefusal::failed(format!("AWS's token service failed: {why}")),
    })
}

fn tag(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (inside, _) = rest.split_once(&format!("</{name}>"))?;
    let plain = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(plain.iter().fold(inside.trim().to_owned(), |text, (escape, c)| text.replace(escape, c)))
}

fn fetched(keys: AwsKeys, until: Option<&str>, answer: &OutboundAnswer) -> Result<Fetched, TokenRefusal> {
    let lives = match until {
        Some(until) => {
            let until: Timestamp =
                until.parse().map_err(|_| TokenRefusal::failed("keys came with an end that is no time"))?;
            let left = u64::try_from(until.secs() - clock::now_of(&answer.headers)).unwrap_or(0);
            if left == 0 {
                return Err(TokenRefusal::failed("keys came that have ended already"));
            }
            bounded(Duration::from_secs(left))
        }
        None => LONGEST_LIFE,
    };
    Ok(Fetched { pass: Pass::Keys(Arc::new(keys), 0), lives })
}

fn form_urlencoded(pairs: &[(&str, &str)]) -> String {
    let escaped = |text: &str| {
        text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
            if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
                out.push(char::from(byte));
            } else {
                out.push_str(&format!("%{byte:02X}"));
            }
            out
        })
    };
    let all: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    all.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_token_service() {
        let answer = |status, body: &str| OutboundAnswer { status, headers: http::HeaderMap::new(), body: body.into() };
        let good = "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA1</AccessKeyId>\
                    <SecretAccessKey>s&amp;3</SecretAccessKey><SessionToken>t==</SessionToken>\
                    <Expiration>2126-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>";
        let Pass::Keys(keys, _) = exchanged(&answer(200, good)).expect("keys").pass else { panic!("keys") };
        assert_eq!((keys.id.as_str(), keys.secret.expose().as_str()), ("ASIA1", "s&3"));
        assert_eq!(keys.token.as_ref().expect("a token").expose(), "t==");
        let bad = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>Not &lt;you&gt;</Message>\
                   </Error></ErrorResponse>";
        let refused = exchanged(&answer(403, bad)).expect_err("refused");
        assert!(refused.denied && refused.message.ends_with("AccessDenied: Not <you>"), "{}", refused.message);
        assert!(!exchanged(&answer(503, "")).expect_err("down").denied);
        let ended = good.replace("2126", "2016");
        assert!(exchanged(&answer(200, &ended)).is_err(), "keys of yesterday");
    }

    #[test]
    fn forms() {
        assert_eq!(form_urlencoded(&[("a", "x y/+é"), ("b", "~")]), "a=x%20y%2F%2B%C3%A9&b=~");
    }
}
