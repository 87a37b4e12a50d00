//! Guardrails that judge every request of every workspace of the organisation, save those that are excluded.

use super::own_organisation::own;
use crate::change::{Action, WriteView, audit};
use crate::input::Edit;
use crate::problem::{Problem, missing};
use crate::resource::check_organisation;
use crate::resource::guardrail::KnownGuardrails;
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::ports::Batch;
use gateway_domain::scope::Scope;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) fn routes(read: &'static [Scope], update: &'static [Scope]) -> Vec<AdminRoute> {
    const HERE: &str = "/admin/organisation/defaults";
    vec![
        authed(Method::GET, HERE, read, "Show the default guardrails of the organisation", show),
        authed(Method::PUT, HERE, update, "Change the default guardrails of the organisation", change)
            .takes::<DefaultsBody>()
            .and(&["organisation_id"]),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DefaultsBody {
    #[serde(default)]
    input_guardrails: Edit<Vec<Value>>,
    #[serde(default)]
    output_guardrails: Edit<Vec<Value>>,
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    let snapshot = call.snapshot();
    let org = snapshot.org(call.actor.org).ok_or_else(|| missing("organisation"))?;
    let told = |slugs: &[String]| -> Vec<Value> {
        let found = slugs.iter().filter_map(|slug| org.guardrail(slug));
        found.map(|g| json!({"id": g.id, "slug": *g.slug})).collect()
    };
    let lists = &own(&call).await?.doc.default_guardrails;
    Ok(AdminReply::json(json!({
        "object": "organisation-defaults",
        "input_guardrails": told(&lists.input),
        "output_guardrails": told(&lists.output),
    })))
}

async fn change(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = own(&call).await?;
    let mut body = call.body()?;
    let told = body.0.clone();
    check_organisation(&call, &mut body)?;
    let patch: DefaultsBody = body.read()?;
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        let org = around.snapshot.org(call.actor.org).ok_or_else(|| missing("organisation"))?;
        let known = KnownGuardrails { org, workspace: None };
        if let Some(given) = patch.input_guardrails.or_default() {
            row.doc.default_guardrails.input = known.resolve("input_guardrails", &given)?;
        }
        if let Some(given) = patch.output_guardrails.or_default() {
            row.doc.default_guardrails.output = known.resolve("output_guardrails", &given)?;
        }
        row.touch(call.now);
        let stored = row.stored()?;
        let audit = vec![audit(&call, Action::Update, &stored, &told)];
        Ok(Batch { rows: vec![stored], audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}
