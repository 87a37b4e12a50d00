//! Integrations in a file, with their models and the workspaces that they are open to.

use super::{access, mappings, models, pricing};
use crate::problem::{Problem, bad, conflict};
use crate::resource::ResourceRow;
use crate::resource::declared::limits::{Resets, declare_limits};
use crate::resource::declared::{Assuming, Declaration, Declared, DeclaredLevel, Declaring, put, take};
use gateway_domain::cloud;
use gateway_domain::id::WorkspaceId;
use gateway_domain::resource::Kind;
use gateway_domain::resource::integration::{Access, Configurations, Integration, Model};
use gateway_domain::resource::limits::ResourceLimits;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

impl Declared for Integration {
    const SECTION: &'static str = "integrations";
    const LEVEL: DeclaredLevel = DeclaredLevel::Either;
    const SECRETS: &'static [&'static str] = &["key", "configurations", "models"];

    fn declare(row: &ResourceRow<Self>, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
        let doc = &row.doc;
        let mut fields = Map::new();
        put(&mut fields, "ai_provider_id", &doc.ai_provider_id);
        put(&mut fields, "description", &doc.description);
        if let Some(sealed) = &doc.sealed_key {
            fields.insert("key".to_owned(), to.sealed(&["key"], sealed)?);
        }
        put(&mut fields, "configurations", configurations(&doc.configurations, to)?);
        put(&mut fields, "tags", doc.rest.get("tags"));
        put(&mut fields, "pricing_adjustments", pricing::adjustments(doc.price_factors.as_ref()));
        let filled = doc.secret_mappings.iter().map(|mapping| {
            let reference = to.names.name(mapping.secret_reference_id.0);
            mappings::render(mapping, &reference)
        });
        put(&mut fields, "secret_mappings", filled.collect::<Vec<_>>());
        if !doc.models.allow_all {
            fields.insert("allow_all_models".to_owned(), false.into());
        }
        let mut list = Vec::new();
        for (at, (slug, model)) in doc.models.list.iter().enumerate() {
            list.push(Value::Object(declare_model(at, slug, model, to)?));
        }
        put(&mut fields, "models", list);
        if row.workspace.is_none() {
            declare_access(&mut fields, &doc.access, to);
        }
        Ok(fields)
    }

    fn assume(mut item: Declaration<Self>, from: &Assuming<'_>) -> Result<ResourceRow<Self>, Problem> {
        let allow_all = take(&mut item.fields, "allow_all_models")?;
        let list = take(&mut item.fields, "models")?.unwrap_or_default();
        let global: Option<Map<String, Value>> = take(&mut item.fields, "global_workspace_access")?;
        let seats: Vec<Map<String, Value>> = take(&mut item.fields, "workspaces")?.unwrap_or_default();
        if item.workspace.is_some() && (global.is_some() || !seats.is_empty()) {
            return Err(conflict("an integration of a workspace serves that one alone"));
        }
        let mut row = item.create(from.call, true)?;
        models::declared(&mut row.doc.models, list, allow_all, from.call)?;
        let before = item.before.as_ref().map(|row| &row.doc.access);
        assume_access(&mut row.doc.access, DeclaredAccess { global, seats }, before, from)?;
        if row.doc.rest.get("tags").and_then(Value::as_object).is_some_and(Map::is_empty) {
            row.doc.rest.shift_remove("tags");
        }
        Ok(row)
    }
}

fn declare_headers(
    headers: &BTreeMap<String, String>,
    under: &[&str],
    to: &mut Declaring<'_>,
) -> Result<Map<String, Value>, Problem> {
    let mut fields = Map::new();
    for (name, sealed) in headers {
        let path = [under, &["custom_headers", name]].concat();
        fields.insert(name.clone(), to.sealed(&path, sealed)?);
    }
    Ok(fields)
}

fn configurations(doc: &Configurations, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
    const UNDER: &str = "configurations";
    let mut fields = Map::new();
    put(&mut fields, "custom_host", &doc.custom_host);
    put(&mut fields, "openai_organization", &doc.openai_organization);
    put(&mut fields, "openai_project", &doc.openai_project);
    for (name, on) in [("direct_realtime", doc.direct_realtime), ("isolate_objects", doc.isolate_objects)] {
        if on {
            fields.insert(name.to_owned(), true.into());
        }
    }
    for (name, value) in &doc.cloud {
        let shown = match cloud::setting(name) {
            Some(setting) if setting.secret => to.sealed(&[UNDER, name], value)?,
            Some(setting) if setting.json => serde_json::from_str(value).unwrap_or_default(),
            _ => value.as_str().into(),
        };
        fields.insert(name.clone(), shown);
    }
    put(&mut fields, "custom_headers", declare_headers(&doc.custom_headers, &[UNDER], to)?);
    Ok(fields)
}

fn declare_model(at: usize, slug: &str, model: &Model, to: &mut Declaring<'_>) -> Result<Map<String, Value>, Problem> {
    let mut fields = Map::from_iter([("slug".to_owned(), json!(slug)), ("enabled".to_owned(), json!(model.enabled))]);
    put(&mut fields, "is_custom", model.is_custom);
    put(&mut fields, "is_finetune", model.is_finetune);
    put(&mut fields, "base_model_slug", &model.base_model_slug);
    let mut own = Map::new();
    put(&mut own, "custom_host", &model.custom_host);
    let under = ["models", &at.to_string(), "configurations"];
    put(&mut own, "custom_headers", declare_headers(&model.custom_headers, &under, to)?);
    put(&mut fields, "configurations", own);
    put(&mut fields, "pricing_config", model.rates.as_ref().map(pricing::view));
    Ok(fields)
}

fn declare_access(fields: &mut Map<String, Value>, access: &Access, to: &Declaring<'_>) {
    if !access.global || !access.limits.is_empty() {
        let mut global = Map::from_iter([("enabled".to_owned(), json!(access.global))]);
        declare_limits(&mut global, &access.limits);
        fields.insert("global_workspace_access".to_owned(), Value::Object(global));
    }
    let none = ResourceLimits::default();
    let seat = |(id, enabled): (&WorkspaceId, &bool)| {
        let mut seat = Map::from_iter([("id".to_owned(), json!(to.names.name(id.0)))]);
        seat.insert("enabled".to_owned(), json!(enabled));
        declare_limits(&mut seat, access.workspace_limits.get(id).unwrap_or(&none));
        seat
    };
    let known = access.workspaces.iter().filter(|(id, _)| to.names.knows(Kind::Workspace, id.0));
    let mut seats: Vec<Map<String, Value>> = known.map(seat).collect();
    seats.sort_by_key(|seat| seat["id"].to_string());
    put(fields, "workspaces", seats);
}

struct DeclaredAccess {
    global: Option<Map<String, Value>>,
    seats: Vec<Map<String, Value>>,
}

fn assume_access(
    access: &mut Access,
    mut given: DeclaredAccess,
    before: Option<&Access>,
    from: &Assuming<'_>,
) -> Result<(), Problem> {
    let global = given.global.as_mut().map(Resets::take).transpose()?.unwrap_or_default();
    let mut resets = Vec::new();
    let mut ids = Vec::new();
    for (at, seat) in given.seats.iter_mut().enumerate() {
        resets.push(Resets::take(seat)?);
        let field = format!("workspaces[{at}].id");
        let name = seat.get("id").and_then(Value::as_str).ok_or_else(|| bad(&field, "is required"))?;
        let id = WorkspaceId(from.find(Kind::Workspace, None, &field, name)?);
        if ids.contains(&id) {
            return Err(bad(field, "is named again"));
        }
        ids.push(id);
        seat.insert("id".to_owned(), id.to_string().into());
    }
    access::declared(access, given.global, given.seats, from.call)?;
    let kept = before.map(|before| before.limits.usage_limits.as_slice());
    global.settle(&mut access.limits.usage_limits, kept);
    for (id, resets) in ids.iter().zip(resets) {
        let kept = before.and_then(|before| before.workspace_limits.get(id)).map(|l| l.usage_limits.as_slice());
        if let Some(limits) = access.workspace_limits.get_mut(id) {
            resets.settle(&mut limits.usage_limits, kept);
        }
    }
    Ok(())
}
