//! MCP servers in a file.

use crate::problem::{Problem, bad};
use crate::resource::declared::{Assuming, Declaration, Declared, Declaring, put, take};
use crate::resource::mcp_capabilities::{declare_switches, read_switches};
use crate::resource::{ResourceRow, user_access};
use gateway_domain::resource::Kind;
use gateway_domain::resource::mcp::{McpServer, check_server_slug};
use serde_json::{Map, Value};

impl Declared for McpServer {
    const SECTION: &'static str = "mcp_servers";
    const SCOPES: Option<&'static str> = Some("mcp_servers");

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let mut fields = Map::new();
        put(&mut fields, "mcp_integration_id", row.doc.mcp_integration_id.map(|id| to.names.name(id.0)));
        let members = row.doc.members.iter().map(|member| {
            let mut fields = Map::new();
            put(&mut fields, "mcp_server_id", to.names.name(member.mcp_server_id.0));
            put(&mut fields, "prefix", &member.prefix);
            if !member.optional {
                fields.insert("optional".to_owned(), false.into());
            }
            fields
        });
        put(&mut fields, "members", members.collect::<Vec<_>>());
        put(&mut fields, "description", &row.doc.description);
        put(&mut fields, "capabilities", declare_switches(&row.doc.capabilities));
        user_access::declare(&row.doc.user_access, &mut fields, to);
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        check_server_slug(&item.slug).map_err(|rule| bad("slug", rule))?;
        let integration: Option<String> = take(&mut item.fields, "mcp_integration_id")?;
        if let Some(integration) = integration {
            let integration = from.find(Kind::McpIntegration, None, "mcp_integration_id", &integration)?;
            item.fields.insert("mcp_integration_id".to_owned(), integration.to_string().into());
        }
        for (at, member) in
            item.fields.get_mut("members").and_then(Value::as_array_mut).into_iter().flatten().enumerate()
        {
            let Some(name) = member.get("mcp_server_id").and_then(Value::as_str) else { continue };
            let field = format!("members[{at}].mcp_server_id");
            let id = from.find(Kind::McpServer, item.workspace, &field, name)?;
            member["mcp_server_id"] = id.to_string().into();
        }
        let capabilities = read_switches(take(&mut item.fields, "capabilities")?.unwrap_or_default())?;
        let people = user_access::assume(&mut item.fields, from)?;
        let mut row = item.create(from.call, true)?;
        row.doc.capabilities = capabilities;
        row.doc.user_access = people;
        Ok(row)
    }
}
