//! What every kind of resource says of itself, a stored row of it with its document read, and a new one on its way in.

use super::unknown_fields::keep_unknown;
use crate::actor::Actor;
use crate::app::App;
use crate::change::{Action, WriteView};
use crate::problem::{Problem, bad, conflict, internal, missing};
use crate::route::AdminCall;
use gateway_domain::id::{KeyId, OrgId, WorkspaceId};
use gateway_domain::ports::Holder;
use gateway_domain::resource::limits::ResourceLimits;
use gateway_domain::resource::{Kind, Stored, StoredVersion, check_slug};
use gateway_domain::snapshot::WorkspaceEntry;
use gateway_domain::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

pub(crate) trait Resource: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    const KIND: Kind;
    /// What messages call it.
    const NOUN: &'static str;
    /// Rows at organisation level are seen from its workspaces, and slugs are unique in the whole organisation.
    const SHARED: bool = false;
    /// There are some of workspaces and some of the organisation: a body that names the organisation and no workspace
    /// means the latter.
    const LEVELS: bool = false;
    /// Body fields of the contract that are not in force yet.
    const LATER: &'static [&'static str];
    type Create: DeserializeOwned + Send;
    type Patch: DeserializeOwned + Send;

    /// Makes a row from a new body by every rule that needs no look at other rows.
    fn create(input: Self::Create, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem>;
    fn patch(row: &mut ResourceRow<Self>, input: Self::Patch, call: &AdminCall) -> Result<(), Problem>;
    /// Everything that the row refers to exists and may be referred to.
    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem>;
    /// The key that callers use, where a row is one.
    fn used_as(_row: &ResourceRow<Self>) -> Option<KeyId> {
        None
    }
    /// Nothing refers to the row any more; what does is named.
    fn check_unused(_row: &ResourceRow<Self>, _around: &WriteView<'_>) -> Result<(), Problem> {
        Ok(())
    }
    /// The only way out: secrets are masked here.
    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value;

    /// Where a new row goes; `named` is the workspace of the request or of the key.
    fn home(named: Option<WorkspaceId>, default: WorkspaceId) -> Option<WorkspaceId> {
        Some(named.unwrap_or(default))
    }

    /// What this actor may do to this row, beyond the scopes of the route.
    fn allow(_row: &ResourceRow<Self>, _actor: &Actor, _action: Action) -> Result<(), Problem> {
        Ok(())
    }

    /// Whether a workspace holds one under this slug, to find it for an Admin key that names no workspace.
    fn held(_workspace: &WorkspaceEntry, _slug: &str) -> bool {
        false
    }

    /// Masks the secrets of a request body, for the audit trail.
    fn mask(_body: &mut Map<String, Value>) {}

    /// Drops what a deleted row need not keep.
    fn forget(&mut self) {}

    /// What it is limited to, and under whose name that is counted.
    fn budgets(_row: &ResourceRow<Self>) -> Option<(Holder, &ResourceLimits)> {
        None
    }

    /// Id of the document's version, where history counts.
    fn version_id(&self) -> Option<Uuid> {
        None
    }

    /// The state that the history keeps, under its own number; `None`: the whole document, under the row's version.
    fn newest_state(&self) -> Option<NumberedState> {
        None
    }

    fn created(row: &ResourceRow<Self>) -> Value {
        json!({"id": row.id, "slug": row.slug})
    }

    fn updated(_row: &ResourceRow<Self>) -> Value {
        json!({})
    }

    fn shown(view: Value) -> Value {
        view
    }

    fn listed(total: u64, data: Vec<Value>) -> Value {
        json!({"object": "list", "total": total, "data": data})
    }
}

/// A part of a document that has versions of its own.
pub(crate) struct NumberedState {
    pub(crate) number: i64,
    pub(crate) doc: String,
}

#[derive(Clone, Debug)]
pub(crate) struct ResourceRow<T> {
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

impl<R: Resource> ResourceRow<R> {
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

    /// Makes this row the next version of a stored one.
    pub(crate) fn over(self, stored: &Self) -> Self {
        Self {
            id: stored.id,
            org: stored.org,
            owner: stored.owner,
            schema: stored.schema,
            version: stored.version + 1,
            created_at: stored.created_at,
            before: stored.before.clone(),
            ..self
        }
    }

    /// Whether nobody has stored it yet.
    pub(crate) const fn is_new(&self) -> bool {
        self.before.is_none()
    }

    /// Whether a new one finds no room beside those that are held. `holds`: it is among them already, where it comes
    /// with others of one document.
    pub(crate) const fn is_one_too_many(&self, held: usize, holds: bool, most: usize) -> bool {
        let others = if holds { held - 1 } else { held };
        self.is_new() && others >= most
    }

    fn document(&self) -> Result<String, Problem> {
        let mut doc = serde_json::to_value(&self.doc).map_err(internal)?;
        if let Some(before) = &self.before {
            let raw: Value = serde_json::from_str(before).map_err(internal)?;
            let known: R = serde_json::from_str(before).map_err(internal)?;
            keep_unknown(&raw, &serde_json::to_value(known).map_err(internal)?, &mut doc);
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
        let NumberedState { number, doc } = match self.doc.newest_state() {
            Some(state) => state,
            None => NumberedState { number: self.version, doc: self.document()? },
        };
        Ok(vec![StoredVersion {
            kind: R::KIND.name().to_owned(),
            id: self.id,
            version: number,
            version_id,
            author: Some(author),
            doc,
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

impl WriteView<'_> {
    /// The row as it is now: someone may have changed or deleted it since it was read.
    pub(crate) fn newest<R: Resource>(&self, row: ResourceRow<R>) -> Result<ResourceRow<R>, Problem> {
        match self.since(R::KIND, row.id, row.version) {
            Some(stored) if stored.deleted_at.is_some() => Err(missing(R::NOUN)),
            Some(stored) => ResourceRow::read(stored),
            None => Ok(row),
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
pub(crate) struct NewRow<R> {
    pub(crate) row: ResourceRow<R>,
    pub(crate) slug: Slug,
}

impl<R: Resource> NewRow<R> {
    /// Where its slug must be the only one.
    fn shelf(&self) -> Option<Option<WorkspaceId>> {
        if R::SHARED { None } else { Some(self.row.workspace) }
    }

    /// Chooses the slug by what the store holds.
    pub(crate) async fn settle(&mut self, call: &AdminCall) -> Result<(), Problem> {
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
    pub(crate) fn enter(&mut self, around: &WriteView<'_>) -> Result<(), Problem> {
        let slug = self.row.slug.clone();
        let taken = !slug.is_empty() && around.took(R::KIND, self.row.org, self.shelf(), &slug);
        self.take(slug, taken, || around.app.tail::<6>())?;
        if self.row.workspace.is_some() {
            around.workspace(self.row.workspace)?;
        }
        R::check(&self.row, around)
    }
}
