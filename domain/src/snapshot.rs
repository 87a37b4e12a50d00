//! The configuration as the hot path reads it: immutable, cheap to share, every lookup a map get.
//! Made from stored rows; a change re-makes only the maps it touches. Credentials are opened here, once.

mod deployment_scope;
mod entry;
mod keys;
mod models;
mod prices;
mod secret_mapping;
mod server_issuers;
mod shelf_view;

pub use entry::{
    AgentEndpoint, AgentUpstream, ConfigEntry, Key, KeyEntryDefaults, ManagedAgent, ManagedMcpServer, ManagedProvider,
    McpBehind, McpUpstream, Org, OrgDirectory, OutboundUpstream, PartnerCredentials, Person, Policy, PromptShelf,
    Rotation, SavedAlert, SavedCollection, SavedDeployment, SavedGrant, SavedGroup, SavedGuardrail, SavedLabel,
    SavedMapping, SavedOauthClient, SavedPartial, SavedPrompt, SavedSecretReference, SavedSignOn, SavedSigningKey,
    SharedShelf, Upstream, UsagePolicy, UseMark, WorkspaceEntry,
};
use keys::{Keys, KeysEdit};
pub use prices::{OrgPrices, is_listed_apart, region};
pub use server_issuers::{ServerIssuer, ServerPlace, SignInPlaces};
pub use shelf_view::ShelfView;

use crate::catalog::Catalog;
use crate::egress::Trusted;
use crate::id::{
    AgentIntegrationId, GrantId, IntegrationId, KeyId, McpIntegrationId, OauthClientId, OrgId, SecretReferenceId,
    SigningKeyId, UserId, WorkspaceId,
};
use crate::keys::KeyHash;
use crate::resource::person::{OrgRole, WorkspaceRole};
use crate::resource::security::Security;
use crate::resource::{Kind, Stored};
use crate::revision::{Changes, Revision};
use crate::secret_source::SecretText;
use crate::vault::Vault;
use ahash::AHashMap;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use uuid::Uuid;

/// What a snapshot is made with.
#[derive(Clone, Copy)]
pub struct Build<'a> {
    pub catalog: &'a dyn Catalog,
    pub vault: &'a dyn Vault,
    pub trusted: &'a Trusted,
}

impl std::fmt::Debug for Build<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Build").finish_non_exhaustive()
    }
}

/// A row that could not be read, for instance from a newer node; what stood before it stays in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowProblem {
    pub kind: String,
    pub id: Uuid,
    pub message: String,
}

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub revision: Revision,
    /// Which one this node is of, by slug.
    deployment: Option<Arc<str>>,
    orgs: Arc<HashMap<OrgId, Arc<Org>>>,
    workspaces: Arc<HashMap<WorkspaceId, Arc<WorkspaceEntry>>>,
    upstreams: Arc<AHashMap<IntegrationId, Arc<Upstream>>>,
    mcp_upstreams: Arc<HashMap<McpIntegrationId, Arc<McpUpstream>>>,
    agent_upstreams: Arc<HashMap<AgentIntegrationId, Arc<AgentUpstream>>>,
    people: Arc<HashMap<UserId, Arc<Person>>>,
    grants: Arc<HashMap<GrantId, Arc<SavedGrant>>>,
    oauth_clients: Arc<HashMap<OauthClientId, Arc<SavedOauthClient>>>,
    signing_keys: Arc<HashMap<SigningKeyId, Arc<SavedSigningKey>>>,
    secret_references: Arc<HashMap<SecretReferenceId, Arc<SavedSecretReference>>>,
    /// What was read from managers: in memory alone, and by nobody who writes rows.
    secrets: Arc<HashMap<SecretReferenceId, Arc<SecretText>>>,
    keys: Keys,
}

impl Snapshot {
    pub fn key(&self, hash: &KeyHash) -> Option<&Arc<Key>> {
        self.keys.get(hash)
    }

    pub fn org(&self, id: OrgId) -> Option<&Arc<Org>> {
        self.orgs.get(&id)
    }

    pub fn orgs(&self) -> impl Iterator<Item = &Arc<Org>> {
        self.orgs.values()
    }

    /// The organisation of the first start, whose Admin keys run the installation.
    pub fn first_org(&self) -> Option<&Arc<Org>> {
        self.orgs().filter(|org| org.made_by.is_none()).min_by_key(|org| org.id)
    }

    pub fn is_first(&self, id: OrgId) -> bool {
        self.first_org().is_some_and(|org| org.id == id)
    }

    pub fn workspace(&self, id: WorkspaceId) -> Option<&Arc<WorkspaceEntry>> {
        self.workspaces.get(&id)
    }

    pub fn workspaces(&self) -> impl Iterator<Item = &Arc<WorkspaceEntry>> {
        self.workspaces.values()
    }

    pub fn person(&self, id: UserId) -> Option<&Arc<Person>> {
        self.people.get(&id)
    }

    pub fn people(&self) -> impl Iterator<Item = &Arc<Person>> {
        self.people.values()
    }

    /// What somebody allowed a client, while it stands.
    pub fn grant(&self, id: GrantId) -> Option<&Arc<SavedGrant>> {
        self.grants.get(&id)
    }

    pub fn grants(&self) -> impl Iterator<Item = &Arc<SavedGrant>> {
        self.grants.values()
    }

    /// A client that an admin made.
    pub fn oauth_client(&self, id: OauthClientId) -> Option<&Arc<SavedOauthClient>> {
        self.oauth_clients.get(&id)
    }

    pub fn oauth_clients(&self) -> impl Iterator<Item = &Arc<SavedOauthClient>> {
        self.oauth_clients.values()
    }

    /// A key that signs tokens which the gateway issues itself.
    pub fn signing_key(&self, id: SigningKeyId) -> Option<&Arc<SavedSigningKey>> {
        self.signing_keys.get(&id)
    }

    pub fn signing_keys(&self) -> impl Iterator<Item = &Arc<SavedSigningKey>> {
        self.signing_keys.values()
    }

    /// The roles of a person in a workspace; `None` for somebody who is no active user of its organisation.
    pub fn standing(&self, user: UserId, workspace: &WorkspaceEntry) -> Option<(OrgRole, Option<WorkspaceRole>)> {
        let person = self.person(user).filter(|p| p.org == workspace.org && p.active)?;
        Some((person.role, workspace.members().get(&user).copied()))
    }

    /// The security settings in force in a workspace.
    pub fn security(&self, workspace: &WorkspaceEntry) -> Security {
        let Some(org) = self.org(workspace.org) else { return Security::default() };
        workspace.security.map_or(org.security, |own| own.over(org.security, &org.overridable))
    }

    /// Days after which the secrets of user keys of a workspace are replaced.
    pub fn rotation_days(&self, workspace: &WorkspaceEntry) -> Option<u16> {
        workspace.rotation_days.or_else(|| self.org(workspace.org)?.rotation_days)
    }

    /// A guardrail in use by slug or id, as a workspace means it: its own, then the organisation's.
    pub fn guardrail<'s>(&'s self, workspace: &'s WorkspaceEntry, name: &str) -> Option<&'s Arc<SavedGuardrail>> {
        workspace.guardrail(name).or_else(|| self.org(workspace.org)?.guardrail(name))
    }

    /// Credential and address behind a managed provider.
    pub fn upstream(&self, integration: IntegrationId) -> Option<&Arc<Upstream>> {
        self.upstreams.get(&integration)
    }

    pub fn upstreams(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.upstreams.values()
    }

    /// Where an MCP server of a workspace is.
    pub fn mcp_upstream(&self, integration: McpIntegrationId) -> Option<&Arc<McpUpstream>> {
        self.mcp_upstreams.get(&integration)
    }

    /// Where an agent of a workspace is.
    pub fn agent_upstream(&self, integration: AgentIntegrationId) -> Option<&Arc<AgentUpstream>> {
        self.agent_upstreams.get(&integration)
    }

    pub fn agent_upstreams(&self) -> impl Iterator<Item = &Arc<AgentUpstream>> {
        self.agent_upstreams.values()
    }

    pub fn mcp_upstreams(&self) -> impl Iterator<Item = &Arc<McpUpstream>> {
        self.mcp_upstreams.values()
    }

    pub fn keys(&self) -> impl Iterator<Item = &Arc<Key>> {
        self.keys.iter()
    }

    pub fn key_by_id(&self, id: KeyId) -> Option<&Arc<Key>> {
        self.keys.by_id(id)
    }

    /// True when nothing was ever set up: the first start.
    pub fn is_empty(&self) -> bool {
        self.orgs.is_empty()
    }

    /// This snapshot with `changes` on top. Never fails: a row that cannot be read is reported and skipped.
    pub fn apply(&self, changes: &Changes, build: &Build<'_>) -> (Self, Vec<RowProblem>) {
        // Parents before children, so that a workspace exists when its rows come.
        let mut rows: Vec<&Stored> = changes.rows.iter().collect();
        rows.sort_by_key(|r| Kind::parse(&r.kind));
        let keys: HashSet<Uuid> = rows.iter().filter(|r| r.kind == Kind::ApiKey.name()).map(|r| r.id).collect();
        let mut draft = Draft { keys: self.keys.edit(keys.len()), ..self.draft() };
        draft.next.revision = changes.revision.max(self.revision);
        for row in rows {
            let Some(kind) = Kind::parse(&row.kind) else { continue };
            if let Err(message) = entry::put(&mut draft, kind, row, build) {
                draft.problems.push(RowProblem { kind: row.kind.clone(), id: row.id, message });
            }
        }
        draft.fill(build, false);
        draft.finish()
    }

    fn draft(&self) -> Draft {
        let keys = self.keys.edit(0);
        Draft { next: self.clone(), keys, touched: HashMap::new(), moved: HashSet::new(), problems: Vec::new() }
    }
}

/// A snapshot being made: workspaces are cloned once, however many of their rows changed.
struct Draft {
    next: Snapshot,
    keys: KeysEdit,
    touched: HashMap<WorkspaceId, WorkspaceEntry>,
    /// References whose row or value changed.
    moved: HashSet<SecretReferenceId>,
    problems: Vec<RowProblem>,
}

impl Draft {
    /// The workspace that a row belongs to. `None` for a deleted row of a workspace that is gone: it took everything in
    /// it along.
    fn workspace_of(&mut self, row: &Stored) -> Result<Option<&mut WorkspaceEntry>, String> {
        let known = |id: &WorkspaceId| self.touched.contains_key(id) || self.next.workspaces.contains_key(id);
        if row.deleted_at.is_some() && !row.workspace.map(WorkspaceId).as_ref().is_some_and(known) {
            return Ok(None);
        }
        let id = WorkspaceId(row.workspace.ok_or("belongs to no workspace")?);
        if !self.touched.contains_key(&id) {
            let old = self.next.workspaces.get(&id).ok_or("belongs to a workspace that does not exist")?;
            self.touched.insert(id, (**old).clone());
        }
        Ok(self.touched.get_mut(&id))
    }

    /// The organisation that a row belongs to. `None` for a deleted row of one that is not there.
    fn org_of(&mut self, row: &Stored) -> Result<Option<&mut Org>, String> {
        match Arc::make_mut(&mut self.next.orgs).get_mut(&OrgId(row.org)) {
            // The first change of several copies it, since the snapshot before still has it.
            Some(org) => Ok(Some(Arc::make_mut(org))),
            None if row.deleted_at.is_some() => Ok(None),
            None => Err("belongs to an organisation that does not exist".to_owned()),
        }
    }

    fn finish(mut self) -> (Snapshot, Vec<RowProblem>) {
        self.next.keys = self.keys.finish();
        if !self.touched.is_empty() {
            let workspaces = Arc::make_mut(&mut self.next.workspaces);
            workspaces.extend(self.touched.into_iter().map(|(id, w)| (id, Arc::new(w))));
        }
        (self.next, self.problems)
    }
}

#[cfg(test)]
mod tests;
