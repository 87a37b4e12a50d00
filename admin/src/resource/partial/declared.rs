//! Prompt partials in a file.

use crate::problem::Problem;
use crate::resource::ResourceRow;
use crate::resource::declared::editions::{
    GivenEdition, InForce, assume_editions, declare_editions, new_editions, take_versions,
};
use crate::resource::declared::{Assuming, Declaration, Declared, Declaring, put, put_some};
use crate::resource::sharing::{declare_sharing, take_sharing};
use gateway_domain::resource::prompt::PartialDocument;
use gateway_domain::resource::{Kind, StoredVersion};
use serde_json::{Map, Value};

impl Declared for PartialDocument {
    const SECTION: &'static str = "prompt_partials";
    const SCOPES: Option<&'static str> = Some("prompts");
    const STATES: &'static [&'static str] = &["archived"];

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let mut fields = Map::new();
        put_some(&mut fields, "shared_with", declare_sharing(row.doc.sharing.as_ref(), to));
        let content = |string: &String| {
            let mut fields = Map::new();
            put(&mut fields, "string", string);
            fields
        };
        declare_editions(&mut fields, &row.doc.editions, content, to);
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let in_force = InForce::take(&mut item.fields, item.workspace, from)?;
        let versions = take_versions(&mut item.fields)?;
        let sharing = take_sharing(&mut item.fields, from)?;
        item.end()?;
        let (mut given, mut made) = (Vec::new(), None);
        for (number, fields) in versions {
            item.fields = fields;
            let mut row = item.create(from.call, true)?;
            let first = row.doc.editions.kept.remove(&1);
            given.extend(first.map(|edition| GivenEdition { number, edition }));
            made = Some(row);
        }
        let mut row = made.ok_or_else(|| crate::problem::bad("versions", "must hold at least one"))?;
        row.doc.sharing = sharing;
        row.doc.editions = assume_editions(given, in_force, item.before.as_ref().map(|row| &row.doc.editions))?;
        Ok(row)
    }

    fn history(row: &ResourceRow<Self>, before: Option<&ResourceRow<Self>>) -> Result<Vec<StoredVersion>, Problem> {
        new_editions((Kind::PromptPartial, row.id), &row.doc.editions, before.map(|row| &row.doc.editions))
    }
}
