//! What an agent's card offers, and what of it is switched off: for everybody at its integration, for the callers of
//! one workspace at its server. Skills are only shown or hidden, since no message names one; capabilities are refused.

use super::{Resource, agent_integration, agent_server, locate};
use crate::change::{Action, WriteView, audit};
use crate::input::{Flag, JsonBody};
use crate::problem::{Problem, bad, missing};
use crate::resource::declared::put;
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::id::AgentIntegrationId;
use gateway_domain::ports::Batch;
use gateway_domain::resource::access::Switches;
use gateway_domain::resource::agent::{AGENT_CAPABILITIES, AgentIntegration, AgentServer};
use gateway_domain::snapshot::AgentUpstream;
use gateway_mcp::a2a::card;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

const LONGEST_ID: usize = 512;
const SKILL: &str = "skill";
const CAPABILITY: &str = "capability";
const NAMES: &str = "must be one of streaming, push_notifications, extended_agent_card";

pub(crate) fn routes() -> Vec<AdminRoute> {
    const SKILLS: &str = "/agent-integrations/{id}/skills";
    const ABLE: &str = "/agent-integrations/{id}/capabilities";
    const OUR_SKILLS: &str = "/agent-servers/{id}/skills";
    const OUR_ABLE: &str = "/agent-servers/{id}/capabilities";
    let (read, update) = (agent_integration::READ, agent_integration::UPDATE);
    let (read_ours, update_ours) = (agent_server::READ, agent_server::UPDATE);
    vec![
        authed(Method::GET, SKILLS, read, "List the skills of an agent", skills::<AgentIntegration>).asks(HERE),
        authed(Method::PUT, SKILLS, update, "Show or hide skills of an agent", set_skills::<AgentIntegration>)
            .takes::<GivenSkills>()
            .asks(HERE),
        authed(Method::GET, ABLE, read, "List what an agent can do", capabilities::<AgentIntegration>).asks(HERE),
        authed(Method::PUT, ABLE, update, "Switch off or on what an agent can do", set_able::<AgentIntegration>)
            .takes::<GivenCapabilities>()
            .asks(HERE),
        authed(Method::GET, OUR_SKILLS, read_ours, "List the skills of an agent here", skills::<AgentServer>)
            .asks(HERE),
        authed(Method::PUT, OUR_SKILLS, update_ours, "Show or hide skills of an agent here", set_skills::<AgentServer>)
            .takes::<GivenSkills>()
            .asks(HERE),
        authed(Method::GET, OUR_ABLE, read_ours, "List what an agent can do here", capabilities::<AgentServer>)
            .asks(HERE),
        authed(
            Method::PUT,
            OUR_ABLE,
            update_ours,
            "Switch off or on what an agent can do here",
            set_able::<AgentServer>,
        )
        .takes::<GivenCapabilities>()
        .asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenSkills {
    skills: Vec<GivenSkill>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenSkill {
    id: String,
    enabled: Flag,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenCapabilities {
    capabilities: Vec<GivenCapability>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenCapability {
    name: String,
    enabled: Flag,
}

/// A resource whose offers are switched.
trait SwitchedAgent: Resource {
    /// Whether what it says counts for one workspace, beside what the integration says for all.
    const IS_SERVER: bool;

    fn switches(&self) -> &Switches;
    fn switches_mut(&mut self) -> &mut Switches;
    fn integration(&self, own: Uuid) -> AgentIntegrationId;
}

impl SwitchedAgent for AgentIntegration {
    const IS_SERVER: bool = false;

    fn switches(&self) -> &Switches {
        &self.capabilities
    }

    fn switches_mut(&mut self) -> &mut Switches {
        &mut self.capabilities
    }

    fn integration(&self, own: Uuid) -> AgentIntegrationId {
        AgentIntegrationId(own)
    }
}

impl SwitchedAgent for AgentServer {
    const IS_SERVER: bool = true;

    fn switches(&self) -> &Switches {
        &self.capabilities
    }

    fn switches_mut(&mut self) -> &mut Switches {
        &mut self.capabilities
    }

    fn integration(&self, _: Uuid) -> AgentIntegrationId {
        self.agent_integration_id
    }
}

/// What is switched, and what it is switched of.
struct AgentSwitches {
    switches: Switches,
    upstream: Arc<AgentUpstream>,
}

async fn switched<R: SwitchedAgent>(call: &AdminCall) -> Result<AgentSwitches, Problem> {
    let row = locate::<R>(call, call.query.text("workspace_id"), Action::Read).await?;
    let snapshot = call.snapshot();
    let upstream = snapshot.agent_upstream(row.doc.integration(row.id)).cloned();
    Ok(AgentSwitches {
        switches: row.doc.switches().clone(),
        upstream: upstream.ok_or_else(|| missing("agent integration"))?,
    })
}

async fn skills<R: SwitchedAgent>(call: AdminCall) -> Result<AdminReply, Problem> {
    let AgentSwitches { switches, upstream } = switched::<R>(&call).await?;
    let found: Vec<&Value> = upstream.card.iter().flat_map(|card| card::skills(card)).collect();
    let view = |id: &str, skill: &Value| {
        let of_integration = upstream.shows(id);
        let enabled = if R::IS_SERVER { switches.allows(SKILL, id) } else { of_integration };
        let mut view = json!({
            "id": id, "name": skill["name"], "description": skill["description"], "tags": skill["tags"],
            "enabled": enabled,
        });
        if R::IS_SERVER {
            view["integration_enabled"] = of_integration.into();
        }
        view
    };
    let id_of = |skill: &&Value| skill["id"].as_str().unwrap_or_default().to_owned();
    let mut data: Vec<Value> = found.iter().map(|skill| view(&id_of(skill), skill)).collect();
    // What was switched and is not in the card, or not yet, reads back as it was written.
    let named = switches.0.get(SKILL).into_iter().flat_map(|names| names.keys());
    let unseen = named.filter(|id| !found.iter().any(|skill| skill["id"] == **id));
    data.extend(unseen.map(|id| view(id, &Value::Null)));
    Ok(AdminReply::json(json!({"object": "list", "total": data.len(), "data": data})))
}

async fn capabilities<R: SwitchedAgent>(call: AdminCall) -> Result<AdminReply, Problem> {
    let AgentSwitches { switches, upstream } = switched::<R>(&call).await?;
    let view = |name: &&str| {
        let of_integration = upstream.allows(name);
        let enabled = if R::IS_SERVER { switches.allows(CAPABILITY, name) } else { of_integration };
        let offered = upstream.card.as_ref().map(|card| card::offers(card, name));
        let mut view = json!({"name": name, "offered": offered, "enabled": enabled});
        if R::IS_SERVER {
            view["integration_enabled"] = of_integration.into();
        }
        view
    };
    let data: Vec<Value> = AGENT_CAPABILITIES.iter().map(view).collect();
    Ok(AdminReply::json(json!({"object": "list", "total": data.len(), "data": data})))
}

async fn set_skills<R: SwitchedAgent>(call: AdminCall) -> Result<AdminReply, Problem> {
    let read = |body: JsonBody| {
        let given: GivenSkills = body.read()?;
        check_skills(&given.skills)?;
        Ok(given.skills.into_iter().map(|one| AgentSwitch { name: one.id, enabled: one.enabled.0 }).collect())
    };
    switch::<R>(&call, SKILL, read).await
}

async fn set_able<R: SwitchedAgent>(call: AdminCall) -> Result<AdminReply, Problem> {
    let read = |body: JsonBody| {
        let given: GivenCapabilities = body.read()?;
        check_capabilities(&given.capabilities)?;
        Ok(given.capabilities.into_iter().map(|one| AgentSwitch { name: one.name, enabled: one.enabled.0 }).collect())
    };
    switch::<R>(&call, CAPABILITY, read).await
}

/// What is switched, whatever it is called in the body.
struct AgentSwitch {
    name: String,
    enabled: bool,
}

/// `read`: a body's entries, which stand in a field that is called by the plural of `kind`.
async fn switch<R: SwitchedAgent>(
    call: &AdminCall,
    kind: &'static str,
    read: fn(JsonBody) -> Result<Vec<AgentSwitch>, Problem>,
) -> Result<AdminReply, Problem> {
    let field = if kind == SKILL { "skills" } else { "capabilities" };
    let seen = call.snapshot().revision;
    let row = locate::<R>(call, call.query.text("workspace_id"), Action::Update).await?;
    let body = call.body()?;
    let noted = body.0.clone();
    let all = read(body)?;
    if all.is_empty() {
        return Err(bad(field, "must hold at least one entry"));
    }
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        let switches = row.doc.switches_mut();
        all.into_iter().for_each(|one| switches.set(kind, one.name, one.enabled));
        check_count(field, switches)?;
        row.touch(call.now);
        let rows = vec![row.stored()?];
        let audit = vec![audit(call, Action::Update, &rows[0], &noted)];
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({"success": true})).at(revision))
}

fn check_count(field: &str, switches: &Switches) -> Result<(), Problem> {
    let is_full = switches.count() > Switches::MOST;
    if is_full { Err(bad(field, format_args!("may be {} in all", Switches::MOST))) } else { Ok(()) }
}

fn check_skills(given: &[GivenSkill]) -> Result<(), Problem> {
    for (at, one) in given.iter().enumerate() {
        if one.id.is_empty() || one.id.len() > LONGEST_ID {
            return Err(bad(format_args!("skills[{at}].id"), format_args!("must have 1..{LONGEST_ID} bytes")));
        }
    }
    Ok(())
}

fn check_capabilities(given: &[GivenCapability]) -> Result<(), Problem> {
    for (at, one) in given.iter().enumerate() {
        if !AGENT_CAPABILITIES.contains(&one.name.as_str()) {
            return Err(bad(format_args!("capabilities[{at}].name"), NAMES));
        }
    }
    Ok(())
}

/// Puts the switches into the fields of a declaration, as a configuration file holds them.
pub(super) fn declare_switches(switches: &Switches, fields: &mut Map<String, Value>) {
    let told = |kind: &str, member: &str| -> Vec<Value> {
        let all = switches.0.get(kind).into_iter().flatten();
        all.map(|(name, on)| json!({member: name, "enabled": on})).collect()
    };
    put(fields, "capabilities", told(CAPABILITY, "name"));
    put(fields, "skills", told(SKILL, "id"));
}

/// Reads the switches that a configuration file declares.
pub(super) fn read_switches(
    capabilities: Option<Vec<GivenCapability>>,
    skills: Option<Vec<GivenSkill>>,
) -> Result<Switches, Problem> {
    let (capabilities, skills) = (capabilities.unwrap_or_default(), skills.unwrap_or_default());
    check_capabilities(&capabilities)?;
    check_skills(&skills)?;
    let mut switches = Switches::default();
    capabilities.into_iter().for_each(|one| switches.set(CAPABILITY, one.name, one.enabled.0));
    skills.into_iter().for_each(|one| switches.set(SKILL, one.id, one.enabled.0));
    check_count("skills", &switches)?;
    Ok(switches)
}
