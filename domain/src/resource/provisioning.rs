//! What a directory outside tells of an organisation's people (SCIM, RFC 7643): attributes of a user that the gateway
//! keeps without going by them, groups, and which role members of a group have in a workspace. The protocol is not
//! known here.

use super::person::WorkspaceRole;
use crate::id::{UserId, WorkspaceId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// Part of a user. Without it the directory's name of somebody is the e-mail address.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectoryProfile {
    pub user_name: String,
    /// The directory's own id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Attributes of the user, spelled as their schema spells them; they were checked when they came.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub attributes: Map<String, Value>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Stored at organisation level; its name is that of the row, its slug the same in lower case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectoryGroup {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<UserId>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Stored at organisation level, so that it outlives no workspace unseen: it names one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupMapping {
    pub group: Uuid,
    pub workspace: WorkspaceId,
    pub role: WorkspaceRole,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
