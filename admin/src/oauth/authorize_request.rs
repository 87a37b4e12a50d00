//! What a client asks for, once it was checked.

use gateway_domain::id::OrgId;
use serde::{Deserialize, Serialize};

/// What is allowed of an MCP server, in the words of clients.
pub(crate) const SCOPES: [&str; 3] = ["mcp", "mcp:read", "mcp:write"];

/// What a client asks for, checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AuthorizeAsk {
    pub(super) client_id: String,
    pub(super) client_name: String,
    /// See [`super::known_client::KnownClient::made_in`].
    #[serde(default)]
    pub(super) client_org: Option<OrgId>,
    /// See [`super::known_client::KnownClient::vouched_by`].
    pub(super) vouched_by: Option<String>,
    pub(super) redirect_uri: String,
    pub(super) state: Option<String>,
    /// The code challenge of PKCE, made with the method S256.
    pub(super) challenge: String,
    pub(super) server: String,
    pub(super) scope: String,
}
