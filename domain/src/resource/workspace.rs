//! A workspace: where keys, configs, providers and policies live.

use super::guardrail::{DefaultGuardrails, Exclusions};
use super::limits::ResourceLimits;
use super::security::Security;
use crate::export::LogField;
use crate::id::ConfigId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workspace {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub defaults: WorkspaceDefaults,
    /// Shown before the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// The workspace's own switches, in force in the sections that the organisation opened to workspaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_settings: Option<Security>,
    /// Days after which the secrets of user keys are replaced; wins over the organisation's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_api_key_rotation_period: Option<u16>,
    #[serde(default, skip_serializing_if = "ResourceLimits::is_empty")]
    pub limits: ResourceLimits,
    /// Fields of logs that are kept here beside those of the organisation.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub denied_log_fields: BTreeSet<LogField>,
    /// The directions in which the guardrails that the organisation gives to all do not hold here.
    #[serde(default, skip_serializing_if = "Exclusions::is_empty")]
    pub exclusions: Exclusions,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkspaceDefaults {
    /// Wins over the key's and the request's metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Given to every new user key that names none itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_api_key_config: Option<ConfigId>,
    #[serde(default, skip_serializing_if = "DefaultGuardrails::is_empty")]
    pub guardrails: DefaultGuardrails,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
