//! A deployment: a set of nodes under one name, and the workspaces that they serve. Which nodes those are is said by
//! the nodes themselves, when they are started.

use crate::id::WorkspaceId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deployment {
    /// A label: nothing depends on it.
    pub kind: DeploymentKind,
    #[serde(default)]
    pub config: DeploymentConfig,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_type: Option<String>,
    /// The workspaces that it serves, in the order given; a token that names none is for the first. `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<Vec<WorkspaceId>>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeploymentKind {
    Production,
    NonProduction,
}

impl DeploymentKind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Production => "production",
            Self::NonProduction => "non-production",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        [Self::Production, Self::NonProduction].into_iter().find(|kind| kind.name() == name)
    }
}

/// What its nodes do otherwise than others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeploymentConfig {
    /// Saved configs and providers only, whatever the organisation says.
    #[serde(default)]
    pub block_inline_config: bool,
    /// Metadata that every record of its nodes has; wins over that of the request, its key and its workspace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}
