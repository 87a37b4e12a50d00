//! A saved config: the routing document of `docs/configs.md` under a slug, with versions.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedConfig {
    /// The config as the admin wrote it, key order kept; credentials in it are sealed.
    pub config: Value,
    #[serde(default)]
    pub is_default: bool,
    pub version_id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_by: Option<Uuid>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
