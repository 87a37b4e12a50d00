//! A managed provider: what a workspace calls `@slug`. Refers to an integration for credential and host.

use super::limits::ResourceLimits;
use crate::id::IntegrationId;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::num::NonZeroU32;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Provider {
    pub integration_id: IntegrationId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Refused from this moment on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "ResourceLimits::is_empty")]
    pub limits: ResourceLimits,
    /// Calls under way at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<NonZeroU32>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
