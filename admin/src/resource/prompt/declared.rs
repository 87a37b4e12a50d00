//! Prompts in a file.

use crate::problem::{Problem, bad};
use crate::resource::ResourceRow;
use crate::resource::declared::editions::{
    GivenEdition, InForce, assume_editions, declare_editions, new_editions, take_versions,
};
use crate::resource::declared::{Assuming, Declaration, Declared, Declaring, put, put_some, take};
use crate::resource::sharing::{declare_sharing, take_sharing};
use gateway_domain::resource::prompt::{PromptContent, PromptDocument};
use gateway_domain::resource::{Kind, StoredVersion};
use serde_json::{Map, Value};

impl Declared for PromptDocument {
    const SECTION: &'static str = "prompts";
    const SCOPES: Option<&'static str> = Some("prompts");

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let mut fields = Map::new();
        put(&mut fields, "collection_id", row.doc.collection.map(|id| to.names.name(id)));
        put_some(&mut fields, "shared_with", declare_sharing(row.doc.sharing.as_ref(), to));
        declare_editions(&mut fields, &row.doc.editions, |content| declare_content(content, to), to);
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let place: Option<String> = take(&mut item.fields, "collection_id")?;
        let home = item.workspace;
        let place = place.map(|name| from.find(Kind::Collection, home, "collection_id", &name)).transpose()?;
        let in_force = InForce::take(&mut item.fields, home, from)?;
        let versions = take_versions(&mut item.fields)?;
        let sharing = take_sharing(&mut item.fields, from)?;
        item.end()?;
        let (mut given, mut made) = (Vec::new(), None);
        for (number, mut fields) in versions {
            fields.entry("parameters").or_insert_with(|| Value::Object(Map::new()));
            item.fields = fields;
            let mut row = item.create(from.call, true)?;
            let first = row.doc.editions.kept.remove(&1);
            given.extend(first.map(|edition| GivenEdition { number, edition }));
            made = Some(row);
        }
        let mut row = made.ok_or_else(|| bad("versions", "must hold at least one"))?;
        row.doc.collection = place;
        row.doc.sharing = sharing;
        row.doc.editions = assume_editions(given, in_force, item.before.as_ref().map(|row| &row.doc.editions))?;
        Ok(row)
    }

    fn history(row: &ResourceRow<Self>, before: Option<&ResourceRow<Self>>) -> Result<Vec<StoredVersion>, Problem> {
        new_editions((Kind::Prompt, row.id), &row.doc.editions, before.map(|row| &row.doc.editions))
    }
}

fn declare_content(content: &PromptContent, to: &Declaring<'_>) -> Map<String, Value> {
    let mut fields = Map::new();
    put(&mut fields, "string", &content.string);
    put(&mut fields, "parameters", &content.parameters);
    put_some(&mut fields, "model", content.model.as_ref());
    put_some(&mut fields, "virtual_key", content.virtual_key.as_deref().map(|name| to.names.instead_of(name)));
    put_some(&mut fields, "functions", content.functions.as_ref());
    put_some(&mut fields, "tools", content.tools.as_ref());
    put_some(&mut fields, "tool_choice", content.tool_choice.as_ref());
    put(&mut fields, "template_metadata", &content.template_metadata);
    put(&mut fields, "is_raw_template", content.is_raw_template);
    fields
}
