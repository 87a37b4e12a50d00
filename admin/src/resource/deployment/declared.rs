//! Deployments in a file.

use super::Deployment;
use crate::problem::{Problem, bad};
use crate::resource::ResourceRow;
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring, put, take};
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::Kind;
use serde_json::{Map, Value};

impl Declared for Deployment {
    const SECTION: &'static str = "deployments";
    const LEVEL: DeclaredLevel = DeclaredLevel::Organisation;
    const SCOPES: Option<&'static str> = Some("deployments");

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let doc = &row.doc;
        let mut fields = Map::new();
        put(&mut fields, "type", doc.kind.name());
        let mut config = Map::new();
        put(&mut config, "block_inline_config", doc.config.block_inline_config);
        put(&mut config, "metadata", &doc.config.metadata);
        put(&mut fields, "config", config);
        put(&mut fields, "tags", &doc.tags);
        put(&mut fields, "source_type", &doc.source_type);
        if let Some(listed) = &doc.workspaces {
            // Their order says which is the first.
            let known = listed.iter().filter(|id| to.names.knows(Kind::Workspace, id.0));
            let names: Vec<String> = known.map(|id| to.names.name(id.0)).collect();
            fields.insert("allowed_workspaces".to_owned(), names.into());
        }
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        const FIELD: &str = "allowed_workspaces";
        let listed: Option<Vec<String>> = take(&mut item.fields, FIELD)?;
        let mut row = item.create(from.call, true)?;
        if let Some(listed) = listed {
            let mut ids = Vec::with_capacity(listed.len());
            for (at, name) in listed.iter().enumerate() {
                let field = format!("{FIELD}[{at}]");
                let id = WorkspaceId(from.find(Kind::Workspace, None, &field, name)?);
                if ids.contains(&id) {
                    return Err(bad(field, "is named again"));
                }
                ids.push(id);
            }
            // A list that says nobody is kept as such: to leave it out would open the deployment to all.
            row.doc.workspaces = Some(ids);
        }
        Ok(row)
    }
}
