//! Labels in a file.

use crate::problem::Problem;
use crate::resource::ResourceRow;
use crate::resource::declared::{Assuming, Declaration, Declared, Declaring, put};
use gateway_domain::resource::prompt::LabelDocument;
use serde_json::{Map, Value};

impl Declared for LabelDocument {
    const SECTION: &'static str = "labels";
    const SCOPES: Option<&'static str> = Some("prompts");
    const SLUG: &'static str = "name";
    const NAMED: bool = false;

    fn declare(row: &ResourceRow<Self>, _: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let mut fields = Map::new();
        put(&mut fields, "description", &row.doc.description);
        put(&mut fields, "color_code", &row.doc.color_code);
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        item.name.clone_from(&item.slug);
        item.create(from.call, true)
    }
}
