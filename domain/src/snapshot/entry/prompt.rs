//! What a workspace has saved of prompts: the prompts themselves, the partials in them, the labels that name their
//! versions and the collections that they lie in, of which requests ask nothing.

use super::shared_shelf::lend;
use super::{Addressed, Build, Draft, Slugged, SnapshotEntry, doc, lives};
use crate::id::WorkspaceId;
use crate::resource::edition::Editions;
use crate::resource::prompt::{
    BUILT_IN_LABELS, CollectionDocument, LabelDocument, PartialDocument, PromptContent, PromptDocument, Sharing,
};
use crate::resource::{Kind, Stored};
use std::sync::Arc;
use uuid::Uuid;

#[derive(Debug)]
pub struct SavedPrompt {
    pub id: Uuid,
    pub home: WorkspaceId,
    pub slug: Arc<str>,
    pub name: Arc<str>,
    pub active: bool,
    pub collection: Option<Uuid>,
    pub editions: Editions<PromptContent>,
    pub sharing: Option<Sharing>,
}

#[derive(Debug)]
pub struct SavedPartial {
    pub id: Uuid,
    pub home: WorkspaceId,
    pub slug: Arc<str>,
    pub active: bool,
    pub editions: Editions<String>,
    pub sharing: Option<Sharing>,
}

/// Named by its slug, which is its name.
#[derive(Debug)]
pub struct SavedLabel {
    pub id: Uuid,
    pub slug: Arc<str>,
}

#[derive(Debug)]
pub struct SavedCollection {
    pub id: Uuid,
    pub slug: Arc<str>,
    pub parent: Option<Uuid>,
}

macro_rules! addressed {
    ($($saved:ident),+) => {
        $(impl Addressed for $saved {
            fn slug(&self) -> &Arc<str> {
                &self.slug
            }
        })+
    };
}

addressed!(SavedPrompt, SavedPartial, SavedLabel, SavedCollection);

/// All of these of one workspace.
#[derive(Clone, Debug, Default)]
pub struct PromptShelf {
    prompts: Slugged<SavedPrompt>,
    partials: Slugged<SavedPartial>,
    labels: Slugged<SavedLabel>,
    collections: Slugged<SavedCollection>,
}

impl PromptShelf {
    /// Finds a prompt by slug or id.
    pub fn prompt(&self, name: &str) -> Option<&Arc<SavedPrompt>> {
        self.prompts.by_name.get(name)
    }

    pub fn prompts(&self) -> impl ExactSizeIterator<Item = &Arc<SavedPrompt>> {
        self.prompts.by_id.values()
    }

    /// Finds a partial by slug or id.
    pub fn partial(&self, name: &str) -> Option<&Arc<SavedPartial>> {
        self.partials.by_name.get(name)
    }

    pub fn partials(&self) -> impl ExactSizeIterator<Item = &Arc<SavedPartial>> {
        self.partials.by_id.values()
    }

    /// Finds the id of a label by name or id, among those that every organisation has as well.
    pub fn label(&self, name: &str) -> Option<Uuid> {
        let built_in = BUILT_IN_LABELS.iter().find(|l| l.name == name || l.id.to_string() == name);
        built_in.map(|l| l.id).or_else(|| self.labels.by_name.get(name).map(|l| l.id))
    }

    pub fn labels(&self) -> impl ExactSizeIterator<Item = &Arc<SavedLabel>> {
        self.labels.by_id.values()
    }

    /// Finds a collection by slug or id.
    pub fn collection(&self, name: &str) -> Option<&Arc<SavedCollection>> {
        self.collections.by_name.get(name)
    }

    pub fn collections(&self) -> impl ExactSizeIterator<Item = &Arc<SavedCollection>> {
        self.collections.by_id.values()
    }
}

impl SnapshotEntry for SavedPrompt {
    const KIND: Kind = Kind::Prompt;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let read = || -> Result<_, String> {
            let home = WorkspaceId(row.workspace.ok_or("belongs to no workspace")?);
            let PromptDocument { collection, editions, sharing, .. } = doc(row)?;
            let (slug, name, active) = (row.slug.as_str().into(), row.name.as_str().into(), row.status == "active");
            Ok(Arc::new(Self { id: row.id, home, slug, name, active, collection, editions, sharing }))
        };
        let made = lives(row).then(read).transpose()?;
        lend(draft, row, made.as_ref().filter(|p| p.sharing.is_some()))?;
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        workspace.shelf_mut().prompts.put(row.id, made);
        Ok(())
    }
}

impl SnapshotEntry for SavedPartial {
    const KIND: Kind = Kind::PromptPartial;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let read = || -> Result<_, String> {
            let home = WorkspaceId(row.workspace.ok_or("belongs to no workspace")?);
            let PartialDocument { editions, sharing, .. } = doc(row)?;
            let (slug, active) = (row.slug.as_str().into(), row.status == "active");
            Ok(Arc::new(Self { id: row.id, home, slug, active, editions, sharing }))
        };
        let made = lives(row).then(read).transpose()?;
        lend(draft, row, made.as_ref().filter(|p| p.sharing.is_some()))?;
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        workspace.shelf_mut().partials.put(row.id, made);
        Ok(())
    }
}

impl SnapshotEntry for SavedLabel {
    const KIND: Kind = Kind::Label;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        let _: LabelDocument = doc(row)?;
        let made = lives(row).then(|| Arc::new(Self { id: row.id, slug: row.slug.as_str().into() }));
        workspace.shelf_mut().labels.put(row.id, made);
        Ok(())
    }
}

impl SnapshotEntry for SavedCollection {
    const KIND: Kind = Kind::Collection;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        let CollectionDocument { parent, .. } = doc(row)?;
        let made = lives(row).then(|| Arc::new(Self { id: row.id, slug: row.slug.as_str().into(), parent }));
        workspace.shelf_mut().collections.put(row.id, made);
        Ok(())
    }
}
