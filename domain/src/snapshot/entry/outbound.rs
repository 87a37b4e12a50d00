//! What integrations lead to outside, opened for calls: where it is, as whom it is called, and which workspaces may.
//! The same of MCP servers and of agents; knows neither protocol.

use super::Build;
use crate::cloud::Grant;
use crate::egress::{BaseUrl, check_custom_host};
use crate::id::{OrgId, SecretReferenceId, WorkspaceId};
use crate::money::NanoUsd;
use crate::resource::Stored;
use crate::resource::access::WorkspaceAccess;
use crate::resource::mcp::program_of;
use crate::resource::mcp_pricing::McpPricing;
use crate::resource::mcp_sign_in::{IdentityForwarding, McpKnownClient};
use crate::resource::outbound::{OutboundAuth, OutboundSettings};
use crate::secret::Secret;
use crate::snapshot::Snapshot;
use crate::snapshot::secret_mapping::{Filled, MappedRow};
use std::sync::Arc;
use uuid::Uuid;

/// Where a program is that has no address: a name that leads nowhere, should anybody dial it all the same (RFC 2606).
const NOWHERE: &str = "http://program.invalid";

#[derive(Debug)]
pub struct OutboundUpstream {
    /// The id of the integration.
    pub row: Uuid,
    pub org: OrgId,
    /// `None`: of the organisation.
    pub workspace: Option<WorkspaceId>,
    pub slug: Arc<str>,
    pub active: bool,
    pub url: Arc<str>,
    pub auth: OutboundAuth,
    pub base: Arc<BaseUrl>,
    /// The path as it was written, with the slash that it may end in.
    pub target: String,
    pub headers: Vec<(String, Secret<String>)>,
    /// What leads to its token, where it wants one.
    pub grant: Option<Arc<Grant>>,
    /// The client that the gateway is where people sign in, its secret sealed; `None`: it makes itself known there.
    pub known_client: Option<McpKnownClient>,
    /// What it is told of whoever calls.
    pub identity: Option<IdentityForwarding>,
    access: WorkspaceAccess,
    /// Why it cannot be called now: what should fill it from a manager of secrets is not there. The rest of a sentence.
    pub missing: Option<Arc<str>>,
    pub(in crate::snapshot) mapped: Option<Arc<MappedRow>>,
    pricing: McpPricing,
    /// Differs between any two states of it.
    pub revision: i64,
}

impl OutboundUpstream {
    /// `around`: where the references stand that it names, with what was read of them.
    pub(super) fn read(
        row: &Stored,
        settings: OutboundSettings,
        access: WorkspaceAccess,
        build: &Build<'_>,
        around: &Snapshot,
    ) -> Result<Self, String> {
        let base = match program_of(&settings.url) {
            Some(_) => BaseUrl::parse(NOWHERE),
            None => check_custom_host(&settings.url, build.trusted),
        };
        let base = base.map_err(|why| format!("url {why}"))?;
        let open = |sealed: &str| build.vault.open(sealed).map_err(|e| format!("a header cannot be opened: {e}"));
        let mut headers = Vec::new();
        for (name, sealed) in &settings.custom_headers {
            headers.push((name.clone(), open(sealed)?));
        }
        let mut filled = Filled::of(&settings.secret_mappings, OrgId(row.org), around)?;
        headers.append(&mut filled.headers);
        let client = settings.oauth.as_ref().filter(|_| settings.auth_type == OutboundAuth::OauthClientCredentials);
        let grant =
            client.map(|client| Ok::<_, String>(Arc::new(client.grant(open(&client.client_secret)?)))).transpose()?;
        Ok(Self {
            row: row.id,
            org: OrgId(row.org),
            workspace: row.workspace.map(WorkspaceId),
            slug: row.slug.as_str().into(),
            active: row.status == "active",
            target: target(&settings.url),
            url: settings.url.into(),
            auth: settings.auth_type,
            base: Arc::new(base),
            headers,
            grant,
            known_client: settings.known_client,
            identity: settings.identity,
            access,
            mapped: MappedRow::of(row, &mut filled),
            missing: filled.missing,
            pricing: settings.pricing,
            revision: row.revision,
        })
    }

    pub fn open_to(&self, workspace: WorkspaceId) -> bool {
        let own = self.workspace.map_or_else(|| self.access.allow(workspace), |own| own == workspace);
        self.active && own && self.mapped.as_ref().is_none_or(|mapped| mapped.open_to(workspace))
    }

    /// Whether it is filled from this reference.
    pub fn uses(&self, reference: SecretReferenceId) -> bool {
        self.mapped.as_ref().is_some_and(|mapped| mapped.uses(reference))
    }

    /// What a call of this costs; `None`: nobody said.
    pub fn price(&self, name: &str) -> Option<NanoUsd> {
        self.pricing.of(name)
    }
}

/// The path of an address.
pub(super) fn target(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.find('/').map_or_else(|| "/".to_owned(), |at| rest[at..].to_owned())
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
