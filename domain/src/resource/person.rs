//! People: a user of an organisation, a membership of a workspace, and the invite that makes both.
//! How somebody proves to be that person is no business of these documents.

use super::Invalid;
use super::provisioning::DirectoryProfile;
use crate::id::{UserId, WorkspaceId};
use crate::keys::KeyHash;
use crate::scope::Scopes;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrgRole {
    Owner,
    Admin,
    Member,
}

/// Clients also write these with `ws-` before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceRole {
    #[serde(alias = "ws-admin")]
    Admin,
    #[serde(alias = "ws-manager")]
    Manager,
    #[serde(alias = "ws-member")]
    Member,
}

impl WorkspaceRole {
    /// A greater one may more.
    pub const fn rank(self) -> u8 {
        match self {
            Self::Member => 0,
            Self::Manager => 1,
            Self::Admin => 2,
        }
    }
}

/// Stored at organisation level under its e-mail address as slug, so that there is one user per address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct User {
    pub email: String,
    #[serde(default)]
    pub first_name: String,
    #[serde(default)]
    pub last_name: String,
    pub role: OrgRole,
    /// What a directory outside says of somebody; whether they are active is the row's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<DirectoryProfile>,
    /// What the provider of the organisation's sign-on calls them, behind its own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signs_in_as: Option<String>,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl User {
    /// The status of somebody who may do nothing until they are active again.
    pub const INACTIVE: &'static str = "inactive";

    /// What a directory calls them.
    pub fn user_name(&self) -> &str {
        self.directory.as_ref().map_or(&self.email, |d| &d.user_name)
    }
}

/// Stored in the workspace under the user's id as slug.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    pub user_id: UserId,
    pub role: WorkspaceRole,
    /// A group of the directory gave the seat, and takes it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_group: bool,
    /// What somebody signed in with gave the seat, and takes it again at a later sign-in.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_sign_on: bool,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Invite {
    pub email: String,
    pub role: OrgRole,
    #[serde(default)]
    pub workspaces: Vec<WorkspaceSeat>,
    /// Scopes of the key that the new user is given in each workspace; none: no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_scopes: Option<Scopes>,
    /// The hash of the secret in the link of the invitation.
    pub token_hash: String,
    pub expires_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_at: Option<Timestamp>,
    pub invited_by: Uuid,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceSeat {
    pub id: WorkspaceId,
    pub role: WorkspaceRole,
}

impl Invite {
    pub fn opens_with(&self, secret: &str) -> bool {
        KeyHash::parse(&self.token_hash).is_some_and(|hash| hash == KeyHash::of(secret))
    }
}

/// An address as it is compared and stored: in lower case. The gateway sends no mail, so the form is all that is
/// checked.
pub fn email(field: &str, text: &str) -> Result<String, Invalid> {
    let text = text.trim().to_lowercase();
    let parts = text.split_once('@').filter(|(local, domain)| {
        let plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '@' | '<' | '>' | ',' | ';' | '/');
        let dotted = domain.split('.').count() > 1 && domain.split('.').all(|label| !label.is_empty());
        !local.is_empty() && dotted && local.chars().all(plain) && domain.chars().all(plain)
    });
    if parts.is_none() || text.chars().count() > 254 {
        return Err(Invalid::new(field, "must be an e-mail address"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(email("email", " Ann@Example.com ").as_deref(), Ok("ann@example.com"));
        for wrong in ["", "ann", "ann@", "@example.com", "ann@example", "a b@example.com", "a@b@c.com", "a@.com"] {
            assert!(email("email", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_invite_opens_with_its_secret_only() {
        let doc = serde_json::json!({"email": "a@b.c", "role": "member", "token_hash": KeyHash::of("s").to_string(),
            "expires_at": "2030-01-01", "invited_by": Uuid::nil(), "workspaces": [{"id": Uuid::nil(), "role": "ws-admin"}]});
        let invite: Invite = serde_json::from_value(doc).expect("an invite");
        assert!(invite.opens_with("s") && !invite.opens_with("t"));
        assert_eq!(invite.workspaces[0].role, WorkspaceRole::Admin);
    }
}
