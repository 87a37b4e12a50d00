//! A deployment, as its nodes need it: whom they serve, and what they do otherwise.

use super::{Addressed, Build, Draft, SnapshotEntry, doc, lives};
use crate::id::WorkspaceId;
use crate::resource::deployment::{Deployment, DeploymentConfig};
use crate::resource::{Kind, Stored};
use std::sync::Arc;

#[derive(Debug)]
pub struct SavedDeployment {
    pub slug: Arc<str>,
    pub config: DeploymentConfig,
    workspaces: Option<Vec<WorkspaceId>>,
}

impl SavedDeployment {
    pub fn serves(&self, workspace: WorkspaceId) -> bool {
        self.workspaces.as_ref().is_none_or(|listed| listed.contains(&workspace))
    }

    /// Whom a token means that names no workspace; `None`: the organisation says.
    pub fn first(&self) -> Option<WorkspaceId> {
        self.workspaces.as_ref()?.first().copied()
    }
}

impl Addressed for SavedDeployment {
    fn slug(&self) -> &Arc<str> {
        &self.slug
    }
}

impl SnapshotEntry for SavedDeployment {
    const KIND: Kind = Kind::Deployment;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let made = lives(row).then(|| read(row)).transpose()?.map(Arc::new);
        let Some(org) = draft.org_of(row)? else { return Ok(()) };
        org.put_deployment(row.id, made);
        Ok(())
    }
}

fn read(row: &Stored) -> Result<SavedDeployment, String> {
    let d: Deployment = doc(row)?;
    Ok(SavedDeployment { slug: row.slug.as_str().into(), config: d.config, workspaces: d.workspaces })
}
