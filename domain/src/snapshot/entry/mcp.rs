//! MCP servers of workspaces, and the integrations behind them.

use super::{Addressed, Build, Draft, Entry, doc, lives};
use crate::egress::{BaseUrl, check_custom_host};
use crate::id::{McpIntegrationId, McpServerId, OrgId, SecretReferenceId, UserId, WorkspaceId};
use crate::resource::mcp::{McpAccess, McpAuth, McpIntegration, McpServer, McpSwitches, McpUserAccess, ServerMember};
use crate::resource::{Kind, Stored};
use crate::secret::Secret;
use crate::snapshot::Snapshot;
use crate::snapshot::mapped::{Filled, MappedRow};
use std::sync::Arc;

/// Where and as whom an MCP server is called.
#[derive(Debug)]
pub struct McpUpstream {
    pub id: McpIntegrationId,
    pub org: OrgId,
    /// `None`: of the organisation.
    pub workspace: Option<WorkspaceId>,
    pub slug: Arc<str>,
    pub active: bool,
    pub url: Arc<str>,
    pub auth: McpAuth,
    pub base: Arc<BaseUrl>,
    /// The path as it was written, with the slash that it may end in.
    pub target: String,
    pub headers: Vec<(String, Secret<String>)>,
    /// The version that it was last found to speak; empty when nobody has asked.
    pub speaks: String,
    /// What it was last found to be able to, as JSON; empty when nobody has asked.
    pub capabilities: String,
    switches: McpSwitches,
    access: McpAccess,
    /// Why it cannot be called now: what should fill it from a manager of secrets is not there. The rest of a sentence.
    pub missing: Option<Arc<str>>,
    pub(in crate::snapshot) mapped: Option<Arc<MappedRow>>,
    /// Differs between any two states of it.
    pub revision: i64,
}

impl McpUpstream {
    pub fn open_to(&self, workspace: WorkspaceId) -> bool {
        let own = self.workspace.map_or_else(|| self.access.allow(workspace), |own| own == workspace);
        self.active && own && self.mapped.as_ref().is_none_or(|mapped| mapped.open_to(workspace))
    }

    /// Whether it is filled from this reference.
    pub fn uses(&self, reference: SecretReferenceId) -> bool {
        self.mapped.as_ref().is_some_and(|mapped| mapped.uses(reference))
    }

    /// Whether anybody may use this of it, whoever asks.
    pub fn allows(&self, kind: &str, name: &str) -> bool {
        self.switches.allows(kind, name)
    }
}

/// What a server leads to.
#[derive(Debug)]
pub enum McpBehind {
    Integration(McpIntegrationId),
    /// Other servers of the workspace.
    Members(Vec<ServerMember>),
}

/// A workspace's name for an MCP server, or for several.
#[derive(Debug)]
pub struct ManagedMcpServer {
    pub id: McpServerId,
    pub slug: Arc<str>,
    pub active: bool,
    pub behind: McpBehind,
    switches: McpSwitches,
    user_access: McpUserAccess,
}

impl ManagedMcpServer {
    pub fn allows(&self, kind: &str, name: &str) -> bool {
        self.switches.allows(kind, name)
    }

    pub fn uses(&self, integration: McpIntegrationId) -> bool {
        matches!(self.behind, McpBehind::Integration(id) if id == integration)
    }

    /// Empty where it is not made of others.
    pub fn members(&self) -> &[ServerMember] {
        match &self.behind {
            McpBehind::Members(all) => all,
            McpBehind::Integration(_) => &[],
        }
    }

    pub fn admits(&self, user: Option<UserId>) -> bool {
        self.user_access.allows(user)
    }
}

impl Addressed for ManagedMcpServer {
    fn slug(&self) -> &Arc<str> {
        &self.slug
    }
}

impl Entry for McpUpstream {
    const KIND: Kind = Kind::McpIntegration;

    fn put(draft: &mut Draft, row: &Stored, build: &Build<'_>) -> Result<(), String> {
        let made = lives(row).then(|| read(row, build, &draft.next)).transpose()?;
        let (all, id) = (Arc::make_mut(&mut draft.next.mcp_upstreams), McpIntegrationId(row.id));
        match made {
            Some(made) => all.insert(id, Arc::new(made)),
            None => all.remove(&id),
        };
        Ok(())
    }
}

impl Entry for ManagedMcpServer {
    const KIND: Kind = Kind::McpServer;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        let made = lives(row).then(|| server(row)).transpose()?;
        workspace.put_mcp_server(row.id, made.map(Arc::new));
        Ok(())
    }
}

/// `around`: where the references stand that it names, with what was read of them.
pub(in crate::snapshot) fn read(row: &Stored, build: &Build<'_>, around: &Snapshot) -> Result<McpUpstream, String> {
    let i: McpIntegration = doc(row)?;
    let base = check_custom_host(&i.url, build.trusted).map_err(|why| format!("url {why}"))?;
    let open = |sealed: &str| build.vault.open(sealed).map_err(|e| format!("a header cannot be opened: {e}"));
    let mut headers = Vec::new();
    for (name, sealed) in &i.custom_headers {
        headers.push((name.clone(), open(sealed)?));
    }
    let mut filled = Filled::of(&i.secret_mappings, OrgId(row.org), around)?;
    headers.append(&mut filled.headers);
    let speaks = i.sync.protocol_version.unwrap_or_default();
    let capabilities = if i.sync.flags.is_null() { String::new() } else { i.sync.flags.to_string() };
    Ok(McpUpstream {
        id: McpIntegrationId(row.id),
        org: OrgId(row.org),
        workspace: row.workspace.map(WorkspaceId),
        slug: row.slug.as_str().into(),
        active: row.status == "active",
        target: target(&i.url),
        url: i.url.into(),
        auth: i.auth_type,
        base: Arc::new(base),
        headers,
        speaks,
        capabilities,
        switches: i.capabilities,
        access: i.access,
        mapped: MappedRow::of(row, &mut filled),
        missing: filled.missing,
        revision: row.revision,
    })
}

fn target(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or_else(|| "/".to_owned(), |at| rest[at..].to_owned())
}

fn server(row: &Stored) -> Result<ManagedMcpServer, String> {
    let s: McpServer = doc(row)?;
    Ok(ManagedMcpServer {
        id: McpServerId(row.id),
        slug: row.slug.as_str().into(),
        active: row.status == "active",
        behind: s.mcp_integration_id.map_or_else(|| McpBehind::Members(s.members), McpBehind::Integration),
        switches: s.capabilities,
        user_access: s.user_access,
    })
}

#[cfg(test)]
mod tests {
    use super::target;

    #[test]
    fn the_path_stays_as_it_was_written() {
        for (url, path) in [("https://a", "/"), ("https://a/", "/"), ("http://a:1/mcp", "/mcp"), ("http://a/m/", "/m/")]
        {
            assert_eq!(target(url), path, "{url}");
        }
    }
}
