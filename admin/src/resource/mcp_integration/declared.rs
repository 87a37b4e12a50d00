//! MCP integrations in a file. What a server said of itself is learnt, not declared.

use crate::problem::Problem;
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring, put, take};
use crate::resource::mcp_capabilities::{declare_switches, read_switches};
use crate::resource::{ResourceRow, outbound, workspace_seats};
use gateway_domain::resource::mcp::McpIntegration;
use gateway_domain::resource::mcp_definition::NewCapabilities;
use serde_json::{Map, Value};

impl Declared for McpIntegration {
    const SECTION: &'static str = "mcp_integrations";
    const LEVEL: DeclaredLevel = DeclaredLevel::Either;
    const SECRETS: &'static [&'static str] = &["configurations"];

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let doc = &row.doc;
        let mut fields = Map::new();
        put(&mut fields, "description", &doc.description);
        put(&mut fields, "transport", doc.transport);
        outbound::declare(&doc.outbound, &mut fields, to)?;
        if doc.new_capabilities == NewCapabilities::Disabled {
            put(&mut fields, "new_capabilities", doc.new_capabilities);
        }
        if doc.pin_definitions {
            put(&mut fields, "pin_definitions", true);
        }
        put(&mut fields, "capabilities", declare_switches(&doc.capabilities));
        if row.workspace.is_none() {
            workspace_seats::declare(&doc.access, &mut fields, to);
        }
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let capabilities = read_switches(take(&mut item.fields, "capabilities")?.unwrap_or_default())?;
        let access = workspace_seats::assume::<Self>(&mut item.fields, item.workspace, from)?;
        let mut row = item.create(from.call, true)?;
        row.doc.capabilities = capabilities;
        row.doc.access = access;
        if let Some(before) = &item.before {
            row.doc.sync.clone_from(&before.doc.sync);
            row.doc.accepted.clone_from(&before.doc.accepted);
            row.doc.pin();
        }
        Ok(row)
    }
}
