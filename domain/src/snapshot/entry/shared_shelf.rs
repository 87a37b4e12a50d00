//! What workspaces of an organisation share with others of prompts and partials, by slug and by id. With whom is said
//! by each thing itself; who asks for one has to look at that.

use super::prompt::{SavedPartial, SavedPrompt};
use super::{Addressed, Draft};
use crate::id::OrgId;
use crate::resource::Stored;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use uuid::Uuid;

#[derive(Clone, Debug, Default)]
pub struct SharedShelf {
    prompts: SharedNames<SavedPrompt>,
    partials: SharedNames<SavedPartial>,
}

impl SharedShelf {
    pub fn prompts(&self) -> impl Iterator<Item = &Arc<SavedPrompt>> {
        self.prompts.by_id.values()
    }

    pub fn partials(&self) -> impl Iterator<Item = &Arc<SavedPartial>> {
        self.partials.by_id.values()
    }

    /// Prompts by slug or id, the oldest first: workspaces choose their own slugs, so several prompts may share one.
    pub fn prompts_named(&self, name: &str) -> impl Iterator<Item = &Arc<SavedPrompt>> {
        self.prompts.named(name)
    }

    /// Partials by slug or id, in the order of [`Self::prompts_named`].
    pub fn partials_named(&self, name: &str) -> impl Iterator<Item = &Arc<SavedPartial>> {
        self.partials.named(name)
    }
}

#[derive(Debug)]
pub(super) struct SharedNames<T> {
    by_id: Arc<BTreeMap<Uuid, Arc<T>>>,
    ids: Arc<HashMap<Arc<str>, BTreeSet<Uuid>, ahash::RandomState>>,
}

impl<T> Clone for SharedNames<T> {
    fn clone(&self) -> Self {
        Self { by_id: self.by_id.clone(), ids: self.ids.clone() }
    }
}

impl<T> Default for SharedNames<T> {
    fn default() -> Self {
        Self { by_id: Arc::default(), ids: Arc::default() }
    }
}

impl<T: Addressed> SharedNames<T> {
    fn named(&self, name: &str) -> impl Iterator<Item = &Arc<T>> {
        let by_slug = self.ids.get(name).into_iter().flatten();
        let by_id = name.parse::<Uuid>().ok().and_then(|id| self.by_id.get(&id));
        by_slug.filter_map(|id| self.by_id.get(id)).chain(by_id)
    }

    fn put(&mut self, id: Uuid, made: Option<&Arc<T>>) {
        let (by_id, ids) = (Arc::make_mut(&mut self.by_id), Arc::make_mut(&mut self.ids));
        let old = match made {
            Some(made) => by_id.insert(id, made.clone()),
            None => by_id.remove(&id),
        };
        if let Some(old) = old
            && let Some(same) = ids.get_mut(old.slug())
        {
            same.remove(&id);
            if same.is_empty() {
                ids.remove(old.slug());
            }
        }
        if let Some(made) = made {
            ids.entry(made.slug().clone()).or_default().insert(id);
        }
    }
}

/// What can be shared, and where it is noted.
pub(super) trait Lendable: Addressed + Sized {
    fn names(shelf: &SharedShelf) -> &SharedNames<Self>;
    fn names_mut(shelf: &mut SharedShelf) -> &mut SharedNames<Self>;
}

impl Lendable for SavedPrompt {
    fn names(shelf: &SharedShelf) -> &SharedNames<Self> {
        &shelf.prompts
    }

    fn names_mut(shelf: &mut SharedShelf) -> &mut SharedNames<Self> {
        &mut shelf.prompts
    }
}

impl Lendable for SavedPartial {
    fn names(shelf: &SharedShelf) -> &SharedNames<Self> {
        &shelf.partials
    }

    fn names_mut(shelf: &mut SharedShelf) -> &mut SharedNames<Self> {
        &mut shelf.partials
    }
}

/// Notes at the organisation what is shared of a workspace; `None`: it is not, or not any more.
pub(super) fn lend<T: Lendable>(draft: &mut Draft, row: &Stored, made: Option<&Arc<T>>) -> Result<(), String> {
    let known = draft.next.orgs.get(&OrgId(row.org));
    let was = known.is_some_and(|org| T::names(org.shared_shelf()).by_id.contains_key(&row.id));
    // Most are shared with nobody, before as now: the organisation is not copied for them.
    if (was || made.is_some())
        && let Some(org) = draft.org_of(row)?
    {
        T::names_mut(org.shared_shelf_mut()).put(row.id, made);
    }
    Ok(())
}
