//! MCP servers whose people sign in at an issuer of the server's own: which there are at an address, which servers of
//! several workspaces may share. Checks no token.

use super::{ManagedMcpServer, McpBehind, Snapshot, WorkspaceEntry};
use crate::id::McpServerId;
use crate::key_set::KeySet;
use crate::resource::mcp_external_auth::{JwtValidation, McpExternalAuth};
use std::sync::Arc;

/// Who signs people in for one server, ready to be asked of each token.
#[derive(Debug)]
pub struct ServerIssuer {
    pub issuer: Arc<str>,
    /// Where its keys are fetched; `None`: they were written down.
    pub keys_at: Option<Arc<str>>,
    pub inline: KeySet,
    pub rules: JwtValidation,
}

/// One server at an address.
#[derive(Clone, Debug)]
pub struct ServerPlace {
    pub workspace: Arc<WorkspaceEntry>,
    pub server: McpServerId,
    pub issuer: Arc<ServerIssuer>,
}

/// Where clients of an address are sent to sign in.
#[derive(Debug, Default)]
pub struct SignInPlaces {
    /// Each once.
    pub issuers: Vec<Arc<str>>,
    /// Whether a server at this address has none of its own.
    pub has_plain: bool,
}

impl ServerIssuer {
    pub(super) fn read(auth: McpExternalAuth, rules: Option<JwtValidation>) -> Self {
        let rules = rules.unwrap_or_default();
        let inline = rules.jwks.as_ref().and_then(|jwks| KeySet::parse(jwks).ok()).unwrap_or_default();
        let discovered = || format!("{}/.well-known/openid-configuration", auth.issuer.trim_end_matches('/'));
        let keys_at = rules.jwks.is_none().then(|| rules.jwks_uri.clone().unwrap_or_else(discovered).into());
        Self { issuer: auth.issuer.into(), keys_at, inline, rules }
    }
}

impl Snapshot {
    /// The issuer that a server has of its own, as its workspace may use it.
    pub fn server_issuer(&self, workspace: &WorkspaceEntry, server: &ManagedMcpServer) -> Option<&Arc<ServerIssuer>> {
        let McpBehind::Integration(id) = &server.behind else { return None };
        let upstream = self.mcp_upstream(*id).filter(|upstream| upstream.open_to(workspace.id))?;
        upstream.signs_in_at.as_ref()
    }

    pub fn has_server_issuers(&self) -> bool {
        self.mcp_upstreams().any(|upstream| upstream.signs_in_at.is_some())
    }

    fn servers_at<'s>(
        &'s self,
        slug: &'s str,
    ) -> impl Iterator<Item = (&'s Arc<WorkspaceEntry>, &'s Arc<ManagedMcpServer>)> {
        let named = move |w: &'s Arc<WorkspaceEntry>| {
            let server = w.mcp_server(slug).filter(|server| server.active && *server.slug == *slug)?;
            Some((w, server))
        };
        self.workspaces().filter(|w| w.active).filter_map(named)
    }

    /// Those at an address that have an issuer of their own.
    pub fn server_places(&self, slug: &str) -> Vec<ServerPlace> {
        if !self.has_server_issuers() {
            return Vec::new();
        }
        let place = |(workspace, server): (&Arc<WorkspaceEntry>, &Arc<ManagedMcpServer>)| {
            let issuer = self.server_issuer(workspace, server)?.clone();
            Some(ServerPlace { workspace: workspace.clone(), server: server.id, issuer })
        };
        self.servers_at(slug).filter_map(place).collect()
    }

    pub fn sign_in_places(&self, slug: &str) -> SignInPlaces {
        let mut found = SignInPlaces::default();
        if !self.has_server_issuers() {
            return found;
        }
        for (workspace, server) in self.servers_at(slug) {
            match self.server_issuer(workspace, server) {
                None => found.has_plain = true,
                Some(own) if found.issuers.contains(&own.issuer) => {}
                Some(own) => found.issuers.push(own.issuer.clone()),
            }
        }
        found.issuers.sort();
        found
    }
}
