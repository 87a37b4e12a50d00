//! Managed providers in a file.

use super::{AUTO, Provider};
use crate::problem::{Problem, bad};
use crate::resource::ResourceRow;
use crate::resource::declared::limits::{Resets, declare_limits};
use crate::resource::declared::{Assuming, Declaration, Declared, Declaring, put, take};
use gateway_domain::resource::Kind;
use serde_json::{Map, Value};

impl Declared for Provider {
    const SECTION: &'static str = "providers";
    const SCOPES: Option<&'static str> = Some("providers");

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let mut fields = Map::new();
        put(&mut fields, "integration_id", to.names.name(row.doc.integration_id.0));
        put(&mut fields, "note", &row.doc.note);
        put(&mut fields, "tags", row.doc.rest.get("tags"));
        put(&mut fields, "expires_at", row.doc.expires_at);
        declare_limits(&mut fields, &row.doc.limits);
        put(&mut fields, "max_parallel", row.doc.max_parallel);
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let integration: Option<String> = take(&mut item.fields, "integration_id")?;
        let integration = integration.ok_or_else(|| bad("integration_id", "is required"))?;
        let integration = from.find(Kind::Integration, None, "integration_id", &integration)?;
        item.fields.insert("integration_id".to_owned(), integration.to_string().into());
        let resets = Resets::take(&mut item.fields)?;
        let expires_at = take(&mut item.fields, "expires_at")?;
        let mut row = item.create(from.call, true)?;
        // It may have ended by now: that is no reason to let it go on, or to refuse the file.
        row.doc.expires_at = expires_at;
        let before = item.before.as_ref().map(|row| row.doc.limits.usage_limits.as_slice());
        resets.settle(&mut row.doc.limits.usage_limits, before);
        // One that was made along with its integration and named since has an owner of its own.
        row.doc.rest.shift_remove(AUTO);
        if row.doc.rest.get("tags").and_then(Value::as_object).is_some_and(Map::is_empty) {
            row.doc.rest.shift_remove("tags");
        }
        Ok(row)
    }
}
