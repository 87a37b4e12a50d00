//! Carries requests between the eras: a modern client before an upstream that keeps sessions, and a legacy one before
//! an upstream that keeps none. A session that the gateway opens is of one caller and never another's.

use super::{McpAsked, McpTurn};
use crate::proxy::client::ClientLeft;
use crate::proxy::mcp::downstream::LastMessage;
use crate::proxy::mcp::server_query::result_of;
use crate::proxy::mcp::upstream::{UpstreamAsk, UpstreamCalls};
use gateway_mcp::{McpVersion, RawObject, RpcError, RpcId, bridge};
use std::time::Instant;

/// Whether an error is the server's own, and none of those by which the gateway tells that it got no answer.
fn is_told(body: &str) -> bool {
    let code = RawObject::parse(body).ok().and_then(|body| body.object("error")?.raw("code")?.parse::<i64>().ok());
    code.is_some_and(|code| code < 0)
}

impl McpTurn<'_, '_> {
    /// A request in a session that stands for its caller, or that is a part of the client's own.
    pub(super) async fn ask_over_bridge(&mut self, asked: &McpAsked<'_>) -> Result<LastMessage, ClientLeft> {
        let told = |error: &RpcError| LastMessage::error(error, Some(&asked.id));
        if asked.method == "subscriptions/listen" {
            return Box::pin(self.listen_here(asked)).await;
        }
        let talk = self.talk(self.target);
        let mut known = talk.held();
        loop {
            let (bridge, fresh) = match known.take() {
                Some(bridge) => (bridge, false),
                None => match self.down.client.during(None, Box::pin(talk.open())).await? {
                    Ok(bridge) => (bridge, true),
                    Err(error) => {
                        let unconnected = Box::pin(self.unconnected(asked, &error)).await?;
                        return Ok(unconnected.unwrap_or_else(|| told(&error)));
                    }
                },
            };
            if asked.method == "server/discover" {
                let body = bridge::discovered_from(&bridge.opened);
                let broken = || RpcError::own(502, "The MCP server's answer cannot be understood");
                let Some(result) = body else { return Ok(told(&broken())) };
                let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, asked.id.json());
                return Ok(LastMessage::ok(body));
            }
            // The client's ids go up as they are in a session of its own; where several clients share one, their ids
            // could meet.
            let own = talk.key.session.is_some();
            let wire = if own { asked.id.clone() } else { RpcId::of(&format!("g{}", self.parts.state.number())) };
            let mut envelope = asked.envelope.clone();
            envelope.set("id", wire.json());
            match bridge::to_legacy(asked.params().as_ref()) {
                Some(params) => envelope.set("params", params),
                None => drop(envelope.remove("params")),
            }
            let ask = UpstreamAsk { headers: talk.traced.clone(), ..bridge.post(envelope.to_json()) };
            let last = self.exchange(asked, &wire, &ask).await?;
            // A session that the upstream forgot heard nothing of this: it is opened anew, once.
            let lost = last.status == 404 && !self.down.has_begun();
            if !lost || fresh {
                return Ok(last);
            }
            self.parts.state.forget_bridge(&talk.key);
        }
    }

    /// `initialize` before an upstream that needs none: one of both eras opens a session all the same, and for any
    /// other the gateway answers.
    pub(super) async fn open_modern(&mut self, asked: &McpAsked<'_>) -> Result<LastMessage, ClientLeft> {
        let known = &self.parts.state.sessionless;
        if !known.has(&self.target.upstream, Instant::now()) {
            let opened = self.ask_directly(asked).await?;
            if opened.label.is_none() {
                return Ok(opened);
            }
            if is_told(&opened.body) {
                known.note(&self.target.upstream, Instant::now());
            }
        }
        self.open_of_discovery(asked).await
    }

    async fn open_of_discovery(&mut self, asked: &McpAsked<'_>) -> Result<LastMessage, ClientLeft> {
        let wire = RpcId::of(&format!("g{}", self.parts.state.number()));
        let params = bridge::to_modern(None);
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"method":"server/discover","params":{params}}}"#, wire.json());
        let ask = UpstreamAsk {
            version: Some(McpVersion::V2026_07_28.name().to_owned()),
            rpc_method: Some("server/discover".to_owned()),
            headers: self.posted.traced.clone(),
            ..UpstreamAsk::post(body)
        };
        let calls = UpstreamCalls { calls: self.parts.calls, state: self.parts.state, target: self.target };
        let result = self.down.client.during(None, result_of(calls, &ask, &wire)).await?;
        let opened = result.and_then(|result| {
            let opened = bridge::initialized_from(&result, asked.version);
            opened.ok_or_else(|| RpcError::own(502, "The MCP server's answer cannot be understood"))
        });
        Ok(match opened {
            Ok(result) => {
                if let Some(client) = self.remember_client(asked)
                    && let Err(error) = self.issue_alone(asked.version, Some(&client))
                {
                    return Ok(LastMessage::error(&error, Some(&asked.id)));
                }
                LastMessage::ok(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, asked.id.json()))
            }
            Err(error) => {
                let unconnected = Box::pin(self.unconnected(asked, &error)).await?;
                unconnected.unwrap_or_else(|| LastMessage::error(&error, Some(&asked.id)))
            }
        })
    }
}
