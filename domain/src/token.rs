//! Tokens of the issuers that an organisation trusts: what their claims say, and the key
//! that such a token stands for while it lives. Pure: verifies no signature, fetches nothing, reads no clock.

pub use crate::claims::{Claimed, ClaimedLimits, Claims, McpGrant, Token};
pub use crate::key_set::{BadKeySet, KeyNumbers, KeySet, PublicKey};
pub use crate::trust::{BadClaim, TokenRule, Trust};

use crate::id::{ClaimId, KeyId, McpServerId, OrgId, WorkspaceId};
use crate::keys::KeyHash;
use crate::resource::api_key::KeyKind;
use crate::scope::{Scope, Scopes};
use crate::snapshot::{Key, KeyEntryDefaults, Org, Person, SavedGrant, Snapshot, UseMark, WorkspaceEntry};
use crate::time::Timestamp;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use uuid::Uuid;

/// Why a token opens nothing, in words for whoever sent it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// 401: of no organisation, not signed by one of its issuers, over, or not to be read.
    #[error("{0}")]
    Invalid(String),
    /// 403: a sound token that has no place here.
    #[error("{0}")]
    Forbidden(&'static str),
    /// 401 unless its issuers, asked again, name the key that it is signed with.
    #[error("The token is signed with a key that none of the organisation's issuers names")]
    UnknownKey(OrgId),
}

impl From<BadClaim> for TokenError {
    fn from(bad: BadClaim) -> Self {
        Self::Invalid(bad.to_string())
    }
}

/// True for what has the form of a token: a JSON object in base64url, twice, and a signature.
pub fn looks_signed(text: &str) -> bool {
    text.starts_with("eyJ") && text.bytes().filter(|b| *b == b'.').count() == 2
}

/// The organisation that a token names, before anything of it is known to be true; only the signature by one of
/// that organisation's issuers makes it so.
pub fn organisation<'s>(snapshot: &'s Snapshot, named: Option<&str>) -> Result<&'s Arc<Org>, TokenError> {
    let Some(named) = named else {
        let mut all = snapshot.orgs();
        let only = all.next().filter(|_| all.next().is_none());
        return only.ok_or_else(|| TokenError::Invalid("The token names no organisation (gateway_oid)".into()));
    };
    let found = match named.parse() {
        Ok(id) => snapshot.org(id),
        Err(_) => snapshot.orgs().find(|o| &*o.slug == named),
    };
    found.filter(|o| o.trust.is_some()).ok_or(TokenError::Forbidden("The organisation of the token accepts none"))
}

/// The workspace that the claims name, else the organisation's default.
pub fn workspace<'s>(
    snapshot: &'s Snapshot,
    org: &Org,
    claims: &Claims,
) -> Result<&'s Arc<WorkspaceEntry>, TokenError> {
    let found = match &claims.workspace {
        None => snapshot.workspace(snapshot.usual_workspace(org)),
        Some(named) => match named.parse::<WorkspaceId>() {
            Ok(id) => snapshot.workspace(id),
            Err(_) => snapshot.workspaces().find(|w| w.org == org.id && &*w.slug == named),
        },
    };
    found
        .filter(|w| w.org == org.id && w.active)
        .ok_or(TokenError::Forbidden("The workspace of the token does not exist in its organisation"))
}

/// Whether the claims still mean this workspace.
pub fn still_means(claims: &Claims, snapshot: &Snapshot, org: &Org, workspace: &WorkspaceEntry) -> bool {
    workspace.active
        && workspace.org == org.id
        && match &claims.workspace {
            None => snapshot.usual_workspace(org) == workspace.id,
            Some(named) => &*workspace.slug == named || workspace.id.to_string() == *named,
        }
}

/// Whether the claims name a person whom the organisation's directory made inactive.
pub fn is_barred(claims: &Claims, org: &Org) -> bool {
    let names = [claims.user.as_deref(), claims.subject.as_deref()];
    names.into_iter().flatten().any(|name| org.directory().bars(name))
}

/// The key that a token stands for: of its workspace, for as long as the token lives. Its id is that of its subject
/// at its issuer, so that a fresh token is no fresh start; only a token without a subject stands for itself.
pub fn key(org: &Org, workspace: &WorkspaceEntry, claims: &Claims, hash: &KeyHash) -> Key {
    let mut metadata = claims.metadata.clone();
    if let Some(user) = claims.user.as_ref().filter(|_| !metadata.iter().any(|(k, _)| k == USER)) {
        metadata.push((USER.to_owned(), user.clone()));
    }
    let config = claims.config.as_deref().map(Into::into);
    let defaults = KeyEntryDefaults { config, metadata, allow_config_override: true };
    let plain = defaults.config.is_none() && defaults.metadata.is_empty();
    let issuer = claims.issuer.as_deref().unwrap_or_default();
    let id = match &claims.subject {
        Some(subject) => fingerprint(org.id, &["subject", issuer, subject]),
        None => Uuid::from_bytes(std::array::from_fn(|i| hash.0[i])),
    };
    Key {
        id: KeyId(id),
        org: org.id,
        workspace: Some(workspace.id),
        kind: KeyKind::WorkspaceService,
        name: claims.user.as_deref().unwrap_or("token").into(),
        owner: None,
        scopes: claims.scopes,
        expires_at: Some(claims.expires_at),
        active: true,
        defaults: (!plain).then(|| Box::new(defaults)),
        rotation: None,
        limits: None,
        max_parallel: None,
        mcp_access: claims.mcp_access.clone(),
        allowed_models: claims.allowed_models.clone(),
        token: Some(Arc::new(Token {
            limits: claims.limits.iter().map(|c| claimed(org.id, claims, c)).collect(),
            audience: claims.audience.clone(),
            mcp: claims.mcp,
            grant: None,
            server: None,
        })),
        used: UseMark::default(),
    }
}

/// The key that a token of the gateway's own stands for: the one that somebody signed in with, without what it could do
/// elsewhere; or one of that person alone, who signed in at a provider. `None`: whoever it was may not do that any
/// more.
pub fn granted(snapshot: &Snapshot, grant: &SavedGrant, asked: McpGrant) -> Option<Key> {
    let workspace = snapshot.workspace(grant.workspace).filter(|w| w.active && w.org == grant.org)?;
    let (org, seat) = snapshot.standing(grant.user, workspace)?;
    if !snapshot.security(workspace).bound(org, seat).has(Scope::MCP_INVOKE) {
        return None;
    }
    let person = snapshot.person(grant.user)?;
    let mut key = match grant.key {
        Some(id) => {
            let key = snapshot.key_by_id(id)?;
            let is_theirs = key.owner == Some(grant.user.0) && key.workspace == Some(workspace.id);
            (key.active && is_theirs && key.scopes.has(Scope::MCP_INVOKE)).then(|| Key::clone(key))?
        }
        None => of_person(grant, person),
    };
    let defaults = key.defaults.get_or_insert_with(Box::default);
    if !defaults.metadata.iter().any(|(name, _)| name == USER) {
        defaults.metadata.push((USER.to_owned(), person.email.to_string()));
    }
    // What else the key may do is no business of whom a client was let in for.
    key.scopes = Scopes::default();
    let mcp = McpGrant { reads: asked.reads && grant.scopes.reads, writes: asked.writes && grant.scopes.writes };
    let (limits, audience) = (Vec::new(), Vec::new());
    key.token = Some(Arc::new(Token { limits, audience, mcp, grant: Some(grant.id), server: None }));
    Some(key)
}

/// The key that a token of a server's own issuer stands for: of nobody that the organisation knows, by issuer and
/// subject, and good for that server alone. What it says of other things than MCP is nothing here.
pub fn server_key(
    workspace: &WorkspaceEntry,
    claims: &Claims,
    (server, hash): (McpServerId, &KeyHash),
    until: Timestamp,
) -> Key {
    let issuer = claims.issuer.as_deref().unwrap_or_default();
    let id = match &claims.subject {
        Some(subject) => fingerprint(workspace.org, &["subject at", &server.to_string(), issuer, subject]),
        None => Uuid::from_bytes(std::array::from_fn(|i| hash.0[i])),
    };
    let user = claims.user.iter().map(|user| (USER.to_owned(), user.clone())).collect();
    let defaults = KeyEntryDefaults { config: None, metadata: user, allow_config_override: true };
    Key {
        id: KeyId(id),
        org: workspace.org,
        workspace: Some(workspace.id),
        kind: KeyKind::WorkspaceService,
        name: claims.user.as_deref().unwrap_or("token").into(),
        owner: None,
        scopes: Scopes::default(),
        expires_at: Some(until),
        active: true,
        defaults: (!defaults.metadata.is_empty()).then(|| Box::new(defaults)),
        rotation: None,
        limits: None,
        max_parallel: None,
        mcp_access: claims.mcp_access.clone(),
        allowed_models: None,
        token: Some(Arc::new(Token {
            limits: Vec::new(),
            audience: claims.audience.clone(),
            mcp: claims.mcp,
            grant: None,
            server: Some(server),
        })),
        used: UseMark::default(),
    }
}

/// Its id is that of the person: to sign in once more is no fresh start.
fn of_person(grant: &SavedGrant, person: &Person) -> Key {
    Key {
        id: KeyId(fingerprint(grant.org, &["person", &grant.user.to_string()])),
        org: grant.org,
        workspace: Some(grant.workspace),
        kind: KeyKind::WorkspaceUser,
        name: person.email.clone(),
        owner: Some(grant.user.0),
        scopes: Scopes::default(),
        expires_at: None,
        active: true,
        defaults: None,
        rotation: None,
        limits: None,
        max_parallel: None,
        mcp_access: None,
        allowed_models: None,
        token: None,
        used: UseMark::default(),
    }
}

/// Counted by its id; without one by issuer and subject. All tokens without a subject are one then.
fn claimed(org: OrgId, claims: &Claims, limits: &Claimed) -> ClaimedLimits {
    let issuer = claims.issuer.as_deref().unwrap_or_default();
    let subject = claims.subject.as_deref().unwrap_or_default();
    let (id, name) = match &limits.id {
        Some(id) => (fingerprint(org, &["limit", id]), id.as_str()),
        None => (fingerprint(org, &["limits of", issuer, subject]), claims.subject.as_deref().unwrap_or("token")),
    };
    ClaimedLimits { id: ClaimId(id), name: name.into(), limits: limits.limits.clone() }
}

/// An id made of these parts: equal on every node, and none can be aimed at that of another organisation.
fn fingerprint(org: OrgId, parts: &[&str]) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(org.0.as_bytes());
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    Uuid::from_bytes(std::array::from_fn(|i| digest[i]))
}

/// Metadata that associates a person.
const USER: &str = "_user";
