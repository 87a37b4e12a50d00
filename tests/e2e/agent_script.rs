//! A scripted agent that speaks A2A, for the tests of agents: what reaches it can be read.

use crate::harness::{Seen, Upstream, reply};
use serde_json::{Value, json};

/// The card of an agent at this address, in both versions at once.
pub(crate) fn card(url: &str) -> Value {
    json!({
        "name": "Scripted", "description": "echoes", "version": "7", "url": format!("{url}/a2a"),
        "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC",
        "additionalInterfaces": [{"url": "grpc.example.com:443", "transport": "GRPC"}],
        "supportedInterfaces": [
            {"url": format!("{url}/a2a"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": format!("{url}/rest"), "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
            {"url": "grpc.example.com:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": true, "pushNotifications": true, "extendedAgentCard": true},
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "echo", "name": "Echo", "description": "says it again", "tags": ["a"]},
            {"id": "secret", "name": "Secret", "description": "is kept", "tags": []}],
        "securitySchemes": {"theirs": {"type": "apiKey", "in": "header", "name": "x-theirs"}},
        "security": [{"theirs": []}], "signatures": [{"protected": "p", "signature": "s"}], "x-own": {"kept": 1},
    })
}

/// Where a request was sent, as a card names it.
pub(crate) fn address(seen: &Seen) -> String {
    format!("http://{}/v1", seen.header("host").unwrap_or_default())
}

/// An agent that gives its card, and nothing else.
pub(crate) async fn carded(card: impl Fn(&str) -> Value + Send + Sync + 'static) -> Upstream {
    Upstream::replying(move |seen| match seen.target.as_str() {
        "/v1/.well-known/agent-card.json" => reply::json(200, &card(&address(seen))),
        _ => reply::whole(404, &[], ""),
    })
    .await
}
