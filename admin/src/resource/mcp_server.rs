//! MCP servers: a workspace's names for what its MCP integrations and the organisation's lead to, under `/{slug}/mcp`
//! on the proxy port, and who may use them.

mod connections;
mod declared;
mod members;

use super::mcp_integration::{render_sync, resync};
use super::server_rows::{self, check_description, slug_of};
use super::user_access::{self, OpenToUsers};
use super::{NewRow, Resource, ResourceRow, create, delete, get, locate, mcp_grants, update};
use crate::change::{Action, WriteView};
use crate::input::Edit;
use crate::mcp_sync::health;
use crate::problem::{Problem, bad, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::id::{McpIntegrationId, WorkspaceId};
use gateway_domain::resource::access::{Switches, UserAccess};
use gateway_domain::resource::mcp::{McpIntegration, McpServer, McpSync};
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::{McpBehind, McpUpstream, WorkspaceEntry};
use http::Method;
use members::{GivenMember, MemberSync};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

const LIST: &[Scope] = &[Scope::named("mcp_servers.list")];
const CREATE: &[Scope] = &[Scope::named("mcp_servers.create")];
const READ: &[Scope] = &[Scope::named("mcp_servers.read")];
const UPDATE: &[Scope] = &[Scope::named("mcp_servers.update")];
const DELETE: &[Scope] = &[Scope::named("mcp_servers.delete")];

pub(crate) fn routes() -> Vec<AdminRoute> {
    const ALL: &str = "/mcp-servers";
    const ONE: &str = "/mcp-servers/{id}";
    const USERS: &str = "/mcp-servers/{id}/user-access";
    const LINKS: &str = "/mcp-servers/{id}/connections";
    vec![
        authed(Method::GET, ALL, LIST, "List the MCP servers of a workspace", list).asks(&[
            "workspace_id",
            "id",
            "search",
            "current_page",
            "page_size",
        ]),
        authed(Method::POST, ALL, CREATE, "Give a workspace an MCP server", create::<McpServer>)
            .takes::<NewMcpServer>()
            .and(&["workspace_id"]),
        authed(Method::GET, ONE, READ, "Show an MCP server by slug or id", get::<McpServer>).asks(HERE),
        authed(Method::PUT, ONE, UPDATE, "Rename an MCP server", update::<McpServer>)
            .takes::<McpServerPatch>()
            .and(&["workspace_id"])
            .asks(HERE),
        authed(Method::DELETE, ONE, DELETE, "Take an MCP server away", remove).asks(HERE),
        authed(Method::POST, "/mcp-servers/{id}/test", UPDATE, "Ask an MCP server what it offers", test).asks(HERE),
        authed(Method::GET, "/mcp-servers/{id}/metadata", READ, "Show what an MCP server said of itself", metadata)
            .asks(HERE),
        authed(Method::GET, USERS, READ, "List who may use an MCP server", users).asks(&[
            "workspace_id",
            "search",
            "page",
            "page_size",
        ]),
        authed(Method::PUT, USERS, UPDATE, "Say who may use an MCP server", user_access::set::<McpServer>)
            .takes::<user_access::GivenUsers>()
            .asks(HERE),
        authed(Method::GET, LINKS, READ, "List accounts that people connected", connections::list).asks(&[
            "workspace_id",
            "user_id",
            "current_page",
            "page_size",
        ]),
        authed(Method::DELETE, LINKS, UPDATE, "Disconnect accounts of people", connections::end)
            .asks(&["workspace_id", "user_id"]),
    ]
}

async fn remove(call: AdminCall) -> Result<AdminReply, Problem> {
    mcp_grants::end_with_server(&call).await?;
    delete::<McpServer>(call).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMcpServer {
    name: String,
    slug: Option<String>,
    description: Option<String>,
    mcp_integration_id: Option<String>,
    /// Instead of an integration: servers that are shown as one.
    members: Option<Vec<GivenMember>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct McpServerPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    description: Edit<String>,
    #[serde(default)]
    members: Edit<Vec<GivenMember>>,
}

impl Resource for McpServer {
    const KIND: Kind = Kind::McpServer;
    const NOUN: &'static str = "MCP server";
    const LATER: &'static [&'static str] = &[];
    type Create = NewMcpServer;
    type Patch = McpServerPatch;

    fn create(input: NewMcpServer, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        check_description(input.description.as_deref())?;
        let (integration, members) = match (input.mcp_integration_id, input.members) {
            (Some(named), None) => (Some(integration_of(&named, call)?), Vec::new()),
            (None, Some(given)) => (None, members::named(given, home, call)?),
            (None, None) => return Err(bad("mcp_integration_id", "is required where there are no members")),
            (Some(_), Some(_)) => return Err(bad("members", "cannot stand beside mcp_integration_id")),
        };
        let doc = Self {
            mcp_integration_id: integration,
            members,
            description: input.description,
            capabilities: Switches::default(),
            user_access: UserAccess::default(),
            rest: Map::new(),
        };
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        let slug = slug_of(input.slug, "server", &input.name)?;
        row.name = input.name;
        Ok(NewRow { row, slug })
    }

    fn patch(row: &mut ResourceRow<Self>, input: McpServerPatch, call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        if let Edit::Set(text) = &input.description {
            check_description(Some(text))?;
        }
        input.description.onto(&mut row.doc.description);
        if let Some(given) = input.members.required("members")? {
            if row.doc.mcp_integration_id.is_some() {
                return Err(bad("members", "belong to a server that is made of others"));
            }
            row.doc.members = members::named(given, row.workspace, call)?;
        }
        Ok(())
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let Some(integration) = row.doc.mcp_integration_id else { return members::check(row, around) };
        let upstream = around.snapshot.mcp_upstream(integration).filter(|u| u.org == row.org);
        let open = |u: &&Arc<McpUpstream>| row.workspace.is_some_and(|w| u.open_to(w));
        if row.is_new() && upstream.filter(open).is_none() {
            return Err(bad("mcp_integration_id", "names no MCP integration that this workspace may use"));
        }
        Ok(())
    }

    fn check_unused(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        members::check_unused(row, around)
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        Value::Object(shown(row, call))
    }

    fn held(workspace: &WorkspaceEntry, slug: &str) -> bool {
        workspace.mcp_server(slug).is_some_and(|server| *server.slug == *slug)
    }
}

/// Finds an MCP integration by slug or id.
fn integration_of(named: &str, call: &AdminCall) -> Result<McpIntegrationId, Problem> {
    let snapshot = call.snapshot();
    let id = Uuid::parse_str(named).ok();
    let mut all = snapshot.mcp_upstreams().filter(|u| u.org == call.actor.org);
    let found = all.find(|u| if let Some(id) = id { u.id.0 == id } else { &*u.slug == named });
    Ok(found.ok_or_else(|| bad("mcp_integration_id", "names no MCP integration"))?.id)
}

/// What a server said when it was last asked; of one that is made of others, what those said.
pub(super) async fn known(call: &AdminCall, row: &ResourceRow<McpServer>) -> Result<McpSync, Problem> {
    if let Some(id) = row.doc.mcp_integration_id {
        return Ok(behind(call, id).await?.doc.sync);
    }
    let snapshot = call.snapshot();
    let workspace = row.workspace.and_then(|id| snapshot.workspace(id)).ok_or_else(|| missing("workspace"))?;
    let mut all = Vec::new();
    for member in &row.doc.members {
        let Some(server) = workspace.mcp_server_of(member.mcp_server_id) else { continue };
        let McpBehind::Integration(id) = server.behind else { continue };
        let prefix = member.prefix.clone().unwrap_or_else(|| server.slug.to_string());
        all.push(MemberSync { prefix, sync: behind(call, id).await?.doc.sync });
    }
    Ok(members::joined(&row.name, all))
}

fn shown(row: &ResourceRow<McpServer>, call: &AdminCall) -> Map<String, Value> {
    let mut view = row.common("mcp_server");
    let snapshot = call.snapshot();
    let upstream = row.doc.mcp_integration_id.and_then(|id| snapshot.mcp_upstream(id));
    let workspace = row.workspace.and_then(|id| snapshot.workspace(id));
    let details = upstream.map(|u| {
        json!({
            "id": u.id, "slug": u.slug, "status": if u.active { "active" } else { "archived" }, "url": u.url,
            "transport": "http", "auth_type": u.auth, "configurations": {},
        })
    });
    let base = call.app.public_url.as_deref();
    let more = json!({
        "description": row.doc.description,
        "owner_id": row.owner,
        "mcp_integration_id": row.doc.mcp_integration_id,
        "mcp_integration_slug": upstream.map(|u| &u.slug),
        "mcp_integration_url": upstream.map(|u| &u.url),
        "auth_type": upstream.map(|u| u.auth),
        "workspace_name": workspace.map(|w| &w.name),
        "workspace_slug": workspace.map(|w| &w.slug),
        "url": base.map(|base| format!("{base}/{}/mcp", row.slug)),
        "mcp_integration_details": details,
        "members": members::shown(row, call),
    });
    view.extend(more.as_object().cloned().unwrap_or_default());
    view
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    server_rows::list::<McpServer>(call).await
}

/// The integration behind the server that the path names.
async fn integration(call: &AdminCall, action: Action) -> Result<ResourceRow<McpIntegration>, Problem> {
    let server = locate::<McpServer>(call, call.query.text("workspace_id"), action).await?;
    let id = server.doc.mcp_integration_id.ok_or_else(|| bad("id", "names a server that is made of others"))?;
    behind(call, id).await
}

async fn behind(call: &AdminCall, id: McpIntegrationId) -> Result<ResourceRow<McpIntegration>, Problem> {
    let id = id.0.to_string();
    let found = call.app.directory.get(Kind::McpIntegration, call.actor.org, None, &id).await?;
    ResourceRow::read(&found.ok_or_else(|| missing("MCP integration"))?)
}

async fn test(call: AdminCall) -> Result<AdminReply, Problem> {
    let (view, revision) = resync(&call, integration(&call, Action::Update).await?).await?;
    Ok(AdminReply::json(view).at(revision))
}

async fn metadata(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<McpServer>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let health = match row.doc.mcp_integration_id {
        Some(id) => health(&call.app, row.org, id.0).await?,
        None => None,
    };
    Ok(AdminReply::json(render_sync(&known(&call, &row).await?, health.as_ref())))
}

impl OpenToUsers for McpServer {
    const HAS_CONNECTIONS: bool = true;

    fn user_access(&self) -> &UserAccess {
        &self.user_access
    }

    fn user_access_mut(&mut self) -> &mut UserAccess {
        &mut self.user_access
    }
}

/// Lists the users of a server, and tells which of them have an account where one is needed.
async fn users(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<McpServer>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let connected = connections::connected(&call, &row).await?;
    user_access::list_with::<McpServer>(call, &connected).await
}
