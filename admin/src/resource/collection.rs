//! Collections: the folders that prompts lie in. Each workspace is one by itself, which is made with it, holds what
//! lies in no other and goes with it.

mod declared;

use super::shelf::{CREATE, DELETE, LIST, OWN, READ, UPDATE, is_found, named};
use super::{NewRow, Resource, ResourceRow, Slug, collect, create, delete, everything, locate, update};
use crate::change::{Action, WriteView};
use crate::problem::{Problem, bad, conflict};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::prompt::CollectionDocument;
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::snapshot::{PromptShelf, WorkspaceEntry};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

const MOST: usize = 200;
/// Collections within collections.
const DEEPEST: usize = 8;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const ONE: &str = "/collections/{id}";
    vec![
        authed(Method::GET, "/collections", LIST, "List the collections of a workspace, its own first", list).asks(&[
            "workspace_id",
            "parent_collection_id",
            "search",
            "current_page",
            "page_size",
        ]),
        authed(Method::POST, "/collections", CREATE, "Make a collection", create::<CollectionDocument>)
            .takes::<NewCollection>()
            .and(&["workspace_id", "organisation_id"]),
        authed(Method::GET, ONE, READ, "Show a collection by slug or id, with those in it", show).asks(HERE),
        authed(Method::PUT, ONE, UPDATE, "Rename a collection", update::<CollectionDocument>)
            .takes::<CollectionPatch>()
            .and(&["workspace_id"])
            .asks(HERE),
        authed(Method::DELETE, ONE, DELETE, "Delete an empty collection", delete::<CollectionDocument>).asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewCollection {
    name: String,
    parent_collection_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CollectionPatch {
    name: String,
}

impl Resource for CollectionDocument {
    const KIND: Kind = Kind::Collection;
    const NOUN: &'static str = "collection";
    const LATER: &'static [&'static str] = &[];
    type Create = NewCollection;
    type Patch = CollectionPatch;

    fn create(input: NewCollection, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        let parent = input.parent_collection_id.map(|name| parent(call, home, &name)).transpose()?.flatten();
        let doc = Self { parent, rest: Map::new() };
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        row.name = input.name;
        Ok(NewRow { row, slug: Slug::Derived(format!("col-{}", call.app.tail::<8>())) })
    }

    fn patch(row: &mut ResourceRow<Self>, input: CollectionPatch, _: &AdminCall) -> Result<(), Problem> {
        check_name("name", &input.name)?;
        row.name = input.name;
        Ok(())
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let shelf = around.workspace(row.workspace)?.shelf();
        let holds = shelf.collection(&row.id.to_string()).is_some();
        if row.is_one_too_many(shelf.collections().len(), holds, MOST) {
            return Err(conflict(format!("the workspace has {MOST} collections, which is all that it may have")));
        }
        let mut place = row.doc.parent;
        for _ in 0..DEEPEST {
            let Some(id) = place else { return Ok(()) };
            let found = shelf.collection(&id.to_string());
            named("parent_collection_id", found.map(|c| c.id))?;
            place = found.and_then(|c| c.parent);
        }
        Err(bad("parent_collection_id", format_args!("lies in {DEEPEST} collections already, which is the most")))
    }

    fn check_unused(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let inside = inside(around.workspace(row.workspace)?.shelf(), Some(row.id));
        if inside.prompts + inside.collections == 0 {
            return Ok(());
        }
        let (prompts, collections) = (inside.prompts, inside.collections);
        Err(conflict(format!("the collection still holds {prompts} prompts and {collections} collections")))
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let snapshot = call.snapshot();
        let mut view = row.common("collection");
        let workspace = row.workspace.and_then(|w| snapshot.workspace(w));
        let parent = row.doc.parent.or_else(|| row.workspace.map(|w| w.0));
        view.insert("parent_collection_id".into(), json!(parent));
        view.insert("is_default".into(), 0.into());
        view.insert("collection_details".into(), details(workspace.map(|w| w.shelf()), Some(row.id)));
        Value::Object(view)
    }

    fn held(workspace: &WorkspaceEntry, slug: &str) -> bool {
        workspace.shelf().collection(slug).is_some()
    }
}

/// `None`: the one that the workspace is.
fn parent(call: &AdminCall, home: Option<WorkspaceId>, name: &str) -> Result<Option<Uuid>, Problem> {
    let snapshot = call.snapshot();
    let workspace = home.and_then(|id| snapshot.workspace(id));
    if name == OWN || workspace.is_some_and(|w| w.id.to_string() == name) {
        return Ok(None);
    }
    named("parent_collection_id", workspace.and_then(|w| w.shelf().collection(name)).map(|c| c.id)).map(Some)
}

/// How much lies in a collection itself.
struct Inside {
    prompts: usize,
    collections: usize,
}

fn inside(shelf: &PromptShelf, id: Option<Uuid>) -> Inside {
    Inside {
        prompts: shelf.prompts().filter(|p| p.collection == id).count(),
        collections: shelf.collections().filter(|c| c.parent == id).count(),
    }
}

fn details(shelf: Option<&PromptShelf>, id: Option<Uuid>) -> Value {
    let Some(shelf) = shelf else { return json!({"prompts": 0, "collections": 0}) };
    let inside = inside(shelf, id);
    json!({"prompts": inside.prompts, "collections": inside.collections})
}

/// The collection that a workspace is.
fn own(workspace: &WorkspaceEntry) -> Value {
    json!({
        "id": workspace.id,
        "object": "collection",
        "name": "Default",
        "slug": OWN,
        "status": "active",
        "organisation_id": workspace.org,
        "workspace_id": workspace.id,
        "created_at": null,
        "last_updated_at": null,
        "parent_collection_id": null,
        "is_default": 1,
        "collection_details": details(Some(workspace.shelf()), None),
    })
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let (snapshot, paging) = (call.snapshot(), call.query.paging()?);
    let home = call.actor.home(&snapshot, call.query.text("workspace_id"))?;
    let within = call.query.text("parent_collection_id").map(|name| parent(&call, Some(home), name)).transpose()?;
    let mut rows =
        collect::<CollectionDocument>(&call, everything::<CollectionDocument>(&call, Some(Some(home)))).await?;
    let search = call.query.text("search");
    rows.retain(|row| is_found(row, search) && within.is_none_or(|parent| row.doc.parent == parent));
    let first = search.is_none_or(|s| OWN.contains(&s.to_lowercase())) && within.is_none();
    let mut data: Vec<Value> = snapshot.workspace(home).filter(|_| first).map(|w| own(w)).into_iter().collect();
    data.extend(rows.iter().map(|row| CollectionDocument::view(row, &call)));
    let total = data.len() as u64;
    Ok(AdminReply::json(CollectionDocument::listed(total, paging.cut(&data).to_vec())))
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let (snapshot, name) = (call.snapshot(), call.var("id"));
    let named = call.actor.home(&snapshot, call.query.text("workspace_id"));
    let by_id = name.parse().ok().and_then(|id| snapshot.workspace(id)).filter(|w| w.org == call.actor.org);
    let by_id = by_id.filter(|w| call.actor.workspace.is_none_or(|own| own == w.id) && w.active);
    let home = match (by_id, name == OWN) {
        (Some(workspace), _) => Some(workspace),
        (None, true) => snapshot.workspace(named?),
        (None, false) => None,
    };
    let (workspace, id, mut view) = match home {
        Some(workspace) => (workspace.id, None, own(workspace)),
        None => {
            let row = locate::<CollectionDocument>(&call, call.query.text("workspace_id"), Action::Read).await?;
            let home = row.workspace.unwrap_or_else(|| WorkspaceId(Uuid::nil()));
            (home, Some(row.id), CollectionDocument::view(&row, &call))
        }
    };
    let mut rows =
        collect::<CollectionDocument>(&call, everything::<CollectionDocument>(&call, Some(Some(workspace)))).await?;
    rows.retain(|row| row.doc.parent == id);
    view["child_collections"] = rows.iter().map(|row| child(row, &call)).collect();
    Ok(AdminReply::json(view))
}

fn child(row: &ResourceRow<CollectionDocument>, call: &AdminCall) -> Value {
    let view = CollectionDocument::view(row, call);
    json!({
        "id": view["id"],
        "name": view["name"],
        "slug": view["slug"],
        "last_updated_at": view["last_updated_at"],
        "collection_details": view["collection_details"],
    })
}
