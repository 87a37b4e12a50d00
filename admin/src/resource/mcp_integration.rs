//! MCP integrations: where an MCP server is and as whom it is called. At organisation level they serve every workspace
//! that is let in; in a workspace, that one. Each is asked what it offers when it is saved and when it is tested.

mod declared;
mod transport;

use super::integration_rows::{self, ActionScopes};
use super::outbound::{self, GivenConfigurations, GivenOutbound, OutboundPatch};
use super::workspace_seats::{self, OpenToWorkspaces};
use super::{NewRow, Resource, ResourceRow, Slug, delete, draft, edit_with, get, locate};
use crate::actor::Actor;
use crate::change::{Action, WriteView, audit};
use crate::input::{Edit, Flag};
use crate::mcp_account::forget_integration;
use crate::mcp_probe::Probed;
use crate::mcp_sync::{McpHealth, ask, health};
use crate::problem::{Problem, bad};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::id::{McpIntegrationId, WorkspaceId};
use gateway_domain::ports::{Batch, Revision};
use gateway_domain::resource::access::{Switches, WorkspaceAccess};
use gateway_domain::resource::mcp::{McpIntegration, McpSync};
use gateway_domain::resource::mcp_definition::{AcceptedTools, NewCapabilities};
use gateway_domain::resource::{Kind, check_name, slugify};
use gateway_domain::scope::Scope;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const LIST: &[Scope] =
    &[Scope::named("organisation_mcp_integrations.list"), Scope::named("workspace_mcp_integrations.list")];
const CREATE: &[Scope] =
    &[Scope::named("organisation_mcp_integrations.create"), Scope::named("workspace_mcp_integrations.create")];
const READ: &[Scope] =
    &[Scope::named("organisation_mcp_integrations.read"), Scope::named("workspace_mcp_integrations.read")];
const UPDATE: &[Scope] =
    &[Scope::named("organisation_mcp_integrations.update"), Scope::named("workspace_mcp_integrations.update")];
const DELETE: &[Scope] =
    &[Scope::named("organisation_mcp_integrations.delete"), Scope::named("workspace_mcp_integrations.delete")];
const SCOPES: ActionScopes = ActionScopes { create: CREATE, read: READ, update: UPDATE, delete: DELETE };

pub(crate) fn routes() -> Vec<AdminRoute> {
    const ALL: &str = "/mcp-integrations";
    const ONE: &str = "/mcp-integrations/{id}";
    const SEATS: &str = "/mcp-integrations/{id}/workspaces";
    vec![
        authed(Method::GET, ALL, LIST, "List MCP integrations of the organisation and the workspace", list).asks(&[
            "type",
            "organisation_id",
            "workspace_id",
            "search",
            "current_page",
            "page_size",
        ]),
        authed(Method::POST, ALL, CREATE, "Connect an MCP server", create)
            .takes::<NewMcpIntegration>()
            .and(&["workspace_id", "organisation_id"]),
        authed(Method::POST, "/mcp-integrations/test", CREATE, "Ask an MCP server that is not saved", try_unsaved)
            .takes::<TriedMcpIntegration>()
            .and(&["workspace_id", "organisation_id"]),
        authed(Method::GET, ONE, READ, "Show an MCP integration by slug or id", get::<McpIntegration>).asks(HERE),
        authed(Method::PUT, ONE, UPDATE, "Change an MCP integration", update)
            .takes::<McpIntegrationPatch>()
            .and(&["workspace_id"])
            .asks(HERE),
        authed(Method::DELETE, ONE, DELETE, "Delete an MCP integration that no server uses", remove).asks(HERE),
        authed(Method::POST, "/mcp-integrations/{id}/test", UPDATE, "Ask an MCP server what it offers", test)
            .asks(HERE),
        authed(
            Method::GET,
            "/mcp-integrations/{id}/metadata",
            READ,
            "Show what an MCP server said of itself",
            metadata,
        )
        .asks(HERE),
        authed(
            Method::GET,
            SEATS,
            READ,
            "List the workspaces that were let in or shut out",
            workspace_seats::list::<McpIntegration>,
        )
        .asks(&["workspace_id", "version"]),
        authed(
            Method::PUT,
            SEATS,
            UPDATE,
            "Let workspaces in or shut them out",
            workspace_seats::set::<McpIntegration>,
        )
        .takes::<workspace_seats::GivenSeats>()
        .asks(HERE),
    ]
}

/// Removes an integration together with the accounts that people connected.
async fn remove(call: AdminCall) -> Result<AdminReply, Problem> {
    let app = call.app.clone();
    let row = locate::<McpIntegration>(&call, call.query.text("workspace_id"), Action::Delete).await?;
    let reply = delete::<McpIntegration>(call).await?;
    forget_integration(&app, McpIntegrationId(row.id)).await?;
    Ok(reply)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMcpIntegration {
    name: String,
    slug: Option<String>,
    description: Option<String>,
    url: String,
    auth_type: String,
    transport: String,
    configurations: Option<GivenConfigurations>,
    #[serde(default)]
    secret_mappings: Edit<Vec<Map<String, Value>>>,
    new_capabilities: Option<String>,
    pin_definitions: Option<Flag>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TriedMcpIntegration {
    url: String,
    auth_type: String,
    transport: String,
    configurations: Option<GivenConfigurations>,
    #[serde(default)]
    secret_mappings: Edit<Vec<Map<String, Value>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpIntegrationPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    description: Edit<String>,
    #[serde(default)]
    url: Edit<String>,
    #[serde(default)]
    auth_type: Edit<String>,
    #[serde(default)]
    transport: Edit<String>,
    #[serde(default)]
    configurations: Edit<GivenConfigurations>,
    #[serde(default)]
    secret_mappings: Edit<Vec<Map<String, Value>>>,
    #[serde(default)]
    new_capabilities: Edit<String>,
    #[serde(default)]
    pin_definitions: Edit<Flag>,
}

impl Resource for McpIntegration {
    const KIND: Kind = Kind::McpIntegration;
    const NOUN: &'static str = "MCP integration";
    const SHARED: bool = true;
    const LEVELS: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = NewMcpIntegration;
    type Patch = McpIntegrationPatch;

    fn create(input: NewMcpIntegration, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        let given = TriedMcpIntegration {
            url: input.url,
            auth_type: input.auth_type,
            transport: input.transport,
            configurations: input.configurations,
            secret_mappings: input.secret_mappings,
        };
        let new_capabilities = input.new_capabilities.as_deref().map(newcomers).transpose()?.unwrap_or_default();
        let pin_definitions = input.pin_definitions.is_some_and(|flag| flag.0);
        let given = document(given, home, call)?;
        let doc = Self { description: input.description, new_capabilities, pin_definitions, ..given };
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        let derived = || Slug::Derived(Some(slugify(&input.name)).filter(|s| !s.is_empty()).unwrap_or("mcp".into()));
        let slug = Slug::given("slug", input.slug)?.unwrap_or_else(derived);
        row.name = input.name;
        Ok(NewRow { row, slug })
    }

    fn patch(row: &mut ResourceRow<Self>, input: McpIntegrationPatch, call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        input.description.onto(&mut row.doc.description);
        if let Some(given) = input.new_capabilities.required("new_capabilities")? {
            row.doc.new_capabilities = newcomers(&given)?;
        }
        if let Some(given) = input.pin_definitions.required("pin_definitions")? {
            row.doc.pin_definitions = given.0;
            row.doc.pin();
        }
        let McpIntegrationPatch { url, auth_type, configurations, secret_mappings, transport: kind, .. } = input;
        transport::change(&mut row.doc, (kind, url), call)?;
        let patch = OutboundPatch { url: Edit::Keep, auth_type, configurations, secret_mappings };
        patch.onto(&mut row.doc.outbound, row.workspace, call)?;
        transport::check_program(&row.doc)
    }

    fn check(_row: &ResourceRow<Self>, _around: &WriteView<'_>) -> Result<(), Problem> {
        Ok(())
    }

    fn check_unused(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let ours = around.snapshot.workspaces().filter(|w| w.org == row.org);
        let users = ours.flat_map(|w| w.mcp_servers().map(move |s| (w, s)));
        let users = users.filter(|(_, server)| server.uses(McpIntegrationId(row.id)));
        integration_rows::refuse_used(Self::NOUN, users.map(|(w, server)| (&*server.slug, &*w.slug)))
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let mut view = brief(row, call);
        view.insert("global_workspace_access".into(), json!({"enabled": workspace_seats::is_global(row)}));
        Value::Object(view)
    }

    fn home(named: Option<WorkspaceId>, _default: WorkspaceId) -> Option<WorkspaceId> {
        named
    }

    /// Those of the organisation ask for the organisation's scope, those of a workspace for either.
    fn allow(row: &ResourceRow<Self>, actor: &Actor, action: Action) -> Result<(), Problem> {
        integration_rows::allow(row, actor, SCOPES.of(action))
    }

    fn mask(body: &mut Map<String, Value>) {
        outbound::settings::blank(body);
    }

    fn forget(&mut self) {
        self.outbound.clear();
        self.sync = McpSync::default();
        self.accepted = AcceptedTools::default();
    }
}

impl OpenToWorkspaces for McpIntegration {
    fn access(&self) -> &WorkspaceAccess {
        &self.access
    }

    fn access_mut(&mut self) -> &mut WorkspaceAccess {
        &mut self.access
    }
}

fn document(
    given: TriedMcpIntegration,
    home: Option<WorkspaceId>,
    call: &AdminCall,
) -> Result<McpIntegration, Problem> {
    let TriedMcpIntegration { url, auth_type, transport: kind, configurations, secret_mappings } = given;
    let kind = transport::read(&kind)?;
    transport::check_url(kind, &url, call)?;
    let outbound = GivenOutbound { url, auth_type, configurations, secret_mappings }.read_beside_url(home, call)?;
    let doc = McpIntegration {
        description: None,
        outbound,
        transport: kind,
        capabilities: Switches::default(),
        access: WorkspaceAccess::default(),
        sync: McpSync::default(),
        new_capabilities: NewCapabilities::default(),
        pin_definitions: false,
        accepted: AcceptedTools::default(),
        rest: Map::new(),
    };
    transport::check_program(&doc)?;
    Ok(doc)
}

fn newcomers(given: &str) -> Result<NewCapabilities, Problem> {
    match given {
        "enabled" => Ok(NewCapabilities::Enabled),
        "disabled" => Ok(NewCapabilities::Disabled),
        _ => Err(bad("new_capabilities", "must be one of enabled, disabled")),
    }
}

fn brief(row: &ResourceRow<McpIntegration>, call: &AdminCall) -> Map<String, Value> {
    let mut view = row.common("mcp_integration");
    let snapshot = call.snapshot();
    let open = snapshot.workspaces().filter(|w| w.org == row.org && row.doc.access.allow(w.id)).count();
    let more = json!({
        "description": row.doc.description,
        "owner_id": row.owner,
        "type": if row.workspace.is_some() { "workspace" } else { "organisation" },
        "transport": row.doc.transport,
        "workspaces_count": if row.workspace.is_none() { open } else { 1 },
        "new_capabilities": row.doc.new_capabilities,
        "pin_definitions": row.doc.pin_definitions,
    });
    view.extend(more.as_object().cloned().unwrap_or_default());
    view.extend(outbound::view(&row.doc.outbound, call));
    view
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    integration_rows::list::<McpIntegration>(call, LIST, |row, call| Value::Object(brief(row, call))).await
}

async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let (mut new, told) = draft::<McpIntegration>(&call, call.body()?)?;
    new.settle(&call).await?;
    let probed = ask(&call.app, new.row.org, None, &new.row.doc).await?;
    learn(&mut new.row.doc, probed, true);
    let decide = |around: &WriteView<'_>| {
        new.enter(around)?;
        let mut rows = vec![new.row.stored()?];
        let audit = vec![audit(&call, Action::Create, &rows[0], &told)];
        rows.extend(outbound::key_for(&new.row.doc.outbound, around)?);
        call.promise(|| McpIntegration::created(&new.row));
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(McpIntegration::created(&new.row)).at(revision))
}

async fn update(call: AdminCall) -> Result<AdminReply, Problem> {
    let body = call.body()?;
    let moved = ["url", "auth_type", "transport", "configurations", "secret_mappings"]
        .iter()
        .any(|field| body.0.contains_key(*field));
    let along = |row: &ResourceRow<McpIntegration>, around: &WriteView<'_>| {
        Ok(outbound::key_for(&row.doc.outbound, around)?.into_iter().collect())
    };
    let (row, mut revision) = edit_with::<McpIntegration, _>(&call, body, along).await?;
    if moved {
        (_, revision) = resync(&call, row).await?;
    }
    Ok(AdminReply::json(json!({})).at(revision))
}

/// Asks it once more, and keeps what it says.
pub(super) async fn resync(call: &AdminCall, row: ResourceRow<McpIntegration>) -> Result<(Value, Revision), Problem> {
    let seen = call.snapshot().revision;
    let probed = ask(&call.app, row.org, Some(McpIntegrationId(row.id)), &row.doc).await?;
    let view = verdict(&probed, &row.doc.outbound.url);
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        let changed = learn(&mut row.doc, probed, false);
        row.touch(call.now);
        let rows = vec![row.stored()?];
        let audit = vec![audit(call, Action::Update, &rows[0], &changes(&changed))];
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok((view, revision))
}

/// A failure keeps what was known before. The answer: tools that are not what was accepted.
fn learn(doc: &mut McpIntegration, probed: Probed, first: bool) -> BTreeSet<String> {
    match probed.told {
        Ok(told) => doc.learn(told, first),
        Err(why) => {
            doc.meet(probed.opened, why);
            BTreeSet::new()
        }
    }
}

/// What the audit trail is told: the tools that are hidden until somebody accepts what they are now.
fn changes(tools: &BTreeSet<String>) -> Map<String, Value> {
    if tools.is_empty() { Map::new() } else { Map::from_iter([("changed_definitions".to_owned(), json!(tools))]) }
}

fn verdict(probed: &Probed, url: &str) -> Value {
    let name = probed.told.as_ref().ok().and_then(|sync| sync.server_name.clone());
    json!({
        "success": probed.told.is_ok(),
        "status_code": probed.status,
        "response_time_ms": probed.millis,
        "url": url,
        "server_name": name.unwrap_or_default(),
        "error": probed.told.as_ref().err(),
    })
}

async fn try_unsaved(call: AdminCall) -> Result<AdminReply, Problem> {
    let mut body = call.body()?;
    let given = body.take_text("workspace_id")?;
    let by_organisation = super::check_organisation(&call, &mut body)?;
    let named = call.actor.named(&call.snapshot(), given.as_deref())?;
    let of_workspace = named.is_some() && !by_organisation;
    call.actor.require(if of_workspace { CREATE } else { &CREATE[..1] })?;
    let doc = document(body.read()?, named.filter(|_| of_workspace), &call)?;
    let probed = ask(&call.app, call.actor.org, None, &doc).await?;
    Ok(AdminReply::json(verdict(&probed, &doc.outbound.url)))
}

async fn test(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<McpIntegration>(&call, call.query.text("workspace_id"), Action::Update).await?;
    let (view, revision) = resync(&call, row).await?;
    Ok(AdminReply::json(view).at(revision))
}

async fn metadata(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<McpIntegration>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let health = health(&call.app, row.org, row.id).await?;
    Ok(AdminReply::json(render_sync(&row.doc.sync, health.as_ref())))
}

/// What was learnt, and how the server fared when it was asked since.
pub(super) fn render_sync(sync: &McpSync, health: Option<&McpHealth>) -> Value {
    let newer = health.filter(|health| health.checked_at > sync.at);
    let fails = newer.is_some_and(|health| health.failures > 0);
    let status = match &*sync.status {
        "" if fails => "failed",
        "ok" if fails => "stale",
        known if fails => known,
        known if newer.is_none() => known,
        _ => "ok",
    };
    let answered = newer.and_then(|health| health.answered_at).max(sync.at);
    json!({
        "server_name": sync.server_name,
        "server_version": sync.server_version,
        "protocol_version": sync.protocol_version,
        "capability_flags": if sync.flags.is_null() { Value::Null } else { sync.flags.clone() },
        "sync_status": Some(status).filter(|status| !status.is_empty()),
        "last_synced_at": answered,
        "sync_error": if newer.is_some() { newer.and_then(|health| health.error.as_ref()) } else { sync.error.as_ref() },
        "last_checked_at": newer.and_then(|health| health.checked_at).max(sync.at),
        "failures_in_a_row": newer.map_or(0, |health| health.failures),
    })
}
