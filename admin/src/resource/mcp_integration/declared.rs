//! MCP integrations in a file. What a server said of itself is learnt, not declared.

use crate::input::Flag;
use crate::problem::{Problem, bad, conflict};
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring, put, take};
use crate::resource::mcp_capabilities::{declare_switches, read_switches};
use crate::resource::{Row, integration};
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::Kind;
use gateway_domain::resource::mcp::{McpAccess, McpIntegration};
use gateway_domain::resource::mcp_definition::NewCapabilities;
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredSeat {
    id: String,
    enabled: Flag,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredGlobal {
    enabled: Flag,
}

impl Declared for McpIntegration {
    const SECTION: &'static str = "mcp_integrations";
    const LEVEL: DeclaredLevel = DeclaredLevel::Either;
    const SECRETS: &'static [&'static str] = &["configurations"];

    fn declare(row: &Row<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let doc = &row.doc;
        let mut fields = Map::new();
        put(&mut fields, "description", &doc.description);
        put(&mut fields, "url", &doc.url);
        put(&mut fields, "transport", doc.transport);
        put(&mut fields, "auth_type", doc.auth_type);
        let mut headers = Map::new();
        for (name, sealed) in &doc.custom_headers {
            headers.insert(name.clone(), to.sealed(&["configurations", "custom_headers", name], sealed)?);
        }
        let mut configurations = Map::new();
        if !headers.is_empty() {
            configurations.insert("custom_headers".to_owned(), json!(headers));
        }
        if !doc.pricing.is_empty() {
            configurations.insert("pricing".to_owned(), json!(doc.pricing));
        }
        if let Some(client) = &doc.oauth {
            let secret = to.sealed(&["configurations", "oauth", "client_secret"], &client.client_secret)?;
            let mut client = json!(client);
            client["client_secret"] = secret;
            configurations.insert("oauth".to_owned(), client);
        }
        if let Some(rule) = &doc.identity {
            configurations.insert("user_identity_forwarding".to_owned(), json!(rule));
        }
        if !configurations.is_empty() {
            fields.insert("configurations".to_owned(), json!(configurations));
        }
        if doc.new_capabilities == NewCapabilities::Disabled {
            put(&mut fields, "new_capabilities", doc.new_capabilities);
        }
        if doc.pin_definitions {
            put(&mut fields, "pin_definitions", true);
        }
        let filled = doc.secret_mappings.iter().map(|mapping| {
            let reference = to.names.name(mapping.secret_reference_id.0);
            integration::mappings::told(mapping, &reference)
        });
        put(&mut fields, "secret_mappings", filled.collect::<Vec<_>>());
        put(&mut fields, "capabilities", declare_switches(&doc.capabilities));
        if row.workspace.is_none() {
            declare_access(&mut fields, &doc.access, to);
        }
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<Row<Self>, Problem> {
        let capabilities = read_switches(take(&mut item.fields, "capabilities")?.unwrap_or_default())?;
        let global: Option<DeclaredGlobal> = take(&mut item.fields, "global_workspace_access")?;
        let seats: Vec<DeclaredSeat> = take(&mut item.fields, "workspaces")?.unwrap_or_default();
        if item.workspace.is_some() && (global.is_some() || !seats.is_empty()) {
            return Err(conflict("an MCP integration of a workspace serves that one alone"));
        }
        let mut row = item.create(from.call, true)?;
        row.doc.capabilities = capabilities;
        row.doc.access.global = global.is_none_or(|global| global.enabled.0);
        for (at, seat) in seats.iter().enumerate() {
            let id = WorkspaceId(from.find(Kind::Workspace, None, &format!("workspaces[{at}].id"), &seat.id)?);
            if row.doc.access.workspaces.insert(id, seat.enabled.0).is_some() {
                return Err(bad(format_args!("workspaces[{at}].id"), "is named again"));
            }
        }
        if let Some(before) = &item.before {
            row.doc.sync.clone_from(&before.doc.sync);
            row.doc.accepted.clone_from(&before.doc.accepted);
            row.doc.pin();
        }
        Ok(row)
    }
}

fn declare_access(fields: &mut Map<String, Value>, access: &McpAccess, to: &Declaring<'_>) {
    if !access.global {
        fields.insert("global_workspace_access".to_owned(), json!({"enabled": false}));
    }
    let seats = access.workspaces.iter().filter(|(id, _)| to.names.knows(Kind::Workspace, id.0));
    let mut seats: Vec<(String, bool)> = seats.map(|(id, on)| (to.names.name(id.0), *on)).collect();
    seats.sort();
    let seats = seats.into_iter().map(|(name, on)| json!({"id": name, "enabled": on}));
    put(fields, "workspaces", seats.collect::<Vec<_>>());
}
