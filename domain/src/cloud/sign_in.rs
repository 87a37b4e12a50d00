//! How a credential becomes a token. Descriptions only: who fetches is told everything that a request needs.

use crate::secret::Secret;
use sha2::{Digest, Sha256};

/// A way to a token, and a name for it that tells credentials apart and reveals none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub sign_in: SignIn,
    /// SHA-256 over everything that the way depends on.
    pub id: [u8; 32],
    /// Requests are signed with what the way leads to; without it that goes with them as it is.
    pub signing: Option<Signing>,
}

/// What a signature of AWS's (version 4) is valid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    pub region: String,
    /// The name that AWS gives the service in signatures.
    pub service: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignIn {
    /// An assertion signed with the key of a service account (RFC 7523).
    ServiceAccount(ServiceAccount),
    /// A token of another issuer exchanged for one of Google's (RFC 8693).
    Federation(Federation),
    /// The identity that Google gives the machine.
    GoogleHost { scope: String },
    /// OAuth client credentials (RFC 6749 §4.4), Microsoft Entra's included.
    ClientCredentials(ClientCredentials),
    /// The identity that Azure gives the machine.
    AzureHost { client_id: Option<String>, resource: String },
    /// Keys of AWS's that are there already.
    AwsKeys(AwsKeys),
    /// A role of AWS's that others may take.
    AwsRole(AwsRole),
    /// A key of a user's at Oracle, which signs each request itself.
    OciKey(OciKey),
    /// The identity that AWS gives the machine. The region is where a token of its platform is exchanged.
    AwsHost { region: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsKeys {
    pub id: String,
    pub secret: Secret<String>,
    /// The session token that goes with keys which end; `None` for keys that last.
    pub token: Option<Secret<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsRole {
    pub arn: String,
    pub external_id: Option<String>,
    pub session: String,
    pub region: String,
    /// Who takes the role; `None`: the machine.
    pub keys: Option<AwsKeys>,
}

/// <https://docs.oracle.com/en-us/iaas/Content/API/Concepts/apisigningkey.htm>
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OciKey {
    pub tenancy: String,
    pub user: String,
    pub fingerprint: String,
    /// PEM, PKCS#1 or PKCS#8.
    pub private_key: Secret<String>,
}

impl AwsKeys {
    fn for_each_part(&self, say: &mut impl FnMut(&str)) {
        say(&self.id);
        say(self.secret.expose());
        say(self.token.as_ref().map_or("", |token| token.expose()));
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    pub email: String,
    pub key_id: Option<String>,
    /// PEM, PKCS#8.
    pub key: Secret<String>,
    pub token_uri: String,
    pub scope: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Federation {
    pub audience: String,
    pub subject_token_type: String,
    pub token_url: String,
    pub source: SubjectSource,
    pub format: SubjectFormat,
    /// The service account to act as, by its `generateAccessToken` address.
    pub impersonation_url: Option<String>,
    pub scope: String,
}

/// Where the token to be exchanged is found anew each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectSource {
    File(String),
    Url { url: String, headers: Vec<(String, String)> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectFormat {
    Text,
    /// A field of a JSON object.
    Json(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCredentials {
    pub endpoint: SignInEndpoint,
    pub client_id: String,
    pub secret: Assertion,
    pub scope: Option<String>,
    /// What the token is for (RFC 8707), where the server wants to be told.
    pub resource: Option<String>,
    /// What the token is for, under the name that some servers use in place of `resource`.
    pub audience: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignInEndpoint {
    Url(String),
    /// A tenant of Microsoft Entra, at the authority that the operator set.
    Entra {
        tenant: String,
    },
}

/// How a client shows who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assertion {
    Secret(Secret<String>),
    /// A token that the platform keeps in a file (`AZURE_FEDERATED_TOKEN_FILE`).
    FederatedFile,
}

impl Grant {
    pub fn new(sign_in: SignIn) -> Self {
        let mut hash = Sha256::new();
        // Lengths keep `ab`,`c` apart from `a`,`bc`.
        sign_in.for_each_part(&mut |part: &str| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        });
        Self { id: hash.finalize().into(), sign_in, signing: None }
    }
}

impl SignIn {
    /// Whether it stands for the machine that the gateway runs on.
    pub const fn is_of_host(&self) -> bool {
        match self {
            Self::GoogleHost { .. } | Self::AzureHost { .. } | Self::AwsHost { .. } => true,
            Self::AwsRole(role) => role.keys.is_none(),
            Self::Federation(f) => matches!(f.source, SubjectSource::File(_)),
            Self::ClientCredentials(c) => matches!(c.secret, Assertion::FederatedFile),
            Self::ServiceAccount(_) | Self::AwsKeys(_) | Self::OciKey(_) => false,
        }
    }

    /// Whether it leads to keys that sign, not to a token.
    pub const fn signs(&self) -> bool {
        matches!(self, Self::AwsKeys(_) | Self::AwsRole(_) | Self::AwsHost { .. })
    }

    fn for_each_part(&self, say: &mut impl FnMut(&str)) {
        match self {
            Self::ServiceAccount(a) => {
                let parts = [&a.email, a.key.expose(), &a.token_uri, &a.scope];
                say("service-account");
                parts.into_iter().for_each(|p| say(p));
                say(a.key_id.as_deref().unwrap_or_default());
            }
            Self::Federation(f) => {
                say("federation");
                [&f.audience, &f.subject_token_type, &f.token_url, &f.scope].into_iter().for_each(|p| say(p));
                say(f.impersonation_url.as_deref().unwrap_or_default());
                say(&format!("{:?} {:?}", f.source, f.format));
            }
            Self::GoogleHost { scope } => {
                say("google-host");
                say(scope);
            }
            Self::ClientCredentials(c) => {
                say("client-credentials");
                match &c.endpoint {
                    SignInEndpoint::Url(url) => say(url),
                    SignInEndpoint::Entra { tenant } => {
                        say("\0entra");
                        say(tenant);
                    }
                }
                say(&c.client_id);
                match &c.secret {
                    Assertion::Secret(secret) => say(secret.expose()),
                    Assertion::FederatedFile => say("\0file"),
                }
                say(c.scope.as_deref().unwrap_or_default());
                say(c.resource.as_deref().unwrap_or_default());
                say(c.audience.as_deref().unwrap_or_default());
            }
            Self::AzureHost { client_id, resource } => {
                say("azure-host");
                say(client_id.as_deref().unwrap_or_default());
                say(resource);
            }
            Self::AwsKeys(keys) => {
                say("aws-keys");
                keys.for_each_part(say);
            }
            Self::OciKey(key) => {
                say("oci-key");
                [&key.tenancy, &key.user, &key.fingerprint, key.private_key.expose()].into_iter().for_each(|p| say(p));
            }
            Self::AwsRole(role) => {
                say("aws-role");
                [&role.arn, &role.session, &role.region].into_iter().for_each(|p| say(p));
                say(role.external_id.as_deref().unwrap_or_default());
                match &role.keys {
                    Some(keys) => keys.for_each_part(say),
                    None => say("\0host"),
                }
            }
            Self::AwsHost { region } => {
                say("aws-host");
                say(region);
            }
        }
    }
}
