//! What an organisation signs in with to a partner whose checks its guardrails use.

use super::{Build, Draft, SnapshotEntry, doc, lives};
use crate::resource::plugin::Plugin;
use crate::resource::{Kind, Stored};
use crate::secret::Secret;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
pub struct PartnerCredentials {
    /// The namespace of the partner's checks.
    pub partner: Arc<str>,
    /// Differs between any two states of it.
    pub revision: i64,
    pub fields: BTreeMap<String, Secret<String>>,
}

impl PartnerCredentials {
    /// The credentials in the form that checks of guardrails take: never to be shown.
    pub fn plain(&self) -> Map<String, Value> {
        self.fields.iter().map(|(name, value)| (name.clone(), value.expose().as_str().into())).collect()
    }
}

impl SnapshotEntry for PartnerCredentials {
    const KIND: Kind = Kind::Plugin;

    fn put(draft: &mut Draft, row: &Stored, build: &Build<'_>) -> Result<(), String> {
        let Some(org) = draft.org_of(row)? else { return Ok(()) };
        let made = if lives(row) { Some(Arc::new(read(row, build)?)) } else { None };
        org.put_partner(&row.slug, made);
        Ok(())
    }
}

fn read(row: &Stored, build: &Build<'_>) -> Result<PartnerCredentials, String> {
    let plugin: Plugin = doc(row)?;
    let mut fields: BTreeMap<String, Secret<String>> =
        plugin.fields.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
    for (name, sealed) in plugin.secrets {
        let opened = build.vault.open(&sealed).map_err(|e| format!("{name} cannot be opened: {e}"))?;
        fields.insert(name, opened);
    }
    Ok(PartnerCredentials { partner: row.slug.as_str().into(), revision: row.revision, fields })
}
