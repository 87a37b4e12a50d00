//! MCP integrations and servers. An integration says where an MCP server is and as whom it is called; a server is a
//! workspace's name for one, with what its callers may use of it.

use super::mcp_definition::{AcceptedTools, NewCapabilities};
use super::mcp_pricing::McpPricing;
use super::mcp_sign_in::{IdentityForwarding, McpOauthClient};
use crate::id::{McpIntegrationId, McpServerId, UserId, WorkspaceId};
use crate::resource::secret_reference::SecretMapping;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

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
    #[serde(default)]
    pub new_capabilities: NewCapabilities,
    /// Whether a tool that says something else of itself than what was accepted is hidden.
    #[serde(default)]
    pub pin_definitions: bool,
    /// Empty where definitions are not pinned.
    #[serde(default)]
    pub accepted: AcceptedTools,
    #[serde(default, skip_serializing_if = "McpPricing::is_empty")]
    pub pricing: McpPricing,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<McpOauthClient>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityForwarding>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl McpIntegration {
    /// Takes in what the server told just now. `first`: whoever saves it sees all of that, so that nothing of it is new.
    /// Which tools are no longer what was accepted is the answer.
    pub fn learn(&mut self, told: McpSync, first: bool) -> BTreeSet<String> {
        if self.new_capabilities == NewCapabilities::Disabled && !first {
            self.switch_off_new(&told);
        }
        self.sync = told;
        self.pin()
    }

    /// Holds tools to what was accepted, if that is wanted.
    pub fn pin(&mut self) -> BTreeSet<String> {
        if !self.pin_definitions {
            self.accepted = AcceptedTools::default();
            return BTreeSet::new();
        }
        self.accepted.meet(self.sync.items.get("tool").map(Vec::as_slice).unwrap_or_default())
    }

    fn switch_off_new(&mut self, told: &McpSync) {
        for (kind, key) in [("tool", "name"), ("prompt", "name"), ("resource", "uri")] {
            let of = |sync: &McpSync| -> BTreeSet<String> {
                let items = sync.items.get(kind).map(Vec::as_slice).unwrap_or_default();
                items.iter().filter_map(|item| item[key].as_str().map(str::to_owned)).collect()
            };
            let known = of(&self.sync);
            for name in of(told).difference(&known) {
                if self.capabilities.count() < McpSwitches::MOST && !self.capabilities.says(kind, name) {
                    self.capabilities.set(kind, name.clone(), false);
                }
            }
        }
    }
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
    /// See [`McpOauthClient`]. Headers go along.
    OauthClientCredentials,
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

    /// Whether anybody has switched it, either way.
    pub fn says(&self, kind: &str, name: &str) -> bool {
        self.0.get(kind).is_some_and(|names| names.contains_key(name))
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
    /// The version with sessions that it speaks beside one that has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legacy_protocol_version: Option<String>,
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
    use serde_json::json;
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

    fn told(tools: &[(&str, &str)]) -> McpSync {
        let items = tools.iter().map(|(name, text)| json!({"name": name, "description": text})).collect();
        McpSync { status: "ok".into(), items: [("tool".to_owned(), items)].into(), ..McpSync::default() }
    }

    fn integration(new: NewCapabilities, pins: bool) -> McpIntegration {
        let doc = json!({"url": "https://a", "transport": "http", "auth_type": "none", "new_capabilities": new,
            "pin_definitions": pins});
        serde_json::from_value(doc).expect("an integration")
    }

    #[test]
    fn what_is_new_is_off_where_that_is_wanted() {
        let mut one = integration(NewCapabilities::Disabled, false);
        one.learn(told(&[("a", "1")]), true);
        assert!(one.capabilities.allows("tool", "a"));
        one.learn(told(&[("a", "1"), ("b", "1")]), false);
        assert!(one.capabilities.allows("tool", "a") && !one.capabilities.allows("tool", "b"));
        one.capabilities.set("tool", "b".into(), true);
        one.learn(told(&[("a", "1")]), false);
        one.learn(told(&[("a", "1"), ("b", "1")]), false);
        assert!(one.capabilities.allows("tool", "b"), "somebody has switched it on");
        let mut other = integration(NewCapabilities::Enabled, false);
        other.learn(told(&[("a", "1")]), false);
        assert!(other.capabilities.allows("tool", "a") && other.capabilities.count() == 0);
    }

    #[test]
    fn tools_are_held_to_what_was_accepted_where_that_is_wanted() {
        let mut one = integration(NewCapabilities::Enabled, true);
        assert!(one.learn(told(&[("a", "1")]), true).is_empty());
        assert_eq!(one.learn(told(&[("a", "2"), ("b", "1")]), false), BTreeSet::from(["a".to_owned()]));
        one.pin_definitions = false;
        assert!(one.pin().is_empty() && one.accepted.0.is_empty());
        one.pin_definitions = true;
        assert!(one.pin().is_empty(), "it begins with what is there");
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
