//! A saved config, compiled.

use super::{Addressed, Build, Draft, SnapshotEntry, doc, lives};
use crate::config::{self, Config};
use crate::id::ConfigId;
use crate::resource::{self, Kind, Stored};
use std::sync::Arc;
use uuid::Uuid;

#[derive(Debug)]
pub struct ConfigEntry {
    pub id: ConfigId,
    pub slug: Arc<str>,
    pub is_default: bool,
    pub version_id: Uuid,
    pub config: Arc<Config>,
}

impl Addressed for ConfigEntry {
    fn slug(&self) -> &Arc<str> {
        &self.slug
    }
}

impl SnapshotEntry for ConfigEntry {
    const KIND: Kind = Kind::Config;

    fn put(draft: &mut Draft, row: &Stored, build: &Build<'_>) -> Result<(), String> {
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        let made = lives(row).then(|| read(row, build)).transpose()?;
        workspace.put_config(row.id, made.map(Arc::new));
        Ok(())
    }
}

fn read(row: &Stored, build: &Build<'_>) -> Result<ConfigEntry, String> {
    let c: resource::config::SavedConfig = doc(row)?;
    let known = |slug: &str| build.catalog.provider(slug).is_some();
    let open = |sealed: &str| build.vault.open(sealed).ok();
    let context = config::Context { known_provider: &known, trusted: build.trusted, open: &open, saved: true };
    let compiled = config::compile(&c.config, &context)
        .map_err(|problems| problems.iter().map(config::ConfigProblem::line).collect::<Vec<_>>().join("; "))?;
    Ok(ConfigEntry {
        id: ConfigId(row.id),
        slug: row.slug.as_str().into(),
        is_default: c.is_default,
        version_id: c.version_id,
        config: Arc::new(compiled),
    })
}
