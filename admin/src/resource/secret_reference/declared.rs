//! References in a file: how a manager is signed in to has names in the place of its secrets, and what lies in the
//! manager is not in it at all.

use super::SecretReference;
use crate::problem::Problem;
use crate::resource::ResourceRow;
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring, put, take};
use gateway_domain::resource::Kind;
use serde_json::{Map, Value};

impl Declared for SecretReference {
    const SECTION: &'static str = "secret_references";
    const LEVEL: DeclaredLevel = DeclaredLevel::Organisation;
    const SCOPES: Option<&'static str> = Some("secret_references");
    const SECRETS: &'static [&'static str] = &["auth_config"];
    const SECRETS_ARE_BOUND: bool = true;

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let doc = &row.doc;
        let mut fields = Map::new();
        put(&mut fields, "manager_type", doc.manager.name());
        put(&mut fields, "description", &doc.description);
        put(&mut fields, "secret_path", &doc.secret_path);
        put(&mut fields, "secret_key", &doc.secret_key);
        put(&mut fields, "tags", &doc.tags);
        let mut auth = Map::new();
        for (name, value) in &doc.fields {
            auth.insert(name.clone(), value.as_str().into());
        }
        for (name, sealed) in &doc.secrets {
            auth.insert(name.clone(), to.sealed(&["auth_config", name], sealed)?);
        }
        put(&mut fields, "auth_config", auth);
        if let Some(listed) = &doc.workspaces {
            let known = listed.iter().filter(|id| to.names.knows(Kind::Workspace, id.0));
            let mut names: Vec<String> = known.map(|id| to.names.name(id.0).to_owned()).collect();
            names.sort();
            fields.insert("allowed_workspaces".to_owned(), names.into());
        }
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let listed: Option<Vec<String>> = take(&mut item.fields, "allowed_workspaces")?;
        let mut row = item.create(from.call, true)?;
        if let Some(listed) = listed {
            // A list that says nobody is kept as such: to leave it out would open the reference to all.
            let find = |(at, name): (usize, &String)| {
                let field = format!("allowed_workspaces[{at}]");
                from.find(Kind::Workspace, None, &field, name).map(gateway_domain::id::WorkspaceId)
            };
            row.doc.workspaces = Some(listed.iter().enumerate().map(find).collect::<Result<_, _>>()?);
        }
        Ok(row)
    }
}
