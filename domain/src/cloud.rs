//! Clouds: the settings that decide where and as whom one of their providers is called, under one name in headers
//! (`x-gateway-<name>`), configs and integrations. Knows no network: what must be
//! fetched is described by a [`SignIn`].

mod aws;
pub mod azure;
mod google;
mod hosts;
mod service;
mod sign_in;

pub use azure::AzureDeployment;
pub use google::is_heard_by_speech;
pub use hosts::snowflake_token_type;
pub use service::{CloudService, S3, service_url, signed_service};
pub use sign_in::{
    Assertion, AwsKeys, AwsRole, ClientCredentials, Federation, Grant, OciKey, ServiceAccount, SignIn, SignInEndpoint,
    Signing, SubjectFormat, SubjectSource,
};

use crate::operation::Operation;
use crate::secret::Secret;
use std::sync::Arc;

/// What is wrong with which setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    pub field: &'static str,
    pub rule: String,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.field, self.rule)
    }
}

impl Wrong {
    pub(crate) fn new(field: &'static str, rule: impl Into<String>) -> Self {
        Self { field, rule: rule.into() }
    }
}

/// One setting, wherever it is given.
#[derive(Debug)]
pub struct Setting {
    /// The name in snake_case; a header spells it with hyphens.
    pub name: &'static str,
    /// Other names that configs know it by.
    pub aliases: &'static [&'static str],
    /// The families that it means something to.
    pub families: &'static [&'static str],
    /// Sealed at rest, never shown.
    pub secret: bool,
    /// An address, under the rules of custom hosts ([`crate::egress`]).
    pub address: bool,
    /// JSON, given and shown as such, kept as its text.
    pub json: bool,
    /// Decides neither where a call goes nor as whom: a request may bring it beside a saved credential.
    pub free: bool,
    check: fn(&str) -> Result<(), &'static str>,
}

const VERTEX: &[&str] = &["vertex-ai"];
const AWS: &[&str] = &["bedrock", "bedrock-mantle", "sagemaker", "claude-platform-aws"];
const CLAUDE_ON_AWS: &[&str] = &["claude-platform-aws"];
const BEDROCK: &[&str] = &["bedrock"];
const SAGEMAKER: &[&str] = &["sagemaker"];
const WORKERS_AI: &[&str] = &["workers-ai"];
const FIREWORKS: &[&str] = &["fireworks-ai"];
const CORTEX: &[&str] = &["cortex"];
const DATABRICKS: &[&str] = &["databricks"];
const BYTEPLUS: &[&str] = &["byteplus"];
const HUGGINGFACE: &[&str] = &["huggingface"];
const ORACLE: &[&str] = &["oracle"];
const TRITON: &[&str] = &["triton"];
const AZURE: &[&str] = &["azure-openai", "azure-ai"];
const AZURE_OPENAI: &[&str] = &["azure-openai"];
const AZURE_AI: &[&str] = &["azure-ai"];

const fn plain(
    name: &'static str,
    families: &'static [&'static str],
    check: fn(&str) -> Result<(), &'static str>,
) -> Setting {
    Setting { name, aliases: &[], families, secret: false, address: false, json: false, free: false, check }
}

const fn address(name: &'static str, families: &'static [&'static str]) -> Setting {
    Setting { address: true, ..plain(name, families, any) }
}

const fn secret(name: &'static str, families: &'static [&'static str]) -> Setting {
    Setting { secret: true, ..plain(name, families, any) }
}

impl Setting {
    const fn also(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn json(mut self) -> Self {
        self.json = true;
        self
    }

    const fn free(mut self) -> Self {
        self.free = true;
        self
    }

    pub fn check(&self, value: &str) -> Result<(), Wrong> {
        (self.check)(value).map_err(|rule| Wrong::new(self.name, rule))
    }

    pub fn serves(&self, family: &str) -> bool {
        self.families.is_empty() || self.families.contains(&family)
    }
}

/// Every setting there is. Empty `families`: every provider takes it.
pub static SETTINGS: &[Setting] = &[
    plain("vertex_auth_type", VERTEX, google::auth_type),
    plain("vertex_project_id", VERTEX, label),
    plain("vertex_region", VERTEX, label),
    secret("vertex_service_account_json", VERTEX),
    plain("vertex_storage_bucket_name", VERTEX, service::bucket),
    plain("aws_auth_type", AWS, aws::auth_type),
    plain("aws_region", AWS, label),
    plain("aws_access_key_id", AWS, segment),
    secret("aws_secret_access_key", AWS),
    secret("aws_session_token", AWS),
    plain("aws_role_arn", AWS, aws::role_arn),
    plain("aws_external_id", AWS, any),
    plain("aws_role_session_name", AWS, aws::session_name),
    plain("aws_bedrock_model", BEDROCK, aws::model),
    plain("aws_s3_bucket", BEDROCK, service::bucket),
    plain("anthropic_aws_workspace_id", CLAUDE_ON_AWS, segment),
    plain("amzn_sagemaker_custom_attributes", SAGEMAKER, header_text).free(),
    plain("amzn_sagemaker_target_model", SAGEMAKER, header_text),
    plain("amzn_sagemaker_target_variant", SAGEMAKER, header_text),
    plain("amzn_sagemaker_target_container_hostname", SAGEMAKER, header_text),
    plain("amzn_sagemaker_inference_id", SAGEMAKER, header_text).free(),
    plain("amzn_sagemaker_enable_explanations", SAGEMAKER, header_text).free(),
    plain("amzn_sagemaker_inference_component", SAGEMAKER, segment),
    plain("amzn_sagemaker_session_id", SAGEMAKER, header_text),
    plain("amzn_sagemaker_model_name", SAGEMAKER, header_text),
    plain("workers_ai_account_id", WORKERS_AI, hosts::host_label),
    plain("fireworks_account_id", FIREWORKS, segment),
    plain("snowflake_account", CORTEX, hosts::host_label),
    plain("databricks_workspace", DATABRICKS, hosts::databricks_workspace),
    plain("databricks_serving_endpoint_name", DATABRICKS, segment),
    plain("byteplus_region", BYTEPLUS, hosts::host_label),
    address("huggingface_base_url", HUGGINGFACE),
    plain("oracle_region", ORACLE, hosts::host_label),
    plain("oracle_api_version", ORACLE, hosts::host_label),
    plain("oracle_serving_mode", ORACLE, oracle_serving_mode),
    plain("oracle_api_format", ORACLE, oracle_api_format),
    plain("oracle_compartment_id", ORACLE, ocid),
    plain("oracle_tenancy", ORACLE, ocid),
    plain("oracle_user", ORACLE, ocid),
    plain("oracle_fingerprint", ORACLE, fingerprint),
    secret("oracle_private_key", ORACLE),
    plain("triton_api", TRITON, triton_api),
    plain("azure_auth_mode", AZURE, azure::auth_mode),
    plain("azure_resource_name", AZURE_OPENAI, label).also(&["resource_name"]),
    plain("azure_deployment_id", AZURE_OPENAI, segment).also(&["deployment_id"]),
    plain("azure_deployment_config", AZURE_OPENAI, any).also(&["deployments"]).json(),
    plain("azure_model_name", AZURE_OPENAI, segment),
    plain("azure_deployment_name", AZURE_AI, segment),
    plain("azure_api_version", AZURE, segment).also(&["api_version"]),
    plain("azure_extra_params", AZURE_AI, azure::extra_params),
    plain("provider_responses_proxy", AZURE_AI, flag).free(),
    address("azure_foundry_url", AZURE_AI),
    secret("azure_ad_token", AZURE),
    plain("azure_entra_tenant_id", AZURE, label),
    plain("azure_entra_client_id", AZURE, segment),
    secret("azure_entra_client_secret", AZURE),
    plain("azure_entra_scope", AZURE, any),
    plain("azure_managed_client_id", AZURE, segment),
    plain("azure_workload_client_id", AZURE, segment),
    plain("azure_workload_tenant_id", AZURE, label),
    address("oauth_token_endpoint", &[]),
    plain("oauth_client_id", &[], any),
    secret("oauth_client_secret", &[]),
    plain("oauth_scope", &[], any),
];

/// Finds a setting by its name or one of its aliases.
pub fn setting(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|s| s.name == name || s.aliases.contains(&name))
}

/// What names of settings begin with: other headers are passed by without a look at the table.
const PREFIXES: &[&str] = &[
    "vertex",
    "azure",
    "aws",
    "anthropic",
    "oauth",
    "provider",
    "amzn",
    "workers",
    "snowflake",
    "databricks",
    "byteplus",
    "huggingface",
    "oracle",
    "triton",
    "fireworks",
];

/// Whether the suffix of a header names a setting, `vertex-region`.
pub fn setting_of_header(suffix: &str) -> Option<&'static Setting> {
    let first = suffix.split('-').next()?;
    if !PREFIXES.contains(&first) {
        return None;
    }
    SETTINGS.iter().find(|s| s.name.len() == suffix.len() && s.name.replace('_', "-") == suffix)
}

fn any(value: &str) -> Result<(), &'static str> {
    if value.is_empty() || value.len() > 16 * 1024 { Err("must be of 1..16384 characters") } else { Ok(()) }
}

fn flag(value: &str) -> Result<(), &'static str> {
    if matches!(value, "true" | "false") { Ok(()) } else { Err("must be true or false") }
}

/// Fits into a host name, and cannot leave it.
fn label(value: &str) -> Result<(), &'static str> {
    let fits = value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') && !value.starts_with('-');
    if (1..=63).contains(&value.len()) && fits { Ok(()) } else { Err("must be of 1..63 letters, digits and hyphens") }
}

/// Fits between two slashes of a path, or into a query.
fn segment(value: &str) -> Result<(), &'static str> {
    let fits = value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if (1..=128).contains(&value.len()) && fits && value.bytes().any(|b| b != b'.') {
        Ok(())
    } else {
        Err("must be of 1..128 letters, digits, `-`, `_` and `.`")
    }
}

fn triton_api(value: &str) -> Result<(), &'static str> {
    if matches!(value, "openai" | "generate") { Ok(()) } else { Err("must be openai or generate") }
}

fn oracle_serving_mode(value: &str) -> Result<(), &'static str> {
    if matches!(value, "ON_DEMAND" | "DEDICATED") { Ok(()) } else { Err("must be ON_DEMAND or DEDICATED") }
}

fn oracle_api_format(value: &str) -> Result<(), &'static str> {
    if matches!(value, "GENERIC" | "COHERE") { Ok(()) } else { Err("must be GENERIC or COHERE") }
}

/// Goes upstream as the value of a header.
fn header_text(value: &str) -> Result<(), &'static str> {
    let printable = value.bytes().all(|b| (b' '..=b'~').contains(&b)) && value.trim() == value;
    if (1..=1024).contains(&value.len()) && printable {
        Ok(())
    } else {
        Err("must be of 1..1024 printable ASCII characters, none of them a space at either end")
    }
}

/// Oracle's identifiers, <https://docs.oracle.com/en-us/iaas/Content/General/Concepts/identifiers.htm>.
fn ocid(value: &str) -> Result<(), &'static str> {
    let fits = value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if value.starts_with("ocid1.") && value.len() <= 255 && fits {
        Ok(())
    } else {
        Err("must be an OCID, ocid1.compartment.oc1..aaaa")
    }
}

/// The fingerprint of an API key, as Oracle shows it.
fn fingerprint(value: &str) -> Result<(), &'static str> {
    let pair = |pair: &str| pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
    if value.split(':').count() == 16 && value.split(':').all(pair) {
        Ok(())
    } else {
        Err("must be 16 pairs of hexadecimal digits with colons between them")
    }
}

/// Settings with their values, checked one by one; what they mean together depends on the family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudSettings {
    values: Vec<(&'static str, Secret<String>)>,
    /// What `azure_deployment_config` says, read once.
    deployments: Option<Arc<[AzureDeployment]>>,
}

impl CloudSettings {
    /// Empty settings, for a provider that needs none.
    pub fn none() -> &'static Self {
        static NONE: CloudSettings = CloudSettings { values: Vec::new(), deployments: None };
        &NONE
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The name of one of those that decide where a call goes or as whom, when there are any.
    pub fn first_binding(&self) -> Option<&'static str> {
        self.values.iter().map(|(name, _)| *name).find(|name| setting(name).is_none_or(|s| !s.free))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(n, _)| *n == name).map(|(_, value)| value.expose().as_str())
    }

    /// The deployments of Azure OpenAI, in the order in which they were given.
    pub fn deployments(&self) -> &[AzureDeployment] {
        self.deployments.as_deref().unwrap_or_default()
    }

    /// All of them, in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(name, value)| (*name, value.expose().as_str()))
    }

    /// Later values of a name replace earlier ones.
    pub fn set(&mut self, setting: &'static Setting, value: String) -> Result<(), Wrong> {
        setting.check(&value)?;
        if setting.name == azure::DEPLOYMENTS {
            self.deployments = Some(azure::deployments(&value)?.into());
        }
        self.values.retain(|(name, _)| *name != setting.name);
        self.values.push((setting.name, Secret::new(value)));
        Ok(())
    }

    /// These values, and beside them those of `below` that are not among them.
    #[must_use]
    pub fn over(&self, below: &Self) -> Self {
        let rest = below.values.iter().filter(|(name, _)| self.get(name).is_none());
        let deployments = self.deployments.as_ref().or(below.deployments.as_ref()).cloned();
        Self { values: self.values.iter().chain(rest).cloned().collect(), deployments }
    }

    fn needed(&self, name: &'static str) -> Result<&str, Wrong> {
        self.get(name).ok_or_else(|| Wrong::new(name, "is required"))
    }
}

/// The address that settings of `family` make, without a trailing slash; `None`: it has one of its own or none.
pub fn base_url(family: &str, settings: &CloudSettings) -> Result<Option<String>, Wrong> {
    match family {
        "bedrock" => aws::runtime_url(settings).map(Some),
        "bedrock-mantle" => aws::mantle_url(settings).map(Some),
        "sagemaker" => aws::sagemaker_url(settings).map(Some),
        "claude-platform-aws" => aws::claude_url(settings).map(Some),
        "vertex-ai" => google::base_url(settings).map(Some),
        "azure-openai" => azure::openai_url(settings).map(Some),
        "azure-ai" => azure::foundry_origin(settings).map(Some),
        _ => hosts::url(family, settings).transpose(),
    }
}

/// A token among the settings that is sent as it is, in place of the credential.
pub fn bearer(settings: &CloudSettings) -> Option<&str> {
    let token = settings.get("azure_ad_token")?;
    Some(token.strip_prefix("Bearer ").unwrap_or(token))
}

/// The address for what a family serves elsewhere than at its [`base_url`]: lists of models, rerank, models that only
/// hear, jobs. `None`: the operation has no address of its own.
pub fn aside_url(
    family: &str,
    operation: Operation,
    model: Option<&str>,
    settings: &CloudSettings,
) -> Result<Option<String>, Wrong> {
    match (family, operation) {
        ("bedrock", operation) if operation == Operation::ListModels || operation.is_about_tuning() => {
            aws::control_url(settings).map(Some)
        }
        ("fireworks-ai", operation) if operation.is_about_tuning() => Ok(Some("https://api.fireworks.ai".to_owned())),
        ("bedrock", Operation::Rerank) => aws::agents_url(settings).map(Some),
        ("vertex-ai", Operation::Rerank) => Ok(Some("https://discoveryengine.googleapis.com".to_owned())),
        ("vertex-ai", Operation::Transcription) if model.is_some_and(is_heard_by_speech) => {
            google::speech_url(settings).map(Some)
        }
        _ => Ok(None),
    }
}

/// AWS's token service of a region.
pub fn sts_url(region: &str) -> String {
    aws::sts_url(region)
}

/// How the settings of `family` sign in; `None`: the credential goes upstream as it is. `host_identity`: the identity
/// of the machine may be used, which an admin's word allows and a request's does not.
pub fn grant(
    family: &str,
    settings: &CloudSettings,
    has_key: bool,
    host_identity: bool,
) -> Result<Option<Grant>, Wrong> {
    let sign_in = match family {
        family if AWS.contains(&family) => aws::sign_in(settings, has_key)?,
        "oracle" => oracle_key(settings)?,
        "vertex-ai" => google::sign_in(settings, has_key)?,
        "azure-openai" | "azure-ai" => azure::sign_in(settings)?,
        _ => None,
    };
    let sign_in = match sign_in {
        Some(sign_in) => Some(sign_in),
        None => oauth(settings)?,
    };
    if sign_in.as_ref().is_some_and(SignIn::is_of_host) && !host_identity {
        let field = match family {
            family if AWS.contains(&family) => "aws_auth_type",
            "vertex-ai" => "vertex_auth_type",
            _ => "azure_auth_mode",
        };
        return Err(Wrong::new(field, "asks for the identity of this machine, which only a saved integration may use"));
    }
    let signing = sign_in.as_ref().filter(|way| way.signs()).map(|_| aws::signing(family, settings)).transpose()?;
    Ok(sign_in.map(|way| Grant { signing, ..Grant::new(way) }))
}

/// A user's key, where any part of one is given; else an API key goes as it is.
fn oracle_key(settings: &CloudSettings) -> Result<Option<SignIn>, Wrong> {
    const PARTS: [&str; 4] = ["oracle_tenancy", "oracle_user", "oracle_fingerprint", "oracle_private_key"];
    if PARTS.iter().all(|name| settings.get(name).is_none()) {
        return Ok(None);
    }
    let part = |name| settings.needed(name).map(str::to_owned);
    let private_key = part(PARTS[3])?;
    if !private_key.contains("PRIVATE KEY-----") || private_key.contains("ENCRYPTED") {
        return Err(Wrong::new(PARTS[3], "must be the PEM of a private key without a passphrase"));
    }
    Ok(Some(SignIn::OciKey(OciKey {
        tenancy: part(PARTS[0])?,
        user: part(PARTS[1])?,
        fingerprint: part(PARTS[2])?,
        private_key: Secret::new(private_key),
    })))
}

/// The project that calls belong to: named, or the one of the service account.
pub fn vertex_project(settings: &CloudSettings) -> Option<String> {
    google::project(settings)
}

/// `oauthClientCredentials`, for any provider that takes such tokens.
fn oauth(settings: &CloudSettings) -> Result<Option<SignIn>, Wrong> {
    if settings.get("oauth_token_endpoint").is_none() && settings.get("oauth_client_id").is_none() {
        return Ok(None);
    }
    Ok(Some(SignIn::ClientCredentials(ClientCredentials {
        endpoint: SignInEndpoint::Url(settings.needed("oauth_token_endpoint")?.to_owned()),
        client_id: settings.needed("oauth_client_id")?.to_owned(),
        secret: Assertion::Secret(Secret::new(settings.needed("oauth_client_secret")?.to_owned())),
        scope: settings.get("oauth_scope").map(str::to_owned),
        resource: None,
        audience: None,
    })))
}

#[cfg(test)]
mod tests;
