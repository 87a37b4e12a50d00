//! Signatures and tokens that calls of clouds' own checks want. The machine's own identity is lent to nobody here: who
//! writes a guardrail is a tenant.

use crate::upstream::{Credentials, Pass, later};
use gateway_domain::Secret;
use gateway_domain::cloud::{Assertion, AwsKeys, AwsRole, ClientCredentials, Grant, SignIn, SignInEndpoint, Signing};
use gateway_domain::ports::OutsideCall;
use gateway_guardrails::external_call::Sign;
use gateway_guardrails::partners::CheckCredentials;
use gateway_providers::{BodyPieces, sigv4};
use http::header;
use std::sync::Arc;
use url::Url;

/// Adds what the call is still to be signed with; the error holds no secret.
pub(super) async fn sign(clouds: &Credentials, sign: &Sign, call: &mut OutsideCall) -> Result<(), String> {
    match sign {
        Sign::Nothing => Ok(()),
        Sign::Aws { region, service, credentials } => {
            let pass = token(clouds, aws(region, credentials)?).await?;
            let Pass::Keys(keys, ahead) = pass else { return Err("The sign-in led to no keys".to_owned()) };
            let signing = Signing { region: region.clone(), service };
            signed(call, &keys, (&signing, ahead))
        }
        Sign::Azure { scope, credentials } => {
            let pass = token(clouds, entra(scope, credentials)?).await?;
            let Pass::Header(value) = pass else { return Err("The sign-in led to no token".to_owned()) };
            call.headers.push((header::AUTHORIZATION, value));
            Ok(())
        }
    }
}

async fn token(clouds: &Credentials, sign_in: SignIn) -> Result<Pass, String> {
    if sign_in.is_of_host() {
        return Err("The machine's identity is not lent to checks".to_owned());
    }
    clouds.token(&Arc::new(Grant::new(sign_in))).await.map_err(|fault| fault.message().to_owned())
}

fn aws(region: &str, credentials: &CheckCredentials) -> Result<SignIn, String> {
    let text = |name: &str| credentials.get(name).map(str::to_owned);
    let id = text("awsAccessKeyId").or_else(|| text("accessKeyId"));
    let secret = text("awsSecretAccessKey").or_else(|| text("accessKeySecret"));
    let (Some(id), Some(secret)) = (id, secret) else { return Err("There are no keys to sign with".to_owned()) };
    let keys = AwsKeys { id, secret: Secret::new(secret), token: text("awsSessionToken").map(Secret::new) };
    if credentials.get("awsAuthType") != Some("assumedRole") {
        return Ok(SignIn::AwsKeys(keys));
    }
    let arn = text("awsRoleArn").ok_or("There is no role to take")?;
    let (external_id, session) = (text("awsExternalId"), "gateway-guardrails".to_owned());
    Ok(SignIn::AwsRole(AwsRole { arn, external_id, session, region: region.to_owned(), keys: Some(keys) }))
}

fn entra(scope: &str, credentials: &CheckCredentials) -> Result<SignIn, String> {
    let text = |name: &str| credentials.get(name).map(str::to_owned).ok_or(format!("`{name}` is not set"));
    Ok(SignIn::ClientCredentials(ClientCredentials {
        endpoint: SignInEndpoint::Entra { tenant: text("azureEntraTenantId")? },
        client_id: text("azureEntraClientId")?,
        secret: Assertion::Secret(Secret::new(text("azureEntraClientSecret")?)),
        scope: Some(scope.to_owned()),
        resource: None,
        audience: None,
    }))
}

fn signed(call: &mut OutsideCall, keys: &AwsKeys, (signing, ahead): (&Signing, i64)) -> Result<(), String> {
    let url = Url::parse(&call.url).map_err(|_| "The address cannot be read".to_owned())?;
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    let host = format!("{}{port}", url.host_str().unwrap_or_default());
    let target = url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
    let covered = call.headers.iter().filter(|(name, _)| sigv4::covers(name.as_str()));
    let headers = covered.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect();
    let body = BodyPieces::One(call.body.clone());
    let unsigned = sigv4::Unsigned { method: call.method.as_str(), target: &target, host: &host, headers, body: &body };
    let made = sigv4::headers(unsigned, keys, signing, later(ahead)).map_err(|why| why.to_string())?;
    call.headers.extend(made);
    Ok(())
}
