//! Agent integrations: where an agent is that speaks A2A, and as whom it is called. At organisation level they serve
//! every workspace that is let in; in a workspace, that one. Each agent is asked for its card when it is saved and when
//! it is tested, unless somebody wrote the card down.

mod declared;
mod fetch;

use super::integration_rows::{self, ActionScopes};
use super::outbound::{self, GivenConfigurations, GivenOutbound, OutboundPatch};
use super::workspace_seats::{self, OpenToWorkspaces};
use super::{NewRow, Resource, ResourceRow, Slug, delete, draft, edit_with, get, locate};
use crate::actor::Actor;
use crate::agent_card::{FoundCard, ask};
use crate::change::{Action, WriteView, audit};
use crate::input::Edit;
use crate::problem::{Problem, bad};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use fetch::CREATE;
use gateway_domain::id::{AgentIntegrationId, WorkspaceId};
use gateway_domain::ports::{Batch, Revision};
use gateway_domain::resource::access::{Switches, WorkspaceAccess};
use gateway_domain::resource::agent::{AgentIntegration, AgentSync};
use gateway_domain::resource::outbound::{OutboundAuth, OutboundSettings};
use gateway_domain::resource::{Kind, check_name, slugify};
use gateway_domain::scope::Scope;
use gateway_mcp::a2a::card::{MOST_CARD, accepted};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const LIST: &[Scope] =
    &[Scope::named("organisation_agent_integrations.list"), Scope::named("workspace_agent_integrations.list")];
pub(super) const READ: &[Scope] =
    &[Scope::named("organisation_agent_integrations.read"), Scope::named("workspace_agent_integrations.read")];
pub(super) const UPDATE: &[Scope] =
    &[Scope::named("organisation_agent_integrations.update"), Scope::named("workspace_agent_integrations.update")];
const DELETE: &[Scope] =
    &[Scope::named("organisation_agent_integrations.delete"), Scope::named("workspace_agent_integrations.delete")];
const SCOPES: ActionScopes = ActionScopes { create: CREATE, read: READ, update: UPDATE, delete: DELETE };

pub(crate) fn routes() -> Vec<AdminRoute> {
    const ALL: &str = "/agent-integrations";
    const ONE: &str = "/agent-integrations/{id}";
    const SEATS: &str = "/agent-integrations/{id}/workspaces";
    const FETCH: &str = "/agent-integrations/fetch-agent-card";
    vec![
        authed(Method::GET, ALL, LIST, "List agent integrations of the organisation and the workspace", list).asks(&[
            "type",
            "organisation_id",
            "workspace_id",
            "search",
            "current_page",
            "page_size",
        ]),
        authed(Method::POST, ALL, CREATE, "Connect an agent", create)
            .takes::<NewAgentIntegration>()
            .and(&["workspace_id", "organisation_id"]),
        authed(Method::POST, FETCH, CREATE, "Fetch the card of an agent that is not saved", fetch::fetch_card)
            .takes::<fetch::AskedCard>()
            .and(&["workspace_id", "organisation_id"]),
        authed(Method::GET, ONE, READ, "Show an agent integration by slug or id", get::<AgentIntegration>).asks(HERE),
        authed(Method::PUT, ONE, UPDATE, "Change an agent integration", update)
            .takes::<AgentIntegrationPatch>()
            .and(&["workspace_id"])
            .asks(HERE),
        authed(
            Method::DELETE,
            ONE,
            DELETE,
            "Delete an agent integration that no agent server uses",
            delete::<AgentIntegration>,
        )
        .asks(HERE),
        authed(Method::POST, "/agent-integrations/{id}/test", UPDATE, "Ask an agent for its card", test).asks(HERE),
        authed(
            Method::GET,
            SEATS,
            READ,
            "List the workspaces that were let in to an agent or shut out",
            workspace_seats::list::<AgentIntegration>,
        )
        .asks(&["workspace_id", "version"]),
        authed(
            Method::PUT,
            SEATS,
            UPDATE,
            "Let workspaces in to an agent or shut them out",
            workspace_seats::set::<AgentIntegration>,
        )
        .takes::<workspace_seats::GivenSeats>()
        .asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAgentIntegration {
    name: String,
    slug: Option<String>,
    description: Option<String>,
    url: String,
    auth_type: String,
    configurations: Option<GivenConfigurations>,
    #[serde(default)]
    secret_mappings: Edit<Vec<Map<String, Value>>>,
    /// Instead of the one that the agent gives.
    agent_card: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentIntegrationPatch {
    #[serde(default)]
    name: Edit<String>,
    #[serde(default)]
    description: Edit<String>,
    #[serde(default)]
    url: Edit<String>,
    #[serde(default)]
    auth_type: Edit<String>,
    #[serde(default)]
    configurations: Edit<GivenConfigurations>,
    #[serde(default)]
    secret_mappings: Edit<Vec<Map<String, Value>>>,
    /// Null: the one that the agent gives.
    #[serde(default)]
    agent_card: Edit<Map<String, Value>>,
}

impl Resource for AgentIntegration {
    const KIND: Kind = Kind::AgentIntegration;
    const NOUN: &'static str = "agent integration";
    const SHARED: bool = true;
    const LEVELS: bool = true;
    const LATER: &'static [&'static str] = &[];
    type Create = NewAgentIntegration;
    type Patch = AgentIntegrationPatch;

    fn create(
        input: NewAgentIntegration,
        home: Option<WorkspaceId>,
        call: &AdminCall,
    ) -> Result<NewRow<Self>, Problem> {
        check_name("name", &input.name)?;
        let NewAgentIntegration { url, auth_type, configurations, secret_mappings, .. } = input;
        let outbound = GivenOutbound { url, auth_type, configurations, secret_mappings }.read(home, call)?;
        check_settings(&outbound)?;
        let agent_card = input.agent_card.map(card).transpose()?;
        let doc = Self {
            description: input.description,
            outbound,
            is_declared: agent_card.is_some(),
            agent_card,
            sync: AgentSync::default(),
            capabilities: Switches::default(),
            access: WorkspaceAccess::default(),
            rest: Map::new(),
        };
        let mut row = ResourceRow::fresh(&call.app, call.actor.org, home, Some(call.actor.key.0), doc);
        let derived = || Slug::Derived(Some(slugify(&input.name)).filter(|s| !s.is_empty()).unwrap_or("agent".into()));
        let slug = Slug::given("slug", input.slug)?.unwrap_or_else(derived);
        row.name = input.name;
        Ok(NewRow { row, slug })
    }

    fn patch(row: &mut ResourceRow<Self>, input: AgentIntegrationPatch, call: &AdminCall) -> Result<(), Problem> {
        if let Some(name) = input.name.required("name")? {
            check_name("name", &name)?;
            row.name = name;
        }
        input.description.onto(&mut row.doc.description);
        match input.agent_card {
            Edit::Keep => {}
            Edit::Clear => row.doc.is_declared = false,
            Edit::Set(given) => {
                row.doc.agent_card = Some(card(given)?);
                (row.doc.is_declared, row.doc.sync) = (true, AgentSync::default());
            }
        }
        let AgentIntegrationPatch { url, auth_type, configurations, secret_mappings, .. } = input;
        let patch = OutboundPatch { url, auth_type, configurations, secret_mappings };
        patch.onto(&mut row.doc.outbound, row.workspace, call)?;
        check_settings(&row.doc.outbound)
    }

    fn check(_row: &ResourceRow<Self>, _around: &WriteView<'_>) -> Result<(), Problem> {
        Ok(())
    }

    fn check_unused(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let ours = around.snapshot.workspaces().filter(|w| w.org == row.org);
        let users = ours.flat_map(|w| w.agents().map(move |agent| (w, agent)));
        let users = users.filter(|(_, agent)| agent.integration == AgentIntegrationId(row.id));
        integration_rows::refuse_used(Self::NOUN, users.map(|(w, agent)| (&*agent.slug, &*w.slug)))
    }

    fn view(row: &ResourceRow<Self>, call: &AdminCall) -> Value {
        let mut view = brief(row, call);
        view["global_workspace_access"] = json!({"enabled": workspace_seats::is_global(row)});
        view
    }

    fn home(named: Option<WorkspaceId>, _default: WorkspaceId) -> Option<WorkspaceId> {
        named
    }

    fn allow(row: &ResourceRow<Self>, actor: &Actor, action: Action) -> Result<(), Problem> {
        integration_rows::allow(row, actor, SCOPES.of(action))
    }

    fn mask(body: &mut Map<String, Value>) {
        outbound::settings::blank(body);
        fetch::blank(body);
    }

    fn forget(&mut self) {
        self.outbound.clear();
        self.agent_card = None;
        self.sync = AgentSync::default();
    }
}

impl OpenToWorkspaces for AgentIntegration {
    fn access(&self) -> &WorkspaceAccess {
        &self.access
    }

    fn access_mut(&mut self) -> &mut WorkspaceAccess {
        &mut self.access
    }
}

/// A card that somebody wrote.
fn card(given: Map<String, Value>) -> Result<Value, Problem> {
    let given = Value::Object(given);
    if given.to_string().len() > MOST_CARD {
        return Err(bad("agent_card", format_args!("must be at most {MOST_CARD} bytes")));
    }
    accepted(given).map_err(|rule| bad("agent_card", rule))
}

fn check_settings(outbound: &OutboundSettings) -> Result<(), Problem> {
    if outbound.auth_type == OutboundAuth::OauthAuto {
        return Err(bad("auth_type", "`oauth_auto` is for MCP servers"));
    }
    if outbound.external_auth_config.is_some() {
        return Err(bad("configurations.external_auth_config", "is for MCP servers"));
    }
    let has_tools = !outbound.pricing.tools.is_empty();
    if has_tools { Err(bad("configurations.pricing.tools", "are of MCP servers; agents have none")) } else { Ok(()) }
}

fn brief(row: &ResourceRow<AgentIntegration>, call: &AdminCall) -> Value {
    let mut view = row.common("agent_integration");
    let (doc, snapshot) = (&row.doc, call.snapshot());
    let open = snapshot.workspaces().filter(|w| w.org == row.org && doc.access.allow(w.id)).count();
    let more = json!({
        "description": doc.description,
        "owner_id": row.owner,
        "type": if row.workspace.is_some() { "workspace" } else { "organisation" },
        "workspaces_count": if row.workspace.is_none() { open } else { 1 },
        "agent_card": doc.agent_card,
        "agent_card_source": if doc.is_declared { "declared" } else { "agent" },
        "sync_status": Some(&doc.sync.status).filter(|status| !status.is_empty()),
        "last_synced_at": doc.sync.at,
        "sync_error": doc.sync.error,
    });
    view.extend(more.as_object().cloned().unwrap_or_default());
    view.extend(outbound::view(&doc.outbound, call));
    Value::Object(view)
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    integration_rows::list::<AgentIntegration>(call, LIST, brief).await
}

async fn create(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let (mut new, told) = draft::<AgentIntegration>(&call, call.body()?)?;
    new.settle(&call).await?;
    if !new.row.doc.is_declared {
        let found = ask(&call.app, new.row.org, &new.row.doc.outbound).await?;
        new.row.doc.learn(found.card, call.now);
    }
    let decide = |around: &WriteView<'_>| {
        new.enter(around)?;
        let mut rows = vec![new.row.stored()?];
        let audit = vec![audit(&call, Action::Create, &rows[0], &told)];
        rows.extend(outbound::key_for(&new.row.doc.outbound, around)?);
        call.promise(|| AgentIntegration::created(&new.row));
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(AgentIntegration::created(&new.row)).at(revision))
}

async fn update(call: AdminCall) -> Result<AdminReply, Problem> {
    let body = call.body()?;
    let moved = ["url", "auth_type", "configurations", "secret_mappings", "agent_card"]
        .iter()
        .any(|field| body.0.contains_key(*field));
    let along = |row: &ResourceRow<AgentIntegration>, around: &WriteView<'_>| {
        Ok(outbound::key_for(&row.doc.outbound, around)?.into_iter().collect())
    };
    let (row, mut revision) = edit_with::<AgentIntegration, _>(&call, body, along).await?;
    if moved && !row.doc.is_declared {
        (_, revision) = resync(&call, row).await?;
    }
    Ok(AdminReply::json(json!({})).at(revision))
}

/// Asks it once more, and keeps what it says.
async fn resync(call: &AdminCall, row: ResourceRow<AgentIntegration>) -> Result<(Value, Revision), Problem> {
    let seen = call.snapshot().revision;
    let found = ask(&call.app, row.org, &row.doc.outbound).await?;
    let view = verdict(&found, &row.doc.outbound.url);
    if row.doc.is_declared {
        return Ok((view, seen));
    }
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        row.doc.learn(found.card, call.now);
        row.touch(call.now);
        let rows = vec![row.stored()?];
        let audit = vec![audit(call, Action::Update, &rows[0], &Map::new())];
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok((view, revision))
}

fn verdict(found: &FoundCard, url: &str) -> Value {
    json!({
        "success": found.card.is_ok(),
        "status_code": found.status,
        "response_time_ms": found.millis,
        "url": url,
        "agent_name": found.card.as_ref().map_or("", |card| card["name"].as_str().unwrap_or_default()),
        "error": found.card.as_ref().err(),
    })
}

async fn test(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<AgentIntegration>(&call, call.query.text("workspace_id"), Action::Update).await?;
    let (view, revision) = resync(&call, row).await?;
    Ok(AdminReply::json(view).at(revision))
}
