//! A saved guardrail, of a workspace or of the organisation. It is compiled by whoever runs it.

use super::{Addressed, Build, Draft, SnapshotEntry, doc, lives};
use crate::id::{GuardrailId, OrgId, WorkspaceId};
use crate::resource::guardrail::GuardrailDocument;
use crate::resource::{Kind, Stored};
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;

pub struct SavedGuardrail {
    pub id: GuardrailId,
    pub slug: Arc<str>,
    pub name: Arc<str>,
    pub org: OrgId,
    /// `None`: of the organisation, for all its workspaces.
    pub workspace: Option<WorkspaceId>,
    /// False for an archived one, which nothing may name and nothing runs.
    pub active: bool,
    /// Differs between any two states of it.
    pub revision: i64,
    /// `{checks, actions}` as the Admin API takes them, secrets included: never to be shown.
    pub definition: Value,
}

impl fmt::Debug for SavedGuardrail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedGuardrail")
            .field("slug", &self.slug)
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}

impl Addressed for SavedGuardrail {
    fn slug(&self) -> &Arc<str> {
        &self.slug
    }
}

impl SnapshotEntry for SavedGuardrail {
    const KIND: Kind = Kind::Guardrail;

    fn put(draft: &mut Draft, row: &Stored, build: &Build<'_>) -> Result<(), String> {
        let made = if lives(row) { Some(Arc::new(read(row, build)?)) } else { None };
        if row.workspace.is_some() {
            let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
            workspace.put_guardrail(row.id, made);
        } else {
            let Some(org) = draft.org_of(row)? else { return Ok(()) };
            org.put_guardrail(row.id, made);
        }
        Ok(())
    }
}

fn read(row: &Stored, build: &Build<'_>) -> Result<SavedGuardrail, String> {
    let document: GuardrailDocument = doc(row)?;
    let open = |sealed: &str| build.vault.open(sealed).map_err(|e| format!("a secret cannot be opened: {e}"));
    Ok(SavedGuardrail {
        id: GuardrailId(row.id),
        slug: row.slug.as_str().into(),
        name: row.name.as_str().into(),
        org: OrgId(row.org),
        workspace: row.workspace.map(WorkspaceId),
        active: row.status == "active",
        revision: row.revision,
        definition: json!({"checks": document.opened(&open)?, "actions": document.actions}),
    })
}
