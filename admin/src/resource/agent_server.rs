//! Agent servers: a workspace's names for agents that its integrations and the organisation's lead to, under
//! `/v1/agent/{slug}` on the proxy port, and who may use them.

mod declared;

use super::server_rows::{self, check_description, slug_of};
use super::user_access::{self, OpenToUsers};
use super::{NewRow, Resource, ResourceRow, create, delete, get, locate, update};
use crate::agent_card::public_agent_card;
use crate::change::{Action, WriteView};
use crate::input::Edit;
use crate::problem::{Problem, bad, missing};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::id::{AgentIntegrationId, WorkspaceId};
use gateway_domain::resource::access::{Switches, UserAccess};
use gateway_domain::resource::agent::AgentServer;
use gateway_domain::resource::{Kind, check_name};
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::{AgentUpstream, WorkspaceEntry};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

const LIST: &[Scope] = &[Scope::named("agent_servers.list")];
const CREATE: &[Scope] = &[Scope::named("agent_servers.create")];
pub(super) const READ: &[Scope] = &[Scope::named("agent_servers.read")];
pub(super) const UPDATE: &[Scope] = &[Scope::named("agent_servers.update")];
const DELETE: &[Scope] = &[Scope::named("agent_servers.delete")];

pub(crate) fn routes() -> Vec<AdminRoute> {
    const ALL: &str = "/agent-servers";
    const ONE: &str = "/agent-servers/{id}";
    const USERS: &str = "/agent-servers/{id}/user-access";
    vec![
        authed(Method::GET, ALL, LIST, "List the agent servers of a workspace", server_rows::list::<AgentServer>)
            .asks(&["workspace_id", "id", "search", "current_page", "page_size"]),
        authed(Method::POST, ALL, CREATE, "Give a workspace an agent", create::<AgentServer>)
            .takes::<NewAgentServer>()
            .and(&["workspace_id"]),
        authed(Method::GET, ONE, READ, "Show an agent server by slug or id", get::<AgentServer>).asks(HERE),
        authed(Method::PUT, ONE, UPDATE, "Rename an agent server", update::<AgentServer>)
            .takes::<AgentServerPatch>()
            .and(&["workspace_id"])
            .asks(HERE),
        authed(Method::DELETE, ONE, DELETE, "Take an agent server away", delete::<AgentServer>).asks(HERE),
        authed(Method::GET, "/agent-servers/{id}/agent-card", READ, "Show the card that clients of an agent see", card)
            .asks(HERE),
        authed(Method::GET, USERS, READ, "List who may use an agent", user_access::list::<AgentServer>).asks(&[
            "workspace_id",
            "search",
            "page",
            "page_size",
        ]),
        authed(Method::PUT, USERS, UPDATE, "Say who may use an agent", user_access::set::<AgentServer>)
            .takes::<user_access::GivenUsers>()
            .asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAgentServer {
    name: String,
    slug: Option<String>,
    description: Option<String>,
    agent_integration_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentServerPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    description: Edit<String>,
}

impl Resource for AgentServer {
    const KIND: Kind = Kind::AgentServer;
    const NOUN: &'static str = "agent server";
    const LATER: &'static [&'static str] = &[];
    type Create = NewAgentServer;
    type Patch = AgentServerPatch;

    fn create(input: NewAgentServer, home: Option<WorkspaceId>, call: &AdminCall) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        check_description(input.description.as_deref())?;
        let doc = Self {
            agent_integration_id: integration_of(&input.agent_integration_id, call)?,
            description: input.description,
            capabilities: Switches::default(),
            user_access: UserAccess::default(),
            rest: Map::new(),
        };
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        let slug = slug_of(input.slug, "agent", &input.name)?;
        row.name = input.name;
        Ok(NewRow { row, slug })
    }

    fn patch(row: &mut ResourceRow<Self>, input: AgentServerPatch, _: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        if let Edit::Set(text) = &input.description {
            check_description(Some(text))?;
        }
        input.description.onto(&mut row.doc.description);
        Ok(())
    }

    fn check(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let upstream = around.snapshot.agent_upstream(row.doc.agent_integration_id).filter(|u| u.org == row.org);
        let open = |u: &&Arc<AgentUpstream>| row.workspace.is_some_and(|w| u.open_to(w));
        if row.is_new() && upstream.filter(open).is_none() {
            return Err(bad("agent_integration_id", "names no agent integration that this workspace may use"));
        }
        Ok(())
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let mut view = row.common("agent_server");
        let snapshot = call.snapshot();
        let upstream = snapshot.agent_upstream(row.doc.agent_integration_id);
        let workspace = row.workspace.and_then(|id| snapshot.workspace(id));
        let details = upstream.map(|u| {
            json!({
                "id": u.id, "slug": u.slug, "status": if u.active { "active" } else { "archived" }, "url": u.url,
                "auth_type": u.auth, "configurations": {},
            })
        });
        let base = call.app.public_url.as_deref();
        let more = json!({
            "description": row.doc.description,
            "owner_id": row.owner,
            "agent_integration_id": row.doc.agent_integration_id,
            "agent_integration_slug": upstream.map(|u| &u.slug),
            "agent_integration_url": upstream.map(|u| &u.url),
            "auth_type": upstream.map(|u| u.auth),
            "workspace_name": workspace.map(|w| &w.name),
            "workspace_slug": workspace.map(|w| &w.slug),
            "url": base.map(|base| format!("{base}/v1/agent/{}", row.slug)),
            "agent_integration_details": details,
        });
        view.extend(more.as_object().cloned().unwrap_or_default());
        Value::Object(view)
    }

    fn held(workspace: &WorkspaceEntry, slug: &str) -> bool {
        workspace.agent(slug).is_some_and(|agent| *agent.slug == *slug)
    }
}

impl OpenToUsers for AgentServer {
    const HAS_CONNECTIONS: bool = false;

    fn user_access(&self) -> &UserAccess {
        &self.user_access
    }

    fn user_access_mut(&mut self) -> &mut UserAccess {
        &mut self.user_access
    }
}

/// Finds an agent integration by slug or id.
fn integration_of(named: &str, call: &AdminCall) -> Result<AgentIntegrationId, Problem> {
    let snapshot = call.snapshot();
    let id = Uuid::parse_str(named).ok();
    let mut all = snapshot.agent_upstreams().filter(|u| u.org == call.actor.org);
    let found = all.find(|u| if let Some(id) = id { u.id.0 == id } else { &*u.slug == named });
    Ok(found.ok_or_else(|| bad("agent_integration_id", "names no agent integration"))?.id)
}

/// Shows the agent's public card, the one that clients get on the proxy port.
async fn card(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<AgentServer>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let snapshot = call.snapshot();
    let agent = row.workspace.and_then(|id| snapshot.workspace(id)?.agent(&row.id.to_string()).cloned());
    let upstream = snapshot.agent_upstream(row.doc.agent_integration_id);
    let base = call.app.public_url.as_deref().ok_or_else(|| missing("agent card without --public-url"))?;
    let told = agent.zip(upstream).and_then(|(agent, upstream)| public_agent_card(&agent, upstream, base));
    Ok(AdminReply::json(told.ok_or_else(|| missing("agent card"))?))
}
