//! A client of the gateway's own authorisation server that an admin made: where it may send people back to, what it may
//! ask for, and the secret that it proves itself with, if it has one. Clients that register by themselves are none of
//! these.

use crate::keys::KeyHash;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MadeClient {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub redirect_uris: Vec<String>,
    /// Which of `mcp`, `mcp:read` and `mcp:write` it may ask for, with blanks between them; `None`: each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// SHA-256 of its secret in hexadecimal; `None`: it is public, and PKCE alone proves who asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_sha256: Option<String>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl MadeClient {
    /// Clients that an organisation may have.
    pub const MOST: usize = 200;

    /// The word that OAuth has for such a client (RFC 6749, 2.1).
    pub const fn kind(&self) -> &'static str {
        if self.secret_sha256.is_some() { "confidential" } else { "public" }
    }

    pub fn secret(&self) -> Option<KeyHash> {
        self.secret_sha256.as_deref().and_then(KeyHash::parse)
    }
}
