//! Which workspaces may borrow from an integration of the organisation: all, but for those that are told
//! otherwise, or none but those. Who is let in gets a managed provider along, unless told not to.

use super::{AUTO, READ, UPDATE};
use crate::change::{Action, Around, audit, commit};
use crate::input::{Body, Flag};
use crate::problem::{Problem, bad};
use crate::resource::{Draft, Row, Slug, locate};
use crate::route::{Call, Reply, Route, authed};
use gateway_domain::id::{IntegrationId, WorkspaceId};
use gateway_domain::ports::Batch;
use gateway_domain::resource::integration::Integration;
use gateway_domain::resource::provider::Provider;
use gateway_domain::snapshot::Snapshot;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(super) fn routes() -> Vec<Route> {
    const PATH: &str = "/integrations/{id}/workspaces";
    vec![
        authed(Method::GET, PATH, READ, "List the workspaces that were let in or shut out", list),
        authed(Method::PUT, PATH, UPDATE, "Let workspaces in or shut them out", set).takes::<Given>(),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    workspaces: Option<Vec<Map<String, Value>>>,
    global_workspace_access: Option<Map<String, Value>>,
    override_existing_workspace_access: Option<Flag>,
    create_default_provider: Option<Flag>,
    default_provider_slug: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seat {
    id: String,
    enabled: Flag,
    create_default_provider: Option<Flag>,
    default_provider_slug: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Global {
    enabled: Flag,
}

struct Change {
    workspace: WorkspaceId,
    enabled: bool,
    /// The slug that its provider gets, where one is to be made.
    provider: Option<Option<String>>,
}

static LATER: &[&str] = &["usage_limits", "rate_limits", "reset_usage"];

async fn list(call: Call) -> Result<Reply, Problem> {
    let row = locate::<Integration>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let snapshot = call.snapshot();
    let slug = |id: &WorkspaceId| snapshot.workspace(*id).map(|w| w.slug.to_string());
    let told = row.doc.access.workspaces.iter().filter_map(|(id, enabled)| Some((slug(id)?, *enabled)));
    let told = told.map(|(id, on)| json!({"id": id, "enabled": on, "usage_limits": null, "rate_limits": null}));
    let data: Vec<Value> = told.collect();
    let global = json!({"enabled": row.workspace.is_none() && row.doc.access.global});
    Ok(Reply::json(json!({"total": data.len(), "workspaces": data, "global_workspace_access": global})))
}

fn seat(i: usize, given: Map<String, Value>) -> Result<Seat, Problem> {
    let under = format!("workspaces[{i}].");
    let mut body = Body(given);
    body.refuse_later(&under, LATER)?;
    body.read_under(&under)
}

fn changes(given: &mut Given, call: &Call, snapshot: &Snapshot) -> Result<Vec<Change>, Problem> {
    let make = given.create_default_provider.is_none_or(|f| f.0);
    let mut out = Vec::new();
    for (i, item) in given.workspaces.take().unwrap_or_default().into_iter().enumerate() {
        let seat = seat(i, item)?;
        let found = call.actor.named(snapshot, Some(&seat.id)).ok().flatten();
        let workspace =
            found.ok_or_else(|| bad(format_args!("workspaces[{i}].id"), "names no workspace of this organisation"))?;
        let make = seat.enabled.0 && seat.create_default_provider.map_or(make, |f| f.0);
        let slug = seat.default_provider_slug.or_else(|| given.default_provider_slug.clone());
        out.push(Change { workspace, enabled: seat.enabled.0, provider: make.then_some(slug) });
    }
    Ok(out)
}

async fn set(call: Call) -> Result<Reply, Problem> {
    let snapshot = call.snapshot();
    let row = locate::<Integration>(&call, call.query.text("workspace_id"), Action::Update).await?;
    if row.workspace.is_some() {
        return Err(bad("workspaces", "cannot be set: the integration belongs to one workspace"));
    }
    let body = call.body()?;
    let told = body.0.clone();
    let mut given: Given = body.read()?;
    let global = given.global_workspace_access.take().map(Body).map(|mut body| {
        body.refuse_later("global_workspace_access.", LATER)?;
        body.read_under::<Global>("global_workspace_access.")
    });
    let global = global.transpose()?;
    let changes = changes(&mut given, &call, &snapshot)?;
    let mut along = Vec::new();
    for change in &changes {
        along.extend(provider(&call, &snapshot, &row, change).await?);
    }
    let decide = |around: &Around<'_>| {
        let mut row = around.newest(row)?;
        if given.override_existing_workspace_access.is_some_and(|f| f.0) {
            row.doc.access.workspaces.clear();
        }
        if let Some(global) = global {
            row.doc.access.global = global.enabled.0;
        }
        for change in &changes {
            row.doc.access.workspaces.insert(change.workspace, change.enabled);
        }
        row.touch(call.now);
        let mut rows = vec![row.stored()?];
        let mut audits = vec![audit(&call, Action::Update, &rows[0], &told)];
        let after = around.plus(&rows)?;
        for provider in &mut along {
            provider.enter(&after)?;
            let stored = provider.row.stored()?;
            audits.push(audit(&call, Action::Create, &stored, &told));
            rows.push(stored);
        }
        Ok(Batch { rows, audit: audits, ..Batch::default() })
    };
    let revision = commit(&call.app, snapshot.revision, decide).await?;
    Ok(Reply::json(json!({})).at(revision))
}

/// For a workspace that is let in and borrows nothing from the integration yet.
async fn provider(
    call: &Call,
    snapshot: &Snapshot,
    of: &Row<Integration>,
    change: &Change,
) -> Result<Option<Draft<Provider>>, Problem> {
    let Some(slug) = &change.provider else { return Ok(None) };
    let borrows = |w: &gateway_domain::snapshot::Workspace| w.providers().any(|p| p.integration.0 == of.id);
    if snapshot.workspace(change.workspace).is_none_or(|w| borrows(w)) {
        return Ok(None);
    }
    let mut rest = Map::new();
    rest.insert(AUTO.into(), "auto".into());
    let doc = Provider { integration_id: IntegrationId(of.id), note: None, expires_at: None, rest };
    let mut row = Row::fresh(&call.app, of.org, Some(change.workspace), Some(call.actor.key.0), doc);
    row.name.clone_from(&of.name);
    let slug = Slug::given("default_provider_slug", slug.clone())?.unwrap_or_else(|| Slug::Derived(of.slug.clone()));
    let mut draft = Draft { row, slug };
    draft.settle(call).await?;
    Ok(Some(draft))
}
