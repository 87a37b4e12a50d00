//! How people of an organisation sign in, with the secret or the key of the client opened.

use super::{Build, Draft, SnapshotEntry, doc, lives};
use crate::resource::sign_on::SignOn;
use crate::resource::{Kind, Stored};
use crate::secret::Secret;
use std::sync::Arc;

#[derive(Debug)]
pub struct SavedSignOn {
    pub settings: SignOn,
    pub client_secret: Option<Secret<String>>,
    pub client_private_key: Option<Secret<String>>,
}

impl SnapshotEntry for SavedSignOn {
    const KIND: Kind = Kind::SignOn;

    fn put(draft: &mut Draft, row: &Stored, build: &Build<'_>) -> Result<(), String> {
        let Some(org) = draft.org_of(row)? else { return Ok(()) };
        if !lives(row) {
            org.sign_on = None;
            return Ok(());
        }
        let settings: SignOn = doc(row)?;
        let open = |sealed: &String| build.vault.open(sealed).map_err(|why| format!("has a secret that is {why}"));
        let client_secret = settings.client_secret.as_ref().map(open).transpose()?;
        let client_private_key = settings.client_private_key.as_ref().map(open).transpose()?;
        org.sign_on = Some(Arc::new(Self { settings, client_secret, client_private_key }));
        Ok(())
    }
}
