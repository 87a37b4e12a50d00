//! Saved guardrails: what requests and answers are held to, under a `pg-` slug, of a workspace or of the organisation
//! for all its workspaces. Compiled before they are stored, so that none is in force that cannot run.

mod declared;
mod render;
mod scopes;
mod secrets;
mod trial;
mod usage;
mod versions;

pub(crate) use usage::{KnownGuardrails, broken_with};

use super::{NewRow, Resource, ResourceRow, Slug, create, delete, get, searched, update};
use crate::actor::Actor;
use crate::change::{Action, WriteView};
use crate::input::Edit;
use crate::problem::{Problem, bad, bad_guardrail, conflict, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::ResourceQuery;
use gateway_domain::resource::guardrail::GuardrailDocument;
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::snapshot::{Org, WorkspaceEntry};
use gateway_guardrails::definition::{self, CompileContext};
use http::Method;
use render::{render_actions, render_checks};
use scopes::{CREATE, DELETE, LIST, READ, UPDATE};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use usage::credentials_of;
use uuid::Uuid;

/// Ids that a list may be asked for.
const MOST_IDS: usize = 1000;

/// Bytes of the checks and actions of one guardrail.
const LARGEST: usize = 1 << 20;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const ONE: &str = "/guardrails/{id}";
    let own = vec![
        authed(Method::GET, "/guardrails", LIST, "List guardrails of a workspace or of the organisation", list)
            .asks(&["workspace_id", "organisation_id", "ids", "status", "search", "current_page", "page_size"]),
        authed(Method::POST, "/guardrails", CREATE, "Save a guardrail", create::<GuardrailDocument>)
            .takes::<NewGuardrail>()
            .and(&["workspace_id", "organisation_id"]),
        authed(Method::GET, ONE, READ, "Show a guardrail by slug or id", get::<GuardrailDocument>).asks(HERE),
        authed(Method::PUT, ONE, UPDATE, "Change a guardrail, or archive one", update::<GuardrailDocument>)
            .takes::<GuardrailPatch>()
            .and(&["workspace_id"])
            .asks(HERE),
        authed(Method::DELETE, ONE, DELETE, "Delete a guardrail that nothing names", delete::<GuardrailDocument>)
            .asks(HERE),
    ];
    own.into_iter().chain(versions::routes()).chain(trial::routes()).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewGuardrail {
    name: String,
    checks: Value,
    #[serde(default)]
    actions: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuardrailPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    checks: Edit<Value>,
    #[serde(default)]
    actions: Edit<Value>,
    #[serde(default)]
    status: Edit<String>,
}

impl Resource for GuardrailDocument {
    const KIND: Kind = Kind::Guardrail;
    const NOUN: &'static str = "guardrail";
    const SHARED: bool = true;
    const LEVELS: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = NewGuardrail;
    type Patch = GuardrailPatch;

    fn create(input: NewGuardrail, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        check_size(&input.checks, &input.actions)?;
        let sealed = secrets::seal(input.checks, None, &*call.app.vault)?;
        let author = Some(call.actor.key.0);
        let doc = Self {
            checks: sealed.checks,
            actions: some_actions(input.actions),
            secrets: sealed.secrets,
            version_id: call.app.id(),
            updated_by: author,
            rest: Map::new(),
        };
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, author, doc);
        row.name = input.name;
        Ok(NewRow { row, slug: Slug::Derived(format!("pg-{}", call.app.tail::<8>())) })
    }

    fn patch(row: &mut ResourceRow<Self>, input: GuardrailPatch, call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        let (checks, actions) = (input.checks.required("checks")?, input.actions.or_default());
        let changed = checks.is_some() || actions.is_some();
        check_size(checks.as_ref().unwrap_or(&Value::Null), actions.as_ref().unwrap_or(&Value::Null))?;
        if let Some(checks) = checks {
            let sealed = secrets::seal(checks, Some(&row.doc), &*call.app.vault)?;
            (row.doc.checks, row.doc.secrets) = (sealed.checks, sealed.secrets);
        }
        if let Some(actions) = actions {
            row.doc.actions = some_actions(actions);
        }
        if changed {
            row.doc.version_id = call.app.id();
        }
        if let Some(status) = input.status.required("status")? {
            if !matches!(status.as_str(), "active" | "archived") {
                return Err(bad("status", "must be active or archived"));
            }
            row.status = status;
        }
        row.doc.updated_by = Some(call.actor.key.0);
        Ok(())
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let org = around.snapshot.org(row.org).ok_or_else(|| missing("organisation"))?;
        check_runs(&row.slug, &row.doc, org, around)?;
        if row.status == "archived" {
            return Self::check_unused(row, around);
        }
        let most = around.app.quotas.guardrails;
        let all: Vec<Uuid> = match row.workspace {
            Some(_) => around.workspace(row.workspace)?.guardrails().map(|g| g.id.0).collect(),
            None => org.guardrails().map(|g| g.id.0).collect(),
        };
        let held = all.len();
        if row.is_one_too_many(held, all.contains(&row.id), most) {
            let whose = if row.workspace.is_some() { "the workspace" } else { "the organisation" };
            return Err(conflict(format!(
                "{whose} has {held} guardrails, archived ones included, and may have {most}"
            )));
        }
        Ok(())
    }

    fn check_unused(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let mut users = usage::users(row, &around.snapshot);
        if users.is_empty() {
            return Ok(());
        }
        users.truncate(10);
        Err(conflict(format!("the guardrail is used by {}", users.join(", "))))
    }

    fn view(row: &ResourceRow<Self>, _call: &AdminCall) -> Value {
        let mut view = brief(row);
        view.insert("checks".into(), render_checks(&row.doc.checks));
        view.insert("actions".into(), render_actions(&row.doc.actions));
        Value::Object(view)
    }

    /// Each level asks for its own scope.
    fn allow(row: &ResourceRow<Self>, actor: &Actor, action: Action) -> Result<(), Problem> {
        let scopes = match action {
            Action::Create => CREATE,
            Action::Read => READ,
            Action::Update | Action::Publish | Action::Rotate | Action::Warn => UPDATE,
            Action::Delete => DELETE,
        };
        actor.require(if row.workspace.is_some() { &scopes[..1] } else { &scopes[1..] })
    }

    fn held(workspace: &WorkspaceEntry, slug: &str) -> bool {
        workspace.guardrails().any(|g| *g.slug == *slug)
    }

    fn mask(body: &mut Map<String, Value>) {
        if let Some(checks) = body.get_mut("checks") {
            *checks = secrets::blank(checks.take());
        }
    }

    fn forget(&mut self) {
        self.secrets.clear();
    }

    fn version_id(&self) -> Option<Uuid> {
        Some(self.version_id)
    }

    fn created(row: &ResourceRow<Self>) -> Value {
        json!({"id": row.id, "slug": row.slug, "version_id": row.doc.version_id})
    }

    fn updated(row: &ResourceRow<Self>) -> Value {
        Self::created(row)
    }
}

fn check_size(checks: &Value, actions: &Value) -> Result<(), Problem> {
    let bytes = checks.to_string().len() + actions.to_string().len();
    if bytes > LARGEST { Err(bad("checks", format_args!("must have at most {LARGEST} bytes"))) } else { Ok(()) }
}

/// Null is as good as none.
fn some_actions(actions: Value) -> Value {
    if actions.is_null() { json!({}) } else { actions }
}

/// Compiles it as the data plane will; every broken rule names its check and parameter.
fn check_runs(slug: &str, doc: &GuardrailDocument, org: &Org, around: &WriteView<'_>) -> Result<(), Problem> {
    let open = |sealed: &str| around.app.vault.open(sealed).map_err(|_| "cannot be opened".to_owned());
    let checks = doc.opened(&open).map_err(|why| bad("checks", why))?;
    let credentials = |namespace: &str| credentials_of(org, namespace);
    let setup = CompileContext { credentials: &credentials, trusted: &around.app.trusted };
    definition::saved(slug, &checks, &doc.actions, &setup).map(|_| ()).map_err(|problems| bad_guardrail(&problems))
}

fn brief(row: &ResourceRow<GuardrailDocument>) -> Map<String, Value> {
    let mut view = row.common("guardrail");
    view.insert("owner_id".into(), json!(row.owner));
    view.insert("updated_by".into(), json!(row.doc.updated_by));
    view.insert("version_id".into(), json!(row.doc.version_id));
    view
}

/// Lists the guardrails of one level: the organisation's where only that is named.
async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let (workspace, organisation) = (call.query.text("workspace_id"), call.query.text("organisation_id"));
    if organisation.is_some_and(|id| id != call.actor.org.to_string()) {
        return Err(missing("organisation"));
    }
    let shelf = match (workspace, organisation) {
        (None, Some(_)) => {
            call.actor.require(&LIST[1..])?;
            None
        }
        _ => {
            call.actor.require(&LIST[..1])?;
            Some(call.actor.home(&call.snapshot(), workspace)?)
        }
    };
    let paging = call.query.paging()?;
    let status = call.query.one_of("status", &["active", "archived"])?.map(str::to_owned);
    let ids: Vec<Uuid> = call.query.list("ids", "must be comma-separated UUIDs")?;
    if ids.len() > MOST_IDS {
        return Err(bad("ids", format_args!("must hold at most {MOST_IDS} ids")));
    }
    let searched = searched::<GuardrailDocument>(&call, Some(shelf));
    let query = ResourceQuery { ids, status, page: paging.page, page_size: paging.size, ..searched };
    let page = call.app.directory.list(&query).await?;
    let rows: Vec<ResourceRow<GuardrailDocument>> =
        page.rows.iter().map(ResourceRow::read).collect::<Result<_, _>>()?;
    let data = rows.iter().map(|row| Value::Object(brief(row))).collect();
    Ok(AdminReply::json(GuardrailDocument::listed(page.total, data)))
}
