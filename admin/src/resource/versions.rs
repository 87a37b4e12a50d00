//! Versions of a row, as its history has them, whoever wrote it: found by number or id. Knows no kind.

use crate::problem::{Problem, bad};
use crate::route::AdminCall;
use gateway_domain::resource::{Kind, StoredVersion};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

/// What is to be in force again.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionWanted {
    /// Its number or its id.
    version: Value,
}

impl VersionWanted {
    pub(super) fn name(self) -> Result<String, Problem> {
        match self.version {
            Value::Number(n) => Ok(n.to_string()),
            Value::String(text) => Ok(text),
            _ => Err(bad("version", "must be the number or the id of a version")),
        }
    }
}

/// Newest first.
pub(super) async fn versions(call: &AdminCall, kind: Kind, id: Uuid) -> Result<Vec<StoredVersion>, Problem> {
    let mut versions = call.app.history.versions(kind.name(), id).await?;
    versions.sort_by_key(|v| std::cmp::Reverse(v.version));
    Ok(versions)
}

/// Finds a version by number or id.
pub(super) fn pick<'a>(versions: &'a [StoredVersion], name: &str) -> Option<&'a StoredVersion> {
    versions.iter().find(|v| v.version.to_string() == name || v.version_id.to_string() == name)
}
