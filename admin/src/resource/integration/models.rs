//! Which models an integration may be asked for, and what each has of its own: host, headers, price. Everything
//! is allowed until something is switched off, or until only what is switched on shall be.

use super::scopes::{READ, UPDATE};
use super::{pricing, settings};
use crate::change::{Action, WriteView, audit};
use crate::input::{Edit, Flag, JsonBody};
use crate::problem::{Problem, bad};
use crate::resource::{ResourceRow, locate};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::egress::check_custom_host;
use gateway_domain::ports::{Batch, Revision};
use gateway_domain::resource::check_name;
use gateway_domain::resource::integration::{Integration, Model, Models};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const MOST: usize = 5_000;

pub(super) fn routes() -> Vec<AdminRoute> {
    let mut rows = vec![
        authed(Method::GET, "/integrations/{id}/models", READ, "List the models that are switched on or off", list)
            .asks(HERE),
        authed(
            Method::DELETE,
            "/integrations/{id}/models",
            UPDATE,
            "Forget models: they are as all others again",
            forget,
        )
        .asks(&["slugs", "workspace_id"]),
    ];
    for path in ["/integrations/{id}/models", "/integrations/{id}/integration-models"] {
        rows.push(
            authed(Method::PUT, path, UPDATE, "Switch models on and off", set)
                .takes::<PutIntegrationModels>()
                .asks(HERE),
        );
    }
    rows
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutIntegrationModels {
    models: Vec<Map<String, Value>>,
    allow_all_models: Option<Flag>,
}

/// What an update says of one model; absent keeps, null clears.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelEdit {
    slug: String,
    enabled: Flag,
    #[serde(default)]
    is_custom: Option<Flag>,
    #[serde(default)]
    is_finetune: Option<Flag>,
    #[serde(default)]
    base_model_slug: Edit<String>,
    #[serde(default)]
    configurations: Edit<Map<String, Value>>,
    #[serde(default)]
    custom_headers: Edit<BTreeMap<String, String>>,
    #[serde(default)]
    pricing_config: Edit<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelSettingsEdit {
    #[serde(default)]
    custom_host: Edit<String>,
    #[serde(default)]
    custom_headers: Edit<BTreeMap<String, String>>,
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<Integration>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let models = &row.doc.models;
    let data: Vec<Value> = models.list.iter().map(|(slug, model)| view(slug, model, &call)).collect();
    Ok(AdminReply::json(json!({"total": data.len(), "models": data, "allow_all_models": models.allow_all})))
}

fn view(slug: &str, model: &Model, call: &AdminCall) -> Value {
    let mut configurations = Map::new();
    if let Some(host) = &model.custom_host {
        configurations.insert("custom_host".into(), host.as_str().into());
    }
    if !model.custom_headers.is_empty() {
        let headers = settings::masked_headers(&model.custom_headers, call);
        configurations.insert("custom_headers".into(), json!(headers));
    }
    json!({
        "slug": slug,
        "name": slug,
        "enabled": model.enabled,
        "is_custom": model.is_custom,
        "is_finetune": model.is_finetune,
        "base_model_slug": model.base_model_slug,
        "configurations": configurations,
        "pricing_config": model.rates.as_ref().map(pricing::view),
    })
}

fn read(i: usize, given: Map<String, Value>) -> Result<(String, ModelEdit), Problem> {
    let under = format!("models[{i}].");
    let mut body = JsonBody(given);
    body.0.shift_remove("name");
    body.refuse_later(&under, &["pricing_adjustments"])?;
    let wanted: ModelEdit = body.read_under(&under)?;
    check_name(&format!("{under}slug"), &wanted.slug)?;
    Ok((under, wanted))
}

impl ModelEdit {
    fn onto(self, under: &str, model: &mut Model, call: &AdminCall) -> Result<(), Problem> {
        model.enabled = self.enabled.0;
        model.is_custom = self.is_custom.map_or(model.is_custom, |f| f.0);
        model.is_finetune = self.is_finetune.map_or(model.is_finetune, |f| f.0);
        if let Edit::Set(base) = &self.base_model_slug {
            check_name(&format!("{under}base_model_slug"), base)?;
        }
        self.base_model_slug.onto(&mut model.base_model_slug);
        match self.configurations {
            Edit::Keep => {}
            Edit::Clear => (model.custom_host, model.custom_headers) = (None, BTreeMap::new()),
            Edit::Set(given) => {
                let under = format!("{under}configurations.");
                let own: ModelSettingsEdit = JsonBody(given).read_under(&under)?;
                if let Edit::Set(host) = &own.custom_host {
                    let rule = check_custom_host(host, &call.app.trusted);
                    rule.map_err(|rule| bad(format_args!("{under}custom_host"), rule))?;
                }
                own.custom_host.onto(&mut model.custom_host);
                put_headers(&under, model, own.custom_headers, call)?;
            }
        }
        put_headers(under, model, self.custom_headers, call)?;
        match self.pricing_config {
            Edit::Keep => {}
            Edit::Clear => model.rates = None,
            Edit::Set(given) => model.rates = Some(pricing::rates(&format!("{under}pricing_config."), given)?),
        }
        Ok(())
    }
}

fn put_headers(
    under: &str,
    model: &mut Model,
    given: Edit<BTreeMap<String, String>>,
    call: &AdminCall,
) -> Result<(), Problem> {
    if let Some(headers) = given.or_default() {
        model.custom_headers = settings::seal_headers(under, headers, &model.custom_headers, call)?;
    }
    Ok(())
}

async fn set(call: AdminCall) -> Result<AdminReply, Problem> {
    let found = find(&call).await?;
    let given: PutIntegrationModels = call.body()?.read()?;
    let wanted = given.models.into_iter().enumerate().map(|(i, m)| read(i, m)).collect::<Result<Vec<_>, _>>()?;
    change(&call, found, |row| {
        for (under, wanted) in wanted {
            let model = row.doc.models.list.entry(wanted.slug.clone()).or_default();
            wanted.onto(&under, model, &call)?;
        }
        if let Some(all) = given.allow_all_models {
            row.doc.models.allow_all = all.0;
        }
        if row.doc.models.list.len() > MOST {
            return Err(bad("models", format_args!("must hold at most {MOST} models")));
        }
        Ok(())
    })
    .await
}

/// The models that a file declares: these, and no others.
pub(super) fn declared(
    models: &mut Models,
    given: Vec<Map<String, Value>>,
    allow_all: Option<Flag>,
    call: &AdminCall,
) -> Result<(), Problem> {
    for (i, given) in given.into_iter().enumerate() {
        let (under, wanted) = read(i, given)?;
        let slug = wanted.slug.clone();
        let mut model = Model::default();
        wanted.onto(&under, &mut model, call)?;
        if models.list.insert(slug, model).is_some() {
            return Err(bad(format_args!("{under}slug"), "is named again"));
        }
    }
    if models.list.len() > MOST {
        return Err(bad("models", format_args!("must hold at most {MOST} models")));
    }
    models.allow_all = allow_all.is_none_or(|flag| flag.0);
    Ok(())
}

/// Clients name them in the query or in a body.
async fn forget(call: AdminCall) -> Result<AdminReply, Problem> {
    let found = find(&call).await?;
    let mut slugs: Vec<String> = call.query.list("slugs", "must be comma-separated model slugs")?;
    let body = call.body()?;
    for name in ["models", "slugs"] {
        if let Some(given) = body.0.get(name) {
            let given: Vec<String> =
                Vec::deserialize(given).map_err(|_| bad(name, "must be an array of model slugs"))?;
            slugs.extend(given);
        }
    }
    if slugs.is_empty() {
        return Err(bad("slugs", "is required"));
    }
    change(&call, found, |row| {
        row.doc.models.list.retain(|slug, _| !slugs.contains(slug));
        Ok(())
    })
    .await
}

/// The integration that the path names, and the revision from before it was read. What does not exist for the
/// actor is said before anything about the body.
async fn find(call: &AdminCall) -> Result<(Revision, ResourceRow<Integration>), Problem> {
    let seen = call.snapshot().revision;
    Ok((seen, locate::<Integration>(call, call.query.text("workspace_id"), Action::Update).await?))
}

/// One change of an integration's document, told and in force.
async fn change<F>(
    call: &AdminCall,
    (seen, row): (Revision, ResourceRow<Integration>),
    edit: F,
) -> Result<AdminReply, Problem>
where
    F: FnOnce(&mut ResourceRow<Integration>) -> Result<(), Problem> + Send,
{
    let mut told = call.body()?.0;
    settings::blank_models(&mut told);
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        edit(&mut row)?;
        row.touch(call.now);
        let stored = row.stored()?;
        let audit = vec![audit(call, Action::Update, &stored, &told)];
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}
