//! What a path leads to for one caller: one MCP server, or several that are shown as one. What the caller may use is
//! one question, asked of every item of a list and of every call.

use super::accounts::CallingPerson;
use crate::proxy::request::Tenant;
use gateway_domain::id::UserId;
use gateway_domain::operation::ALL_MCP_SERVERS;
use gateway_domain::resource::mcp::ServerMember;
use gateway_domain::resource::mcp_reach::{McpPath, McpReach};
use gateway_domain::resource::outbound::OutboundAuth;
use gateway_domain::snapshot::{ManagedMcpServer, McpBehind, McpUpstream};
use gateway_domain::{Fault, FaultKind};
use gateway_mcp::filter::McpKind;
use gateway_mcp::names::check_prefix;
use gateway_mcp::session::{McpSession, principal};
use gateway_mcp::{Era, McpVersion, merge};
use http::{HeaderName, HeaderValue};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

/// A server that a caller may use, and what is behind it.
pub(super) struct McpServed {
    pub(super) server: Arc<ManagedMcpServer>,
    /// Never empty.
    pub(super) targets: Vec<McpTarget>,
    /// Members that nobody can ask at present, by prefix.
    pub(super) lacking: Vec<LackingMember>,
    /// Stands for the caller in sessions.
    pub(super) principal: String,
}

pub(super) struct LackingMember {
    pub(super) prefix: Arc<str>,
    pub(super) optional: bool,
}

/// One MCP server as a caller sees it.
pub(crate) struct McpTarget {
    pub(crate) server: Arc<ManagedMcpServer>,
    pub(crate) upstream: Arc<McpUpstream>,
    /// What the caller's key is held to.
    reach: Option<Arc<McpReach>>,
    /// What the server is told of the caller.
    pub(super) identity: Option<(HeaderName, HeaderValue)>,
    /// Set where the server may answer one caller otherwise than another.
    pub(super) owner: Option<Arc<str>>,
    /// Set where it is called with accounts of people.
    pub(super) person: Option<CallingPerson>,
    /// Set where it is one of several that are shown as one.
    pub(super) member: Option<MemberPlace>,
    era: Era,
}

/// Where a member stands in the whole.
pub(super) struct MemberPlace {
    whole: Arc<ManagedMcpServer>,
    pub(super) prefix: Arc<str>,
    pub(super) optional: bool,
}

impl McpServed {
    pub(super) fn of(tenant: &Tenant, path: &str) -> Result<Self, Fault> {
        let slug = path.trim_start_matches('/').strip_suffix("/mcp").unwrap_or_default();
        let missing = || Fault::new(FaultKind::UnknownRoute, "Not Found: there is no such MCP server");
        let opens = |server: &&Arc<ManagedMcpServer>| {
            server.active && *server.slug == *slug && tenant.key.mcp_access.as_ref().is_none_or(|r| r.opens(slug))
        };
        let server = match path {
            ALL_MCP_SERVERS => all_of(tenant).ok_or_else(missing)?,
            _ => tenant.workspace.mcp_server(slug).filter(opens).ok_or_else(missing)?.clone(),
        };
        let (mut targets, mut lacking) = (Vec::new(), Vec::new());
        match &server.behind {
            McpBehind::Integration(_) => {
                let upstream = upstream(tenant, &server).ok_or_else(missing)?;
                if !takes_token(tenant, &server, &upstream) {
                    let why = "This MCP server takes tokens of its own issuer alone";
                    return Err(Fault::new(FaultKind::Unauthenticated, why));
                }
                targets.push(McpTarget::new(tenant, server.clone(), upstream, None));
            }
            McpBehind::Members(_) => (targets, lacking) = members(tenant, &server),
        }
        if !server.admits(tenant.key.owner.map(UserId)) {
            let why = format!("The MCP server `{}` is not open to this user", server.slug);
            return Err(Fault::new(FaultKind::Forbidden, why));
        }
        let [first, ..] = &targets[..] else { return Err(missing()) };
        if let Some(why) = &first.upstream.missing {
            let why = format!("The MCP server `{}` cannot be called now: {why}", server.slug);
            return Err(Fault::new(FaultKind::SecretAway, why));
        }
        let principal = principal(&format!("key:{}", tenant.key.id));
        Ok(Self { server, targets, lacking, principal })
    }

    /// A server of both eras that opened a session for this client is spoken with in it, so that it can ask the client
    /// for something.
    pub(super) fn keep_session(&mut self, session: &McpSession) {
        for target in &mut self.targets {
            if session.member(&target.part()).is_some() {
                target.era = Era::Legacy;
            }
        }
    }

    /// Differs where what the caller sees of tools, of prompts or of resources may differ.
    pub(super) fn offers(&self) -> [u64; 3] {
        [0, 1, 2].map(|at| {
            let mut hash = DefaultHasher::new();
            self.server.offers().0[at].hash(&mut hash);
            for target in &self.targets {
                let (server, upstream) = (&target.server, &target.upstream);
                (server.id.0, server.offers().0[at], upstream.id.0, upstream.offers().0[at]).hash(&mut hash);
                (target.prefix(), target.reach.as_deref()).hash(&mut hash);
            }
            hash.finish()
        })
    }

    /// Whether it stands for several.
    pub(super) fn is_merged(&self) -> bool {
        matches!(self.server.behind, McpBehind::Members(_))
    }
}

/// A server that has an issuer of its own takes no other's tokens, and a token of such an issuer opens no other server.
/// Keys are of the workspace.
fn takes_token(tenant: &Tenant, server: &ManagedMcpServer, upstream: &McpUpstream) -> bool {
    let Some(token) = &tenant.key.token else { return true };
    if upstream.signs_in_at.is_some() { token.server == Some(server.id) } else { token.server.is_none() }
}

fn upstream(tenant: &Tenant, server: &ManagedMcpServer) -> Option<Arc<McpUpstream>> {
    let McpBehind::Integration(id) = &server.behind else { return None };
    let found = tenant.world.snapshot.mcp_upstream(*id).filter(|u| u.open_to(tenant.workspace.id));
    found.cloned()
}

/// The name that stands for all servers as one in what a key is held to; no server can be called so.
const ALL: &str = "mcp";

/// All servers of the workspace that the caller may use, as one.
fn all_of(tenant: &Tenant) -> Option<Arc<ManagedMcpServer>> {
    let reach = tenant.key.mcp_access.as_deref();
    if reach.is_some_and(|reach| reach.shuts(ALL)) {
        return None;
    }
    let opens = |slug: &str| reach.is_none_or(|reach| reach.opens(ALL) || reach.opens(slug));
    let is_usable = |server: &&Arc<ManagedMcpServer>| {
        server.active && server.members().is_empty() && opens(&server.slug) && upstream(tenant, server).is_some()
    };
    let mut all: Vec<&Arc<ManagedMcpServer>> = tenant.workspace.mcp_servers().filter(is_usable).collect();
    all.sort_by(|a, b| a.slug.cmp(&b.slug));
    let member =
        |server: &Arc<ManagedMcpServer>| ServerMember { mcp_server_id: server.id, prefix: None, optional: true };
    let members = all.into_iter().map(member).collect();
    Some(Arc::new(ManagedMcpServer::of_all(tenant.workspace.id, ALL, members)))
}

/// Members that the caller may use, and those that cannot be asked. One that is not open to the caller is neither.
fn members(tenant: &Tenant, whole: &Arc<ManagedMcpServer>) -> (Vec<McpTarget>, Vec<LackingMember>) {
    let (mut targets, mut lacking) = (Vec::new(), Vec::new());
    let McpBehind::Members(all) = &whole.behind else { return (targets, lacking) };
    for member in all {
        let server = tenant.workspace.mcp_server_of(member.mcp_server_id);
        let Some(server) = server else { continue };
        let prefix: Arc<str> = member.prefix.as_deref().unwrap_or(&server.slug).into();
        let shut = tenant.key.mcp_access.as_ref().is_some_and(|reach| reach.shuts(&server.slug));
        if shut || !server.admits(tenant.key.owner.map(UserId)) {
            continue;
        }
        let found = upstream(tenant, server);
        if found.as_ref().is_some_and(|found| !takes_token(tenant, server, found)) {
            continue;
        }
        let is_one_too_many = targets.len() == ServerMember::MOST || check_prefix(&prefix).is_err();
        let can_be_asked = |u: &Arc<McpUpstream>| server.active && u.missing.is_none() && !is_one_too_many;
        let Some(upstream) = found.filter(can_be_asked) else {
            lacking.push(LackingMember { prefix, optional: member.optional });
            continue;
        };
        let place = MemberPlace { whole: whole.clone(), prefix, optional: member.optional };
        targets.push(McpTarget::new(tenant, server.clone(), upstream, Some(place)));
    }
    (targets, lacking)
}

impl McpTarget {
    fn new(
        tenant: &Tenant,
        server: Arc<ManagedMcpServer>,
        upstream: Arc<McpUpstream>,
        member: Option<MemberPlace>,
    ) -> Self {
        let era = McpVersion::parse(&upstream.speaks).map_or(Era::Legacy, McpVersion::era);
        let person = (upstream.auth == OutboundAuth::OauthAuto).then(|| CallingPerson::of(tenant));
        let owner = person.map(CallingPerson::name);
        let reach = tenant.key.mcp_access.clone();
        Self { server, upstream, reach, identity: None, owner, person, member, era }
    }

    /// Whether the caller may use this, listed or called. `name`: the server's own.
    pub(super) fn allows(&self, kind: McpKind, name: &str) -> bool {
        let open = self.upstream.allows(kind.name(), name) && self.server.allows(kind.name(), name);
        let own = McpPath { server: &self.server.slug, name };
        let held_to = |names: &[McpPath<'_>]| self.reach.as_ref().is_none_or(|reach| reach.allows(names));
        match &self.member {
            None => open && held_to(&[own]),
            Some(place) => {
                let merged = merge::name(kind, &place.prefix, name);
                let whole = McpPath { server: &place.whole.slug, name: &merged };
                open && place.whole.allows(kind.name(), &merged) && held_to(&[own, whole])
            }
        }
    }

    /// How the upstream is spoken with.
    pub(super) const fn era(&self) -> Era {
        self.era
    }

    /// The name by which its part of a session is found: two members may have one upstream.
    pub(super) fn part(&self) -> String {
        if self.member.is_some() { self.server.id.to_string() } else { self.upstream.id.to_string() }
    }

    /// The name that stands for it in ids of its own requests to clients.
    pub(super) fn tag(&self) -> String {
        self.server.id.0.simple().to_string()
    }

    /// Empty where it stands for itself.
    pub(super) fn prefix(&self) -> &str {
        self.member.as_ref().map_or("", |place| &place.prefix)
    }

    pub(super) fn is_optional(&self) -> bool {
        self.member.as_ref().is_some_and(|place| place.optional)
    }
}
