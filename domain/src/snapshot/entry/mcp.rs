//! MCP servers of workspaces, and the integrations behind them.

use super::{Addressed, Build, Draft, Entry, doc, lives};
use crate::cloud::Grant;
use crate::egress::{BaseUrl, check_custom_host};
use crate::id::{McpIntegrationId, McpServerId, OrgId, SecretReferenceId, UserId, WorkspaceId};
use crate::money::NanoUsd;
use crate::resource::mcp::{
    McpAccess, McpAuth, McpIntegration, McpServer, McpSwitches, McpSync, McpUserAccess, ServerMember,
};
use crate::resource::mcp_definition::{AcceptedTools, NewCapabilities};
use crate::resource::mcp_pricing::McpPricing;
use crate::resource::mcp_sign_in::IdentityForwarding;
use crate::resource::mcp_tool_headers::McpToolHeaders;
use crate::resource::{Kind, Stored};
use crate::secret::Secret;
use crate::snapshot::Snapshot;
use crate::snapshot::mapped::{Filled, MappedRow};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
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
    /// What leads to its token, where it wants one.
    pub grant: Option<Arc<Grant>>,
    /// What it is told of whoever calls.
    pub identity: Option<IdentityForwarding>,
    /// The version that it was last found to speak; empty when nobody has asked.
    pub speaks: String,
    /// Besides, it opens sessions for clients of earlier versions.
    pub opens_sessions: bool,
    /// What it was last found to be able to, as JSON; empty when nobody has asked.
    pub capabilities: String,
    switches: McpSwitches,
    access: McpAccess,
    /// Why it cannot be called now: what should fill it from a manager of secrets is not there. The rest of a sentence.
    pub missing: Option<Arc<str>>,
    pub(in crate::snapshot) mapped: Option<Arc<MappedRow>>,
    /// `None`: a tool may say of itself what it likes.
    accepted: Option<AcceptedTools>,
    /// Tools that were not what had been accepted when the server was last asked.
    changed: BTreeSet<String>,
    /// Tools and prompts that were found; `None`: what is new may be used.
    known: Option<McpKnown>,
    tool_headers: BTreeMap<String, McpToolHeaders>,
    /// Tools whose schemas say of headers what no client may follow.
    misannotated: BTreeSet<String>,
    pricing: McpPricing,
    offers: McpOffers,
    /// Differs between any two states of it.
    pub revision: i64,
}

/// Names by kind.
type McpKnown = BTreeMap<&'static str, BTreeSet<String>>;

/// Differs where lists do: of tools, of prompts, and of resources with their templates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct McpOffers(pub [u64; 3]);

impl McpUpstream {
    pub const fn offers(&self) -> McpOffers {
        self.offers
    }

    /// What a call of this tool costs; `None`: nobody said.
    pub fn price(&self, tool: &str) -> Option<NanoUsd> {
        self.pricing.of(tool)
    }

    /// Whether tools are held to what was accepted.
    pub const fn pins(&self) -> bool {
        self.accepted.is_some()
    }

    /// Whether a tool, as it describes itself now, is what was accepted.
    pub fn accepts(&self, name: &str, item: &str) -> bool {
        let Some(accepted) = &self.accepted else { return true };
        serde_json::from_str(item).is_ok_and(|item| accepted.holds(name, &item))
    }

    /// What of a call of this tool stands in headers; `None`: nothing.
    pub fn tool_headers(&self, tool: &str) -> Option<&McpToolHeaders> {
        self.tool_headers.get(tool)
    }

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
        let is_accepted = || {
            let Some(accepted) = self.accepted.as_ref().filter(|_| kind == "tool") else { return true };
            accepted.0.contains_key(name) && !self.changed.contains(name)
        };
        let is_known = || {
            let Some(names) = self.known.as_ref().and_then(|known| known.get(kind)) else { return true };
            names.contains(name) || self.switches.says(kind, name)
        };
        let is_callable = || kind != "tool" || !self.misannotated.contains(name);
        self.switches.allows(kind, name) && is_known() && is_accepted() && is_callable()
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
    offers: McpOffers,
}

impl ManagedMcpServer {
    pub const fn offers(&self) -> McpOffers {
        self.offers
    }

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
    let client = i.oauth.as_ref().filter(|_| i.auth_type == McpAuth::OauthClientCredentials);
    let grant =
        client.map(|client| Ok::<_, String>(Arc::new(client.grant(open(&client.client_secret)?)))).transpose()?;
    let offers = McpOffers::of(&i.capabilities, &i.sync, &i.accepted);
    let tools = i.sync.items.get("tool").map(Vec::as_slice).unwrap_or_default();
    let accepted = i.pin_definitions.then(|| i.accepted.clone());
    let changed = i.accepted.clone().meet(if i.pin_definitions { tools } else { &[] });
    let known = (i.new_capabilities == NewCapabilities::Disabled).then(|| known(&i.sync));
    let (tool_headers, misannotated) = headers_of(tools);
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
        grant,
        identity: i.identity,
        speaks,
        opens_sessions: i.sync.legacy_protocol_version.is_some(),
        capabilities,
        switches: i.capabilities,
        access: i.access,
        mapped: MappedRow::of(row, &mut filled),
        missing: filled.missing,
        accepted,
        changed,
        known,
        tool_headers,
        misannotated,
        pricing: i.pricing,
        offers,
        revision: row.revision,
    })
}

/// What stands in headers, by tool, and the tools whose annotations are none.
fn headers_of(tools: &[Value]) -> (BTreeMap<String, McpToolHeaders>, BTreeSet<String>) {
    let (mut good, mut bad) = (BTreeMap::new(), BTreeSet::new());
    for tool in tools {
        let Some(name) = tool["name"].as_str() else { continue };
        match McpToolHeaders::of(tool) {
            Ok(headers) if headers.is_empty() => {}
            Ok(headers) => drop(good.insert(name.to_owned(), headers)),
            Err(_) => drop(bad.insert(name.to_owned())),
        }
    }
    (good, bad)
}

/// Resources are left out: a template stands for any number of them.
fn known(sync: &McpSync) -> McpKnown {
    let names = |kind: &str| {
        let items = sync.items.get(kind).into_iter().flatten();
        items.filter_map(|item| item["name"].as_str().map(str::to_owned)).collect()
    };
    ["tool", "prompt"].into_iter().map(|kind| (kind, names(kind))).collect()
}

impl McpOffers {
    fn of(switches: &McpSwitches, sync: &McpSync, accepted: &AcceptedTools) -> Self {
        let of = |kinds: &[&str]| {
            let mut hash = DefaultHasher::new();
            for kind in kinds {
                switches.0.get(*kind).hash(&mut hash);
                for item in sync.items.get(*kind).into_iter().flatten() {
                    item.to_string().hash(&mut hash);
                }
            }
            hash
        };
        let mut tools = of(&["tool"]);
        accepted.0.hash(&mut tools);
        Self([tools.finish(), of(&["prompt"]).finish(), of(&["resource", "resource_template"]).finish()])
    }
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
        offers: McpOffers::of(&s.capabilities, &McpSync::default(), &AcceptedTools::default()),
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
