//! Collections in a file.

use crate::problem::Problem;
use crate::resource::ResourceRow;
use crate::resource::declared::{Assuming, Declaration, Declared, Declaring, put, take};
use gateway_domain::resource::Kind;
use gateway_domain::resource::prompt::CollectionDocument;
use serde_json::{Map, Value};

impl Declared for CollectionDocument {
    const SECTION: &'static str = "collections";
    const SCOPES: Option<&'static str> = Some("prompts");

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let mut fields = Map::new();
        put(&mut fields, "parent_collection_id", row.doc.parent.map(|id| to.names.name(id)));
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        // Its parent may stand behind it, so it is looked up among the names alone.
        let parent: Option<String> = take(&mut item.fields, "parent_collection_id")?;
        let home = item.workspace;
        let parent = parent.map(|name| from.find(Kind::Collection, home, "parent_collection_id", &name)).transpose()?;
        let mut row = item.create(from.call, true)?;
        row.doc.parent = parent;
        Ok(row)
    }
}
