//! What the organisation signs in with to a service whose checks its guardrails use: one for each such partner.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plugin {
    /// The namespace of its checks: `azure`.
    pub partner: String,
    /// What is no secret, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// The others, sealed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
