//! The organisation in a file.

use super::OwnOrganisationPatch;
use crate::change::WriteView;
use crate::input::JsonBody;
use crate::problem::{Problem, bad, internal, missing};
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring, put, take};
use crate::resource::export_settings;
use crate::resource::guardrail::KnownGuardrails;
use crate::resource::integration::pricing;
use crate::resource::{Resource, ResourceRow};
use gateway_domain::resource::Kind;
use gateway_domain::resource::organisation::Organisation;
use gateway_domain::resource::security::Security;
use serde_json::{Map, Value, json};

impl Declared for Organisation {
    const SECTION: &'static str = "organisation";
    const LEVEL: DeclaredLevel = DeclaredLevel::Only;
    const SCOPES: Option<&'static str> = Some("organisation_settings");

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let doc = &row.doc;
        let mut fields = Map::new();
        put(&mut fields, "default_workspace", to.names.name(doc.default_workspace.0));
        // Whether the day of its making decided is nothing that another gateway could know.
        fields.insert("block_inline_config".to_owned(), doc.blocks_inline(row.created_at).into());
        put(&mut fields, "user_api_key_rotation_period", doc.user_api_key_rotation_period);
        put(&mut fields, "security_settings", changed(doc.security_settings));
        put(&mut fields, "overridable_sections", &doc.overridable_sections);
        put(&mut fields, "jwks_uris", &doc.jwks_uris);
        put(&mut fields, "jwks", &doc.jwks);
        put(&mut fields, "token_rules", &doc.token_rules);
        if let Some(on) = doc.debug_log {
            fields.insert("debug_log".to_owned(), on.into());
        }
        put(&mut fields, "enforce_debug_log_setting", doc.enforce_debug_log_setting);
        put(&mut fields, "cache_max_age", doc.cache_max_age);
        if !doc.denied_log_fields.is_empty() {
            fields.insert("export_settings".to_owned(), export_settings::shown(&doc.denied_log_fields));
        }
        put(&mut fields, "managers_set_limits", doc.managers_set_limits);
        put(&mut fields, "known_routes_only", doc.known_routes_only);
        put(&mut fields, "analytics_metadata_keys", &doc.analytics_metadata_keys);
        put(&mut fields, "input_guardrails", &doc.default_guardrails.input);
        put(&mut fields, "output_guardrails", &doc.default_guardrails.output);
        let prices = doc.model_prices.iter().map(|(name, rates)| (name.clone(), pricing::view(rates)));
        put(&mut fields, "model_prices", prices.collect::<Map<_, _>>());
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let workspace: Option<String> = take(&mut item.fields, "default_workspace")?;
        let workspace = workspace.ok_or_else(|| bad("default_workspace", "is required"))?;
        let workspace = from.find(Kind::Workspace, None, "default_workspace", &workspace)?;
        let input = take(&mut item.fields, "input_guardrails")?.unwrap_or_default();
        let output = take(&mut item.fields, "output_guardrails")?.unwrap_or_default();
        let mut doc: Self = serde_json::from_value(json!({"default_workspace": workspace})).map_err(internal)?;
        // Where it comes from is nothing that a file may say.
        doc.made_by = item.before.as_ref().and_then(|row| row.doc.made_by);
        let actor = &from.call.actor;
        let mut row = ResourceRow::fresh(&from.call.app, actor.org, None, Some(actor.key.0), doc);
        let patch: OwnOrganisationPatch = JsonBody(std::mem::take(&mut item.fields)).read()?;
        Self::patch(&mut row, patch, from.call)?;
        row.doc.default_guardrails.input = input;
        row.doc.default_guardrails.output = output;
        row.name = item.name;
        row.slug = item.slug;
        Ok(row)
    }

    fn verify(row: &ResourceRow<Self>, around: &WriteView<'_>) -> Result<(), Problem> {
        let org = around.snapshot.org(row.org).ok_or_else(|| missing(Self::NOUN))?;
        KnownGuardrails { org, workspace: None }.check("", &row.doc.default_guardrails)
    }
}

/// The switches that are not as they are by default.
fn changed(security: Security) -> Map<String, Value> {
    let standard = Security::default();
    let names = Security::names().filter(|name| security.is_on(name) != standard.is_on(name));
    names.map(|name| (name.to_owned(), security.is_on(name).into())).collect()
}
