//! Guardrails on the way of one call: over its arguments before anybody hears of them, over its result before the
//! client does.

use super::{McpAsked, McpTurn};
use crate::proxy::client::ClientLeft;
use crate::proxy::mcp::downstream::LastMessage;
use crate::proxy::mcp::guard::{GuardedTool, denial, guard, with_result};
use crate::proxy::text_guard::{GuardedText, TextGuard};
use gateway_domain::Operation;
use gateway_mcp::texts::{each_of_result, each_value};
use gateway_mcp::{Era, RawObject, RpcError, bridge};

/// The status of records of what guardrails denied.
const DENIED: u16 = 446;

impl McpTurn<'_, '_> {
    /// What judges this call; nothing but calls of tools is judged.
    pub(super) async fn guard(
        &mut self,
        asked: &McpAsked<'_>,
    ) -> Result<Result<Option<TextGuard>, LastMessage>, ClientLeft> {
        if asked.method != "tools/call" {
            return Ok(Ok(None));
        }
        let tool = asked.params().and_then(|params| params.text("name")).unwrap_or_default();
        self.guard_of(asked, &tool).await
    }

    /// What judges the calls of a tool.
    pub(super) async fn guard_of(
        &mut self,
        asked: &McpAsked<'_>,
        tool: &str,
    ) -> Result<Result<Option<TextGuard>, LastMessage>, ClientLeft> {
        if self.request.caller.tenant.guardrails.is_none() {
            return Ok(Ok(None));
        }
        let called = GuardedTool {
            server: &self.target.server.slug,
            tool,
            operation: Operation::McpCallTool,
            streams: self.posted.takes_events,
        };
        let found = guard(self.parts.calls, self.request, called);
        let found = self.down.client.during(None, found).await?;
        Ok(found.map_err(|fault| {
            let error = RpcError::own(fault.status(), fault.message().to_owned());
            LastMessage { label: Some(fault.kind().row().label), ..LastMessage::error(&error, Some(&asked.id)) }
        }))
    }

    /// The parameters of the call as guardrails leave them.
    pub(super) async fn judged(
        &mut self,
        asked: &McpAsked<'_>,
        guard: Option<&mut TextGuard>,
    ) -> Result<GuardedText, ClientLeft> {
        let Some(guard) = guard else { return Ok(GuardedText::Same) };
        let Some(mut params) = asked.params() else { return Ok(GuardedText::Same) };
        let arguments = params.raw("arguments").unwrap_or("{}").to_owned();
        let judging = guard.judge_asked(&self.parts.calls.guardrails, &arguments, each_value);
        let said = self.down.client.during(None, judging).await?;
        let GuardedText::Other(arguments) = said else { return Ok(said) };
        params.set("arguments", arguments);
        let params = params.to_json();
        let mut envelope = asked.envelope.clone();
        envelope.set("params", params.as_str());
        guard.notes.rewritten = Some(envelope.to_json().into());
        Ok(GuardedText::Other(params))
    }

    pub(super) fn denied(&self, asked: &McpAsked<'_>, guard: Option<&mut TextGuard>) -> LastMessage {
        let result = guard.map(|guard| denial(guard)).unwrap_or_default();
        let result = bridge::result(&result, asked.version.era(), Era::Legacy, &asked.method).unwrap_or(result);
        let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, asked.id.json());
        LastMessage { recorded: Some(DENIED), label: Some("hooks_failed"), ..LastMessage::ok(body) }
    }

    /// The answer as guardrails leave it. Errors of the protocol hold nothing that a tool said.
    pub(super) async fn judged_answer(
        &mut self,
        asked: &McpAsked<'_>,
        last: LastMessage,
        guard: Option<&mut TextGuard>,
    ) -> Result<LastMessage, ClientLeft> {
        let Some(guard) = guard else { return Ok(last) };
        let result = RawObject::parse(&last.body).ok().and_then(|body| body.raw("result").map(str::to_owned));
        let Some(result) = result else { return Ok(last) };
        let judging = guard.judge_answered(&self.parts.calls.guardrails, &result, each_of_result);
        Ok(match self.down.client.during(None, judging).await? {
            GuardedText::Same => last,
            GuardedText::Other(result) => LastMessage { body: with_result(&last.body, &result), ..last },
            GuardedText::Denied => self.denied(asked, Some(guard)),
        })
    }
}
