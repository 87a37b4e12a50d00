//! What a workspace has saved of prompts: the prompts themselves, the partials in them, the labels that name their
//! versions and the collections that they lie in, of which requests ask nothing.

use super::{Addressed, Build, Draft, Entry, Slugged, doc, lives};
use crate::mustache::Partials;
use crate::resource::edition::Editions;
use crate::resource::prompt::{
    BUILT_IN_LABELS, CollectionDocument, LabelDocument, PartialDocument, PromptContent, PromptDocument, split_version,
};
use crate::resource::{Kind, Stored};
use std::sync::Arc;
use uuid::Uuid;

#[derive(Debug)]
pub struct SavedPrompt {
    pub id: Uuid,
    pub slug: Arc<str>,
    pub name: Arc<str>,
    pub active: bool,
    pub collection: Option<Uuid>,
    pub editions: Editions<PromptContent>,
}

#[derive(Debug)]
pub struct SavedPartial {
    pub id: Uuid,
    pub slug: Arc<str>,
    pub active: bool,
    pub editions: Editions<String>,
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
    /// By slug or id.
    pub fn prompt(&self, name: &str) -> Option<&Arc<SavedPrompt>> {
        self.prompts.by_name.get(name)
    }

    pub fn prompts(&self) -> impl ExactSizeIterator<Item = &Arc<SavedPrompt>> {
        self.prompts.by_id.values()
    }

    /// By slug or id.
    pub fn partial(&self, name: &str) -> Option<&Arc<SavedPartial>> {
        self.partials.by_name.get(name)
    }

    pub fn partials(&self) -> impl ExactSizeIterator<Item = &Arc<SavedPartial>> {
        self.partials.by_id.values()
    }

    /// By name or id; the ones that every organisation has too.
    pub fn label(&self, name: &str) -> Option<Uuid> {
        let built_in = BUILT_IN_LABELS.iter().find(|l| l.name == name || l.id.to_string() == name);
        built_in.map(|l| l.id).or_else(|| self.labels.by_name.get(name).map(|l| l.id))
    }

    pub fn labels(&self) -> impl ExactSizeIterator<Item = &Arc<SavedLabel>> {
        self.labels.by_id.values()
    }

    /// By slug or id.
    pub fn collection(&self, name: &str) -> Option<&Arc<SavedCollection>> {
        self.collections.by_name.get(name)
    }

    pub fn collections(&self) -> impl ExactSizeIterator<Item = &Arc<SavedCollection>> {
        self.collections.by_id.values()
    }
}

/// In use, in the version that the name asks for.
impl Partials for PromptShelf {
    fn find(&self, name: &str) -> Option<&str> {
        let (name, version) = split_version(name);
        let partial = self.partial(name).filter(|p| p.active)?;
        partial.editions.named(version, |label| self.label(label)).map(|(_, edition)| edition.content.as_str())
    }
}

impl Entry for SavedPrompt {
    const KIND: Kind = Kind::Prompt;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        let read = || -> Result<_, String> {
            let PromptDocument { collection, editions, .. } = doc(row)?;
            let (slug, name) = (row.slug.as_str().into(), row.name.as_str().into());
            Ok(Arc::new(Self { id: row.id, slug, name, active: row.status == "active", collection, editions }))
        };
        let made = lives(row).then(read).transpose()?;
        workspace.shelf_mut().prompts.put(row.id, made);
        Ok(())
    }
}

impl Entry for SavedPartial {
    const KIND: Kind = Kind::PromptPartial;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        let read = || -> Result<_, String> {
            let PartialDocument { editions, .. } = doc(row)?;
            Ok(Arc::new(Self { id: row.id, slug: row.slug.as_str().into(), active: row.status == "active", editions }))
        };
        let made = lives(row).then(read).transpose()?;
        workspace.shelf_mut().partials.put(row.id, made);
        Ok(())
    }
}

impl Entry for SavedLabel {
    const KIND: Kind = Kind::Label;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        let _: LabelDocument = doc(row)?;
        let made = lives(row).then(|| Arc::new(Self { id: row.id, slug: row.slug.as_str().into() }));
        workspace.shelf_mut().labels.put(row.id, made);
        Ok(())
    }
}

impl Entry for SavedCollection {
    const KIND: Kind = Kind::Collection;

    fn put(draft: &mut Draft, row: &Stored, _: &Build<'_>) -> Result<(), String> {
        let Some(workspace) = draft.workspace_of(row)? else { return Ok(()) };
        let CollectionDocument { parent, .. } = doc(row)?;
        let made = lives(row).then(|| Arc::new(Self { id: row.id, slug: row.slug.as_str().into(), parent }));
        workspace.shelf_mut().collections.put(row.id, made);
        Ok(())
    }
}
