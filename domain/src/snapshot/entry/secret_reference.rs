//! A reference to a secret in somebody's manager. What was read from there stands in the snapshot beside it.

use super::{Build, Draft, SnapshotEntry, doc, keep};
use crate::id::{OrgId, SecretReferenceId, WorkspaceId};
use crate::resource::secret_reference::SecretReference;
use crate::resource::{Kind, Stored};
use crate::secret_source::{SecretManager, SecretSource, SourceFields};
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug)]
pub struct SavedSecretReference {
    pub id: SecretReferenceId,
    pub org: OrgId,
    pub slug: Arc<str>,
    pub manager: SecretManager,
    pub source: Arc<SecretSource>,
    /// The member that is meant where a mapping names none.
    pub key: Option<String>,
    /// Differs between any two states of it.
    pub revision: i64,
    workspaces: Option<BTreeSet<WorkspaceId>>,
}

impl SavedSecretReference {
    /// Whether integrations may use it for this workspace.
    pub fn open_to(&self, workspace: WorkspaceId) -> bool {
        self.workspaces.as_ref().is_none_or(|listed| listed.contains(&workspace))
    }
}

impl SnapshotEntry for SavedSecretReference {
    const KIND: Kind = Kind::SecretReference;

    fn put(draft: &mut Draft, row: &Stored, build: &Build<'_>) -> Result<(), String> {
        let id = SecretReferenceId(row.id);
        keep(&mut draft.next.secret_references, id, row, || read(row, build))?;
        if row.deleted_at.is_some() && draft.next.secrets.contains_key(&id) {
            Arc::make_mut(&mut draft.next.secrets).remove(&id);
        }
        draft.moved.insert(id);
        Ok(())
    }
}

fn read(row: &Stored, build: &Build<'_>) -> Result<SavedSecretReference, String> {
    let document: SecretReference = doc(row)?;
    let mut fields = document.fields;
    for (name, sealed) in document.secrets {
        let opened = build.vault.open(&sealed).map_err(|e| format!("{name} cannot be opened: {e}"))?;
        fields.insert(name, opened.expose().clone());
    }
    let get = |name: &str| fields.get(name).cloned();
    let given = SourceFields { manager: document.manager, path: &document.secret_path, get: &get };
    let source = SecretSource::read(&given).map_err(|why| format!("{} {}", why.field, why.rule))?;
    Ok(SavedSecretReference {
        id: SecretReferenceId(row.id),
        org: OrgId(row.org),
        slug: row.slug.as_str().into(),
        manager: document.manager,
        source: Arc::new(source),
        key: document.secret_key,
        revision: row.revision,
        workspaces: document.workspaces,
    })
}
