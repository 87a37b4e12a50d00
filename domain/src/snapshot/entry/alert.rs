//! An alert rule, for whoever looks whether it applies: requests never do.

use super::{Build, Draft, SnapshotEntry, doc, lives};
use crate::id::{OrgId, WorkspaceId};
use crate::resource::alert::AlertRule;
use crate::resource::{Kind, Stored};
use std::sync::Arc;
use uuid::Uuid;

#[derive(Debug)]
pub struct SavedAlert {
    pub id: Uuid,
    pub org: OrgId,
    /// `None`: it is about the whole organisation.
    pub workspace: Option<WorkspaceId>,
    pub slug: Arc<str>,
    pub name: Arc<str>,
    /// An archived one is kept, and looked at by nobody.
    pub active: bool,
    pub rule: AlertRule,
}

impl SnapshotEntry for SavedAlert {
    const KIND: Kind = Kind::Alert;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(org) = draft.org_of(row)? else { return Ok(()) };
        let made = if lives(row) { Some(Arc::new(read(row)?)) } else { None };
        org.put_alert(row.id, made);
        Ok(())
    }
}

fn read(row: &Stored) -> Result<SavedAlert, String> {
    Ok(SavedAlert {
        id: row.id,
        org: OrgId(row.org),
        workspace: row.workspace.map(WorkspaceId),
        slug: row.slug.as_str().into(),
        name: row.name.as_str().into(),
        active: row.status == "active",
        rule: doc(row)?,
    })
}
