//! AWS: regions to addresses, kinds of authentication to credentials that sign.

use super::sign_in::{AwsKeys, AwsRole, SignIn, Signing};
use super::{CloudSettings, Wrong};
use crate::secret::Secret;

/// What a role's session is called in AWS's logs unless `aws_role_session_name` says otherwise.
const SESSION: &str = "gateway";

pub(super) fn auth_type(value: &str) -> Result<(), &'static str> {
    match value {
        "accessKey" | "assumedRole" | "serviceRole" | "apiKey" => Ok(()),
        _ => Err("must be one of accessKey, assumedRole, serviceRole, apiKey"),
    }
}

pub(super) fn role_arn(value: &str) -> Result<(), &'static str> {
    let fits = value.bytes().all(|b| b.is_ascii_alphanumeric() || b":/+=,.@_-".contains(&b));
    let parts: Vec<&str> = value.splitn(6, ':').collect();
    if value.len() <= 2048 && fits && matches!(parts[..], ["arn", _, "iam", "", _, role] if role.starts_with("role/")) {
        Ok(())
    } else {
        Err("must be the ARN of a role, arn:aws:iam::123456789012:role/name")
    }
}

/// <https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html>, `RoleSessionName`.
pub(super) fn session_name(value: &str) -> Result<(), &'static str> {
    let fits = value.bytes().all(|b| b.is_ascii_alphanumeric() || b"+=,.@_-".contains(&b));
    if (2..=64).contains(&value.len()) && fits { Ok(()) } else { Err("must be of 2..64 letters, digits and `+=,.@_-`") }
}

/// The id of a foundation model.
pub(super) fn model(value: &str) -> Result<(), &'static str> {
    let fits = value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:/".contains(&b));
    if (1..=2048).contains(&value.len()) && fits { Ok(()) } else { Err("must be the id of a model") }
}

/// <https://docs.aws.amazon.com/whitepapers/latest/aws-fault-isolation-boundaries/partitions.html>.
fn domain(region: &str) -> &'static str {
    if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" }
}

fn url(service: &str, settings: &CloudSettings) -> Result<String, Wrong> {
    let region = settings.needed("aws_region")?;
    Ok(format!("https://{service}.{region}.{}", domain(region)))
}

pub(super) fn runtime_url(settings: &CloudSettings) -> Result<String, Wrong> {
    url("bedrock-runtime", settings)
}

/// Bedrock's open models, by the APIs of those who made APIs
/// (<https://docs.aws.amazon.com/bedrock/latest/userguide/bedrock-mantle.html>).
pub(super) fn mantle_url(settings: &CloudSettings) -> Result<String, Wrong> {
    Ok(format!("https://bedrock-mantle.{}.api.aws", settings.needed("aws_region")?))
}

pub(super) fn sagemaker_url(settings: &CloudSettings) -> Result<String, Wrong> {
    url("runtime.sagemaker", settings)
}

/// Anthropic's own API inside AWS, where each call says whose workspace it is for
/// (<https://docs.aws.amazon.com/claude-platform/latest/userguide/making-requests.html>).
pub(super) fn claude_url(settings: &CloudSettings) -> Result<String, Wrong> {
    settings.needed("anthropic_aws_workspace_id")?;
    Ok(format!("https://aws-external-anthropic.{}.api.aws", settings.needed("aws_region")?))
}

/// Where models are listed.
pub(super) fn control_url(settings: &CloudSettings) -> Result<String, Wrong> {
    url("bedrock", settings)
}

/// Where agents and their tools are, rerank among them.
pub(super) fn agents_url(settings: &CloudSettings) -> Result<String, Wrong> {
    url("bedrock-agent-runtime", settings)
}

/// Where files lie.
pub(super) fn storage_url(settings: &CloudSettings) -> Result<String, Wrong> {
    url("s3", settings)
}

/// Where roles are assumed.
pub(super) fn sts_url(region: &str) -> String {
    format!("https://sts.{region}.{}", domain(region))
}

fn keys(settings: &CloudSettings) -> Result<AwsKeys, Wrong> {
    Ok(AwsKeys {
        id: settings.needed("aws_access_key_id")?.to_owned(),
        secret: Secret::new(settings.needed("aws_secret_access_key")?.to_owned()),
        token: settings.get("aws_session_token").map(|token| Secret::new(token.to_owned())),
    })
}

/// How a credential signs in: as `aws_auth_type` says; without it, by what is there: a role, keys, or else an API key.
pub(super) fn sign_in(settings: &CloudSettings, has_key: bool) -> Result<Option<SignIn>, Wrong> {
    let given = |name| settings.get(name).is_some();
    let kind = match settings.get("aws_auth_type") {
        Some(kind) => kind,
        None if given("aws_role_arn") => "assumedRole",
        None if given("aws_access_key_id") || given("aws_secret_access_key") => "accessKey",
        None => "apiKey",
    };
    Ok(match kind {
        "accessKey" => Some(SignIn::AwsKeys(keys(settings)?)),
        "serviceRole" => Some(SignIn::AwsHost { region: settings.needed("aws_region")?.to_owned() }),
        "assumedRole" => {
            let own = given("aws_access_key_id") || given("aws_secret_access_key");
            Some(SignIn::AwsRole(AwsRole {
                arn: settings.needed("aws_role_arn")?.to_owned(),
                external_id: settings.get("aws_external_id").map(str::to_owned),
                session: settings.get("aws_role_session_name").unwrap_or(SESSION).to_owned(),
                region: settings.needed("aws_region")?.to_owned(),
                keys: if own { Some(keys(settings)?) } else { None },
            }))
        }
        _ if has_key || given("oauth_token_endpoint") => None,
        _ if given("aws_auth_type") => return Err(Wrong::new("aws_auth_type", "apiKey needs an API key as `key`")),
        _ => return Err(Wrong::new("aws_access_key_id", "is required, or another way to sign in, or an API key")),
    })
}

pub(super) fn signing(family: &str, settings: &CloudSettings) -> Result<Signing, Wrong> {
    let service = match family {
        "sagemaker" => "sagemaker",
        "claude-platform-aws" => "aws-external-anthropic",
        _ => "bedrock",
    };
    Ok(Signing { region: settings.needed("aws_region")?.to_owned(), service })
}
