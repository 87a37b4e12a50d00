//! MCP integrations and servers. An integration says where an MCP server is and as whom it is called; a server is a
//! workspace's name for one, with what its callers may use of it.

use crate::id::{McpIntegrationId, McpServerId, UserId, WorkspaceId};
use crate::resource::secret_reference::SecretMapping;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct McpIntegration {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where it is, held to the rules of [`crate::egress`].
    pub url: String,
    pub transport: McpTransport,
    pub auth_type: McpAuth,
    /// Sent with every request, sealed: they are credentials often enough.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub custom_headers: BTreeMap<String, String>,
    /// Headers that come from secret references instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secret_mappings: Vec<SecretMapping>,
    #[serde(default)]
    pub capabilities: McpSwitches,
    #[serde(default)]
    pub access: McpAccess,
    #[serde(default)]
    pub sync: McpSync,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum McpTransport {
    /// Streamable HTTP: one address that answers with JSON or events.
    Http,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpAuth {
    None,
    Headers,
}

/// What is switched off, or on again, by kind (`tool`, `prompt`, `resource`) and name; everything else is on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct McpSwitches(pub BTreeMap<String, BTreeMap<String, bool>>);

impl McpSwitches {
    /// More are no list that somebody keeps.
    pub const MOST: usize = 5000;

    pub fn allows(&self, kind: &str, name: &str) -> bool {
        self.0.get(kind).and_then(|names| names.get(name)).copied().unwrap_or(true)
    }

    pub fn set(&mut self, kind: &str, name: String, enabled: bool) {
        self.0.entry(kind.to_owned()).or_default().insert(name, enabled);
    }

    pub fn count(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }
}

/// Which workspaces may use an integration of the organisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpAccess {
    /// For every workspace that is not told otherwise.
    pub global: bool,
    #[serde(default)]
    pub workspaces: BTreeMap<WorkspaceId, bool>,
}

impl Default for McpAccess {
    fn default() -> Self {
        Self { global: true, workspaces: BTreeMap::new() }
    }
}

impl McpAccess {
    pub fn allow(&self, workspace: WorkspaceId) -> bool {
        self.workspaces.get(&workspace).copied().unwrap_or(self.global)
    }
}

/// What the server told of itself when it was last asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct McpSync {
    /// `ok`, `stale` (asked since, in vain) or `failed` (never answered); empty before it was asked.
    #[serde(default)]
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<String>,
    /// Its capabilities, as it wrote them.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub flags: Value,
    /// What it offers, by kind, each item as it wrote it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub items: BTreeMap<String, Vec<Value>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct McpServer {
    /// `None` for one that shows several others as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_integration_id: Option<McpIntegrationId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<ServerMember>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub capabilities: McpSwitches,
    #[serde(default)]
    pub user_access: McpUserAccess,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// One of the servers that are shown as one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerMember {
    pub mcp_server_id: McpServerId,
    /// Before the names of its tools; its slug where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Without it the others are shown alone.
    pub optional: bool,
}

impl ServerMember {
    pub const MOST: usize = 20;
}

/// Which people may use a server. A key of nobody's is a service's, which the default speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpUserAccess {
    pub default_allow: bool,
    #[serde(default)]
    pub users: BTreeMap<UserId, bool>,
}

impl Default for McpUserAccess {
    fn default() -> Self {
        Self { default_allow: true, users: BTreeMap::new() }
    }
}

impl McpUserAccess {
    pub const MOST: usize = 10_000;

    pub fn allows(&self, user: Option<UserId>) -> bool {
        user.and_then(|user| self.users.get(&user)).copied().unwrap_or(self.default_allow)
    }
}

/// A server's slug, which is the first segment of its path.
pub fn check_server_slug(slug: &str) -> Result<(), &'static str> {
    const RESERVED: &[&str] = &["v1", "v2", "mcp", "oauth", "agent", "proxy", "health", "metrics"];
    if !(3..=50).contains(&slug.len()) {
        return Err("must have 3 to 50 characters");
    }
    if !slug.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
        return Err("may hold letters, digits, '-' and '_' only");
    }
    if RESERVED.contains(&slug) { Err("is a name of the gateway's own") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn everything_is_on_until_it_is_switched_off() {
        let mut switches = McpSwitches::default();
        switches.set("tool", "send".into(), false);
        assert!(
            !switches.allows("tool", "send") && switches.allows("prompt", "send") && switches.allows("tool", "read")
        );
        switches.set("tool", "send".into(), true);
        assert!(switches.allows("tool", "send") && switches.count() == 1);
    }

    #[test]
    fn people_are_told_one_by_one_and_services_by_the_default() {
        let (one, other) = (UserId(Uuid::from_u128(1)), UserId(Uuid::from_u128(2)));
        let access = McpUserAccess { default_allow: false, users: [(one, true)].into() };
        assert!(access.allows(Some(one)) && !access.allows(Some(other)) && !access.allows(None));
        assert!(McpUserAccess::default().allows(None));
    }

    #[test]
    fn slugs_of_servers_stand_in_paths() {
        for bad in ["ab", "mcp", "oauth", "a b c", "a.b", &"x".repeat(51), "a/b"] {
            assert!(check_server_slug(bad).is_err(), "{bad}");
        }
        assert!(check_server_slug("files-1_b").is_ok());
    }
}
