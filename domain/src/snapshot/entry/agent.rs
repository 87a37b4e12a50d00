//! Agents of workspaces, and the integrations behind them: where each of their endpoints is, and under which path of
//! the gateway's it is shown.

use super::outbound::{OutboundUpstream, target};
use super::{Addressed, Build, Draft, SnapshotEntry, doc, lives};
use crate::egress::check_custom_host;
use crate::id::{AgentIntegrationId, AgentServerId, UserId};
use crate::resource::access::{Switches, UserAccess};
use crate::resource::agent::{AgentBinding, AgentIntegration, AgentServer, interfaces};
use crate::resource::{Kind, Stored};
use crate::snapshot::Snapshot;
use serde_json::Value;
use std::ops::Deref;
use std::sync::Arc;

/// Where and as whom an agent is called.
#[derive(Debug)]
pub struct AgentUpstream {
    pub id: AgentIntegrationId,
    pub outbound: OutboundUpstream,
    /// `None`: it was never read, so that nobody knows what the agent speaks.
    pub card: Option<Arc<Value>>,
    pub endpoints: Vec<AgentEndpoint>,
    switches: Switches,
}

/// It is called like everything outside.
impl Deref for AgentUpstream {
    type Target = OutboundUpstream;

    fn deref(&self) -> &OutboundUpstream {
        &self.outbound
    }
}

/// One way to speak to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentEndpoint {
    pub binding: AgentBinding,
    pub version: String,
    /// The URL that the card names.
    pub url: String,
    /// The path that is called: the card's where it is of the registered origin, else the registered one.
    pub target: String,
    /// What stands behind the agent's public address: empty, or whole segments that begin with a slash.
    pub below: String,
}

impl AgentUpstream {
    /// Whether a skill of it may be shown, whoever asks.
    pub fn shows(&self, skill: &str) -> bool {
        self.switches.allows("skill", skill)
    }

    /// Whether a capability may be used, whoever asks. Agents call nobody unless somebody allows it.
    pub fn allows(&self, capability: &str) -> bool {
        self.switches.said("capability", capability).unwrap_or(capability != "push_notifications")
    }
}

/// A workspace's name for an agent.
#[derive(Debug)]
pub struct ManagedAgent {
    pub id: AgentServerId,
    pub slug: Arc<str>,
    pub active: bool,
    pub integration: AgentIntegrationId,
    switches: Switches,
    user_access: UserAccess,
    pub revision: i64,
}

impl ManagedAgent {
    pub fn shows(&self, skill: &str) -> bool {
        self.switches.allows("skill", skill)
    }

    pub fn allows(&self, capability: &str) -> bool {
        self.switches.allows("capability", capability)
    }

    pub fn admits(&self, user: Option<UserId>) -> bool {
        self.user_access.allows(user)
    }
}

impl Addressed for ManagedAgent {
    fn slug(&self) -> &Arc<str> {
        &self.slug
    }
}

impl SnapshotEntry for AgentUpstream {
    const KIND: Kind = Kind::AgentIntegration;

    fn put(draft: &mut Draft, row: &Stored, build: &Build<'_>) -> Result<(), String> {
        let made = lives(row).then(|| read(row, build, &draft.next)).transpose()?;
        let (all, id) = (Arc::make_mut(&mut draft.next.agent_upstreams), AgentIntegrationId(row.id));
        match made {
            Some(made) => all.insert(id, Arc::new(made)),
            None => all.remove(&id),
        };
        Ok(())
    }
}

impl SnapshotEntry for ManagedAgent {
    const KIND: Kind = Kind::AgentServer;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        let made = lives(row).then(|| agent(row)).transpose()?;
        workspace.put_agent(row.id, made.map(Arc::new));
        Ok(())
    }
}

/// `around`: where the references stand that it names, with what was read of them.
pub(in crate::snapshot) fn read(row: &Stored, build: &Build<'_>, around: &Snapshot) -> Result<AgentUpstream, String> {
    let i: AgentIntegration = doc(row)?;
    let outbound = OutboundUpstream::read(row, i.outbound, i.access, build, around)?;
    let endpoints = i.agent_card.as_ref().map(|card| endpoints(card, &outbound, build)).unwrap_or_default();
    let id = AgentIntegrationId(row.id);
    Ok(AgentUpstream { id, outbound, card: i.agent_card.map(Arc::new), endpoints, switches: i.capabilities })
}

/// A card says where its agent would be called. Nobody is called there whom the integration does not name.
fn endpoints(card: &Value, outbound: &OutboundUpstream, build: &Build<'_>) -> Vec<AgentEndpoint> {
    let found = interfaces(card).into_iter().map(|one| {
        let is_ours = check_custom_host(&one.url, build.trusted).is_ok_and(|url| url.is_same_origin(&outbound.base));
        let target = if is_ours { target(&one.url) } else { outbound.target.clone() };
        let below = below(&outbound.target, &target).unwrap_or_default().to_owned();
        AgentEndpoint { binding: one.binding, version: one.version, url: one.url, target, below }
    });
    found.collect()
}

/// What of a path stands below another; `None`: it stands elsewhere.
fn below<'a>(base: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(base.trim_end_matches('/'))?;
    (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_end_matches('/'))
}

fn agent(row: &Stored) -> Result<ManagedAgent, String> {
    let s: AgentServer = doc(row)?;
    Ok(ManagedAgent {
        id: AgentServerId(row.id),
        slug: row.slug.as_str().into(),
        active: row.status == "active",
        integration: s.agent_integration_id,
        switches: s.capabilities,
        user_access: s.user_access,
        revision: row.revision,
    })
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn only_whole_segments_stand_below() {
        for (base, path, rest) in [
            ("/", "/", Some("")),
            ("/", "/a2a/v1", Some("/a2a/v1")),
            ("/a", "/a/", Some("")),
            ("/a/", "/a/b", Some("/b")),
            ("/a", "/ab", None),
            ("/a/b", "/a", None),
        ] {
            assert_eq!(below(base, path), rest, "{base} {path}");
        }
    }
}
