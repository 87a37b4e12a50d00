//! Partials: texts under a `pl-` slug that prompts share, in numbered versions as prompts have them.

mod declared;
mod fork;

use super::edition::{
    HasEditions, KeptVersion, asked, check_description, edition, fits, history, publish, state, status,
};
use super::sharing::{SHOW_SHARE, SharePaths, Shareable, listed, locate_readable, losing, show_sharing};
use super::shelf::{CREATE, DELETE, LIST, OWN, PUBLISH, READ, UPDATE, is_found};
use super::{NewRow, NumberedState, Resource, ResourceRow, Slug, create, delete, update};
use crate::change::WriteView;
use crate::input::Edit;
use crate::problem::{Problem, bad, conflict, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, PAGES, authed};
use gateway_domain::id::WorkspaceId;
use gateway_domain::mustache::partials_of;
use gateway_domain::resource::edition::{Edition, Editions};
use gateway_domain::resource::prompt::{PartialDocument, Sharing, check_template, split_version};
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::snapshot::{PromptShelf, ShelfView, WorkspaceEntry};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Partials of one workspace: every node holds them.
const MOST: usize = 500;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const ALL: &str = "/prompts/partials";
    const ONE: &str = "/prompts/partials/{id}";
    const VERSIONS: &str = "/prompts/partials/{id}/versions";
    const DEFAULT: &str = "/prompts/partials/{id}/makeDefault";
    let sharing = SharePaths { share: "/prompts/partials/{id}/share", unshare: "/prompts/partials/{id}/unshare" };
    let own = vec![
        authed(Method::GET, ALL, LIST, "List the prompt partials of a workspace", list).asks(&[
            "workspace_id",
            "collection_id",
            "type",
            SHOW_SHARE,
            "search",
            "current_page",
            "page_size",
        ]),
        authed(Method::POST, ALL, CREATE, "Save a prompt partial", create::<PartialDocument>)
            .takes::<NewPartial>()
            .and(&["workspace_id", "organisation_id"]),
        authed(Method::GET, ONE, READ, "Show a prompt partial by slug or id", show).asks(&[
            "workspace_id",
            "version",
            SHOW_SHARE,
        ]),
        authed(
            Method::PUT,
            ONE,
            UPDATE,
            "Change a prompt partial; a new text is a new version",
            update::<PartialDocument>,
        )
        .takes::<PartialPatch>()
        .and(&["workspace_id"])
        .asks(HERE),
        authed(
            Method::DELETE,
            ONE,
            DELETE,
            "Delete a prompt partial that no prompt asks for",
            delete::<PartialDocument>,
        )
        .asks(HERE),
        authed(Method::GET, VERSIONS, LIST, "List the versions of a prompt partial, newest first", versions)
            .asks(PAGES),
        authed(Method::PUT, DEFAULT, PUBLISH, "Put a version of a prompt partial in force", publish::<PartialDocument>)
            .takes::<super::edition::NewDefault>()
            .and(&["workspace_id"])
            .asks(HERE),
    ];
    let shared = super::sharing::routes::<PartialDocument>(&sharing);
    own.into_iter().chain(shared).chain([fork::route()]).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPartial {
    name: String,
    string: String,
    version_description: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartialPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    string: Edit<String>,
    #[serde(default, alias = "version_description")]
    description: Edit<String>,
    #[serde(default)]
    status: Edit<String>,
}

impl HasEditions for PartialDocument {
    type Content = String;

    fn editions(&self) -> &Editions<String> {
        &self.editions
    }

    fn editions_mut(&mut self) -> &mut Editions<String> {
        &mut self.editions
    }
}

impl Shareable for PartialDocument {
    fn sharing(&self) -> Option<&Sharing> {
        self.sharing.as_ref()
    }

    fn set_sharing(&mut self, sharing: Option<Sharing>) {
        self.sharing = sharing;
    }

    fn lent(view: ShelfView<'_>, name: &str) -> Option<Uuid> {
        view.lent_partials().find(|p| *p.slug == *name || p.id.to_string() == name).map(|p| p.id)
    }

    fn all_lent(view: ShelfView<'_>) -> Vec<Uuid> {
        view.lent_partials().map(|p| p.id).collect()
    }

    fn check_withdrawn(row: &ResourceRow<Self>, next: Option<&Sharing>, around: &WriteView<'_>) -> Result<(), Problem> {
        // One of their own by that slug is what they mean by it.
        let losing = losing(row, next, around).filter(|w| w.shelf().partial(&row.slug).is_none());
        let asking: Vec<String> =
            losing.filter(|w| !users(row, w.shelf()).is_empty()).take(10).map(|w| format!("`{}`", w.slug)).collect();
        if asking.is_empty() {
            return Ok(());
        }
        Err(conflict(format!("the prompt partial is asked for by prompts of the workspaces {}", asking.join(", "))))
    }
}

/// What asks for a partial on a shelf, by slug.
fn users(row: &ResourceRow<PartialDocument>, shelf: &PromptShelf) -> Vec<String> {
    let id = row.id.to_string();
    let meant = |name: &str| split_version(name).0 == row.slug || split_version(name).0 == id;
    let prompts = shelf.prompts().filter(|prompt| {
        let mut kept = prompt.editions.kept.values();
        kept.any(|e| e.content.partials().unwrap_or_default().iter().any(|name| meant(name)))
    });
    let partials = shelf.partials().filter(|partial| {
        let mut kept = partial.editions.kept.values();
        partial.id != row.id && kept.any(|e| partials_of(&e.content).unwrap_or_default().into_iter().any(meant))
    });
    prompts.map(|p| &p.slug).chain(partials.map(|p| &p.slug)).take(10).map(|s| format!("`{s}`")).collect()
}

impl Resource for PartialDocument {
    const KIND: Kind = Kind::PromptPartial;
    const NOUN: &'static str = "prompt partial";
    const LATER: &'static [&'static str] = &[];
    type Create = NewPartial;
    type Patch = PartialPatch;

    fn create(input: NewPartial, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        check_text(&input.string)?;
        let description = input.version_description.unwrap_or_default();
        check_description(&description)?;
        let editions = Editions::first(edition(call, description, input.string));
        let doc = Self { editions, sharing: None, rest: Map::new() };
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        row.name = input.name;
        Ok(NewRow { row, slug: Slug::Derived(format!("pl-{}", call.app.tail::<8>())) })
    }

    fn patch(row: &mut ResourceRow<Self>, input: PartialPatch, call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        if let Some(status) = input.status.required("status")? {
            if !matches!(status.as_str(), "active" | "archived") {
                return Err(bad("status", "must be active or archived"));
            }
            row.status = status;
        }
        let described = !matches!(input.description, Edit::Keep);
        let description = input.description.or_default().unwrap_or_default();
        check_description(&description)?;
        match input.string.required("string")? {
            Some(text) => {
                check_text(&text)?;
                fits(row.doc.editions.add(edition(call, description, text)))
            }
            None if described => Err(bad("description", "is that of a new version: give its string too")),
            None => Ok(()),
        }
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let workspace = around.workspace(row.workspace)?;
        let (held, own) = (workspace.shelf().partials().len(), row.id.to_string());
        if row.is_one_too_many(held, workspace.shelf().partial(&own).is_some(), MOST) {
            return Err(conflict(format!("the workspace has {MOST} prompt partials, which is all that it may have")));
        }
        if row.status == "archived" {
            return Self::check_unused(row, around);
        }
        let (editions, shelf) = (&row.doc.editions, around.snapshot.shelf_of(workspace));
        for edition in [editions.current(), editions.newest()].into_iter().flatten() {
            let names = partials_of(&edition.content).map_err(|why| bad("string", why))?;
            for (bare, _) in names.into_iter().map(split_version) {
                if bare != row.slug && shelf.partial(bare).is_none_or(|p| !p.active) {
                    return Err(bad("string", format_args!("asks for the partial `{bare}`, which is not there")));
                }
            }
        }
        Ok(())
    }

    fn check_unused(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        Self::check_withdrawn(row, None, around)?;
        let users = users(row, around.workspace(row.workspace)?.shelf());
        if users.is_empty() {
            return Ok(());
        }
        Err(conflict(format!("the prompt partial is asked for by {}", users.join(", "))))
    }

    fn view(row: &ResourceRow<Self>, _: &AdminCall) -> Value {
        one(row, row.doc.editions.default, row.doc.editions.current())
    }

    fn held(workspace: &WorkspaceEntry, slug: &str) -> bool {
        workspace.shelf().partial(slug).is_some()
    }

    fn version_id(&self) -> Option<Uuid> {
        self.editions.newest().map(|e| e.id)
    }

    fn newest_state(&self) -> Option<NumberedState> {
        state(&self.editions)
    }

    fn created(row: &ResourceRow<Self>) -> Value {
        json!({"id": row.id, "slug": row.slug, "version_id": row.doc.version_id()})
    }

    fn updated(row: &ResourceRow<Self>) -> Value {
        json!({"prompt_partial_version_id": row.doc.version_id()})
    }
}

fn check_text(text: &str) -> Result<(), Problem> {
    if text.is_empty() {
        return Err(bad("string", "must not be empty"));
    }
    Ok(check_template(text)?)
}

fn one(row: &ResourceRow<PartialDocument>, number: u32, edition: Option<&Edition<String>>) -> Value {
    let mut view = row.common("partial");
    view.insert("collection_id".into(), json!(row.workspace));
    let more = json!({
        "string": edition.map(|e| e.content.as_str()),
        "version": number,
        "version_description": edition.map(|e| e.description.as_str()),
        "prompt_partial_version_id": edition.map(|e| e.id),
    });
    view.extend(more.as_object().cloned().unwrap_or_default());
    Value::Object(view)
}

/// Partials lie in the collection that the workspace is by itself.
async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let (snapshot, paging) = (call.snapshot(), call.query.paging()?);
    let home = call.actor.home(&snapshot, call.query.text("workspace_id"))?;
    let place = call.query.text("collection_id");
    let here = place.is_none_or(|p| p == home.to_string() || p == OWN);
    let workspace = snapshot.workspace(home).ok_or_else(|| missing("workspace"))?;
    let mut rows = listed::<PartialDocument>(&call, workspace).await?;
    // What others share lies in no collection here.
    let lies = |row: &ResourceRow<PartialDocument>| here && (place.is_none() || row.workspace == Some(home));
    rows.retain(|row| lies(row) && is_found(row, call.query.text("search")));
    let mut data = Vec::new();
    for row in paging.cut(&rows) {
        let mut view = row.common("partial");
        view.insert("collection_id".into(), json!(row.workspace));
        let mut view = Value::Object(view);
        show_sharing(&mut view, row, &call)?;
        data.push(view);
    }
    Ok(AdminReply::json(PartialDocument::listed(rows.len() as u64, data)))
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate_readable::<PartialDocument>(&call, call.query.text("workspace_id")).await?;
    let kept = asked(&call, &row).await?;
    let mut view = one(&row, kept.number, Some(&kept.edition));
    show_sharing(&mut view, &row, &call)?;
    Ok(AdminReply::json(view))
}

async fn versions(call: AdminCall) -> Result<AdminReply, Problem> {
    let paging = call.query.paging()?;
    let row = locate_readable::<PartialDocument>(&call, call.query.text("workspace_id")).await?;
    let all = history(&call, &row).await?;
    let view = |kept: &KeptVersion<String>| {
        json!({
            "object": "partial",
            "prompt_partial_id": row.id,
            "prompt_partial_version_id": kept.edition.id,
            "slug": row.slug,
            "version": kept.number,
            "string": kept.edition.content,
            "description": kept.edition.description,
            "created_at": kept.edition.created_at,
            "prompt_version_status": status(&row.doc.editions, kept.number),
        })
    };
    let data: Vec<Value> = paging.cut(&all).iter().map(view).collect();
    Ok(AdminReply::json(PartialDocument::listed(all.len() as u64, data)))
}
