//! Workspaces: what they are called, what they give to the requests and keys in them, and their end. Deleting
//! one takes everything in it along, and asks to be told so.

mod declared;
mod removal;

use super::limits::{self, AllowedLimits, LimitsEdit, LimitsInput};
use super::member::{self, member_of};
use super::organisation::{period, switches};
use super::provider::slug_of;
use super::{NewRow, Resource, ResourceRow, Slug, collect, draft, guardrail, locate, render_rows, searched, update};
use crate::actor::Actor;
use crate::change::{Action, WriteView, audit};
use crate::input::{Edit, Flag, JsonBody};
use crate::problem::{Problem, bad, forbidden, missing};
use crate::resource::api_key::check_metadata;
use crate::resource::export_settings::{self, GivenExportSettings};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::id::{ConfigId, UserId, WorkspaceId};
use gateway_domain::ports::{Batch, Holder, ResourceQuery};
use gateway_domain::resource::limits::ResourceLimits;
use gateway_domain::resource::person::WorkspaceRole;
use gateway_domain::resource::security::Security;
use gateway_domain::resource::workspace::{Workspace, WorkspaceDefaults};
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::Snapshot;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const LIST: &[Scope] = &[Scope::named("workspaces.list")];
    const CREATE: &[Scope] = &[Scope::named("workspaces.create")];
    const READ: &[Scope] = &[Scope::named("workspaces.read")];
    const UPDATE: &[Scope] = &[Scope::named("workspaces.update")];
    const DELETE: &[Scope] = &[Scope::named("workspaces.delete")];
    let at = |all: &'static str, one: &'static str| {
        vec![
            authed(Method::GET, all, LIST, "List the workspaces of the organisation", list).asks(&[
                "search",
                "name",
                "exact_name",
                "status",
                "name_format",
                "current_page",
                "page_size",
            ]),
            authed(Method::POST, all, CREATE, "Make a workspace", create).takes::<NewWorkspace>().and(&["users"]),
            authed(Method::GET, one, READ, "Show a workspace with its members, by slug or id", show)
                .asks(&["name_format"]),
            authed(Method::PUT, one, UPDATE, "Change a workspace", update::<Workspace>).takes::<WorkspacePatch>(),
            authed(Method::DELETE, one, DELETE, "Delete a workspace; with force_delete, all in it", removal::delete)
                .takes::<removal::DeleteWorkspace>(),
        ]
    };
    // Two families of paths are documented for the same resource.
    let both = [at("/admin/workspaces", "/admin/workspaces/{id}"), at("/workspaces", "/workspaces/{id}")];
    both.into_iter().flatten().collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewWorkspace {
    name: String,
    slug: Option<String>,
    description: Option<String>,
    icon: Option<String>,
    defaults: Option<Map<String, Value>>,
    user_api_key_rotation_period: Option<Value>,
    #[serde(default)]
    rate_limits: Edit<LimitsInput>,
    #[serde(default)]
    usage_limits: Edit<LimitsInput>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkspacePatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    description: Edit<String>,
    #[serde(default)]
    icon: Edit<String>,
    #[serde(default)]
    defaults: Edit<Map<String, Value>>,
    #[serde(default)]
    security_settings: Edit<BTreeMap<String, bool>>,
    #[serde(default)]
    export_settings: Edit<GivenExportSettings>,
    #[serde(default)]
    user_api_key_rotation_period: Edit<Value>,
    #[serde(default)]
    rate_limits: Edit<LimitsInput>,
    #[serde(default)]
    usage_limits: Edit<LimitsInput>,
    /// Acted on once the change is stored.
    #[serde(default)]
    reset_usage: Edit<Flag>,
}

/// How many limits of each kind a workspace may have.
const SHAPE: AllowedLimits = AllowedLimits { rates: 10, budgets: 2, seconds: false };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DefaultsPatch {
    #[serde(default)]
    metadata: Edit<BTreeMap<String, String>>,
    #[serde(default)]
    user_api_key_config: Edit<String>,
    #[serde(default)]
    input_guardrails: Edit<Vec<Value>>,
    #[serde(default)]
    output_guardrails: Edit<Vec<Value>>,
}

impl Resource for Workspace {
    const KIND: Kind = Kind::Workspace;
    const NOUN: &'static str = "workspace";
    const SHARED: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = NewWorkspace;
    type Patch = WorkspacePatch;

    fn create(input: NewWorkspace, _home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, None, Some(call.actor.key.0), Self::default());
        row.doc.icon = input.icon.map_or(Ok(None), icon)?;
        row.doc.description = input.description;
        let limits = LimitsEdit { rate_limits: input.rate_limits, usage_limits: input.usage_limits };
        limits.onto("", &mut row.doc.limits, SHAPE, call.now)?;
        if let Some(given) = input.defaults {
            merge(&mut row, given, call)?;
        }
        if let Some(given) = input.user_api_key_rotation_period {
            row.doc.user_api_key_rotation_period = Some(period(given)?);
        }
        let slug = Slug::given("slug", input.slug)?.unwrap_or_else(|| Slug::Derived(slug_of(&input.name, "workspace")));
        row.name = input.name;
        Ok(NewRow { row, slug })
    }

    fn patch(row: &mut ResourceRow<Self>, input: WorkspacePatch, call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        match input.icon {
            Edit::Keep => {}
            Edit::Clear => row.doc.icon = None,
            Edit::Set(given) => row.doc.icon = icon(given)?,
        }
        input.description.onto(&mut row.doc.description);
        if input.reset_usage == Edit::Set(Flag(true)) {
            call.actor.require_limits(false)?;
        }
        let before = row.doc.limits.clone();
        let limits = LimitsEdit { rate_limits: input.rate_limits, usage_limits: input.usage_limits };
        limits.onto("", &mut row.doc.limits, SHAPE, call.now)?;
        // Clients that send back what they read change nothing.
        if row.doc.limits != before {
            call.actor.require_limits(false)?;
        }
        match input.defaults {
            Edit::Keep => {}
            Edit::Clear => row.doc.defaults = WorkspaceDefaults::default(),
            Edit::Set(given) => merge(row, given, call)?,
        }
        match input.security_settings {
            Edit::Keep => {}
            Edit::Clear => row.doc.security_settings = None,
            Edit::Set(given) => row.doc.security_settings = Some(own_security(&given, call)?),
        }
        if let Some(given) = input.export_settings.or_default() {
            let denied = given.fields()?;
            // Nobody opens what is kept from them; clients that send back what they read change nothing.
            if denied != row.doc.denied_log_fields && call.actor.workspace.is_some() {
                return Err(forbidden("only an Admin key changes what is kept from a workspace"));
            }
            row.doc.denied_log_fields = denied;
        }
        match input.user_api_key_rotation_period {
            Edit::Keep => {}
            Edit::Clear => row.doc.user_api_key_rotation_period = None,
            Edit::Set(given) => row.doc.user_api_key_rotation_period = Some(period(given)?),
        }
        Ok(())
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        if let Some(config) = row.doc.defaults.user_api_key_config {
            let here = around.snapshot.workspace(WorkspaceId(row.id));
            if here.is_none_or(|w| w.config(&config.to_string()).is_none()) {
                return Err(no_config(&config.to_string()));
            }
        }
        let org = around.snapshot.org(row.org).ok_or_else(|| missing("organisation"))?;
        let workspace = around.snapshot.workspace(WorkspaceId(row.id)).map(|w| &**w);
        guardrail::KnownGuardrails { org, workspace }.check("defaults.", &row.doc.defaults.guardrails)
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let snapshot = call.snapshot();
        let mut view = row.common("workspace");
        view.shift_remove("workspace_id");
        if call.query.text("name_format") != Some("plain")
            && let Some(icon) = &row.doc.icon
        {
            view.insert("name".into(), format!("{icon} {}", row.name).into());
        }
        let here = snapshot.workspace(WorkspaceId(row.id));
        let config = row.doc.defaults.user_api_key_config.map(|id| id.to_string());
        let config = config.map(|id| here.and_then(|w| w.config(&id)).map_or(id, |c| c.slug.to_string()));
        let is_default = snapshot.org(row.org).is_some_and(|o| o.default_workspace.0 == row.id);
        let more = json!({
            "icon": row.doc.icon,
            "description": row.doc.description,
            "defaults": {
                "object": "workspace",
                "is_default": u8::from(is_default),
                "metadata": row.doc.defaults.metadata,
                "input_guardrails": row.doc.defaults.guardrails.input,
                "output_guardrails": row.doc.defaults.guardrails.output,
                "user_api_key_config": config,
            },
            "usage_limits": limits::views(&row.doc.limits, call.now),
            "rate_limits": row.doc.limits.rate_limits,
            "user_api_key_rotation_period": row.doc.user_api_key_rotation_period,
            "export_settings": export_settings::shown(&row.doc.denied_log_fields),
            "security_settings": here.map_or_else(|| json!(null), |w| json!(snapshot.security(w))),
        });
        view.extend(more.as_object().cloned().unwrap_or_default());
        Value::Object(view)
    }

    fn budgets(row: &ResourceRow<Self>) -> Option<(Holder, &ResourceLimits)> {
        Some((Holder::Workspace(WorkspaceId(row.id)), &row.doc.limits))
    }

    fn home(_named: Option<WorkspaceId>, _default: WorkspaceId) -> Option<WorkspaceId> {
        None
    }

    /// A key of a workspace knows that one only.
    fn allow(row: &ResourceRow<Self>, actor: &Actor, action: Action) -> Result<(), Problem> {
        match actor.workspace {
            Some(own) if action != Action::Create && own.0 != row.id => Err(missing(Self::NOUN)),
            _ => Ok(()),
        }
    }
}

/// All switches, of which those in sections that the organisation keeps closed must be as they are there.
fn own_security(given: &BTreeMap<String, bool>, call: &AdminCall) -> Result<Security, Problem> {
    let own = switches(given, None)?;
    let snapshot = call.snapshot();
    let org = snapshot.org(call.actor.org).ok_or_else(|| missing("organisation"))?;
    match own.closed_change(org.security, &org.overridable) {
        None => Ok(own),
        Some((name, section)) => {
            let rule = format!("cannot be set here: the organisation has not opened the section {section}");
            Err(bad(format_args!("security_settings.{name}"), rule))
        }
    }
}

/// Clients without a null clear it with an empty text.
fn icon(given: String) -> Result<Option<String>, Problem> {
    if given.is_empty() {
        return Ok(None);
    }
    let short = given.chars().count() <= 16 && !given.chars().any(char::is_control);
    if short { Ok(Some(given)) } else { Err(bad("icon", "must be one emoji")) }
}

fn no_config(name: &str) -> Problem {
    bad("defaults.user_api_key_config", format_args!("names `{name}`, which is no config of this workspace"))
}

fn merge(row: &mut ResourceRow<Workspace>, given: Map<String, Value>, call: &AdminCall) -> Result<(), Problem> {
    let mut body = JsonBody(given);
    // Told on every read, so clients send them back.
    body.0.shift_remove("object");
    body.0.shift_remove("is_default");
    let given: DefaultsPatch = body.read_under("defaults.")?;
    if let Some(metadata) = given.metadata.or_default() {
        check_metadata(&metadata)?;
        row.doc.defaults.metadata = metadata;
    }
    let snapshot = call.snapshot();
    let org = snapshot.org(row.org).ok_or_else(|| missing("organisation"))?;
    let known = guardrail::KnownGuardrails { org, workspace: snapshot.workspace(WorkspaceId(row.id)).map(|w| &**w) };
    let lists = &mut row.doc.defaults.guardrails;
    if let Some(given) = given.input_guardrails.or_default() {
        lists.input = known.resolve("defaults.input_guardrails", &given)?;
    }
    if let Some(given) = given.output_guardrails.or_default() {
        lists.output = known.resolve("defaults.output_guardrails", &given)?;
    }
    match given.user_api_key_config {
        Edit::Keep => {}
        Edit::Clear => row.doc.defaults.user_api_key_config = None,
        Edit::Set(name) => {
            let id = config(&snapshot, WorkspaceId(row.id), &name).ok_or_else(|| no_config(&name))?;
            row.doc.defaults.user_api_key_config = Some(id);
        }
    }
    Ok(())
}

/// Finds a config of the workspace by slug or id.
fn config(snapshot: &Snapshot, workspace: WorkspaceId, name: &str) -> Option<ConfigId> {
    snapshot.workspace(workspace)?.config(name).map(|c| c.id)
}

/// The filters look at parts of names, which the store does not: workspaces are few, so they are sifted here.
async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let q = &call.query;
    let paging = q.paging()?;
    let status = q.one_of("status", &["active", "archived"])?;
    q.one_of("name_format", &["plain", "display"])?;
    let part = q.text("name").map(str::to_lowercase);
    let exact = q.text("exact_name");
    // A deleted one is told as archived, until it is forgotten.
    let archived = status == Some("archived");
    let query = ResourceQuery { deleted: archived, ..searched::<Workspace>(&call, None) };
    let mut rows = collect::<Workspace>(&call, query).await?;
    if archived {
        rows.iter_mut().for_each(|r| "archived".clone_into(&mut r.status));
    }
    rows.retain(|r| {
        call.actor.workspace.is_none_or(|own| own.0 == r.id)
            && status.is_none_or(|s| r.status == s)
            && part.as_ref().is_none_or(|p| r.name.to_lowercase().contains(p))
            && exact.is_none_or(|e| r.name == e)
    });
    let data = render_rows(paging.cut(&rows), &call).await?;
    Ok(AdminReply::json(Workspace::listed(rows.len() as u64, data)))
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    call.query.one_of("name_format", &["plain", "display"])?;
    let row = locate::<Workspace>(&call, None, Action::Read).await?;
    let mut view = render_rows(std::slice::from_ref(&row), &call).await?.pop().unwrap_or_default();
    view["users"] = Value::Array(member::views_of(&call, WorkspaceId(row.id)).await?);
    Ok(AdminReply::json(view))
}

async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let mut body = call.body()?;
    if body.0.contains_key("workspace_id") {
        return Err(bad("workspace_id", "is not a known field"));
    }
    let users = users(&mut body)?;
    let (mut new, request) = draft::<Workspace>(&call, body)?;
    new.settle(&call).await?;
    let decide = |around: &WriteView<'_>| {
        new.enter(around)?;
        let mut rows = vec![new.row.stored()?];
        for user in &users {
            rows.push(member_of(&call, around, WorkspaceId(new.row.id), *user, WorkspaceRole::Member)?.stored()?);
        }
        let audit = rows.iter().map(|row| audit(&call, Action::Create, row, &request)).collect();
        call.promise(|| Workspace::view(&new.row, &call));
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(Workspace::view(&new.row, &call)).at(revision))
}

fn users(body: &mut JsonBody) -> Result<Vec<UserId>, Problem> {
    const RULE: &str = "must be an array of user ids";
    let given: Vec<String> = match body.0.shift_remove("users") {
        None | Some(Value::Null) => Vec::new(),
        Some(list) => serde_json::from_value(list).map_err(|_| bad("users", RULE))?,
    };
    let mut ids: Vec<UserId> =
        given.iter().map(|id| id.parse().map_err(|_| bad("users", RULE))).collect::<Result<_, _>>()?;
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}
