//! Which models an integration may be asked for. Everything is allowed until something is switched off, or until
//! only what is switched on shall be. What a model costs or where it lives is not set here yet.

use super::{READ, UPDATE};
use crate::change::{Action, Around, audit, commit};
use crate::input::{Body, Flag};
use crate::problem::{Problem, bad};
use crate::resource::{Row, locate};
use crate::route::{Call, Reply, Route, authed};
use gateway_domain::ports::{Batch, Revision};
use gateway_domain::resource::check_name;
use gateway_domain::resource::integration::{Integration, Model};
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

const MOST: usize = 5_000;

pub(super) fn routes() -> Vec<Route> {
    let mut rows = vec![
        authed(Method::GET, "/integrations/{id}/models", READ, "List the models that are switched on or off", list),
        authed(
            Method::DELETE,
            "/integrations/{id}/models",
            UPDATE,
            "Forget models: they are as all others again",
            forget,
        )
        .asks(&["slugs"]),
    ];
    for path in ["/integrations/{id}/models", "/integrations/{id}/integration-models"] {
        rows.push(authed(Method::PUT, path, UPDATE, "Switch models on and off", set).takes::<Given>());
    }
    rows
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    models: Vec<Map<String, Value>>,
    allow_all_models: Option<Flag>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Switch {
    slug: String,
    enabled: Flag,
    #[serde(default)]
    is_custom: Option<Flag>,
}

async fn list(call: Call) -> Result<Reply, Problem> {
    let row = locate::<Integration>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let models = &row.doc.models;
    let data: Vec<Value> = models.list.iter().map(|(slug, model)| view(slug, model)).collect();
    Ok(Reply::json(json!({"total": data.len(), "models": data, "allow_all_models": models.allow_all})))
}

fn view(slug: &str, model: &Model) -> Value {
    json!({
        "slug": slug,
        "name": slug,
        "enabled": model.enabled,
        "is_custom": model.is_custom,
        "is_finetune": false,
        "base_model_slug": null,
        "pricing_config": null,
    })
}

fn read(i: usize, given: Map<String, Value>) -> Result<Switch, Problem> {
    let under = format!("models[{i}].");
    let mut body = Body(given);
    body.0.shift_remove("name");
    if body.0.get("is_finetune").is_some_and(|v| *v == "false") {
        body.0.shift_remove("is_finetune");
    }
    let later =
        ["is_finetune", "base_model_slug", "configurations", "custom_headers", "pricing_config", "pricing_adjustments"];
    body.refuse_later(&under, &later)?;
    let switch: Switch = body.read_under(&under)?;
    check_name(&format!("{under}slug"), &switch.slug)?;
    Ok(switch)
}

async fn set(call: Call) -> Result<Reply, Problem> {
    let found = find(&call).await?;
    let given: Given = call.body()?.read()?;
    let switches = given.models.into_iter().enumerate().map(|(i, m)| read(i, m)).collect::<Result<Vec<_>, _>>()?;
    change(&call, found, |row| {
        for switch in switches {
            let known = row.doc.models.list.get(&switch.slug).is_some_and(|m| m.is_custom);
            let is_custom = switch.is_custom.map_or(known, |f| f.0);
            row.doc.models.list.insert(switch.slug, Model { enabled: switch.enabled.0, is_custom });
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

/// Clients name them in the query or in a body.
async fn forget(call: Call) -> Result<Reply, Problem> {
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
async fn find(call: &Call) -> Result<(Revision, Row<Integration>), Problem> {
    let seen = call.snapshot().revision;
    Ok((seen, locate::<Integration>(call, call.query.text("workspace_id"), Action::Update).await?))
}

/// One change of an integration's document, told and in force.
async fn change<F>(call: &Call, (seen, row): (Revision, Row<Integration>), edit: F) -> Result<Reply, Problem>
where
    F: FnOnce(&mut Row<Integration>) -> Result<(), Problem> + Send,
{
    let told = call.body()?.0;
    let decide = |around: &Around<'_>| {
        let mut row = around.newest(row)?;
        edit(&mut row)?;
        row.touch(call.now);
        let stored = row.stored()?;
        let audit = vec![audit(call, Action::Update, &stored, &told)];
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = commit(&call.app, seen, decide).await?;
    Ok(Reply::json(json!({})).at(revision))
}
