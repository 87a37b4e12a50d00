//! Agents that speak A2A, and the integrations behind them. An integration says where an agent is, as whom it is called
//! and what its card said; a server is a workspace's name for one. Of a card only what leads to calls is read here.

use super::access::{Switches, UserAccess, WorkspaceAccess};
use super::outbound::OutboundSettings;
use crate::id::AgentIntegrationId;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What agents can do beside answering messages, by the names that the Admin API gives it.
pub const AGENT_CAPABILITIES: &[&str] = &["streaming", "push_notifications", "extended_agent_card"];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentIntegration {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(flatten)]
    pub outbound: OutboundSettings,
    /// The agent's card, as the agent wrote it, or whoever saved the integration; `None`: nobody knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_card: Option<Value>,
    /// Somebody wrote the card: the agent is not asked for one.
    #[serde(default)]
    pub is_declared: bool,
    #[serde(default)]
    pub sync: AgentSync,
    /// Skills by id, and [`AGENT_CAPABILITIES`] by name.
    #[serde(default)]
    pub capabilities: Switches,
    #[serde(default)]
    pub access: WorkspaceAccess,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// How the agent fared when it was last asked for its card.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSync {
    /// `ok`, `stale` (asked since, in vain) or `failed` (never answered); empty before it was asked.
    #[serde(default)]
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl AgentIntegration {
    /// Takes in what came of asking for the card. A failure keeps the card that is known.
    pub fn learn(&mut self, told: Result<Value, String>, now: Timestamp) {
        match told {
            Ok(card) => {
                self.agent_card = Some(card);
                self.sync = AgentSync { status: "ok".to_owned(), at: Some(now), error: None };
            }
            Err(why) => {
                self.sync.status = if self.agent_card.is_some() { "stale" } else { "failed" }.to_owned();
                self.sync.error = Some(why);
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentServer {
    pub agent_integration_id: AgentIntegrationId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// See [`AgentIntegration::capabilities`].
    #[serde(default)]
    pub capabilities: Switches,
    #[serde(default)]
    pub user_access: UserAccess,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// How an endpoint of an agent is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentBinding {
    JsonRpc,
    HttpJson,
}

/// An endpoint that a card names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardInterface {
    pub url: String,
    pub binding: AgentBinding,
    /// Its first two numbers.
    pub version: String,
}

/// The endpoints of a card in the order of its author's preference; what is neither JSON-RPC nor HTTP with JSON is left
/// out.
pub fn interfaces(card: &Value) -> Vec<CardInterface> {
    let mut all = Vec::new();
    let mut add = |url: &Value, binding: &str, version: &str| {
        let binding = match binding {
            "JSONRPC" => AgentBinding::JsonRpc,
            "HTTP+JSON" => AgentBinding::HttpJson,
            _ => return,
        };
        let Some(url) = url.as_str() else { return };
        let found = CardInterface { url: url.to_owned(), binding, version: short(version) };
        if !all.contains(&found) {
            all.push(found);
        }
    };
    let supported = card["supportedInterfaces"].as_array();
    for one in supported.into_iter().flatten() {
        let version = one["protocolVersion"].as_str().unwrap_or("1.0");
        add(&one["url"], one["protocolBinding"].as_str().unwrap_or_default(), version);
    }
    // Cards of 0.3 name one endpoint by itself. In one of 1.0 such a member is for older readers.
    let version = card["protocolVersion"].as_str();
    if supported.is_none() || version.is_some() {
        let version = version.unwrap_or("0.3");
        add(&card["url"], card["preferredTransport"].as_str().unwrap_or("JSONRPC"), version);
        for one in card["additionalInterfaces"].as_array().into_iter().flatten() {
            add(&one["url"], one["transport"].as_str().unwrap_or_default(), version);
        }
    }
    all
}

/// A version's first two numbers, by which clients ask.
fn short(version: &str) -> String {
    let mut parts = version.split('.');
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) => format!("{major}.{minor}"),
        _ => version.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(card: &Value) -> Vec<(String, AgentBinding, String)> {
        interfaces(card).into_iter().map(|one| (one.url, one.binding, one.version)).collect()
    }

    #[test]
    fn endpoints_of_either_version_are_found() {
        let old = json!({"name": "a", "url": "https://a/", "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC",
            "additionalInterfaces": [{"url": "https://a/", "transport": "JSONRPC"},
                {"url": "https://a/rest", "transport": "HTTP+JSON"}, {"url": "a:1", "transport": "GRPC"}]});
        let of = |url: &str, binding, version: &str| (url.to_owned(), binding, version.to_owned());
        assert_eq!(
            found(&old),
            [of("https://a/", AgentBinding::JsonRpc, "0.3"), of("https://a/rest", AgentBinding::HttpJson, "0.3")]
        );
        let new = json!({"name": "a", "url": "https://a/x", "supportedInterfaces": [
            {"url": "a:1", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            {"url": "https://a/x", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "https://a/x", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}]});
        assert_eq!(
            found(&new),
            [of("https://a/x", AgentBinding::JsonRpc, "1.0"), of("https://a/x", AgentBinding::JsonRpc, "0.3")]
        );
        assert_eq!(found(&json!({"url": "https://a"})), [of("https://a", AgentBinding::JsonRpc, "0.3")]);
        assert_eq!(found(&json!({"supportedInterfaces": 7, "url": 8})), []);
    }

    #[test]
    fn a_failure_keeps_the_card() {
        let mut one: AgentIntegration =
            serde_json::from_value(json!({"url": "https://a", "auth_type": "none"})).expect("an integration");
        one.learn(Err("away".into()), Timestamp(1));
        assert_eq!((one.sync.status.as_str(), one.sync.at), ("failed", None));
        one.learn(Ok(json!({"name": "a"})), Timestamp(2));
        assert_eq!((one.sync.status.as_str(), one.sync.error.as_deref()), ("ok", None));
        one.learn(Err("away".into()), Timestamp(3));
        assert_eq!((one.sync.status.as_str(), one.sync.at), ("stale", Some(Timestamp(2))));
        assert_eq!(one.agent_card, Some(json!({"name": "a"})));
    }
}
