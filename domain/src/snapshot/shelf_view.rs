//! Prompts and partials as a workspace sees them: its own, then what others share with it. What such a thing asks for
//! is looked for where it lies, so that it says the same to everybody.

use super::{SavedPartial, SavedPrompt, Snapshot, WorkspaceEntry};
use crate::id::WorkspaceId;
use crate::mustache::{FoundPartial, Partials};
use crate::resource::prompt::{Sharing, split_version};
use std::sync::Arc;
use uuid::Uuid;

/// The shelves of an organisation, seen from one of its workspaces.
#[derive(Clone, Copy, Debug)]
pub struct ShelfView<'a> {
    snapshot: &'a Snapshot,
    workspace: &'a WorkspaceEntry,
}

impl Snapshot {
    pub const fn shelf_of<'a>(&'a self, workspace: &'a WorkspaceEntry) -> ShelfView<'a> {
        ShelfView { snapshot: self, workspace }
    }
}

impl<'a> ShelfView<'a> {
    /// A prompt by slug or id, in use or not. The workspace's own beats what others share.
    pub fn prompt(self, name: &str) -> Option<&'a Arc<SavedPrompt>> {
        self.workspace.shelf().prompt(name).or_else(|| {
            let mut shared = self.snapshot.org(self.workspace.org)?.shared_shelf().prompts_named(name);
            shared.find(|prompt| self.is_lent(prompt.home, prompt.sharing.as_ref()))
        })
    }

    /// A partial by slug or id, in use or not. The workspace's own beats what others share.
    pub fn partial(self, name: &str) -> Option<&'a Arc<SavedPartial>> {
        self.workspace.shelf().partial(name).or_else(|| {
            let mut shared = self.snapshot.org(self.workspace.org)?.shared_shelf().partials_named(name);
            shared.find(|partial| self.is_lent(partial.home, partial.sharing.as_ref()))
        })
    }

    /// Prompts of others that it may read.
    pub fn lent_prompts(self) -> impl Iterator<Item = &'a Arc<SavedPrompt>> {
        let shared = self.snapshot.org(self.workspace.org).into_iter().flat_map(|org| org.shared_shelf().prompts());
        shared.filter(move |prompt| self.is_lent(prompt.home, prompt.sharing.as_ref()))
    }

    /// Partials of others that it may read.
    pub fn lent_partials(self) -> impl Iterator<Item = &'a Arc<SavedPartial>> {
        let shared = self.snapshot.org(self.workspace.org).into_iter().flat_map(|org| org.shared_shelf().partials());
        shared.filter(move |partial| self.is_lent(partial.home, partial.sharing.as_ref()))
    }

    /// A label by its name, of this workspace or of all.
    pub fn label(self, name: &str) -> Option<Uuid> {
        self.workspace.shelf().label(name)
    }

    /// What others, too, may know a provider of this workspace by.
    pub fn provider_slug(self, name: &'a str) -> &'a str {
        self.workspace.provider(name).map_or(name, |provider| &provider.slug)
    }

    /// The shelves seen from the workspace in which something lies.
    pub fn at(self, home: WorkspaceId) -> Option<Self> {
        if home == self.workspace.id {
            return Some(self);
        }
        Some(Self { workspace: self.snapshot.workspace(home)?, ..self })
    }

    fn is_lent(self, home: WorkspaceId, sharing: Option<&Sharing>) -> bool {
        let here = self.workspace.id;
        let owner = || self.snapshot.workspace(home).is_some_and(|w| w.active && w.org == self.workspace.org);
        home != here && sharing.is_some_and(|sharing| sharing.reaches(here)) && owner()
    }
}

/// Finds partials that are in use, in the version that the name asks for.
impl<'a> Partials<'a> for ShelfView<'a> {
    fn find(self, name: &str) -> Option<FoundPartial<'a, Self>> {
        let (name, version) = split_version(name);
        let partial = self.partial(name).filter(|p| p.active)?;
        let there = self.at(partial.home)?;
        let (_, edition) = partial.editions.named(version, |label| there.label(label))?;
        Some(FoundPartial { text: &edition.content, partials: there })
    }
}
