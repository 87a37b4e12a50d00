//! Gateway keys. Only the hash of the secret is kept; it is shown once, when it is made.

use super::limits::ResourceLimits;
use super::mcp_reach::McpReach;
use super::model_reach::ModelReach;
use super::rotation::{RotationPolicy, Transition};
use crate::scope::WrittenScopes;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeyKind {
    /// Acts on the whole organisation, through the Admin API only.
    OrganisationService,
    WorkspaceService,
    WorkspaceUser,
}

impl KeyKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::OrganisationService => "organisation-service",
            Self::WorkspaceService => "workspace-service",
            Self::WorkspaceUser => "workspace-user",
        }
    }

    /// The part of a minted key that tells its kind to a person.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::OrganisationService => "admin",
            Self::WorkspaceService => "svc",
            Self::WorkspaceUser => "usr",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApiKey {
    #[serde(rename = "type")]
    pub kind: KeyKind,
    /// Hex SHA-256 of the secret.
    pub hash: String,
    pub masked: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The person behind a user key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<Uuid>,
    pub scopes: WrittenScopes,
    #[serde(default)]
    pub defaults: KeyDefaults,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// `ui`, `api`, `auto` or [`Self::SIGN_ON`].
    pub creation_mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation_policy: Option<RotationPolicy>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transition: Option<Transition>,
    /// The secret that an automatic rotation made, sealed, until somebody fetches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_key: Option<String>,
    #[serde(default, skip_serializing_if = "ResourceLimits::is_empty")]
    pub limits: ResourceLimits,
    /// Calls under way at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<NonZeroU32>,
    /// What the key may use of MCP servers; empty: nothing is said.
    #[serde(default, skip_serializing_if = "McpReach::is_empty")]
    pub mcp_access: McpReach,
    /// `None`: any model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_models: Option<ModelReach>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl ApiKey {
    /// How a session of somebody who signed in was made.
    pub const SIGN_ON: &'static str = "sign-on";

    /// It ends by itself, and is neither changed nor given another secret.
    pub fn is_session(&self) -> bool {
        self.creation_mode == Self::SIGN_ON
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyDefaults {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Slug or id of a config used when the request names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_id: Option<String>,
    /// False: a request that brings its own config is refused.
    #[serde(default = "yes")]
    pub allow_config_override: bool,
}

impl Default for KeyDefaults {
    fn default() -> Self {
        Self { metadata: BTreeMap::new(), config_id: None, allow_config_override: true }
    }
}

const fn yes() -> bool {
    true
}
