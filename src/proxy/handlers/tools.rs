//! Requests for MCP servers and agents, whose way is beside the exchange (`mcp.rs`, `agent.rs`). Knows nothing of
//! either protocol.

use crate::proxy::agent::{self, AgentStop};
use crate::proxy::gateway::{Ctx, Gateway};
use crate::proxy::mcp::{self, McpParts, McpStop};
use crate::proxy::refusal::Refused;
use crate::proxy::request::Request;
use pingora::proxy::Session;

impl Gateway {
    /// Messages for the MCP server that the path names.
    pub(in crate::proxy) async fn mcp(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
    ) -> pingora::Result<bool> {
        let legacy = ctx.legacy.take();
        let parts = McpParts { calls: &self.calls, state: &self.mcp, legacy: legacy.as_ref() };
        match Box::pin(mcp::serve(parts, session, &mut ctx.held, &mut request, &mut ctx.records)).await {
            Ok(()) => Ok(true),
            Err(McpStop::Gone(gone)) => Err(gone),
            Err(McpStop::Refused(fault)) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }

    /// What is asked of the agent that the path names.
    pub(in crate::proxy) async fn agent(
        &self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut request: Box<Request>,
    ) -> pingora::Result<bool> {
        let parts = McpParts { calls: &self.calls, state: &self.mcp, legacy: None };
        match agent::serve(parts, session, &mut ctx.held, &mut request, &mut ctx.records).await {
            Ok(()) => Ok(true),
            Err(AgentStop::Gone(gone)) => Err(gone),
            Err(AgentStop::Refused(fault)) => self.refuse(session, ctx, Refused::of(fault, request)).await,
        }
    }
}
