//! Agent servers in a file.

use crate::problem::{Problem, bad};
use crate::resource::agent_capabilities::{declare_switches, read_switches};
use crate::resource::declared::{Assuming, Declaration, Declared, Declaring, put, take};
use crate::resource::{ResourceRow, user_access};
use gateway_domain::resource::Kind;
use gateway_domain::resource::agent::AgentServer;
use gateway_domain::resource::mcp::check_server_slug;
use serde_json::{Map, Value};

impl Declared for AgentServer {
    const SECTION: &'static str = "agent_servers";
    const SCOPES: Option<&'static str> = Some("agent_servers");

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let mut fields = Map::new();
        put(&mut fields, "agent_integration_id", to.names.name(row.doc.agent_integration_id.0));
        put(&mut fields, "description", &row.doc.description);
        declare_switches(&row.doc.capabilities, &mut fields);
        user_access::declare(&row.doc.user_access, &mut fields, to);
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        check_server_slug(&item.slug).map_err(|rule| bad("slug", rule))?;
        let integration: Option<String> = take(&mut item.fields, "agent_integration_id")?;
        if let Some(integration) = integration {
            let integration = from.find(Kind::AgentIntegration, None, "agent_integration_id", &integration)?;
            item.fields.insert("agent_integration_id".to_owned(), integration.to_string().into());
        }
        let switches = read_switches(take(&mut item.fields, "capabilities")?, take(&mut item.fields, "skills")?)?;
        let people = user_access::assume(&mut item.fields, from)?;
        let mut row = item.create(from.call, true)?;
        row.doc.capabilities = switches;
        row.doc.user_access = people;
        Ok(row)
    }
}
