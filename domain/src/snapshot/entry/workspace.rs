//! A workspace with everything that is addressed inside it.

use super::agent::ManagedAgent;
use super::config::ConfigEntry;
use super::guardrail::SavedGuardrail;
use super::mcp::ManagedMcpServer;
use super::policy::Policy;
use super::prompt::PromptShelf;
use super::provider::ManagedProvider;
use super::usage_policy::UsagePolicy;
use super::{Build, Draft, Slugged, SnapshotEntry, doc, lives, shared};
use crate::export::LogFields;
use crate::id::{ConfigId, McpServerId, OrgId, PolicyId, UserId, WorkspaceId};
use crate::resource::guardrail::{DefaultGuardrails, Exclusions};
use crate::resource::limits::ResourceLimits;
use crate::resource::person::WorkspaceRole;
use crate::resource::security::Security;
use crate::resource::{self, Kind, Stored};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// A workspace with everything that is addressed inside it, by slug and by id alike.
#[derive(Clone, Debug)]
pub struct WorkspaceEntry {
    pub id: WorkspaceId,
    pub org: OrgId,
    pub slug: Arc<str>,
    pub name: Arc<str>,
    pub active: bool,
    pub metadata: Arc<BTreeMap<String, String>>,
    /// Given to new user keys.
    pub user_key_config: Option<ConfigId>,
    /// Its own security settings, in force in the sections that the organisation opened.
    pub security: Option<Security>,
    pub rotation_days: Option<u16>,
    /// Beside those of the organisation.
    pub denied_log_fields: LogFields,
    /// `None` when there are none.
    pub limits: Option<Arc<ResourceLimits>>,
    /// What judges every request in it, before what the organisation adds.
    pub default_guardrails: Arc<DefaultGuardrails>,
    /// Where the organisation adds nothing.
    pub exclusions: Exclusions,
    members: Arc<BTreeMap<UserId, WorkspaceRole>>,
    configs: Slugged<ConfigEntry>,
    default_config: Option<Arc<ConfigEntry>>,
    providers: Slugged<ManagedProvider>,
    guardrails: Slugged<SavedGuardrail>,
    prompts: Arc<PromptShelf>,
    mcp_servers: Slugged<ManagedMcpServer>,
    agents: Slugged<ManagedAgent>,
    /// Active policies; a new allocation whenever one of them changed, so that an index can tell.
    policies: Arc<BTreeMap<PolicyId, Arc<Policy>>>,
    /// Active policies of usage; a new allocation whenever one of them changed, like `policies`.
    usage_policies: Arc<BTreeMap<PolicyId, Arc<UsagePolicy>>>,
}

impl WorkspaceEntry {
    /// Finds a config by slug or id.
    pub fn config(&self, name: &str) -> Option<&Arc<ConfigEntry>> {
        self.configs.by_name.get(name)
    }

    /// Used by requests that bring none, with keys that have none.
    pub fn default_config(&self) -> Option<&Arc<ConfigEntry>> {
        self.default_config.as_ref()
    }

    pub fn configs(&self) -> impl ExactSizeIterator<Item = &Arc<ConfigEntry>> {
        self.configs.by_id.values()
    }

    /// Finds a provider by slug or id.
    pub fn provider(&self, name: &str) -> Option<&Arc<ManagedProvider>> {
        self.providers.by_name.get(name)
    }

    pub fn providers(&self) -> impl Iterator<Item = &Arc<ManagedProvider>> {
        self.providers.by_id.values()
    }

    /// One of its own that is in use, by slug or id; see [`crate::Snapshot::guardrail`].
    pub fn guardrail(&self, name: &str) -> Option<&Arc<SavedGuardrail>> {
        self.guardrails.by_name.get(name).filter(|g| g.active)
    }

    /// Archived ones included.
    pub fn guardrails(&self) -> impl ExactSizeIterator<Item = &Arc<SavedGuardrail>> {
        self.guardrails.by_id.values()
    }

    /// Saved prompts and what belongs to them.
    pub fn shelf(&self) -> &PromptShelf {
        &self.prompts
    }

    pub(super) fn shelf_mut(&mut self) -> &mut PromptShelf {
        Arc::make_mut(&mut self.prompts)
    }

    /// Finds an MCP server by slug or id.
    pub fn mcp_server(&self, name: &str) -> Option<&Arc<ManagedMcpServer>> {
        self.mcp_servers.by_name.get(name)
    }

    pub fn mcp_server_of(&self, id: McpServerId) -> Option<&Arc<ManagedMcpServer>> {
        self.mcp_servers.by_id.get(&id.0)
    }

    pub fn mcp_servers(&self) -> impl ExactSizeIterator<Item = &Arc<ManagedMcpServer>> {
        self.mcp_servers.by_id.values()
    }

    /// Finds an agent by slug or id.
    pub fn agent(&self, name: &str) -> Option<&Arc<ManagedAgent>> {
        self.agents.by_name.get(name)
    }

    pub fn agents(&self) -> impl ExactSizeIterator<Item = &Arc<ManagedAgent>> {
        self.agents.by_id.values()
    }

    pub fn members(&self) -> &Arc<BTreeMap<UserId, WorkspaceRole>> {
        &self.members
    }

    pub(super) fn put_member(&mut self, user: UserId, role: Option<WorkspaceRole>) {
        let members = Arc::make_mut(&mut self.members);
        match role {
            Some(role) => members.insert(user, role),
            None => members.remove(&user),
        };
    }

    pub fn policies(&self) -> &Arc<BTreeMap<PolicyId, Arc<Policy>>> {
        &self.policies
    }

    pub fn usage_policies(&self) -> &Arc<BTreeMap<PolicyId, Arc<UsagePolicy>>> {
        &self.usage_policies
    }

    pub(super) fn put_config(&mut self, id: Uuid, made: Option<Arc<ConfigEntry>>) {
        if let Some(made) = made.as_ref().filter(|m| m.is_default) {
            self.default_config = Some(made.clone());
        } else if self.default_config.as_ref().is_some_and(|d| d.id.0 == id) {
            self.default_config = None;
        }
        self.configs.put(id, made);
    }

    pub(super) fn put_provider(&mut self, id: Uuid, made: Option<Arc<ManagedProvider>>) {
        self.providers.put(id, made);
    }

    pub(super) fn put_mcp_server(&mut self, id: Uuid, made: Option<Arc<ManagedMcpServer>>) {
        self.mcp_servers.put(id, made);
    }

    pub(super) fn put_agent(&mut self, id: Uuid, made: Option<Arc<ManagedAgent>>) {
        self.agents.put(id, made);
    }

    pub(super) fn put_guardrail(&mut self, id: Uuid, made: Option<Arc<SavedGuardrail>>) {
        self.guardrails.put(id, made);
    }

    pub(super) fn put_policy(&mut self, id: Uuid, made: Option<Arc<Policy>>) {
        let policies = Arc::make_mut(&mut self.policies);
        match made {
            Some(made) => policies.insert(PolicyId(id), made),
            None => policies.remove(&PolicyId(id)),
        };
    }

    pub(super) fn put_usage_policy(&mut self, id: Uuid, made: Option<Arc<UsagePolicy>>) {
        let policies = Arc::make_mut(&mut self.usage_policies);
        match made {
            Some(made) => policies.insert(PolicyId(id), made),
            None => policies.remove(&PolicyId(id)),
        };
    }
}

impl SnapshotEntry for WorkspaceEntry {
    const KIND: Kind = Kind::Workspace;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let id = WorkspaceId(row.id);
        let touched = draft.touched.remove(&id);
        if lives(row) {
            let old = touched.or_else(|| draft.next.workspaces.get(&id).map(|w| (**w).clone()));
            draft.touched.insert(id, read(row, old)?);
        } else {
            Arc::make_mut(&mut draft.next.workspaces).remove(&id);
        }
        Ok(())
    }
}

fn read(row: &Stored, old: Option<WorkspaceEntry>) -> Result<WorkspaceEntry, String> {
    let w: resource::workspace::Workspace = doc(row)?;
    let mcp_servers = old.as_ref().map(|o| o.mcp_servers.clone()).unwrap_or_default();
    let agents = old.as_ref().map(|o| o.agents.clone()).unwrap_or_default();
    let default_config = old.as_ref().and_then(|o| o.default_config.clone());
    let prompts = old.as_ref().map(|o| o.prompts.clone()).unwrap_or_default();
    let (configs, providers, guardrails, policies, usage_policies, members) = old
        .map(|o| (o.configs, o.providers, o.guardrails, o.policies, o.usage_policies, o.members))
        .unwrap_or_default();
    Ok(WorkspaceEntry {
        id: WorkspaceId(row.id),
        org: OrgId(row.org),
        slug: row.slug.as_str().into(),
        name: row.name.as_str().into(),
        active: row.status == "active",
        metadata: Arc::new(w.defaults.metadata),
        user_key_config: w.defaults.user_api_key_config,
        security: w.security_settings,
        rotation_days: w.user_api_key_rotation_period,
        denied_log_fields: w.denied_log_fields.into_iter().collect(),
        limits: shared(w.limits),
        default_guardrails: Arc::new(w.defaults.guardrails),
        exclusions: w.exclusions,
        members,
        configs,
        default_config,
        providers,
        guardrails,
        prompts,
        mcp_servers,
        agents,
        policies,
        usage_policies,
    })
}
