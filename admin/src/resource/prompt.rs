//! Saved prompts: templates of chat requests under a `pp-` slug, in numbered versions of which one is in force under
//! the bare name. What they are rendered to is the business of the data plane.

mod declared;
mod fork;
mod versions;
mod view;

use super::edition::{HasEditions, asked, check_description, edition, fits, publish, state};
use super::sharing::{SHOW_SHARE, SharePaths, Shareable, listed, locate_readable, losing, show_sharing};
use super::shelf::{CREATE, DELETE, LIST, OWN, PUBLISH, READ, UPDATE, is_found, named};
use super::{NewRow, NumberedState, Resource, ResourceRow, Slug, config, delete, insert, update};
use crate::change::WriteView;
use crate::input::{Edit, Flag};
use crate::problem::{Problem, bad, conflict, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::edition::Editions;
use gateway_domain::resource::prompt::{PromptContent, PromptDocument, Sharing, split_version};
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::snapshot::{ShelfView, WorkspaceEntry};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

/// Prompts of one workspace: every node holds them.
const MOST: usize = 500;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const ONE: &str = "/prompts/{id}";
    const DEFAULT: &str = "/prompts/{id}/makeDefault";
    let own = vec![
        authed(Method::GET, "/prompts", LIST, "List the prompts of a workspace", list).asks(&[
            "workspace_id",
            "collection_id",
            "type",
            SHOW_SHARE,
            "search",
            "current_page",
            "page_size",
        ]),
        authed(Method::POST, "/prompts", CREATE, "Save a prompt", create)
            .takes::<NewPrompt>()
            .and(&["workspace_id", "organisation_id"]),
        authed(Method::GET, ONE, READ, "Show a prompt by slug or id, as it is in force or in one version", show)
            .asks(&["workspace_id", "version", SHOW_SHARE]),
        authed(Method::PUT, ONE, UPDATE, "Change a prompt; a new text is a new version", update::<PromptDocument>)
            .takes::<PromptPatch>()
            .and(&["workspace_id"])
            .asks(HERE),
        authed(Method::DELETE, ONE, DELETE, "Delete a prompt and its versions", delete::<PromptDocument>).asks(HERE),
        authed(Method::PUT, DEFAULT, PUBLISH, "Put a version of a prompt in force", publish::<PromptDocument>)
            .takes::<super::edition::NewDefault>()
            .and(&["workspace_id"])
            .asks(HERE),
    ];
    let sharing = SharePaths { share: "/prompts/{id}/share", unshare: "/prompts/{id}/unshare" };
    let shared = super::sharing::routes::<PromptDocument>(&sharing);
    own.into_iter().chain(versions::routes()).chain(shared).chain([fork::route()]).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPrompt {
    name: String,
    string: String,
    parameters: Map<String, Value>,
    collection_id: Option<String>,
    functions: Option<Vec<Value>>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    model: Option<String>,
    virtual_key: Option<String>,
    version_description: Option<String>,
    template_metadata: Option<Map<String, Value>>,
    #[serde(default)]
    is_raw_template: Flag,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PromptPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    collection_id: Edit<String>,
    #[serde(default)]
    string: Edit<String>,
    #[serde(default)]
    parameters: Edit<Map<String, Value>>,
    #[serde(default)]
    functions: Edit<Vec<Value>>,
    #[serde(default)]
    tools: Edit<Vec<Value>>,
    #[serde(default)]
    tool_choice: Edit<Value>,
    #[serde(default)]
    model: Edit<String>,
    #[serde(default)]
    virtual_key: Edit<String>,
    #[serde(default)]
    version_description: Edit<String>,
    #[serde(default, alias = "prompt_metadata")]
    template_metadata: Edit<Map<String, Value>>,
    #[serde(default)]
    is_raw_template: Edit<Flag>,
    /// `false`: what is left out of a new version is empty in it, and not what it was.
    #[serde(default)]
    patch: Edit<Flag>,
}

impl PromptPatch {
    /// Whether a new version is asked for, and not just another name or place.
    const fn says_something(&self) -> bool {
        !matches!(
            (&self.string, &self.parameters, &self.functions, &self.tools, &self.tool_choice),
            (Edit::Keep, Edit::Keep, Edit::Keep, Edit::Keep, Edit::Keep)
        ) || !matches!(
            (&self.model, &self.virtual_key, &self.version_description, &self.template_metadata, &self.is_raw_template),
            (Edit::Keep, Edit::Keep, Edit::Keep, Edit::Keep, Edit::Keep)
        )
    }

    fn onto(self, mut content: PromptContent) -> Result<PromptContent, Problem> {
        if let Some(string) = self.string.required("string")? {
            content.string = string;
        }
        if let Some(parameters) = self.parameters.or_default() {
            content.parameters = parameters;
        }
        self.functions.onto(&mut content.functions);
        self.tools.onto(&mut content.tools);
        self.tool_choice.onto(&mut content.tool_choice);
        self.model.onto(&mut content.model);
        self.virtual_key.onto(&mut content.virtual_key);
        if let Some(notes) = self.template_metadata.or_default() {
            content.template_metadata = notes;
        }
        if let Some(raw) = self.is_raw_template.or_default() {
            content.is_raw_template = raw.0;
        }
        Ok(content)
    }
}

impl HasEditions for PromptDocument {
    type Content = PromptContent;

    fn editions(&self) -> &Editions<PromptContent> {
        &self.editions
    }

    fn editions_mut(&mut self) -> &mut Editions<PromptContent> {
        &mut self.editions
    }
}

impl Shareable for PromptDocument {
    fn sharing(&self) -> Option<&Sharing> {
        self.sharing.as_ref()
    }

    fn set_sharing(&mut self, sharing: Option<Sharing>) {
        self.sharing = sharing;
    }

    fn lent(view: ShelfView<'_>, name: &str) -> Option<Uuid> {
        view.lent_prompts().find(|p| *p.slug == *name || p.id.to_string() == name).map(|p| p.id)
    }

    fn all_lent(view: ShelfView<'_>) -> Vec<Uuid> {
        view.lent_prompts().map(|p| p.id).collect()
    }

    fn check_withdrawn(row: &ResourceRow<Self>, next: Option<&Sharing>, around: &WriteView<'_>) -> Result<(), Problem> {
        let id = row.id.to_string();
        let asks = |w: &&Arc<WorkspaceEntry>| {
            let means_own = w.shelf().prompt(&row.slug).is_some();
            !config::asking(w, if means_own { &id } else { &row.slug }, &id).is_empty()
        };
        let asking: Vec<String> =
            losing(row, next, around).filter(asks).take(10).map(|w| format!("`{}`", w.slug)).collect();
        if asking.is_empty() {
            return Ok(());
        }
        Err(conflict(format!("the prompt is asked for by configs of the workspaces {}", asking.join(", "))))
    }
}

impl Resource for PromptDocument {
    const KIND: Kind = Kind::Prompt;
    const NOUN: &'static str = "prompt";
    const LATER: &'static [&'static str] = &[];
    type Create = NewPrompt;
    type Patch = PromptPatch;

    fn create(input: NewPrompt, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        let description = input.version_description.unwrap_or_default();
        check_description(&description)?;
        let content = PromptContent {
            string: input.string,
            parameters: input.parameters,
            model: input.model,
            virtual_key: input.virtual_key,
            functions: input.functions,
            tools: input.tools,
            tool_choice: input.tool_choice,
            template_metadata: input.template_metadata.unwrap_or_default(),
            is_raw_template: input.is_raw_template.0,
        };
        content.check()?;
        let collection = match input.collection_id {
            Some(name) => collection(call, home, &name)?,
            None => None,
        };
        let editions = Editions::first(edition(call, description, content));
        let doc = Self { collection, editions, sharing: None, rest: Map::new() };
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        row.name = input.name;
        Ok(NewRow { row, slug: Slug::Derived(format!("pp-{}", call.app.tail::<8>())) })
    }

    fn patch(row: &mut ResourceRow<Self>, mut input: PromptPatch, call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = std::mem::take(&mut input.name).required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        match std::mem::take(&mut input.collection_id) {
            Edit::Keep => {}
            Edit::Clear => row.doc.collection = None,
            Edit::Set(name) => row.doc.collection = collection(call, row.workspace, &name)?,
        }
        // Some clients send null with every change; what clears parameters is an empty object.
        if matches!(input.parameters, Edit::Clear) {
            input.parameters = Edit::Keep;
        }
        if !input.says_something() {
            return Ok(());
        }
        let whole = matches!(&input.patch, Edit::Set(Flag(false)));
        if whole && matches!(input.string, Edit::Keep) {
            return Err(bad("string", "is required where patch is false"));
        }
        let newest = row.doc.editions.newest().filter(|_| !whole);
        let base = newest.map(|e| e.content.clone()).unwrap_or_default();
        let description = std::mem::take(&mut input.version_description).or_default().unwrap_or_default();
        check_description(&description)?;
        let content = input.onto(base)?;
        content.check()?;
        fits(row.doc.editions.add(edition(call, description, content)))
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let workspace = around.workspace(row.workspace)?;
        let (held, own) = (workspace.shelf().prompts().len(), row.id.to_string());
        if row.is_one_too_many(held, workspace.shelf().prompt(&own).is_some(), MOST) {
            return Err(conflict(format!("the workspace has {MOST} prompts, which is all that it may have")));
        }
        if let Some(place) = row.doc.collection {
            named("collection_id", workspace.shelf().collection(&place.to_string()).map(|c| c.id))?;
        }
        let (editions, shelf) = (&row.doc.editions, around.snapshot.shelf_of(workspace));
        for content in [editions.current(), editions.newest()].into_iter().flatten().map(|e| &e.content) {
            if let Some(key) = &content.virtual_key
                && workspace.provider(key.trim_start_matches('@')).is_none()
            {
                return Err(bad("virtual_key", "is not a provider of this workspace"));
            }
            for name in content.partials()? {
                let (bare, _) = split_version(&name);
                if shelf.partial(bare).is_none_or(|p| !p.active) {
                    return Err(bad("string", format_args!("asks for the partial `{bare}`, which is not there")));
                }
            }
        }
        Ok(())
    }

    fn check_unused(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        Self::check_withdrawn(row, None, around)?;
        let users = config::asking(around.workspace(row.workspace)?, &row.slug, &row.id.to_string());
        if users.is_empty() {
            return Ok(());
        }
        Err(conflict(format!("the prompt is a target of the configs {}", users.join(", "))))
    }

    fn view(row: &ResourceRow<Self>, _: &AdminCall) -> Value {
        view::one(row, row.doc.editions.default, row.doc.editions.current())
    }

    fn held(workspace: &WorkspaceEntry, slug: &str) -> bool {
        workspace.shelf().prompt(slug).is_some()
    }

    fn version_id(&self) -> Option<Uuid> {
        self.editions.newest().map(|e| e.id)
    }

    fn newest_state(&self) -> Option<NumberedState> {
        state(&self.editions)
    }

    fn created(row: &ResourceRow<Self>) -> Value {
        json!({"id": row.id, "slug": row.slug, "version_id": row.doc.version_id(), "object": "prompt"})
    }

    fn updated(row: &ResourceRow<Self>) -> Value {
        json!({"id": row.id, "slug": row.slug, "prompt_version_id": row.doc.version_id()})
    }
}

/// `None`: the one that every workspace is by itself.
fn collection(call: &AdminCall, home: Option<WorkspaceId>, name: &str) -> Result<Option<Uuid>, Problem> {
    let snapshot = call.snapshot();
    let workspace = home.and_then(|id| snapshot.workspace(id));
    if workspace.is_some_and(|w| w.id.to_string() == name || name == OWN) {
        return Ok(None);
    }
    let found = workspace.and_then(|w| w.shelf().collection(name)).map(|c| c.id);
    named("collection_id", found).map(Some)
}

/// A collection that only one workspace has says which workspace is meant.
async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let mut body = call.body()?;
    let snapshot = call.snapshot();
    if let (None, Some(Value::String(name))) = (body.0.get("workspace_id"), body.0.get("collection_id")) {
        let ours = |w: &&Arc<WorkspaceEntry>| {
            w.org == call.actor.org && (w.id.to_string() == *name || w.shelf().collection(name).is_some())
        };
        let found = call.actor.workspace.is_none().then(|| snapshot.workspaces().find(ours)).flatten();
        if let Some(workspace) = found.filter(|_| Uuid::parse_str(name).is_ok()) {
            body.0.insert("workspace_id".to_owned(), workspace.id.to_string().into());
        }
    }
    let (row, revision) = insert::<PromptDocument>(&call, body).await?;
    Ok(AdminReply::json(PromptDocument::created(&row)).at(revision))
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let (snapshot, paging) = (call.snapshot(), call.query.paging()?);
    let home = call.actor.home(&snapshot, call.query.text("workspace_id"))?;
    let place = call.query.text("collection_id").map(|name| collection(&call, Some(home), name)).transpose()?;
    let workspace = snapshot.workspace(home).ok_or_else(|| missing("workspace"))?;
    let mut rows = listed::<PromptDocument>(&call, workspace).await?;
    // What others share lies in no collection here.
    let lies = |row: &ResourceRow<PromptDocument>| {
        place.is_none_or(|p| row.doc.collection == p && row.workspace == Some(home))
    };
    rows.retain(|row| is_found(row, call.query.text("search")) && lies(row));
    let mut data = Vec::new();
    for row in paging.cut(&rows) {
        let mut view = view::listed(row);
        show_sharing(&mut view, row, &call)?;
        data.push(view);
    }
    Ok(AdminReply::json(PromptDocument::listed(rows.len() as u64, data)))
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate_readable::<PromptDocument>(&call, call.query.text("workspace_id")).await?;
    let kept = asked(&call, &row).await?;
    let mut view = view::one(&row, kept.number, Some(&kept.edition));
    show_sharing(&mut view, &row, &call)?;
    Ok(AdminReply::json(view))
}

/// Prompts of a workspace whose default or newest version asks a provider, by its slug or its id.
pub(crate) fn naming(workspace: &WorkspaceEntry, slug: &str, id: &str) -> Vec<String> {
    let names = |content: &PromptContent| {
        let key = content.virtual_key.as_deref().map(|key| key.trim_start_matches('@'));
        key == Some(slug) || key == Some(id)
    };
    let prompts = workspace.shelf().prompts();
    let using = prompts.filter(|p| p.editions.kept.values().any(|edition| names(&edition.content)));
    using.take(10).map(|p| format!("`{}`", p.slug)).collect()
}
