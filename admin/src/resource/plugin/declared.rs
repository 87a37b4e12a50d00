//! Credentials of partners in a file.

use super::Plugin;
use crate::problem::Problem;
use crate::resource::ResourceRow;
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring};
use serde_json::{Map, Value};

impl Declared for Plugin {
    const SECTION: &'static str = "plugins";
    const LEVEL: DeclaredLevel = DeclaredLevel::Organisation;
    const SCOPES: Option<&'static str> = Some("plugins");
    const SLUG: &'static str = "partner";
    const NAMED: bool = false;
    const SECRETS: &'static [&'static str] = &["credentials"];
    const SECRETS_ARE_BOUND: bool = true;

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let mut credentials = Map::new();
        for (name, value) in &row.doc.fields {
            credentials.insert(name.clone(), value.as_str().into());
        }
        for (name, sealed) in &row.doc.secrets {
            credentials.insert(name.clone(), to.sealed(&["credentials", name], sealed)?);
        }
        Ok(Map::from_iter([("credentials".to_owned(), Value::Object(credentials))]))
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        item.fields.insert("partner".to_owned(), item.slug.as_str().into());
        item.name.clone_from(&item.slug);
        item.create(from.call, false)
    }
}
