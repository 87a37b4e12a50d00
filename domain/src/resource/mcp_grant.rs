//! What somebody allowed a client to do on one MCP server in their name. While it stands, tokens that name it open that
//! server; it holds no token itself.

use crate::id::{KeyId, UserId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Stored in the workspace whose server it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpSignIn {
    pub user: UserId,
    /// What they signed in with: it stays under this key's limits and ends with it. `None`: they signed in at their
    /// organisation's provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
    pub client_id: String,
    /// What the client calls itself; nobody vouches for it.
    pub client_name: String,
    /// The server's slug.
    pub server: String,
    /// Names with blanks between them.
    pub scope: String,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl McpSignIn {
    /// Grants that one person may have at a time: the oldest ends when another begins.
    pub const MOST: usize = 100;
}
