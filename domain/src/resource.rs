//! Admin resources as documents, and the row they are stored in.
//! One file per kind below this one; each holds the document, its rules and what others may refer to.

pub mod access;
pub mod agent;
pub mod alert;
pub mod api_key;
pub mod budget;
pub mod config;
pub mod deployment;
pub mod edition;
pub mod guardrail;
pub mod integration;
pub mod limits;
pub mod mcp;
pub mod mcp_definition;
pub mod mcp_external_auth;
pub mod mcp_grant;
pub mod mcp_pricing;
pub mod mcp_reach;
pub mod mcp_sign_in;
pub mod mcp_tool_headers;
pub mod model_reach;
pub mod oauth_client;
pub mod organisation;
pub mod outbound;
pub mod person;
pub mod plugin;
pub mod policy;
pub mod pricing;
pub mod prompt;
pub mod provider;
pub mod provisioning;
pub mod rotation;
pub mod secret_reference;
pub mod security;
pub mod sign_on;
pub mod signing_key;
pub mod workspace;

pub use crate::invalid::Invalid;

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! kinds {
    ($($kind:ident = $name:literal),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind { $($kind),+ }

        impl Kind {
            pub const ALL: &'static [Self] = &[$(Self::$kind),+];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),+ }
            }

            /// `None` for a kind that a newer node wrote: such rows are carried, never touched.
            pub fn parse(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$kind),)+ _ => None }
            }
        }
    };
}

kinds! {
    Organisation = "organisation",
    Workspace = "workspace",
    ApiKey = "api_key",
    Guardrail = "guardrail",
    Plugin = "plugin",
    Alert = "alert",
    SecretReference = "secret_reference",
    Config = "config",
    Integration = "integration",
    Provider = "provider",
    McpIntegration = "mcp_integration",
    McpServer = "mcp_server",
    RateLimitPolicy = "rate_limit_policy",
    UsageLimitPolicy = "usage_limit_policy",
    User = "user",
    Member = "member",
    Invite = "invite",
    Label = "label",
    Collection = "collection",
    PromptPartial = "prompt_partial",
    Prompt = "prompt",
    DirectoryGroup = "directory_group",
    GroupMapping = "group_mapping",
    SignOn = "sign_on",
    Deployment = "deployment",
    McpGrant = "mcp_grant",
    AgentIntegration = "agent_integration",
    AgentServer = "agent_server",
    SigningKey = "signing_key",
    OauthClient = "oauth_client",
}

/// A row of the `resource` table. `doc` is JSON text, kept byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    pub kind: String,
    pub id: Uuid,
    pub org: Uuid,
    /// `None` at organisation level (an empty string in the table, so that slugs are unique there too).
    pub workspace: Option<Uuid>,
    pub slug: String,
    pub name: String,
    /// `active`, `archived`, `exhausted`, `expired`.
    pub status: String,
    /// Who made it: a user's or a key's id.
    pub owner: Option<Uuid>,
    /// Version of the document's shape.
    pub schema: i32,
    /// Counts changes of this row, from 1.
    pub version: i64,
    /// Set by the store on write.
    pub revision: i64,
    pub doc: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
}

/// A row of `resource_version`: a document as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredVersion {
    pub kind: String,
    pub id: Uuid,
    pub version: i64,
    pub version_id: Uuid,
    pub author: Option<Uuid>,
    pub doc: String,
    pub created_at: Timestamp,
}

/// A row of `audit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    pub id: Uuid,
    pub at: Timestamp,
    pub org: Uuid,
    pub workspace: Option<Uuid>,
    /// The person behind a key, else the key, else what acts without one.
    pub actor: String,
    pub actor_kind: String,
    /// The id of the key by which a person acted; empty for an actor without one.
    pub api_key: String,
    pub action: String,
    pub resource_kind: String,
    pub resource_id: String,
    pub method: String,
    pub uri: String,
    pub client_ip: String,
    /// What the request was answered with; 200 for what nobody asked for.
    pub status: u16,
    /// JSON, secrets masked.
    pub details: String,
}

/// Filters of `GET /audit-logs`; absent means any. Newest first.
#[derive(Clone, Debug, Default)]
pub struct AuditQuery {
    pub org: Option<Uuid>,
    pub workspace: Option<Uuid>,
    pub from: Option<Timestamp>,
    /// Inclusive, as `from`.
    pub to: Option<Timestamp>,
    /// A person or a key.
    pub actor: Option<String>,
    pub actor_kind: Option<String>,
    pub action: Option<String>,
    pub resource_kind: Option<String>,
    pub method: Option<String>,
    pub uri: Option<String>,
    pub client_ip: Option<String>,
    pub status: Option<u16>,
    pub request_id: Option<Uuid>,
    /// Zero-based page and its size.
    pub page: u64,
    pub page_size: u64,
}

/// Names and slugs are at most 255 characters and a name is not blank.
pub fn check_name(field: &str, name: &str) -> Result<(), Invalid> {
    if name.trim().is_empty() {
        return Err(Invalid::new(field, "must not be empty"));
    }
    if name.chars().count() > 255 {
        return Err(Invalid::new(field, "must be at most 255 characters"));
    }
    Ok(())
}

/// A slug that stands in URLs and in `@slug/model`: letters, digits, `-`, `_`, `.`.
pub fn check_slug(field: &str, slug: &str) -> Result<(), Invalid> {
    check_name(field, slug)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if slug.chars().all(plain) {
        Ok(())
    } else {
        Err(Invalid::new(field, "may hold letters, digits, '-', '_' and '.' only"))
    }
}

/// Turns a name into a slug: lower-case, runs of other characters become one `-`.
pub fn slugify(name: &str) -> String {
    let mut slug = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.truncate(200);
    slug.trim_end_matches('-').to_owned()
}
