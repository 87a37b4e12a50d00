//! Sign-ins of clients at MCP servers, and the keys that sign their tokens.

use super::{Build, Draft, SnapshotEntry, doc, keep};
use crate::claims::McpGrant;
use crate::id::{GrantId, KeyId, OrgId, SigningKeyId, UserId, WorkspaceId};
use crate::resource::mcp_grant::McpSignIn;
use crate::resource::signing_key::SigningKey;
use crate::resource::{Kind, Stored};
use crate::revision::Revision;
use crate::time::Timestamp;
use std::sync::Arc;

/// What somebody allowed a client.
#[derive(Debug)]
pub struct SavedGrant {
    pub id: GrantId,
    pub org: OrgId,
    pub workspace: WorkspaceId,
    pub user: UserId,
    /// See [`McpSignIn::key`].
    pub key: Option<KeyId>,
    pub client_id: Arc<str>,
    pub server: Arc<str>,
    pub scope: Arc<str>,
    pub scopes: McpGrant,
    pub created_at: Timestamp,
    /// The revision of the configuration that brought it: a node that has come this far knows it.
    pub revision: Revision,
}

impl SnapshotEntry for SavedGrant {
    const KIND: Kind = Kind::McpGrant;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        keep(&mut draft.next.grants, GrantId(row.id), row, || grant(row))
    }
}

fn grant(row: &Stored) -> Result<SavedGrant, String> {
    let grant: McpSignIn = doc(row)?;
    Ok(SavedGrant {
        id: GrantId(row.id),
        org: OrgId(row.org),
        workspace: WorkspaceId(row.workspace.ok_or("belongs to no workspace")?),
        user: grant.user,
        key: grant.key,
        client_id: grant.client_id.into(),
        server: grant.server.into(),
        scopes: McpGrant::read(&grant.scope),
        scope: grant.scope.into(),
        created_at: row.created_at,
        revision: row.revision,
    })
}

/// The private half stays sealed until something is signed.
#[derive(Debug)]
pub struct SavedSigningKey {
    pub id: SigningKeyId,
    pub org: OrgId,
    pub x: Arc<str>,
    pub y: Arc<str>,
    pub sealed: Arc<str>,
    pub created_at: Timestamp,
}

impl SnapshotEntry for SavedSigningKey {
    const KIND: Kind = Kind::SigningKey;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        keep(&mut draft.next.signing_keys, SigningKeyId(row.id), row, || signing_key(row))
    }
}

fn signing_key(row: &Stored) -> Result<SavedSigningKey, String> {
    let key: SigningKey = doc(row)?;
    Ok(SavedSigningKey {
        id: SigningKeyId(row.id),
        org: OrgId(row.org),
        x: key.x.into(),
        y: key.y.into(),
        sealed: key.private.into(),
        created_at: row.created_at,
    })
}
