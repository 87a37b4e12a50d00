//! MCP servers of workspaces, and the integrations behind them.

use super::outbound::OutboundUpstream;
use super::{Addressed, Build, Draft, SnapshotEntry, doc, lives};
use crate::id::{McpIntegrationId, McpServerId, UserId, WorkspaceId};
use crate::resource::access::{Switches, UserAccess};
use crate::resource::mcp::{McpIntegration, McpServer, McpSync, McpTransport, ServerMember};
use crate::resource::mcp_definition::{AcceptedTools, NewCapabilities};
use crate::resource::mcp_tool_headers::McpToolHeaders;
use crate::resource::outbound::OutboundAuth;
use crate::resource::{Kind, Stored};
use crate::snapshot::{ServerIssuer, Snapshot};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Deref;
use std::sync::Arc;

/// Where and as whom an MCP server is called.
#[derive(Debug)]
pub struct McpUpstream {
    pub id: McpIntegrationId,
    pub outbound: OutboundUpstream,
    pub transport: McpTransport,
    /// The version that it was last found to speak; empty when nobody has asked.
    pub speaks: String,
    /// What it was last found to be able to, as JSON; empty when nobody has asked.
    pub capabilities: String,
    /// What it was last found to be and to offer, for people who have no account there yet; `None`: it asks for none.
    pub found: Option<Arc<McpSync>>,
    /// Who signs people in for it; `None`: whoever does for all.
    pub signs_in_at: Option<Arc<ServerIssuer>>,
    switches: Switches,
    /// `None`: a tool may say of itself what it likes.
    accepted: Option<AcceptedTools>,
    /// Tools that were not what had been accepted when the server was last asked.
    changed: BTreeSet<String>,
    /// Tools and prompts that were found; `None`: what is new may be used.
    known: Option<McpKnown>,
    tool_headers: BTreeMap<String, McpToolHeaders>,
    /// Tools whose schemas say of headers what no client may follow.
    misannotated: BTreeSet<String>,
    offers: McpOffers,
}

/// It is called like everything outside.
impl Deref for McpUpstream {
    type Target = OutboundUpstream;

    fn deref(&self) -> &OutboundUpstream {
        &self.outbound
    }
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
    switches: Switches,
    user_access: UserAccess,
    offers: McpOffers,
}

impl ManagedMcpServer {
    /// Those of a workspace as one, which nobody saved. `slug`: as it is named in what a key is held to.
    pub fn of_all(workspace: WorkspaceId, slug: &str, members: Vec<ServerMember>) -> Self {
        Self {
            id: McpServerId(workspace.0),
            slug: slug.into(),
            active: true,
            behind: McpBehind::Members(members),
            switches: Switches::default(),
            user_access: UserAccess::default(),
            offers: McpOffers::default(),
        }
    }

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

impl SnapshotEntry for McpUpstream {
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

impl SnapshotEntry for ManagedMcpServer {
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
    let mut i: McpIntegration = doc(row)?;
    let offers = McpOffers::of(&i.capabilities, &i.sync, &i.accepted);
    let tools = i.sync.items.get("tool").map(Vec::as_slice).unwrap_or_default();
    let accepted = i.pin_definitions.then(|| i.accepted.clone());
    let changed = i.accepted.clone().meet(if i.pin_definitions { tools } else { &[] });
    let known = (i.new_capabilities == NewCapabilities::Disabled).then(|| known(&i.sync));
    let (tool_headers, misannotated) = headers_of(tools);
    let rules = i.outbound.jwt_validation.take();
    let signs_in_at = i.outbound.external_auth_config.take().map(|auth| Arc::new(ServerIssuer::read(auth, rules)));
    let found = (i.outbound.auth_type == OutboundAuth::OauthAuto).then(|| Arc::new(i.sync.clone()));
    let speaks = i.sync.protocol_version.unwrap_or_default();
    let capabilities = if i.sync.flags.is_null() { String::new() } else { i.sync.flags.to_string() };
    Ok(McpUpstream {
        id: McpIntegrationId(row.id),
        outbound: OutboundUpstream::read(row, i.outbound, i.access, build, around)?,
        transport: i.transport,
        speaks,
        capabilities,
        found,
        signs_in_at,
        switches: i.capabilities,
        accepted,
        changed,
        known,
        tool_headers,
        misannotated,
        offers,
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
    fn of(switches: &Switches, sync: &McpSync, accepted: &AcceptedTools) -> Self {
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
