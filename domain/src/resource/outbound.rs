//! Where something outside is that the gateway calls for its callers, an MCP server or an agent, and as whom it is
//! called.

use super::mcp_external_auth::{JwtValidation, McpExternalAuth};
use super::mcp_pricing::McpPricing;
use super::mcp_sign_in::{IdentityForwarding, McpKnownClient, McpOauthClient};
use super::secret_reference::SecretMapping;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutboundSettings {
    /// Where it is, held to the rules of [`crate::egress`].
    pub url: String,
    pub auth_type: OutboundAuth,
    /// Sent with every request, sealed: they are credentials often enough.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub custom_headers: BTreeMap<String, String>,
    /// Headers that come from secret references instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_mappings: Vec<SecretMapping>,
    #[serde(default, skip_serializing_if = "McpPricing::is_empty")]
    pub pricing: McpPricing,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<McpOauthClient>,
    /// The client that the gateway is where people connect accounts, for [`OutboundAuth::OauthAuto`] alone; `None`: it
    /// makes itself known there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known_client: Option<McpKnownClient>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityForwarding>,
    /// The issuer at which people sign in for this server; for MCP servers alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_auth_config: Option<McpExternalAuth>,
    /// How tokens of that issuer are checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt_validation: Option<JwtValidation>,
}

impl OutboundSettings {
    pub const fn new(url: String, auth_type: OutboundAuth) -> Self {
        Self {
            url,
            auth_type,
            custom_headers: BTreeMap::new(),
            secret_mappings: Vec::new(),
            pricing: McpPricing { default_usd_per_call: None, tools: BTreeMap::new() },
            oauth: None,
            known_client: None,
            identity: None,
            external_auth_config: None,
            jwt_validation: None,
        }
    }

    /// Drops headers, prices and sign-in, which a deleted integration need not keep.
    pub fn clear(&mut self) {
        self.custom_headers.clear();
        self.pricing = McpPricing::default();
        (self.oauth, self.known_client, self.identity) = (None, None, None);
        (self.external_auth_config, self.jwt_validation) = (None, None);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutboundAuth {
    None,
    Headers,
    /// See [`McpOauthClient`]. Headers go along.
    OauthClientCredentials,
    /// Each person connects an account of theirs; of MCP servers alone. Headers go along.
    OauthAuto,
}
