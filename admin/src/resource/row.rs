//! A stored row with its document read, and a new one on its way in.

use super::Resource;
use super::carry::carry;
use crate::app::App;
use crate::change::Around;
use crate::problem::{Problem, bad, conflict, internal};
use crate::route::Call;
use gateway_domain::id::{OrgId, WorkspaceId};
use gateway_domain::resource::{Stored, StoredVersion, check_slug};
use gateway_domain::time::Timestamp;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

#[derive(Clone, Debug)]
pub(crate) struct Row<T> {
    pub(crate) id: Uuid,
    pub(crate) org: OrgId,
    pub(crate) workspace: Option<WorkspaceId>,
    pub(crate) slug: String,
    pub(crate) name: String,
    pub(crate) status: String,
    pub(crate) owner: Option<Uuid>,
    pub(crate) schema: i32,
    pub(crate) version: i64,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) doc: T,
    /// The document as it was read: it may hold what only newer nodes know.
    pub(super) before: Option<Arc<str>>,
}

impl<R: Resource> Row<R> {
    /// One that nobody has stored yet.
    pub(crate) fn fresh(app: &App, org: OrgId, workspace: Option<WorkspaceId>, owner: Option<Uuid>, doc: R) -> Self {
        let now = app.now();
        Self {
            id: app.id(),
            org,
            workspace,
            slug: String::new(),
            name: String::new(),
            status: "active".to_owned(),
            owner,
            schema: 1,
            version: 1,
            created_at: now,
            updated_at: now,
            doc,
            before: None,
        }
    }

    pub(crate) fn read(stored: &Stored) -> Result<Self, Problem> {
        let doc = serde_json::from_str(&stored.doc);
        let doc = doc.map_err(|e| internal(format_args!("{} {} cannot be read: {e}", stored.kind, stored.id)))?;
        Ok(Self {
            id: stored.id,
            org: OrgId(stored.org),
            workspace: stored.workspace.map(WorkspaceId),
            slug: stored.slug.clone(),
            name: stored.name.clone(),
            status: stored.status.clone(),
            owner: stored.owner,
            schema: stored.schema,
            version: stored.version,
            created_at: stored.created_at,
            updated_at: stored.updated_at,
            doc,
            before: Some(stored.doc.as_str().into()),
        })
    }

    pub(crate) fn stored(&self) -> Result<Stored, Problem> {
        Ok(Stored {
            kind: R::KIND.name().to_owned(),
            id: self.id,
            org: self.org.0,
            workspace: self.workspace.map(|w| w.0),
            slug: self.slug.clone(),
            name: self.name.clone(),
            status: self.status.clone(),
            owner: self.owner,
            schema: self.schema,
            version: self.version,
            revision: 0,
            doc: self.document()?,
            created_at: self.created_at,
            updated_at: self.updated_at,
            deleted_at: None,
        })
    }

    /// Whether nobody has stored it yet.
    pub(crate) const fn is_new(&self) -> bool {
        self.before.is_none()
    }

    fn document(&self) -> Result<String, Problem> {
        let mut doc = serde_json::to_value(&self.doc).map_err(internal)?;
        if let Some(before) = &self.before {
            let raw: Value = serde_json::from_str(before).map_err(internal)?;
            let known: R = serde_json::from_str(before).map_err(internal)?;
            carry(&raw, &serde_json::to_value(known).map_err(internal)?, &mut doc);
        }
        Ok(doc.to_string())
    }

    pub(crate) const fn touch(&mut self, now: Timestamp) {
        self.version += 1;
        self.updated_at = now;
    }

    /// The row as deleted: still there, so that every node hears of it.
    pub(crate) fn tombstone(mut self, now: Timestamp) -> Result<Stored, Problem> {
        self.touch(now);
        self.doc.forget();
        Ok(Stored { deleted_at: Some(now), ..self.stored()? })
    }

    /// The document as it is now, for the history; nothing where none is kept.
    pub(crate) fn version(&self, author: Uuid) -> Result<Vec<StoredVersion>, Problem> {
        let Some(version_id) = self.doc.version_id() else { return Ok(Vec::new()) };
        Ok(vec![StoredVersion {
            kind: R::KIND.name().to_owned(),
            id: self.id,
            version: self.version,
            version_id,
            author: Some(author),
            doc: self.document()?,
            created_at: self.updated_at,
        }])
    }

    /// What every view shows.
    pub(crate) fn common(&self, object: &str) -> Map<String, Value> {
        let value = json!({
            "id": self.id,
            "object": object,
            "name": self.name,
            "slug": self.slug,
            "status": self.status,
            "organisation_id": self.org,
            "workspace_id": self.workspace,
            "created_at": self.created_at,
            "last_updated_at": self.updated_at,
        });
        match value {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }
}

/// How a new row gets its slug.
#[derive(Clone, Debug)]
pub(crate) enum Slug {
    /// The client chose it: refused when taken.
    Given(String),
    /// Made from the name or at random: given a tail when taken.
    Derived(String),
    None,
}

impl Slug {
    /// The client's, if it sent one that may stand in a path and cannot be taken for an id.
    pub(crate) fn given(field: &str, slug: Option<String>) -> Result<Option<Self>, Problem> {
        let Some(slug) = slug else { return Ok(None) };
        check_slug(field, &slug)?;
        if Uuid::parse_str(&slug).is_ok() {
            return Err(bad(field, "must not have the form of an id"));
        }
        Ok(Some(Self::Given(slug)))
    }
}

/// A new row whose slug is not settled yet.
#[derive(Clone, Debug)]
pub(crate) struct Draft<R> {
    pub(crate) row: Row<R>,
    pub(crate) slug: Slug,
}

impl<R: Resource> Draft<R> {
    /// Where its slug must be the only one.
    fn shelf(&self) -> Option<Option<WorkspaceId>> {
        if R::SHARED { None } else { Some(self.row.workspace) }
    }

    /// Chooses the slug by what the store holds.
    pub(crate) async fn settle(&mut self, call: &Call) -> Result<(), Problem> {
        let slug = match &self.slug {
            Slug::None => return Ok(()),
            Slug::Given(slug) | Slug::Derived(slug) => slug.clone(),
        };
        let shelf = self.shelf().flatten();
        let taken = call.app.directory.get(R::KIND, self.row.org, shelf, &slug).await?.is_some();
        self.take(slug, taken, || call.app.tail::<6>())
    }

    fn take(&mut self, slug: String, taken: bool, tail: impl FnOnce() -> String) -> Result<(), Problem> {
        self.row.slug = match &self.slug {
            Slug::Given(_) if taken => {
                return Err(conflict(format!("a {} with the slug `{slug}` already exists", R::NOUN)));
            }
            Slug::Derived(_) if taken => format!("{slug}-{}", tail()),
            _ => slug,
        };
        Ok(())
    }

    /// Inside the transaction: the slug once more, by what others wrote meanwhile, then the references.
    pub(crate) fn enter(&mut self, around: &Around<'_>) -> Result<(), Problem> {
        let slug = self.row.slug.clone();
        let taken = !slug.is_empty() && around.took(R::KIND, self.row.org, self.shelf(), &slug);
        self.take(slug, taken, || around.app.tail::<6>())?;
        if self.row.workspace.is_some() {
            around.workspace(self.row.workspace)?;
        }
        R::check(&self.row, around)
    }
}
