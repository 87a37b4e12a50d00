//! MCP integrations and servers. An integration says where an MCP server is and as whom it is called; a server is a
//! workspace's name for one, with what its callers may use of it.

use super::access::{Switches, UserAccess, WorkspaceAccess};
use super::mcp_definition::{AcceptedTools, NewCapabilities};
use super::outbound::OutboundSettings;
use crate::id::{McpIntegrationId, McpServerId};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct McpIntegration {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(flatten)]
    pub outbound: OutboundSettings,
    pub transport: McpTransport,
    #[serde(default)]
    pub capabilities: Switches,
    #[serde(default)]
    pub access: WorkspaceAccess,
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
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl McpIntegration {
    /// Takes in what the server told just now. `first`: whoever saves it sees all of that, so that nothing of it is
    /// new. Which tools are no longer what was accepted is the answer.
    pub fn learn(&mut self, told: McpSync, first: bool) -> BTreeSet<String> {
        if self.new_capabilities == NewCapabilities::Disabled && !first {
            self.switch_off_new(&told);
        }
        self.sync = told;
        self.pin()
    }

    /// Takes in who a server is that said no more than that, and why; what it offered before stays. True: something is
    /// other than before.
    pub fn meet(&mut self, opened: Option<McpSync>, why: String) -> bool {
        let known = &mut self.sync;
        let before = known.clone();
        // Only what was read once can be stale: a server that never said what it offers has no list to show.
        known.status = if known.at.is_none() { "failed" } else { "stale" }.to_owned();
        known.error = Some(why);
        if let Some(opened) = opened {
            known.protocol_version = opened.protocol_version.or_else(|| known.protocol_version.take());
            known.server_name = opened.server_name.or_else(|| known.server_name.take());
            known.server_version = opened.server_version.or_else(|| known.server_version.take());
            if !opened.flags.is_null() {
                known.flags = opened.flags;
            }
        }
        let of = |sync: &McpSync| {
            let McpSync { protocol_version, server_name, server_version, flags, .. } = sync.clone();
            (protocol_version, server_name, server_version, flags)
        };
        of(&before) != of(known)
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
                if self.capabilities.count() < Switches::MOST && !self.capabilities.says(kind, name) {
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
    /// The transport of 2024-11-05: a stream of events that stays open, and an address that it names for what is sent.
    Sse,
    /// A program of the gateway's own machine, named in its settings: see [`program_of`].
    Stdio,
}

impl McpTransport {
    /// Whether one connection stays open for all that is said.
    pub const fn stays_open(self) -> bool {
        matches!(self, Self::Sse | Self::Stdio)
    }
}

/// What stands before the name of a program where others have an address.
const PROGRAM: &str = "stdio:";

/// The program that an address names; `None`: it leads elsewhere.
pub fn program_of(url: &str) -> Option<&str> {
    url.strip_prefix(PROGRAM)
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
    pub capabilities: Switches,
    #[serde(default)]
    pub user_access: UserAccess,
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
    /// When this member does not answer, the others are shown without it; where a required one does not, nothing is.
    pub optional: bool,
}

impl ServerMember {
    pub const MOST: usize = 20;
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

    fn sync_of(tools: &[(&str, &str)]) -> McpSync {
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
        one.learn(sync_of(&[("a", "1")]), true);
        assert!(one.capabilities.allows("tool", "a"));
        one.learn(sync_of(&[("a", "1"), ("b", "1")]), false);
        assert!(one.capabilities.allows("tool", "a") && !one.capabilities.allows("tool", "b"));
        one.capabilities.set("tool", "b".into(), true);
        one.learn(sync_of(&[("a", "1")]), false);
        one.learn(sync_of(&[("a", "1"), ("b", "1")]), false);
        assert!(one.capabilities.allows("tool", "b"), "somebody has switched it on");
        let mut other = integration(NewCapabilities::Enabled, false);
        other.learn(sync_of(&[("a", "1")]), false);
        assert!(other.capabilities.allows("tool", "a") && other.capabilities.count() == 0);
    }

    #[test]
    fn tools_are_held_to_what_was_accepted_where_that_is_wanted() {
        let mut one = integration(NewCapabilities::Enabled, true);
        assert!(one.learn(sync_of(&[("a", "1")]), true).is_empty());
        assert_eq!(one.learn(sync_of(&[("a", "2"), ("b", "1")]), false), BTreeSet::from(["a".to_owned()]));
        one.pin_definitions = false;
        assert!(one.pin().is_empty() && one.accepted.0.is_empty());
        one.pin_definitions = true;
        assert!(one.pin().is_empty(), "it begins with what is there");
    }

    #[test]
    fn of_a_server_that_lists_nothing_the_version_is_kept() {
        let opened = |version: &str| {
            let protocol_version = Some(version.to_owned());
            Some(McpSync { protocol_version, flags: json!({"tools": {}}), ..McpSync::default() })
        };
        let mut one = integration(NewCapabilities::Enabled, false);
        assert!(one.meet(opened("2026-07-28"), "403".into()) && one.sync.status == "failed");
        assert!(!one.meet(opened("2026-07-28"), "403".into()) && !one.meet(None, "away".into()));
        assert_eq!(one.sync.protocol_version.as_deref(), Some("2026-07-28"));
        one.learn(McpSync { at: Some(Timestamp(1)), ..sync_of(&[("a", "1")]) }, false);
        assert!(one.meet(opened("2025-11-25"), "403".into()) && one.sync.status == "stale");
        assert!(one.sync.items.contains_key("tool"), "what it offered stays");
    }

    #[test]
    fn slugs_of_servers_stand_in_paths() {
        for bad in ["ab", "mcp", "oauth", "a b c", "a.b", &"x".repeat(51), "a/b"] {
            assert!(check_server_slug(bad).is_err(), "{bad}");
        }
        assert!(check_server_slug("files-1_b").is_ok());
    }
}
