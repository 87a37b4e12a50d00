//! Agent integrations in a file. The card that an agent gave is learnt, not declared; one that somebody wrote is.

use crate::problem::Problem;
use crate::resource::agent_capabilities::{declare_switches, read_switches};
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring, put, take};
use crate::resource::{ResourceRow, outbound, workspace_seats};
use gateway_domain::resource::agent::AgentIntegration;
use serde_json::{Map, Value};

impl Declared for AgentIntegration {
    const SECTION: &'static str = "agent_integrations";
    const LEVEL: DeclaredLevel = DeclaredLevel::Either;
    const SECRETS: &'static [&'static str] = &["configurations"];

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let doc = &row.doc;
        let mut fields = Map::new();
        put(&mut fields, "description", &doc.description);
        outbound::declare(&doc.outbound, &mut fields, to)?;
        if doc.is_declared {
            put(&mut fields, "agent_card", &doc.agent_card);
        }
        declare_switches(&doc.capabilities, &mut fields);
        if row.workspace.is_none() {
            workspace_seats::declare(&doc.access, &mut fields, to);
        }
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let switches = read_switches(take(&mut item.fields, "capabilities")?, take(&mut item.fields, "skills")?)?;
        let access = workspace_seats::assume::<Self>(&mut item.fields, item.workspace, from)?;
        let mut row = item.create(from.call, true)?;
        row.doc.capabilities = switches;
        row.doc.access = access;
        if let Some(before) = item.before.as_ref().filter(|_| !row.doc.is_declared) {
            row.doc.agent_card.clone_from(&before.doc.agent_card);
            row.doc.sync.clone_from(&before.doc.sync);
        }
        Ok(row)
    }
}
