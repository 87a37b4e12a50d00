//! A provider of a workspace: an integration that it borrows, under a name and limits of its own.

use super::{Addressed, Build, Draft, SnapshotEntry, doc, lives, shared};
use crate::id::{IntegrationId, ProviderId};
use crate::resource::limits::ResourceLimits;
use crate::resource::provider::Provider;
use crate::resource::{Kind, Stored};
use crate::time::Timestamp;
use std::num::NonZeroU32;
use std::sync::Arc;

#[derive(Debug)]
pub struct ManagedProvider {
    pub id: ProviderId,
    pub slug: Arc<str>,
    pub integration: IntegrationId,
    pub expires_at: Option<Timestamp>,
    pub active: bool,
    /// `None` when there are none.
    pub limits: Option<Arc<ResourceLimits>>,
    pub max_parallel: Option<NonZeroU32>,
}

impl Addressed for ManagedProvider {
    fn slug(&self) -> &Arc<str> {
        &self.slug
    }
}

impl SnapshotEntry for ManagedProvider {
    const KIND: Kind = Kind::Provider;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        let made = lives(row).then(|| read(row)).transpose()?;
        workspace.put_provider(row.id, made.map(Arc::new));
        Ok(())
    }
}

fn read(row: &Stored) -> Result<ManagedProvider, String> {
    let p: Provider = doc(row)?;
    Ok(ManagedProvider {
        id: ProviderId(row.id),
        slug: row.slug.as_str().into(),
        integration: p.integration_id,
        expires_at: p.expires_at,
        active: row.status == "active",
        limits: shared(p.limits),
        max_parallel: p.max_parallel,
    })
}
