//! MCP servers in a file.

use super::worded;
use crate::input::Flag;
use crate::problem::{Problem, bad};
use crate::resource::Row;
use crate::resource::declared::{Assuming, Declaration, Declared, Declaring, put, take};
use crate::resource::mcp_capabilities::{declare_switches, read_switches};
use gateway_domain::id::UserId;
use gateway_domain::resource::Kind;
use gateway_domain::resource::mcp::{McpServer, McpUserAccess, check_server_slug};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeclaredUser {
    user_id: String,
    enabled: Flag,
}

impl Declared for McpServer {
    const SECTION: &'static str = "mcp_servers";
    const SCOPES: Option<&'static str> = Some("mcp_servers");

    fn declare(row: &Row<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let mut fields = Map::new();
        put(&mut fields, "mcp_integration_id", to.names.name(row.doc.mcp_integration_id.0));
        put(&mut fields, "description", &row.doc.description);
        put(&mut fields, "capabilities", declare_switches(&row.doc.capabilities));
        let access = &row.doc.user_access;
        if !access.default_allow {
            put(&mut fields, "default_user_access", worded(false));
        }
        let people = access.users.iter().map(|(id, on)| (to.names.name(id.0), *on));
        let mut people: Vec<(String, bool)> = people.collect();
        people.sort();
        let people = people.into_iter().map(|(name, on)| json!({"user_id": name, "enabled": on}));
        put(&mut fields, "user_access", people.collect::<Vec<_>>());
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<Row<Self>, Problem> {
        check_server_slug(&item.slug).map_err(|rule| bad("slug", rule))?;
        let integration: Option<String> = take(&mut item.fields, "mcp_integration_id")?;
        let integration = integration.ok_or_else(|| bad("mcp_integration_id", "is required"))?;
        let integration = from.find(Kind::McpIntegration, None, "mcp_integration_id", &integration)?;
        item.fields.insert("mcp_integration_id".to_owned(), integration.to_string().into());
        let capabilities = read_switches(take(&mut item.fields, "capabilities")?.unwrap_or_default())?;
        let default_allow = match take::<String>(&mut item.fields, "default_user_access")?.as_deref() {
            None | Some("allow") => true,
            Some("deny") => false,
            Some(_) => return Err(bad("default_user_access", "must be one of allow, deny")),
        };
        let people: Vec<DeclaredUser> = take(&mut item.fields, "user_access")?.unwrap_or_default();
        if people.len() > McpUserAccess::MOST {
            return Err(bad("user_access", format_args!("may name {} people in all", McpUserAccess::MOST)));
        }
        let mut row = item.create(from.call, true)?;
        row.doc.capabilities = capabilities;
        row.doc.user_access.default_allow = default_allow;
        for (at, person) in people.iter().enumerate() {
            let field = format!("user_access[{at}].user_id");
            let id = UserId(from.find(Kind::User, None, &field, &person.user_id)?);
            row.doc.user_access.users.insert(id, person.enabled.0);
        }
        Ok(row)
    }
}
