//! Managers of secrets: what one of them is asked for, and as whom, and how one value is taken out of what it tells.
//! Descriptions only; who asks is told everything that a request needs. Which of them a tenant may name at all is the
//! operator's word ([`SecretOpenings`]).

mod source;

pub use source::{HashiCorp, SecretSource, SourceFields, VaultLogin, check_path};

use crate::egress::{BaseUrl, Trusted};
use crate::invalid::Invalid;
use crate::secret::Secret;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// What the value of a secret is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueFormat {
    String,
    /// It must be JSON.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SecretManager {
    #[serde(rename = "aws_sm")]
    Aws,
    #[serde(rename = "azure_kv")]
    Azure,
    #[serde(rename = "hashicorp_vault")]
    HashiCorp,
    #[serde(rename = "environment")]
    Environment,
    #[serde(rename = "file")]
    File,
}

impl SecretManager {
    pub const ALL: [Self; 5] = [Self::Aws, Self::Azure, Self::HashiCorp, Self::Environment, Self::File];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws_sm",
            Self::Azure => "azure_kv",
            Self::HashiCorp => "hashicorp_vault",
            Self::Environment => "environment",
            Self::File => "file",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|manager| manager.name() == name)
    }
}

/// A field of `auth_config`.
#[derive(Debug)]
pub struct AuthField {
    pub manager: SecretManager,
    pub name: &'static str,
    /// Sealed at rest, never shown.
    pub secret: bool,
    /// An address, under the rules of custom hosts ([`crate::egress`]).
    pub address: bool,
}

const fn plain(manager: SecretManager, name: &'static str) -> AuthField {
    AuthField { manager, name, secret: false, address: false }
}

const fn secret(manager: SecretManager, name: &'static str) -> AuthField {
    AuthField { secret: true, ..plain(manager, name) }
}

const fn address(manager: SecretManager, name: &'static str) -> AuthField {
    AuthField { address: true, ..plain(manager, name) }
}

/// Every field that there is. Environment and files are signed in to by being there.
pub static AUTH_FIELDS: &[AuthField] = &[
    plain(SecretManager::Aws, "aws_auth_type"),
    plain(SecretManager::Aws, "aws_region"),
    plain(SecretManager::Aws, "aws_access_key_id"),
    secret(SecretManager::Aws, "aws_secret_access_key"),
    secret(SecretManager::Aws, "aws_session_token"),
    plain(SecretManager::Aws, "aws_role_arn"),
    plain(SecretManager::Aws, "aws_external_id"),
    plain(SecretManager::Azure, "azure_auth_mode"),
    address(SecretManager::Azure, "azure_vault_url"),
    plain(SecretManager::Azure, "azure_entra_tenant_id"),
    plain(SecretManager::Azure, "azure_entra_client_id"),
    secret(SecretManager::Azure, "azure_entra_client_secret"),
    plain(SecretManager::Azure, "azure_managed_client_id"),
    plain(SecretManager::HashiCorp, "vault_auth_type"),
    address(SecretManager::HashiCorp, "vault_addr"),
    plain(SecretManager::HashiCorp, "vault_namespace"),
    secret(SecretManager::HashiCorp, "vault_token"),
    plain(SecretManager::HashiCorp, "vault_role_id"),
    secret(SecretManager::HashiCorp, "vault_secret_id"),
    plain(SecretManager::HashiCorp, "vault_role"),
];

pub fn auth_field(manager: SecretManager, name: &str) -> Option<&'static AuthField> {
    AUTH_FIELDS.iter().find(|field| field.manager == manager && field.name == name)
}

/// What the operator opens of the machine to those who name secrets. Nothing, unless told.
#[derive(Clone, Debug, Default)]
pub struct SecretOpenings {
    /// The identity that a cloud or a cluster gives this machine.
    pub machine_identity: bool,
    /// Variables of the environment that begin with it.
    pub environment: Option<String>,
    /// Files below it.
    pub folder: Option<std::path::PathBuf>,
}

/// Hosts under these are Azure's own key vaults, so that a token of the machine meets nobody else
/// (<https://learn.microsoft.com/azure/key-vault/general/about-keys-secrets-certificates#vault-name-and-object-name>).
const AZURE_VAULTS: [&str; 3] = [".vault.azure.net", ".vault.azure.cn", ".vault.usgovcloudapi.net"];

impl SecretOpenings {
    /// Whether this source may be asked.
    pub fn allow(&self, source: &SecretSource, trusted: &Trusted) -> Result<(), Invalid> {
        let shut = |flag: &str| {
            Invalid::new("manager_type", format!("is not opened on this gateway: its operator sets {flag}"))
        };
        match source {
            SecretSource::Environment { name } => {
                let prefix = self.environment.as_deref().ok_or_else(|| shut("--secret-env-prefix"))?;
                let inside = name.len() > prefix.len() && name.starts_with(prefix);
                inside.then_some(()).ok_or_else(|| Invalid::new("secret_path", format!("must begin with `{prefix}`")))
            }
            SecretSource::File { .. } => self.folder.as_ref().map(drop).ok_or_else(|| shut("--secret-folder")),
            _ => {
                let Some(asked) = source.machine() else { return Ok(()) };
                if !self.machine_identity {
                    let why = "asks for the identity of this machine, which its operator opens with --secret-machine-identity";
                    return Err(Invalid::new(asked.field, why));
                }
                asked.shown_to.map_or(Ok(()), |address| known(&address, trusted))
            }
        }
    }
}

/// A source that stands for the machine.
pub(crate) struct AskedMachine<'a> {
    /// Which says so.
    field: &'static str,
    shown_to: Option<TokenReader<'a>>,
}

/// An address that a tenant chose and that would be shown a token of the machine.
struct TokenReader<'a> {
    field: &'static str,
    url: &'a str,
    is_azure: bool,
}

/// The machine's own token is shown to nobody whom the operator does not know.
fn known(address: &TokenReader<'_>, trusted: &Trusted) -> Result<(), Invalid> {
    let host = BaseUrl::parse(address.url).map_err(|why| Invalid::new(address.field, why))?.host;
    let is_azure = address.is_azure && AZURE_VAULTS.iter().any(|suffix| host.ends_with(suffix));
    let why = "would be shown the identity of this machine: its operator names the host in --trusted-custom-hosts";
    (is_azure || trusted.name(&host)).then_some(()).ok_or_else(|| Invalid::new(address.field, why))
}

/// A secret as its manager told it. Equal where the text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretText(Secret<Arc<str>>);

/// Longer texts are no secrets: AWS's manager takes 64 KiB at most, and so do we.
pub const LONGEST_SECRET: usize = 64 << 10;

impl SecretText {
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST_SECRET {
            return Err(format!("is longer than {LONGEST_SECRET} bytes"));
        }
        // Files and editors put line ends behind what is meant.
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() { Err("is empty".to_owned()) } else { Ok(Self(Secret::new(text.into()))) }
    }

    /// The whole, or one member of it; `Err` is the rest of a sentence and holds nothing of the text.
    pub fn pick(&self, key: Option<&str>, format: Option<ValueFormat>) -> Result<String, String> {
        let text: &str = self.0.expose();
        let value = match key {
            None => text.to_owned(),
            Some(key) => {
                let json: Option<Value> = serde_json::from_str(text).ok();
                let members =
                    json.as_ref().and_then(Value::as_object).ok_or("is no JSON object, so it has no members")?;
                match members.get(key) {
                    None | Some(Value::Null) => return Err(format!("has no member `{key}`")),
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                }
            }
        };
        match format {
            Some(ValueFormat::Json) if serde_json::from_str::<Value>(&value).is_err() => Err("is no JSON".to_owned()),
            _ => Ok(value),
        }
    }

    /// A number that stands for this text within one process.
    pub fn print(&self) -> u64 {
        self.0.expose().bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
    }
}

#[cfg(test)]
mod tests;
