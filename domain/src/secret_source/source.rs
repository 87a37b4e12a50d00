//! One secret of one manager, typed: read from the fields of a reference, by the rules that the manager itself has.

use super::{AskedMachine, SecretManager, TokenReader};
use crate::cloud::{self, CloudSettings, Grant, SignIn};
use crate::invalid::Invalid;
use crate::secret::Secret;
use sha2::{Digest, Sha256};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    Aws {
        grant: Arc<Grant>,
        region: String,
        /// Name or ARN.
        id: String,
    },
    Azure {
        grant: Arc<Grant>,
        vault: String,
        /// The name of the secret, and perhaps one of its versions behind a slash.
        name: String,
    },
    HashiCorp(HashiCorp),
    Environment {
        name: String,
    },
    File {
        path: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashiCorp {
    pub addr: String,
    pub namespace: Option<String>,
    pub login: VaultLogin,
    /// Path of the secret behind `/v1/`.
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VaultLogin {
    Token(Secret<String>),
    AppRole {
        role: String,
        secret: Secret<String>,
    },
    /// Signs in with the token that a cluster gives this machine.
    Kubernetes {
        role: String,
    },
}

/// What a reference says, opened.
#[derive(Clone, Copy)]
pub struct SourceFields<'a> {
    pub manager: SecretManager,
    pub path: &'a str,
    pub get: &'a dyn Fn(&str) -> Option<String>,
}

impl std::fmt::Debug for SourceFields<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceFields").field("manager", &self.manager).finish_non_exhaustive()
    }
}

impl SourceFields<'_> {
    fn needed(&self, name: &str) -> Result<String, Invalid> {
        (self.get)(name).ok_or_else(|| Invalid::new(auth(name), "is required"))
    }

    /// What does not belong to the way of signing in that was chosen is refused: it would be stored for nothing.
    fn only(&self, kind: &str, fields: &[&str]) -> Result<(), Invalid> {
        let all = super::AUTH_FIELDS.iter().filter(|field| field.manager == self.manager);
        match all.into_iter().find(|field| !fields.contains(&field.name) && (self.get)(field.name).is_some()) {
            Some(field) => Err(Invalid::new(auth(field.name), format!("has no meaning for `{kind}`"))),
            None => Ok(()),
        }
    }
}

fn auth(name: &str) -> String {
    format!("auth_config.{name}")
}

impl SecretSource {
    pub fn read(given: &SourceFields<'_>) -> Result<Self, Invalid> {
        check_path(given.manager, given.path)?;
        match given.manager {
            SecretManager::Aws => aws(given),
            SecretManager::Azure => azure(given),
            SecretManager::HashiCorp => hashicorp(given),
            SecretManager::Environment => Ok(Self::Environment { name: given.path.to_owned() }),
            SecretManager::File => Ok(Self::File { path: given.path.to_owned() }),
        }
    }

    /// Whether a tenant chose that the machine's own identity signs in.
    pub(super) fn machine(&self) -> Option<AskedMachine<'_>> {
        match self {
            Self::Aws { grant, .. } if grant.sign_in.is_of_host() => {
                Some(AskedMachine { field: "auth_config.aws_auth_type", shown_to: None })
            }
            Self::Azure { grant, vault, .. } if grant.sign_in.is_of_host() => {
                let shown_to = TokenReader { field: "auth_config.azure_vault_url", url: vault, is_azure: true };
                Some(AskedMachine { field: "auth_config.azure_auth_mode", shown_to: Some(shown_to) })
            }
            Self::HashiCorp(HashiCorp { addr, login: VaultLogin::Kubernetes { .. }, .. }) => {
                let shown_to = TokenReader { field: "auth_config.vault_addr", url: addr, is_azure: false };
                Some(AskedMachine { field: "auth_config.vault_auth_type", shown_to: Some(shown_to) })
            }
            _ => None,
        }
    }
}

impl HashiCorp {
    /// Tells logins apart, and reveals none; `None`: a token needs none.
    pub fn login_id(&self) -> Option<[u8; 32]> {
        let (kind, role, secret) = match &self.login {
            VaultLogin::Token(_) => return None,
            VaultLogin::AppRole { role, secret } => ("approle", role, secret.expose().as_str()),
            VaultLogin::Kubernetes { role } => ("kubernetes", role, ""),
        };
        let mut hash = Sha256::new();
        // Lengths keep `ab`,`c` apart from `a`,`bc`.
        for part in [self.addr.as_str(), self.namespace.as_deref().unwrap_or_default(), kind, role, secret] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        Some(hash.finalize().into())
    }
}

/// Whether the manager could have a secret of this name.
pub fn check_path(manager: SecretManager, path: &str) -> Result<(), Invalid> {
    const MOST: usize = 1024;
    let wrong = |rule: &str| Err(Invalid::new("secret_path", rule));
    if path.is_empty() || path.len() > MOST || path.chars().any(char::is_control) {
        return wrong("must be of 1..1024 bytes without control characters");
    }
    let segments = || path.split('/');
    let is_plain = |c: char, more: &str| c.is_ascii_alphanumeric() || more.contains(c);
    match manager {
        // https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_CreateSecret.html
        SecretManager::Aws if !path.chars().all(|c| is_plain(c, "/_+=.@-:!")) => {
            wrong("must be the name or the ARN of a secret: letters, digits and `/_+=.@-:!`")
        }
        SecretManager::Azure => {
            let (name, version) = path.split_once('/').map_or((path, None), |(name, version)| (name, Some(version)));
            let fits = (1..=127).contains(&name.len()) && name.chars().all(|c| is_plain(c, "-"));
            let version = version.is_none_or(|v| (1..=64).contains(&v.len()) && v.chars().all(|c| is_plain(c, "")));
            if fits && version {
                Ok(())
            } else {
                wrong("must be the name of a secret: 1..127 letters, digits and `-`, and perhaps `/` and a version")
            }
        }
        SecretManager::HashiCorp | SecretManager::File if segments().any(|s| matches!(s, "" | "." | "..")) => {
            wrong("must be a path without a leading slash, empty parts, `.` and `..`")
        }
        SecretManager::HashiCorp if path.contains(['?', '#', '\\']) => wrong("must not hold `?`, `#` or a backslash"),
        SecretManager::File if path.contains('\\') => wrong("must not hold a backslash"),
        SecretManager::Environment if !path.chars().all(|c| is_plain(c, "_")) => {
            wrong("must be the name of a variable: letters, digits and `_`")
        }
        _ => Ok(()),
    }
}

/// The settings of providers of the same cloud mean the same here, with the same rules.
fn settings(given: &SourceFields<'_>, names: &[&str]) -> Result<CloudSettings, Invalid> {
    let mut settings = CloudSettings::default();
    for name in names {
        let (Some(value), Some(setting)) = ((given.get)(name), cloud::setting(name)) else { continue };
        settings.set(setting, value).map_err(|wrong| Invalid::new(auth(wrong.field), wrong.rule))?;
    }
    Ok(settings)
}

fn grant(family: &str, settings: &CloudSettings) -> Result<Option<Grant>, Invalid> {
    // Whether the identity of the machine may be used is asked of `SecretOpenings`.
    cloud::grant(family, settings, false, true).map_err(|wrong| Invalid::new(auth(wrong.field), wrong.rule))
}

fn aws(given: &SourceFields<'_>) -> Result<SecretSource, Invalid> {
    const KEYS: [&str; 3] = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];
    const ROLE: [&str; 2] = ["aws_role_arn", "aws_external_id"];
    let kind = given.needed("aws_auth_type")?;
    let own: &[&str] = match kind.as_str() {
        "accessKey" => &KEYS,
        "assumedRole" => &[KEYS[0], KEYS[1], KEYS[2], ROLE[0], ROLE[1]],
        "serviceRole" => &[],
        _ => return Err(Invalid::new(auth("aws_auth_type"), "must be one of accessKey, assumedRole, serviceRole")),
    };
    let names = [&["aws_auth_type", "aws_region"], own].concat();
    given.only(&kind, &names)?;
    let settings = settings(given, &names)?;
    let region = given.needed("aws_region")?;
    let grant = grant("bedrock", &settings)?.ok_or_else(|| Invalid::new(auth("aws_auth_type"), "signs nothing"))?;
    Ok(SecretSource::Aws { grant: Arc::new(grant), region, id: given.path.to_owned() })
}

/// What tokens of a vault are for
/// (<https://learn.microsoft.com/azure/key-vault/general/authentication-requests-and-responses>): each of Azure's
/// clouds has a name of its own.
fn audience(vault: &str) -> &'static str {
    let host = vault.split_once("://").map_or(vault, |(_, rest)| rest);
    let host = host.split(['/', ':']).next().unwrap_or(host);
    match host {
        host if host.ends_with(".vault.azure.cn") => "https://vault.azure.cn",
        host if host.ends_with(".vault.usgovcloudapi.net") => "https://vault.usgovcloudapi.net",
        _ => "https://vault.azure.net",
    }
}

fn azure(given: &SourceFields<'_>) -> Result<SecretSource, Invalid> {
    const ENTRA: [&str; 3] = ["azure_entra_tenant_id", "azure_entra_client_id", "azure_entra_client_secret"];
    let kind = given.needed("azure_auth_mode")?;
    let vault = given.needed("azure_vault_url")?.trim_end_matches('/').to_owned();
    let own: &[&str] = match kind.as_str() {
        "entra" => &ENTRA,
        "managed" => &["azure_managed_client_id"],
        "default" => &[],
        _ => return Err(Invalid::new(auth("azure_auth_mode"), "must be one of entra, managed, default")),
    };
    given.only(&kind, &[&["azure_auth_mode", "azure_vault_url"], own].concat())?;
    let resource = audience(&vault);
    let grant = if kind == "entra" {
        let mut settings = settings(given, &[&["azure_auth_mode"], own].concat())?;
        if let Some(scope) = cloud::setting("azure_entra_scope") {
            let scoped = settings.set(scope, format!("{resource}/.default"));
            scoped.map_err(|wrong| Invalid::new(auth(wrong.field), wrong.rule))?;
        }
        grant("azure-openai", &settings)?.ok_or_else(|| Invalid::new(auth("azure_auth_mode"), "leads to no token"))?
    } else {
        let client_id = settings(given, own)?.get("azure_managed_client_id").map(str::to_owned);
        Grant::new(SignIn::AzureHost { client_id, resource: resource.to_owned() })
    };
    Ok(SecretSource::Azure { grant: Arc::new(grant), vault, name: given.path.to_owned() })
}

fn hashicorp(given: &SourceFields<'_>) -> Result<SecretSource, Invalid> {
    const COMMON: [&str; 3] = ["vault_auth_type", "vault_addr", "vault_namespace"];
    let kind = given.needed("vault_auth_type")?;
    let own: &[&str] = match kind.as_str() {
        "token" => &["vault_token"],
        "approle" => &["vault_role_id", "vault_secret_id"],
        "kubernetes" => &["vault_role"],
        _ => return Err(Invalid::new(auth("vault_auth_type"), "must be one of token, approle, kubernetes")),
    };
    given.only(&kind, &[&COMMON, own].concat())?;
    let login = match kind.as_str() {
        "token" => VaultLogin::Token(Secret::new(given.needed("vault_token")?)),
        "approle" => VaultLogin::AppRole {
            role: given.needed("vault_role_id")?,
            secret: Secret::new(given.needed("vault_secret_id")?),
        },
        _ => VaultLogin::Kubernetes { role: given.needed("vault_role")? },
    };
    Ok(SecretSource::HashiCorp(HashiCorp {
        addr: given.needed("vault_addr")?.trim_end_matches('/').to_owned(),
        namespace: (given.get)("vault_namespace"),
        login,
        path: given.path.to_owned(),
    }))
}
