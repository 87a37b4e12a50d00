//! What a path leads to for one caller: an agent of the workspace, and what of it the caller may use.

use crate::proxy::request::Tenant;
use gateway_domain::id::UserId;
use gateway_domain::snapshot::{AgentUpstream, ManagedAgent};
use gateway_domain::{Fault, FaultKind};
use gateway_mcp::session::principal;
use http::{HeaderName, HeaderValue};
use pingora::Error;
use std::sync::Arc;

/// Why nothing was answered here.
#[derive(Debug)]
pub(crate) enum AgentStop {
    Refused(Fault),
    Gone(Box<Error>),
}

pub(super) struct AgentServed {
    pub(super) agent: Arc<ManagedAgent>,
    pub(super) upstream: Arc<AgentUpstream>,
    /// What follows the agent's address in the path: empty, or with a slash in front.
    pub(super) tail: String,
    /// Stands for the caller in ids.
    pub(super) principal: String,
    /// What the agent is told of the caller.
    pub(super) identity: Option<(HeaderName, HeaderValue)>,
}

impl AgentServed {
    pub(super) fn of(tenant: &Tenant, path: &str) -> Result<Self, Fault> {
        let rest = path.strip_prefix("/v1/agent/").unwrap_or_default();
        let (slug, tail) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let missing = || Fault::new(FaultKind::UnknownRoute, "Not Found: there is no such agent");
        let agent = tenant.workspace.agent(slug).filter(|agent| agent.active && *agent.slug == *slug);
        let agent = agent.ok_or_else(missing)?.clone();
        let upstream = tenant.world.snapshot.agent_upstream(agent.integration);
        let upstream = upstream.filter(|u| u.open_to(tenant.workspace.id)).ok_or_else(missing)?.clone();
        if !agent.admits(tenant.key.owner.map(UserId)) {
            let why = format!("The agent `{}` is not open to this user", agent.slug);
            return Err(Fault::new(FaultKind::Forbidden, why));
        }
        if let Some(why) = &upstream.missing {
            let why = format!("The agent `{}` cannot be called now: {why}", agent.slug);
            return Err(Fault::new(FaultKind::SecretAway, why));
        }
        let principal = principal(&format!("key:{}", tenant.key.id));
        Ok(Self { agent, upstream, tail: tail.trim_end_matches('/').to_owned(), principal, identity: None })
    }

    /// Whether both the integration and the workspace's own word allow it.
    pub(super) fn allows(&self, capability: &str) -> bool {
        self.upstream.allows(capability) && self.agent.allows(capability)
    }

    /// Whether the agent cannot tell its callers apart, so that ids must.
    pub(super) fn shares_credential(&self) -> bool {
        self.identity.is_none()
    }
}
