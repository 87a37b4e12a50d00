//! What an MCP server offers, and what of it is switched off: for everybody at its integration, for the callers of one
//! workspace at its server.

use super::{Resource, ResourceRow, locate, mcp_server};
use crate::change::{Action, WriteView, audit};
use crate::input::Flag;
use crate::problem::{Problem, bad};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::ports::Batch;
use gateway_domain::resource::Kind;
use gateway_domain::resource::access::Switches;
use gateway_domain::resource::mcp::{McpIntegration, McpServer, McpSync};
use gateway_domain::resource::mcp_definition::{AcceptedTools, digest};
use gateway_domain::scope::Scope;
use gateway_domain::time::Timestamp;
use gateway_mcp::filter::McpKind;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const READ: &[Scope] =
    &[Scope::named("organisation_mcp_integrations.read"), Scope::named("workspace_mcp_integrations.read")];
const UPDATE: &[Scope] =
    &[Scope::named("organisation_mcp_integrations.update"), Scope::named("workspace_mcp_integrations.update")];
const READ_SERVER: &[Scope] = &[Scope::named("mcp_servers.read")];
const UPDATE_SERVER: &[Scope] = &[Scope::named("mcp_servers.update")];

const MOST_ROWS: u64 = 500;
const LONGEST_NAME: usize = 2048;
const KINDS: &str = "must be one of tool, prompt, resource, resource_template";

pub(crate) fn routes() -> Vec<AdminRoute> {
    const ALL: &str = "/mcp-integrations/{id}/capabilities";
    const OURS: &str = "/mcp-servers/{id}/capabilities";
    const ASKED: &[&str] = &["workspace_id", "type", "page", "page_size"];
    vec![
        authed(Method::GET, ALL, READ, "List what an MCP server offers", list).asks(ASKED),
        authed(Method::PUT, ALL, UPDATE, "Switch off or on what an MCP server offers", switch::<McpIntegration>)
            .takes::<GivenSwitches>()
            .asks(HERE),
        authed(Method::GET, OURS, READ_SERVER, "List what an MCP server offers here", list_of_server).asks(ASKED),
        authed(
            Method::PUT,
            OURS,
            UPDATE_SERVER,
            "Switch off or on what an MCP server offers here",
            switch::<McpServer>,
        )
        .takes::<GivenSwitches>()
        .asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenSwitches {
    capabilities: Vec<GivenSwitch>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenSwitch {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    enabled: Flag,
    /// The digest of a tool's present definition, by which it is accepted; only where definitions of tools are pinned.
    accept_definition: Option<String>,
}

/// A resource whose offers are switched.
trait Switched: Resource {
    fn switches(&mut self) -> &mut Switches;

    /// Takes a tool for what it was found to be, if that is what the digest stands for.
    fn accept(&mut self, tool: &str, digest: &str) -> Result<(), &'static str>;
}

impl Switched for McpIntegration {
    fn switches(&mut self) -> &mut Switches {
        &mut self.capabilities
    }

    fn accept(&mut self, tool: &str, given: &str) -> Result<(), &'static str> {
        if !self.pin_definitions {
            return Err("is for integrations with pin_definitions");
        }
        let items = self.sync.items.get("tool").map(Vec::as_slice).unwrap_or_default();
        let found = items.iter().find(|item| item["name"] == tool).map(digest);
        let found = found.filter(|found| found == given);
        let found = found.ok_or("is not the definition_digest that the tool was last found with")?;
        self.accepted.0.insert(tool.to_owned(), found);
        Ok(())
    }
}

impl Switched for McpServer {
    fn switches(&mut self) -> &mut Switches {
        &mut self.capabilities
    }

    fn accept(&mut self, _: &str, _: &str) -> Result<(), &'static str> {
        Err("is for integrations: a tool is accepted for all who use it")
    }
}

/// What was found at an MCP server, and the switches that are shown beside it.
struct ShownOffers<'a> {
    sync: &'a McpSync,
    integration: &'a Switches,
    /// The switches of the server; `None`: the question is about the integration.
    server: Option<&'a Switches>,
    /// `None`: definitions are not pinned, or not told of here.
    accepted: Option<&'a AcceptedTools>,
    since: Timestamp,
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<McpIntegration>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let (sync, integration) = (&row.doc.sync, &row.doc.capabilities);
    let accepted = row.doc.pin_definitions.then_some(&row.doc.accepted);
    list_offers(&call, &ShownOffers { sync, integration, server: None, accepted, since: row.created_at })
}

async fn list_of_server(call: AdminCall) -> Result<AdminReply, Problem> {
    let server = locate::<McpServer>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let switches = match server.doc.mcp_integration_id {
        Some(id) => {
            let id = id.0.to_string();
            let found = call.app.directory.get(Kind::McpIntegration, call.actor.org, None, &id).await?;
            found.as_ref().map(ResourceRow::<McpIntegration>::read).transpose()?.map(|row| row.doc.capabilities)
        }
        None => None,
    };
    let (sync, switches) = (mcp_server::known(&call, &server).await?, switches.unwrap_or_default());
    let own = Some(&server.doc.capabilities);
    let since = server.created_at;
    list_offers(&call, &ShownOffers { sync: &sync, integration: &switches, server: own, accepted: None, since })
}

fn list_offers(call: &AdminCall, shown: &ShownOffers<'_>) -> Result<AdminReply, Problem> {
    let wanted = call.query.text("type").map(|kind| McpKind::parse(kind).ok_or_else(|| bad("type", KINDS)));
    let wanted = wanted.transpose()?;
    let mut counts = Map::new();
    let mut all = Vec::new();
    for kind in McpKind::ALL {
        let items = shown.sync.items.get(kind.name()).map(Vec::as_slice).unwrap_or_default();
        let mut views: Vec<Value> = items.iter().map(|item| view(kind, item, shown)).collect();
        let enabled = views.iter().filter(|view| view["enabled"] == true).count();
        counts.insert(format!("{}s", kind.name()), json!({"total": views.len(), "enabled": enabled}));
        if wanted.is_none_or(|wanted| wanted == kind) {
            views.extend(unseen(kind, items, shown).iter().map(|item| view(kind, item, shown)));
            all.extend(views);
        }
    }
    let mut paging = call.query.paging_by("page", "page_size", MOST_ROWS)?;
    paging.page = paging.page.saturating_sub(1);
    let more = (paging.page + 1).saturating_mul(paging.size) < all.len() as u64;
    let page = paging.cut(&all);
    Ok(AdminReply::json(json!({"data": page, "counts": counts, "total": all.len(), "has_more": more})))
}

/// What is switched by name and was not found at the server, or not yet: it reads back as it was written.
fn unseen(kind: McpKind, items: &[Value], shown: &ShownOffers<'_>) -> Vec<Value> {
    let found: BTreeSet<&str> = items.iter().filter_map(|item| item[kind.key()].as_str()).collect();
    let switches = [Some(shown.integration), shown.server].into_iter().flatten();
    let named: BTreeSet<&String> =
        switches.filter_map(|s| s.0.get(kind.name())).flat_map(|names| names.keys()).collect();
    named.into_iter().filter(|name| !found.contains(name.as_str())).map(|name| json!({kind.key(): name})).collect()
}

fn view(kind: McpKind, item: &Value, shown: &ShownOffers<'_>) -> Value {
    let name = item[kind.key()].as_str().unwrap_or_default();
    let of_integration = shown.integration.allows(kind.name(), name);
    let enabled = shown.server.map_or(of_integration, |server| server.allows(kind.name(), name));
    let mut view = json!({
        "name": name, "type": kind.name(), "title": item["title"], "description": item["description"],
        "icons": item["icons"], "enabled": enabled, "created_at": shown.since,
        "last_updated_at": shown.sync.at.unwrap_or(shown.since), "input_schema": item["inputSchema"],
        "output_schema": item["outputSchema"], "execution": item["execution"], "annotations": item["annotations"],
        "arguments": item["arguments"], "uri": item["uri"], "uri_template": item["uriTemplate"],
        "mime_type": item["mimeType"], "size": item["size"],
    });
    if view["title"].is_null() && kind != McpKind::Tool {
        // A resource is called by its address here, so its own name stands where people look.
        view["title"] = item["name"].clone();
    }
    if let Some(accepted) = shown.accepted.filter(|_| kind == McpKind::Tool && item.get("inputSchema").is_some()) {
        view["definition_digest"] = digest(item).into();
        view["definition_accepted"] = accepted.holds(name, item).into();
    }
    if shown.server.is_some() {
        view["integration_enabled"] = of_integration.into();
    }
    view
}

async fn switch<R: Switched>(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = locate::<R>(&call, call.query.text("workspace_id"), Action::Update).await?;
    let body = call.body()?;
    let noted = body.0.clone();
    let given: GivenSwitches = body.read()?;
    if given.capabilities.is_empty() {
        return Err(bad("capabilities", "must hold at least one entry"));
    }
    check_switches(&given.capabilities)?;
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        for (at, one) in given.capabilities.into_iter().enumerate() {
            if let Some(digest) = &one.accept_definition {
                let field = format_args!("capabilities[{at}].accept_definition").to_string();
                row.doc.accept(&one.name, digest).map_err(|rule| bad(field, rule))?;
            }
            row.doc.switches().set(&one.kind, one.name, one.enabled.0);
        }
        let switches = row.doc.switches();
        if switches.count() > Switches::MOST {
            return Err(bad("capabilities", format_args!("may be {} in all", Switches::MOST)));
        }
        row.touch(call.now);
        let rows = vec![row.stored()?];
        let audit = vec![audit(&call, Action::Update, &rows[0], &noted)];
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({"success": true})).at(revision))
}

fn check_switches(given: &[GivenSwitch]) -> Result<(), Problem> {
    for (at, one) in given.iter().enumerate() {
        if !matches!(one.kind.as_str(), "tool" | "prompt" | "resource") {
            return Err(bad(format_args!("capabilities[{at}].type"), "must be one of tool, prompt, resource"));
        }
        if one.name.is_empty() || one.name.len() > LONGEST_NAME {
            return Err(bad(
                format_args!("capabilities[{at}].name"),
                format_args!("must have 1..{LONGEST_NAME} bytes"),
            ));
        }
        if one.accept_definition.is_some() && one.kind != "tool" {
            return Err(bad(format_args!("capabilities[{at}].accept_definition"), "is of tools alone"));
        }
        if one.kind == "resource" && !one.name.contains(':') {
            return Err(bad(format_args!("capabilities[{at}].name"), "of a resource is its uri"));
        }
    }
    Ok(())
}

/// The switches as a configuration file holds them.
pub(super) fn declare_switches(switches: &Switches) -> Vec<Value> {
    let each = switches.0.iter().flat_map(|(kind, names)| names.iter().map(move |(name, on)| (kind, name, on)));
    each.map(|(kind, name, on)| json!({"name": name, "type": kind, "enabled": on})).collect()
}

/// Reads the switches that a configuration file declares.
pub(super) fn read_switches(given: Vec<GivenSwitch>) -> Result<Switches, Problem> {
    check_switches(&given)?;
    let mut switches = Switches::default();
    for (at, one) in given.into_iter().enumerate() {
        if one.accept_definition.is_some() {
            let field = format_args!("capabilities[{at}].accept_definition").to_string();
            return Err(bad(field, "is of the Admin API alone: what was accepted is of one installation"));
        }
        switches.set(&one.kind, one.name, one.enabled.0);
    }
    if switches.count() > Switches::MOST {
        return Err(bad("capabilities", format_args!("may be {} in all", Switches::MOST)));
    }
    Ok(switches)
}
