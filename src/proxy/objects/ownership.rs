//! Notes of whose the objects are that answers tell of, where integrations keep those of workspaces apart. What an
//! answer names was made by the workspace that asked, since nobody can ask for what another made. Reads no answers
//! itself.

use crate::kept_objects::{KeptName, KeptObjectNotes};
use crate::proxy::request::Request;
use gateway_domain::id::WorkspaceId;
use gateway_domain::kept::{self, IdPlace};
use gateway_domain::path::decoded;
use http::Method;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Notes what the answer to one call says of objects.
pub(super) struct ObjectNotes {
    notes: Arc<KeptObjectNotes>,
    workspace: WorkspaceId,
    /// What keeps the objects.
    keeper: Vec<u8>,
    /// The call asks for a new object of a kind that lists show.
    makes: bool,
    posts: bool,
    /// What it asks to remove.
    removed: Option<String>,
    /// The number of the last note.
    last: AtomicU64,
}

impl ObjectNotes {
    pub(super) fn new(notes: Arc<KeptObjectNotes>, keeper: Vec<u8>, request: &Request) -> Self {
        let (method, tail) = (&request.ask.method, request.ask.route.tail());
        let posts = *method == Method::POST;
        let removed = kept::listed_in_path(tail).filter(|_| *method == Method::DELETE);
        Self {
            notes,
            workspace: request.caller.tenant.workspace.id,
            keeper,
            makes: posts && kept::shown_in_part(tail).is_some(),
            posts,
            removed: removed.map(|id| decoded(id).into_owned()),
            last: AtomicU64::new(0),
        }
    }

    /// An answer names this object.
    pub(super) fn saw(&self, place: &IdPlace<'_>, native: &str) {
        if kept::is_listed(place, native, self.makes, self.posts) {
            let number = self.notes.note(self.name(native));
            self.last.fetch_max(number, Ordering::Relaxed);
        }
    }

    /// What the call asked to remove is gone.
    pub(super) fn forget_removed(&self) {
        if let Some(native) = &self.removed {
            let number = self.notes.forget(self.name(native));
            self.last.fetch_max(number, Ordering::Relaxed);
        }
    }

    pub(super) async fn settled(&self) {
        self.notes.settled(self.last.load(Ordering::Relaxed)).await;
    }

    fn name<'a>(&'a self, native: &'a str) -> KeptName<'a> {
        KeptName { workspace: self.workspace, keeper: &self.keeper, native }
    }
}
