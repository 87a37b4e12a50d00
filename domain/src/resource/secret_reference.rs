//! A reference to a secret that lies in somebody else's manager, and the places of an integration that are filled from
//! such references. What is read from a manager is never part of a document.

use crate::cloud;
use crate::id::{SecretReferenceId, WorkspaceId};
use crate::secret_source::SecretManager;
pub use crate::secret_source::ValueFormat;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecretReference {
    pub manager: SecretManager,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How the manager is signed in to, as far as it is no secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// The rest of it, sealed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
    pub secret_path: String,
    /// The member of the secret that is meant where a mapping names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<String>,
    /// The workspaces whose integrations may use it; `None`: those of every workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<BTreeSet<WorkspaceId>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// One place of an integration, and what fills it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretMapping {
    pub target_field: String,
    pub secret_reference_id: SecretReferenceId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_format: Option<ValueFormat>,
}

/// What a `target_field` means.
#[derive(Clone, Copy, Debug)]
pub enum MappedPlace<'a> {
    Key,
    Header(&'a str),
    Setting(&'static cloud::Setting),
}

impl<'a> MappedPlace<'a> {
    /// `Err` is the rest of a sentence. An address is none: it would be called without having been looked at.
    pub fn read(target: &'a str) -> Result<Self, &'static str> {
        const RULE: &str = "must be `key`, `configurations.custom_headers.<name>` or `configurations.<setting>`";
        if target == "key" {
            return Ok(Self::Key);
        }
        let name = target.strip_prefix("configurations.").ok_or(RULE)?;
        if let Some(header) = name.strip_prefix("custom_headers.") {
            return Ok(Self::Header(header));
        }
        match cloud::setting(name).filter(|setting| setting.name == name) {
            Some(setting) if setting.address => Err("is an address, which cannot come from a secret"),
            Some(setting) => Ok(Self::Setting(setting)),
            None => Err(RULE),
        }
    }
}
