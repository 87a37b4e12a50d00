//! The document over the Admin API. Secrets come beside it: what the gateway itself has in its environment is nothing
//! that a client may name.

use super::apply::run;
use super::author::Author;
use super::declare::Export;
use super::report::ManifestAct;
use super::stored_rows::StoredRows;
use super::text::{DocumentBounds, parse};
use super::{json_stream, kinds};
use crate::change::Action;
use crate::input::Flag;
use crate::problem::{Problem, forbidden};
use crate::resource::declared::secrets::SecretValues;
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::resource::api_key::KeyKind;
use gateway_domain::scope::Scope;
use http::Method;
use serde::Deserialize;
use std::collections::BTreeMap;

const READ: &[Scope] = &[Scope::named("organisation_settings.read")];
const UPDATE: &[Scope] = &[Scope::named("organisation_settings.update")];

pub(crate) fn routes() -> Vec<AdminRoute> {
    vec![
        authed(
            Method::GET,
            "/configuration",
            READ,
            "Write the configuration of the organisation as one YAML document",
            show,
        ),
        authed(
            Method::POST,
            "/configuration/import",
            UPDATE,
            "Put a configuration document in force, all or nothing",
            import,
        )
        .takes::<GivenDocument>(),
        authed(
            Method::POST,
            "/configuration/diff",
            READ,
            "Say how a configuration document differs from what is stored",
            diff,
        )
        .takes::<ComparedDocument>(),
        authed(
            Method::POST,
            "/configuration/prune",
            UPDATE,
            "Delete what the lists of a configuration document do not hold",
            remove,
        )
        .takes::<PruningDocument>(),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenDocument {
    document: String,
    #[serde(default)]
    secrets: BTreeMap<String, String>,
    #[serde(default)]
    dry_run: Flag,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ComparedDocument {
    document: String,
    #[serde(default)]
    secrets: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PruningDocument {
    document: String,
    #[serde(default)]
    dry_run: Flag,
}

/// All of an organisation is the business of its own keys.
fn check_kind(call: &AdminCall) -> Result<(), Problem> {
    if call.actor.kind == KeyKind::OrganisationService {
        return Ok(());
    }
    Err(forbidden("the configuration of an organisation is read and written with an Admin key"))
}

async fn show(call: AdminCall) -> Result<AdminReply, Problem> {
    check_kind(&call)?;
    let stored = StoredRows::load(&call.app, Some(call.actor.org)).await?;
    for row in &stored.rows {
        if let Some(kind) = kinds::of(&row.kind) {
            (kind.allow)(row, &call.actor, Action::Read).map_err(|why| {
                let lacking = why.message.trim_start_matches("this API key lacks the scope ");
                forbidden(format!("the configuration is read by who may read all that is in it: {lacking}"))
            })?;
        }
    }
    Ok(json_stream::answer(Export::new(stored, &call)?, call))
}

async fn answer(
    call: &AdminCall,
    document: &str,
    secrets: SecretValues,
    act: ManifestAct,
) -> Result<AdminReply, Problem> {
    check_kind(call)?;
    let manifest = parse(document, DocumentBounds::Client)?;
    let report = run(&call.app, &Author::Call(call), &manifest, &secrets, act).await?;
    let reply = AdminReply::json(report.json());
    Ok(match report.revision {
        Some(revision) => reply.at(revision),
        None => reply,
    })
}

async fn import(call: AdminCall) -> Result<AdminReply, Problem> {
    let given: GivenDocument = call.body()?.read()?;
    let secrets = SecretValues::of(given.secrets)?;
    answer(&call, &given.document, secrets, ManifestAct::Import { dry_run: given.dry_run.0 }).await
}

async fn diff(call: AdminCall) -> Result<AdminReply, Problem> {
    let given: ComparedDocument = call.body()?.read()?;
    answer(&call, &given.document, SecretValues::of(given.secrets)?, ManifestAct::Diff).await
}

async fn remove(call: AdminCall) -> Result<AdminReply, Problem> {
    let given: PruningDocument = call.body()?.read()?;
    let act = ManifestAct::Prune { dry_run: given.dry_run.0 };
    answer(&call, &given.document, SecretValues::default(), act).await
}
