//! Workspaces in a file. What they name lies in them, so it is looked at when all of it is there.

use super::own_security;
use crate::problem::{Problem, bad};
use crate::resource::ResourceRow;
use crate::resource::declared::limits::{Resets, declare_limits};
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring, put, take};
use crate::resource::export_settings::{self, GivenExportSettings};
use gateway_domain::id::{ConfigId, WorkspaceId};
use gateway_domain::resource::Kind;
use gateway_domain::resource::guardrail::Exclusions;
use gateway_domain::resource::workspace::Workspace;
use serde_json::{Map, Value};

impl Declared for Workspace {
    const SECTION: &'static str = "workspaces";
    const LEVEL: DeclaredLevel = DeclaredLevel::Organisation;
    const SCOPES: Option<&'static str> = Some("workspaces");

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let doc = &row.doc;
        let mut fields = Map::new();
        put(&mut fields, "icon", &doc.icon);
        put(&mut fields, "description", &doc.description);
        let mut defaults = Map::new();
        put(&mut defaults, "metadata", &doc.defaults.metadata);
        put(&mut defaults, "user_api_key_config", doc.defaults.user_api_key_config.map(|id| to.names.name(id.0)));
        put(&mut defaults, "input_guardrails", &doc.defaults.guardrails.input);
        put(&mut defaults, "output_guardrails", &doc.defaults.guardrails.output);
        put(&mut fields, "defaults", defaults);
        put(&mut fields, "guardrail_exclusions", excluded(doc.exclusions));
        put(&mut fields, "security_settings", doc.security_settings);
        put(&mut fields, "user_api_key_rotation_period", doc.user_api_key_rotation_period);
        if !doc.denied_log_fields.is_empty() {
            fields.insert("export_settings".to_owned(), export_settings::shown(&doc.denied_log_fields));
        }
        declare_limits(&mut fields, &doc.limits);
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let security = take(&mut item.fields, "security_settings")?;
        let denied: Option<GivenExportSettings> = take(&mut item.fields, "export_settings")?;
        let exclusions: Map<String, Value> = take(&mut item.fields, "guardrail_exclusions")?.unwrap_or_default();
        let mut defaults: Map<String, Value> = take(&mut item.fields, "defaults")?.unwrap_or_default();
        let config: Option<String> = take(&mut defaults, "user_api_key_config")?;
        let input = take(&mut defaults, "input_guardrails")?.unwrap_or_default();
        let output = take(&mut defaults, "output_guardrails")?.unwrap_or_default();
        item.fields.insert("defaults".to_owned(), Value::Object(defaults));
        let resets = Resets::take(&mut item.fields)?;
        let mut row = item.create(from.call, true)?;
        let before = item.before.as_ref().map(|row| row.doc.limits.usage_limits.as_slice());
        resets.settle(&mut row.doc.limits.usage_limits, before);
        let home = Some(WorkspaceId(item.id));
        let config = config.map(|name| from.find(Kind::Config, home, "defaults.user_api_key_config", &name));
        row.doc.defaults.user_api_key_config = config.transpose()?.map(ConfigId);
        row.doc.defaults.guardrails.input = input;
        row.doc.defaults.guardrails.output = output;
        row.doc.exclusions = exclude(&exclusions)?;
        row.doc.denied_log_fields = denied.unwrap_or_default().fields()?;
        row.doc.security_settings = security.map(|given| own_security(&given, from.call)).transpose()?;
        Ok(row)
    }
}

fn excluded(exclusions: Exclusions) -> Map<String, Value> {
    let mut fields = Map::new();
    put(&mut fields, "input", exclusions.input);
    put(&mut fields, "output", exclusions.output);
    fields
}

fn exclude(given: &Map<String, Value>) -> Result<Exclusions, Problem> {
    let mut exclusions = Exclusions::default();
    for (name, value) in given {
        let field = format!("guardrail_exclusions.{name}");
        let on = value.as_bool().ok_or_else(|| bad(&field, "must be true or false"))?;
        match name.as_str() {
            "input" => exclusions.input = on,
            "output" => exclusions.output = on,
            _ => return Err(bad(field, "is not a known field")),
        }
    }
    Ok(exclusions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn exclusions_are_told_and_read() {
        let both = Exclusions { input: true, output: false };
        assert_eq!(Value::Object(excluded(both)), json!({"input": true}));
        assert_eq!(exclude(&excluded(both)), Ok(both));
        assert!(exclude(json!({"inputs": true}).as_object().expect("an object")).is_err());
    }
}
