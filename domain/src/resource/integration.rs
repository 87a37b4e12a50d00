//! An integration: a provider family with its sealed credential, shared by the providers that refer to it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Integration {
    /// Slug of the provider family, `openai`.
    pub ai_provider_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The credential as the vault sealed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masked_key: Option<String>,
    #[serde(default)]
    pub configurations: Configurations,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Settings beside the credential (`spec/admin-api.md`, IC). Only those in force today have a field.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Configurations {
    /// Base URL instead of the provider's, under the rules of [`crate::egress`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_host: Option<String>,
    /// Sent with every request; values are credentials often enough to be sealed too.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub custom_headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openai_organization: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub openai_project: Option<String>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
