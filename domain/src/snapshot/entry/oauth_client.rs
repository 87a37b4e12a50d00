//! Clients that admins made, as whoever signs people in needs them.

use super::{Build, Draft, SnapshotEntry, doc, keep};
use crate::id::{OauthClientId, OrgId};
use crate::keys::KeyHash;
use crate::resource::oauth_client::MadeClient;
use crate::resource::{Kind, Stored};
use std::sync::Arc;

#[derive(Debug)]
pub struct SavedOauthClient {
    pub id: OauthClientId,
    pub org: OrgId,
    pub name: Arc<str>,
    pub redirect_uris: Vec<String>,
    pub scope: Option<Arc<str>>,
    pub secret: Option<KeyHash>,
}

impl SnapshotEntry for SavedOauthClient {
    const KIND: Kind = Kind::OauthClient;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        keep(&mut draft.next.oauth_clients, OauthClientId(row.id), row, || read(row))
    }
}

fn read(row: &Stored) -> Result<SavedOauthClient, String> {
    let client: MadeClient = doc(row)?;
    let secret = client.secret();
    if client.secret_sha256.is_some() != secret.is_some() {
        return Err("its secret is no SHA-256".to_owned());
    }
    Ok(SavedOauthClient {
        id: OauthClientId(row.id),
        org: OrgId(row.org),
        name: row.name.as_str().into(),
        redirect_uris: client.redirect_uris,
        scope: client.scope.map(Into::into),
        secret,
    })
}
