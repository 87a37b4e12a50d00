//! How people of an organisation sign in: at which OpenID provider, as which client, and what its claims make of
//! somebody. Fetches nothing and checks no token.

use super::person::{OrgRole, WorkspaceRole};
use crate::id::WorkspaceId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Stored at organisation level; there is one at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignOn {
    pub issuer: String,
    pub client_id: String,
    /// Sealed; `None`: a client that has none, which PKCE alone protects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Sealed: the key that signs in the place of a secret (`private_key_jwt`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_private_key: Option<String>,
    /// What the provider calls the public half of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key_id: Option<String>,
    /// The certificate in PEM, for providers that know the public half by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<String>,
    /// The claim that says which roles somebody has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_claim: Option<String>,
    /// Role in the organisation by value of that claim.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, OrgRole>,
    /// Seats in workspaces by value of that claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workspace_roles: Vec<ClaimedSeat>,
    /// Whoever signs in and is no user yet becomes one.
    pub makes_users: bool,
    /// Their seat in the default workspace; without one they belong to none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_user_role: Option<WorkspaceRole>,
    /// Domains of addresses that may sign in; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub email_domains: Vec<String>,
    /// An address counts though the provider does not say that it is verified.
    #[serde(default)]
    pub trusts_unverified_emails: bool,
    pub session_seconds: u32,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A role in a workspace for those whose claim holds the value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedSeat {
    pub value: String,
    pub workspace: WorkspaceId,
    pub role: WorkspaceRole,
}

impl SignOn {
    pub const SLUG: &'static str = "oidc";
    pub const SESSION_SECONDS: std::ops::RangeInclusive<u32> = 900..=86_400;
    pub const USUAL_SESSION: u32 = 28_800;

    /// What the claim of roles holds.
    fn values<'c>(&self, claims: &'c Map<String, Value>) -> Vec<&'c str> {
        match self.role_claim.as_ref().and_then(|claim| claims.get(claim)) {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// The greatest role that the claims give; `None` where claims are not asked for it.
    pub fn role(&self, claims: &Map<String, Value>) -> Option<OrgRole> {
        if self.roles.is_empty() {
            return None;
        }
        let values = self.values(claims);
        let mut given = values.iter().filter_map(|value| self.roles.get(*value));
        // Whom no value makes an admin is a member, also one who was an admin before.
        Some(if given.any(|role| *role == OrgRole::Admin) { OrgRole::Admin } else { OrgRole::Member })
    }

    /// The greatest role that the claims give in each workspace.
    pub fn seats(&self, claims: &Map<String, Value>) -> BTreeMap<WorkspaceId, WorkspaceRole> {
        let values = self.values(claims);
        let mut seats = BTreeMap::new();
        for seat in self.workspace_roles.iter().filter(|seat| values.contains(&&*seat.value)) {
            let role = seats.entry(seat.workspace).or_insert(seat.role);
            if role.rank() < seat.role.rank() {
                *role = seat.role;
            }
        }
        seats
    }

    pub fn takes(&self, email: &str) -> bool {
        let domain = email.rsplit_once('@').map_or("", |(_, domain)| domain);
        self.email_domains.is_empty() || self.email_domains.iter().any(|known| known.eq_ignore_ascii_case(domain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(more: &Value) -> SignOn {
        let mut doc = json!({"issuer": "https://login.example.com", "client_id": "c", "makes_users": true,
            "session_seconds": 900, "role_claim": "groups"});
        doc.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        serde_json::from_value(doc).expect("settings")
    }

    fn claims(groups: &Value) -> Map<String, Value> {
        json!({"groups": groups}).as_object().expect("an object").clone()
    }

    #[test]
    fn the_greatest_role_of_a_claim_counts_and_none_is_a_member() {
        let some = settings(&json!({"roles": {"a": "admin", "m": "member"}}));
        for (held, role) in [
            (json!(["m", "a"]), OrgRole::Admin),
            (json!("a"), OrgRole::Admin),
            (json!(["m"]), OrgRole::Member),
            (json!(["other", 7]), OrgRole::Member),
            (json!("a m"), OrgRole::Member),
            (json!({"a": true}), OrgRole::Member),
            (Value::Null, OrgRole::Member),
        ] {
            assert_eq!(some.role(&claims(&held)), Some(role), "{held}");
        }
        assert_eq!(settings(&json!({})).role(&claims(&json!(["a"]))), None, "claims are not asked");
    }

    #[test]
    fn seats_are_the_greatest_of_each_workspace() {
        let (one, two) = (WorkspaceId(uuid::Uuid::from_u128(1)), WorkspaceId(uuid::Uuid::from_u128(2)));
        let some = settings(&json!({"workspace_roles": [
            {"value": "a", "workspace": one, "role": "manager"},
            {"value": "b", "workspace": one, "role": "member"},
            {"value": "b", "workspace": two, "role": "admin"},
        ]}));
        assert!(some.seats(&claims(&json!([]))).is_empty());
        assert_eq!(
            some.seats(&claims(&json!(["b"]))),
            [(one, WorkspaceRole::Member), (two, WorkspaceRole::Admin)].into()
        );
        assert_eq!(some.seats(&claims(&json!(["b", "a"])))[&one], WorkspaceRole::Manager);
    }

    #[test]
    fn addresses_of_other_domains_are_not_taken() {
        let some = settings(&json!({"email_domains": ["example.com"]}));
        assert!(some.takes("ann@example.com") && some.takes("ann@EXAMPLE.com"));
        for other in ["ann@evil.example.com", "ann@example.com.evil", "ann@notexample.com", "example.com", ""] {
            assert!(!some.takes(other), "{other}");
        }
    }
}
