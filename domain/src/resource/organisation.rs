//! The organisation: the tenant. Holds what is set once for all its workspaces.

use crate::id::WorkspaceId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Organisation {
    /// Acted on when an Admin key names no workspace.
    pub default_workspace: WorkspaceId,
    /// Refuses inline provider, config and host selection (`spec/errors.md`, saved-only mode).
    #[serde(default)]
    pub block_inline_config: bool,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
