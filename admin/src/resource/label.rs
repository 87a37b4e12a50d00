//! Labels: names for versions of prompts, as `production`. Some are there in every organisation; a workspace makes its
//! own.

mod declared;

use super::shelf::{CREATE, DELETE, LIST, READ, UPDATE, is_found};
use super::{NewRow, Resource, ResourceRow, Slug, collect, delete, everything, insert, locate, update};
use crate::change::{Action, WriteView};
use crate::input::Edit;
use crate::problem::{Problem, bad, conflict};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::Kind;
use gateway_domain::resource::prompt::{BUILT_IN_LABELS, BuiltInLabel, LabelDocument, check_label_name};
use gateway_domain::snapshot::WorkspaceEntry;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const MOST: usize = 100;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const ONE: &str = "/labels/{id}";
    vec![
        authed(Method::GET, "/labels", LIST, "List the labels of a workspace, those of every organisation first", list)
            .asks(&["workspace_id", "organisation_id", "search", "current_page", "page_size"]),
        authed(Method::POST, "/labels", CREATE, "Make a label for versions of prompts", create)
            .takes::<NewLabel>()
            .and(&["workspace_id", "organisation_id"]),
        authed(Method::GET, ONE, READ, "Show a label by id or name", show).asks(&["workspace_id", "organisation_id"]),
        authed(Method::PUT, ONE, UPDATE, "Change a label", update::<LabelDocument>)
            .takes::<LabelPatch>()
            .and(&["workspace_id", "organisation_id"])
            .asks(HERE),
        authed(Method::DELETE, ONE, DELETE, "Delete a label that no prompt uses", delete::<LabelDocument>).asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewLabel {
    name: String,
    description: Option<String>,
    color_code: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabelPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    description: Edit<String>,
    #[serde(default)]
    color_code: Edit<String>,
}

impl Resource for LabelDocument {
    const KIND: Kind = Kind::Label;
    const NOUN: &'static str = "label";
    const LATER: &'static [&'static str] = &[];
    type Create = NewLabel;
    type Patch = LabelPatch;

    fn create(input: NewLabel, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_label_name(&input.name)?;
        let (description, color_code) = (input.description.unwrap_or_default(), input.color_code.unwrap_or_default());
        let doc = Self { description, color_code, rest: Map::new() };
        doc.check_texts()?;
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        row.name.clone_from(&input.name);
        Ok(NewRow { row, slug: Slug::Given(input.name) })
    }

    fn patch(row: &mut ResourceRow<Self>, input: LabelPatch, _: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_label_name(&name)?;
            row.slug.clone_from(&name);
            row.name = name;
        }
        if let Some(description) = input.description.or_default() {
            row.doc.description = description;
        }
        if let Some(color_code) = input.color_code.or_default() {
            row.doc.color_code = color_code;
        }
        row.doc.check_texts()
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let shelf = around.workspace(row.workspace)?.shelf();
        let holds = shelf.labels().any(|label| label.id == row.id);
        if row.is_one_too_many(shelf.labels().len(), holds, MOST) {
            return Err(conflict(format!("the workspace has {MOST} labels, which is all that it may have")));
        }
        match shelf.label(&row.slug).filter(|id| *id != row.id) {
            None => Ok(()),
            Some(_) => Err(conflict(format!("a label with the name `{}` already exists", row.name))),
        }
    }

    fn check_unused(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let shelf = around.workspace(row.workspace)?.shelf();
        let users = shelf.prompts().filter(|p| p.editions.labels.contains_key(&row.id));
        let users: Vec<String> = users.take(10).map(|p| format!("`{}`", p.slug)).collect();
        if users.is_empty() {
            return Ok(());
        }
        Err(conflict(format!("the label is on versions of the prompts {}", users.join(", "))))
    }

    fn view(row: &ResourceRow<Self>, _: &AdminCall) -> Value {
        let mut view = row.common("label");
        view.shift_remove("slug");
        view.insert("description".into(), json!(row.doc.description));
        view.insert("color_code".into(), json!(row.doc.color_code));
        view.insert("is_universal".into(), false.into());
        Value::Object(view)
    }

    fn held(workspace: &WorkspaceEntry, slug: &str) -> bool {
        workspace.shelf().label(slug).is_some()
    }

    fn created(row: &ResourceRow<Self>) -> Value {
        json!({"id": row.id})
    }
}

/// What a label says beside its name.
trait Texts {
    fn check_texts(&self) -> Result<(), Problem>;
}

impl Texts for LabelDocument {
    fn check_texts(&self) -> Result<(), Problem> {
        if self.description.chars().count() > 1024 {
            return Err(bad("description", "must be at most 1024 characters"));
        }
        if self.color_code.chars().count() > 32 {
            return Err(bad("color_code", "must be at most 32 characters"));
        }
        Ok(())
    }
}

fn built_in(label: &BuiltInLabel, call: &AdminCall) -> Value {
    json!({
        "id": label.id,
        "object": "label",
        "name": label.name,
        "status": "active",
        "organisation_id": call.actor.org,
        "workspace_id": null,
        "created_at": null,
        "last_updated_at": null,
        "description": "",
        "color_code": label.color_code,
        "is_universal": true,
    })
}

/// Labels for all workspaces are those that are built in.
async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let body = call.body()?;
    if body.0.contains_key("organisation_id") && !body.0.contains_key("workspace_id") && call.actor.workspace.is_none()
    {
        return Err(bad(
            "workspace_id",
            "is required: labels of a whole organisation are not available in this version",
        ));
    }
    let (row, revision) = insert::<LabelDocument>(&call, body).await?;
    Ok(AdminReply::json(LabelDocument::created(&row)).at(revision))
}

fn check_own_organisation(call: &AdminCall) -> Result<(), Problem> {
    match call.query.text("organisation_id") {
        Some(id) if id != call.actor.org.to_string() => Err(crate::problem::missing("organisation")),
        _ => Ok(()),
    }
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    check_own_organisation(&call)?;
    let (snapshot, paging) = (call.snapshot(), call.query.paging()?);
    let home = call.actor.home(&snapshot, call.query.text("workspace_id"))?;
    let search = call.query.text("search");
    let mut rows = collect::<LabelDocument>(&call, everything::<LabelDocument>(&call, Some(Some(home)))).await?;
    rows.retain(|row| is_found(row, search));
    let common = BUILT_IN_LABELS.iter().filter(|l| search.is_none_or(|s| l.name.contains(&s.to_lowercase())));
    let mut data: Vec<Value> = common.map(|label| built_in(label, &call)).collect();
    data.extend(rows.iter().map(|row| LabelDocument::view(row, &call)));
    let total = data.len() as u64;
    Ok(AdminReply::json(LabelDocument::listed(total, paging.cut(&data).to_vec())))
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    check_own_organisation(&call)?;
    let name = call.var("id");
    if let Some(label) = BUILT_IN_LABELS.iter().find(|l| l.name == name || l.id.to_string() == name) {
        return Ok(AdminReply::json(built_in(label, &call)));
    }
    let row = locate::<LabelDocument>(&call, call.query.text("workspace_id"), Action::Read).await?;
    Ok(AdminReply::json(LabelDocument::view(&row, &call)))
}
