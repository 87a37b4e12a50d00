//! Between the eras: a modern client before an upstream that keeps sessions, and a legacy one before an upstream that
//! keeps none. A session that the gateway opens is of one caller and never another's.

use super::{McpAsked, McpTurn};
use crate::proxy::client::ClientLeft;
use crate::proxy::mcp::down::LastMessage;
use crate::proxy::mcp::state::{BridgeKey, BridgeSession};
use crate::proxy::mcp::upstream::{UpstreamAnswer, UpstreamAsk, UpstreamCalls, UpstreamReply, read, response_of};
use gateway_mcp::sse::McpEvents;
use gateway_mcp::{McpVersion, RawObject, RpcError, RpcId, bridge};
use serde_json::json;

impl McpTurn<'_, '_> {
    fn bridge_key(&self) -> BridgeKey {
        let upstream = &self.target.upstream;
        let (integration, revision) = (upstream.id.0, upstream.revision);
        BridgeKey { integration, revision, principal: self.target.principal.clone() }
    }

    /// A modern request in a session that stands for its caller.
    pub(super) async fn ask_over_bridge(&mut self, asked: &McpAsked<'_>) -> Result<LastMessage, ClientLeft> {
        let told = |error: &RpcError| LastMessage::error(error, Some(&asked.id));
        if asked.method == "subscriptions/listen" {
            return Ok(told(&RpcError::no_method(&asked.method, true)));
        }
        let key = self.bridge_key();
        let mut fresh = false;
        loop {
            let bridge = match self.parts.state.bridge(&key) {
                Some(bridge) => bridge,
                None => match self.open_bridge(&key).await? {
                    Ok(bridge) => {
                        fresh = true;
                        bridge
                    }
                    Err(error) => return Ok(told(&error)),
                },
            };
            if asked.method == "server/discover" {
                let body = bridge::discovered_from(&bridge.opened);
                let broken = || RpcError::own(502, "The MCP server's answer cannot be understood");
                let Some(result) = body else { return Ok(told(&broken())) };
                let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, asked.id.json());
                return Ok(LastMessage::ok(body));
            }
            let wire = RpcId::of(&format!("g{}", self.parts.state.number()));
            let mut envelope = asked.envelope.clone();
            envelope.set("id", wire.json());
            match bridge::to_legacy(asked.params().as_ref()) {
                Some(params) => envelope.set("params", params),
                None => drop(envelope.remove("params")),
            }
            let ask = UpstreamAsk {
                version: Some(bridge.version.clone()),
                session: bridge.id.clone(),
                headers: self.posted.traced.clone(),
                ..UpstreamAsk::post(envelope.to_json())
            };
            let last = self.exchange(asked, &wire, &ask).await?;
            // A session that the upstream forgot heard nothing of this: it is opened anew, once.
            let lost = last.status == 404 && !self.down.has_begun();
            if !lost || fresh {
                return Ok(last);
            }
            self.parts.state.forget_bridge(&key);
        }
    }

    async fn open_bridge(&mut self, key: &BridgeKey) -> Result<Result<BridgeSession, RpcError>, ClientLeft> {
        let calls =
            UpstreamCalls { calls: self.parts.calls, settings: &self.parts.state.settings, target: self.target };
        let opened = self.down.client.during(None, open(calls)).await?;
        if let Ok(session) = &opened {
            self.parts.state.keep_bridge(key.clone(), session.clone());
        }
        Ok(opened)
    }

    /// `initialize` before an upstream that has no such thing.
    pub(super) async fn open_of_discovery(&mut self, asked: &McpAsked<'_>) -> Result<LastMessage, ClientLeft> {
        let wire = RpcId::of(&format!("g{}", self.parts.state.number()));
        let params = bridge::to_modern(None);
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"method":"server/discover","params":{params}}}"#, wire.json());
        let ask = UpstreamAsk {
            version: Some(McpVersion::V2026_07_28.name().to_owned()),
            rpc_method: Some("server/discover".to_owned()),
            headers: self.posted.traced.clone(),
            ..UpstreamAsk::post(body)
        };
        let calls =
            UpstreamCalls { calls: self.parts.calls, settings: &self.parts.state.settings, target: self.target };
        let result = self.down.client.during(None, result_of(calls, &ask, &wire)).await?;
        let opened = result.and_then(|result| {
            let opened = bridge::initialized_from(&result, asked.version);
            opened.ok_or_else(|| RpcError::own(502, "The MCP server's answer cannot be understood"))
        });
        Ok(match opened {
            Ok(result) => LastMessage::ok(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, asked.id.json())),
            Err(error) => LastMessage::error(&error, Some(&asked.id)),
        })
    }
}

/// Opens a session as a client without capabilities.
async fn open(calls: UpstreamCalls<'_>) -> Result<BridgeSession, RpcError> {
    let id = RpcId::of("g0");
    let params = bridge::initialize_params(McpVersion::NEWEST_LEGACY);
    let body = json!({"jsonrpc": "2.0", "id": "g0", "method": "initialize", "params": params}).to_string();
    let reply = calls.send(&UpstreamAsk::post(body)).await?;
    let session = reply.session.clone();
    let result = whole(reply, &id).await?;
    let version = RawObject::parse(&result).ok().and_then(|object| object.text("protocolVersion"));
    let version = version.filter(|version| McpVersion::parse(version).is_some());
    let version =
        version.ok_or_else(|| RpcError::own(502, "The MCP server speaks a version that is not known here"))?;
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let (told, kept) = (Some(version.clone()), session.clone());
    calls.send(&UpstreamAsk { version: told, session: kept, ..UpstreamAsk::post(note) }).await?;
    Ok(BridgeSession::new(session, version, &result))
}

async fn result_of(calls: UpstreamCalls<'_>, ask: &UpstreamAsk, id: &RpcId) -> Result<String, RpcError> {
    whole(calls.send(ask).await?, id).await
}

/// The result of an answer that nobody reads piece by piece.
async fn whole(mut reply: UpstreamReply, id: &RpcId) -> Result<String, RpcError> {
    let broken = || RpcError::own(502, "The MCP server's answer cannot be understood");
    let text = match reply.answer {
        UpstreamAnswer::Json(bytes) => response_of(&String::from_utf8_lossy(&bytes), id),
        UpstreamAnswer::Events(mut response) => {
            let mut events = McpEvents::default();
            events.push(&read(&mut response, &mut reply.held).await?);
            let mut found = None;
            while let (None, Ok(Some(event))) = (&found, events.next_event()) {
                found = response_of(&event.data, id);
            }
            found
        }
        _ => None,
    };
    let text = text.ok_or_else(broken)?;
    let envelope = RawObject::parse(&text).map_err(|_| broken())?;
    if let Some(error) = envelope.object("error") {
        let said: String = error.text("message").unwrap_or_default().chars().take(300).collect();
        return Err(RpcError::own(502, format!("The MCP server opened no session: {said}")));
    }
    envelope.raw("result").map(str::to_owned).ok_or_else(broken)
}
