//! An integration: a provider family with its sealed credential, shared by the providers that refer to it.

use super::limits::ResourceLimits;
use super::pricing::{Factors, Rates};
use super::secret_reference::SecretMapping;
use crate::cloud::{self, CloudSettings};
use crate::id::WorkspaceId;
use crate::secret::Secret;
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
    #[serde(default, skip_serializing_if = "is_default")]
    pub models: Models,
    #[serde(default, skip_serializing_if = "is_default")]
    pub access: Access,
    /// What every price of its models is multiplied by, prices that were set for a single model included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_factors: Option<Factors>,
    /// What is filled from references in place of being stored here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_mappings: Vec<SecretMapping>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Settings beside the credential. Only those in force today have a field.
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
    /// Browsers get the provider's own keys for realtime sessions, which go round the gateway.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub direct_realtime: bool,
    /// Objects that the provider keeps are found by ids of the workspace that made them, and by no other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub isolate_objects: bool,
    /// Settings of a cloud by name ([`cloud::SETTINGS`]); those that are secrets, sealed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cloud: BTreeMap<String, String>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Configurations {
    /// The settings of a cloud, opened.
    pub fn settings(&self, open: &dyn Fn(&str) -> Result<Secret<String>, String>) -> Result<CloudSettings, String> {
        let mut settings = CloudSettings::default();
        for (name, value) in &self.cloud {
            let setting =
                cloud::setting(name).ok_or_else(|| format!("{name} is no setting that this version knows"))?;
            let value = if setting.secret { open(value)?.expose().clone() } else { value.clone() };
            settings.set(setting, value).map_err(|wrong| format!("{} {}", wrong.field, wrong.rule))?;
        }
        Ok(settings)
    }
}

/// Which models may be asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Models {
    /// Everything but what is switched off; else only what is switched on.
    pub allow_all: bool,
    #[serde(default)]
    pub list: BTreeMap<String, Model>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Model {
    pub enabled: bool,
    /// A label of the admin's, by which nothing is decided.
    #[serde(default)]
    pub is_custom: bool,
    /// Another label of the admin's, by which nothing is decided.
    #[serde(default)]
    pub is_finetune: bool,
    /// Where it has no price of its own, it costs what this one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_model_slug: Option<String>,
    /// Instead of the integration's, under the same rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_host: Option<String>,
    /// Over the integration's; sealed as those.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub custom_headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<Rates>,
}

impl Default for Models {
    fn default() -> Self {
        Self { allow_all: true, list: BTreeMap::new() }
    }
}

impl Models {
    pub fn allow(&self, model: &str) -> bool {
        self.list.get(model).map_or(self.allow_all, |m| m.enabled)
    }

    /// Whether a model that has several names is allowed: switched off by any of them, it is off.
    pub fn allow_by<'n>(&self, names: impl Iterator<Item = &'n str>) -> bool {
        let (mut on, mut off) = (self.allow_all, false);
        for model in names.filter_map(|name| self.list.get(name)) {
            on |= model.enabled;
            off |= !model.enabled;
        }
        on && !off
    }

    /// Whether it matters which model is asked for.
    pub fn are_switched(&self) -> bool {
        !self.allow_all || self.list.values().any(|model| !model.enabled)
    }
}

/// Which workspaces may borrow from an integration of the organisation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// Whether a workspace that `workspaces` does not name may borrow from it.
    pub global: bool,
    #[serde(default)]
    pub workspaces: BTreeMap<WorkspaceId, bool>,
    /// What all workspaces together may take.
    #[serde(default, skip_serializing_if = "ResourceLimits::is_empty")]
    pub limits: ResourceLimits,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workspace_limits: BTreeMap<WorkspaceId, ResourceLimits>,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            global: true,
            workspaces: BTreeMap::new(),
            limits: ResourceLimits::default(),
            workspace_limits: BTreeMap::new(),
        }
    }
}

impl Access {
    pub fn allow(&self, workspace: WorkspaceId) -> bool {
        self.workspaces.get(&workspace).copied().unwrap_or(self.global)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
