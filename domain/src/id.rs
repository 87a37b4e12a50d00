//! Typed ids, so that a workspace's id cannot stand where an organisation's is wanted.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(s: &str) -> Result<Self, Self::Err> {
                Uuid::parse_str(s).map(Self)
            }
        }
    )+};
}

ids! {
    OrgId, WorkspaceId, KeyId, ConfigId, IntegrationId, ProviderId, PolicyId, GuardrailId, McpIntegrationId, McpServerId,
    AgentIntegrationId, AgentServerId,
    SecretReferenceId, SigningKeyId,
    /// A client that an admin made.
    OauthClientId,
    /// What somebody allowed a client.
    GrantId,
    /// A person; filled by the users' resource.
    UserId,
    /// What tokens are limited by: the same for all tokens that are counted together.
    ClaimId,
}
