//! A credential tried: one cheap call with it, at any time, or before it is saved (`?test=true`), so that nothing is
//! stored that does not open its provider. Knows no provider: the port calls it, and says in its words what came of it.

use crate::change::{Action, audit};
use crate::input::JsonBody;
use crate::problem::{Problem, bad, busy, forbidden, internal, not_built};
use crate::resource::{Resource, ResourceRow, check_organisation, locate};
use crate::route::{AdminCall, AdminReply, AdminRoute, HERE, authed};
use gateway_domain::id::IntegrationId;
use gateway_domain::ports::{Batch, Changes, CredentialTrial, CredentialTrials, CredentialUntried, CredentialVerdict};
use gateway_domain::resource::integration::Integration;
use gateway_domain::resource::provider::Provider;
use gateway_domain::resource::{Kind, Stored, check_name};
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::Upstream;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Query parameters of a write that tries the credential it is about to save.
pub(in crate::resource) const TRIED: &[&str] = &["test", "test_model"];

pub(super) fn routes(update: &'static [Scope]) -> Vec<AdminRoute> {
    const BORROWED: &[Scope] = &[Scope::named("providers.update"), Scope::named("virtual_keys.update")];
    vec![
        authed(Method::POST, "/integrations/{id}/test", update, "Try the credential of an integration", of_integration)
            .takes::<TrialAsked>()
            .asks(HERE),
        authed(Method::POST, "/providers/{id}/test", BORROWED, "Try the credential behind a provider", of_provider)
            .takes::<TrialAsked>()
            .asks(HERE),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrialAsked {
    model: Option<String>,
}

async fn of_integration(call: AdminCall) -> Result<AdminReply, Problem> {
    let model = call.body()?.read::<TrialAsked>()?.model;
    let row = locate::<Integration>(&call, call.query.text("workspace_id"), Action::Update).await?;
    tried(&call, &row, ("", model)).await
}

async fn of_provider(call: AdminCall) -> Result<AdminReply, Problem> {
    let model = call.body()?.read::<TrialAsked>()?.model;
    let row = locate::<Provider>(&call, call.query.text("workspace_id"), Action::Update).await?;
    let behind = row.doc.integration_id.to_string();
    let found = call.app.directory.get(Kind::Integration, row.org, None, &behind).await?;
    let behind =
        ResourceRow::<Integration>::read(&found.ok_or_else(|| internal("a provider without its integration"))?)?;
    tried(&call, &behind, (&row.slug, model)).await
}

/// `provider`: by whose slug a key may be held to models.
async fn tried(
    call: &AdminCall,
    row: &ResourceRow<Integration>,
    (provider, model): (&str, Option<String>),
) -> Result<AdminReply, Problem> {
    trials(call)?;
    let upstream = upstream(call, &row.stored()?)?;
    let trial = permitted(call, upstream, model, provider)?;
    // Told before anything leaves, as it costs whoever pays for the credential.
    let request = Map::from_iter([("test".to_owned(), Value::Bool(true))]);
    let audit = vec![audit(call, Action::Warn, &row.stored()?, &request)];
    call.commit(call.snapshot().revision, |_| Ok(Batch { audit, ..Batch::default() })).await?;
    let verdict = run(call, &trial).await?;
    Ok(AdminReply::json(json!({
        "object": "credential-test",
        "success": verdict.error.is_none(),
        "asked": verdict.asked,
        "status_code": verdict.status,
        "response_time_ms": verdict.millis,
        "models": verdict.models,
        "error": verdict.error,
    })))
}

/// Whether the write is to try what it saves.
fn is_wanted(call: &AdminCall) -> Result<bool, Problem> {
    let wanted = call.query.one_of("test", &["true", "false"])? == Some("true");
    if !wanted && call.query.text("test_model").is_some() {
        return Err(bad("test_model", "is of no use without test=true"));
    }
    Ok(wanted)
}

/// Refuses a row whose credential does not open its provider, where the request asks for that.
pub(in crate::resource) async fn before_saving(
    call: &AdminCall,
    row: &ResourceRow<Integration>,
) -> Result<(), Problem> {
    if !is_wanted(call)? {
        return Ok(());
    }
    let model = call.query.text("test_model").map(str::to_owned);
    let trial = permitted(call, upstream(call, &row.stored()?)?, model, "")?;
    let verdict = run(call, &trial).await?;
    match verdict.error {
        None => Ok(()),
        Some(error) => {
            let status = verdict.status.map_or_else(|| "no answer".to_owned(), |status| format!("status {status}"));
            let provider = trial.upstream.provider.slug;
            Err(bad("key", format_args!("was tried at {provider} and is not good ({status}): {error}")))
        }
    }
}

/// Applies [`before_saving`] to a row as a change would leave it.
pub(super) async fn before_change(call: &AdminCall, body: &JsonBody) -> Result<(), Problem> {
    if !is_wanted(call)? {
        return Ok(());
    }
    let mut body = JsonBody(body.0.clone());
    let given = body.take_text("workspace_id")?;
    check_organisation(call, &mut body)?;
    let given = given.as_deref().or_else(|| call.query.text("workspace_id"));
    let mut row = locate::<Integration>(call, given, Action::Update).await?;
    body.refuse_later("", Integration::LATER)?;
    Integration::patch(&mut row, body.read::<<Integration as Resource>::Patch>()?, call)?;
    before_saving(call, &row).await
}

/// The upstream that requests would call if the row were in force.
fn upstream(call: &AdminCall, row: &Stored) -> Result<Arc<Upstream>, Problem> {
    let snapshot = call.snapshot();
    let changes = Changes { revision: snapshot.revision, rows: vec![row.clone()] };
    let (snapshot, problems) = snapshot.apply(&changes, &call.app.build());
    if let Some(problem) = problems.first() {
        return Err(bad(&problem.kind, format_args!("cannot be put in force: it {}", problem.message)));
    }
    snapshot.upstream(IntegrationId(row.id)).cloned().ok_or_else(|| internal("an integration that is not there"))
}

/// No model is asked for that could not be called.
fn permitted(
    call: &AdminCall,
    upstream: Arc<Upstream>,
    model: Option<String>,
    provider: &str,
) -> Result<CredentialTrial, Problem> {
    if let Some(model) = &model {
        check_name("model", model)?;
        if !upstream.models.allow(model) {
            return Err(bad("model", "is not enabled on the integration"));
        }
        let reach = call.actor.allowed_models.as_ref();
        if !reach.is_none_or(|reach| reach.allows(provider, std::iter::once(model.as_str()))) {
            return Err(forbidden("model is none that this API key may call (allowed_models)"));
        }
    }
    Ok(CredentialTrial { upstream, model })
}

fn trials(call: &AdminCall) -> Result<&dyn CredentialTrials, Problem> {
    call.app.credentials.as_deref().ok_or_else(|| not_built(call.method.as_str(), call.route.path))
}

async fn run(call: &AdminCall, trial: &CredentialTrial) -> Result<CredentialVerdict, Problem> {
    trials(call)?.run(trial).await.map_err(|why| match why {
        CredentialUntried::Busy => busy("too many credentials are being tried: try again in a moment"),
        CredentialUntried::Unfit(rule) => bad("model", rule),
    })
}
