//! Which workspaces may use an integration of the organisation with an MCP server or an agent.

use super::{Resource, ResourceRow, locate};
use crate::change::{Action, WriteView, audit};
use crate::input::Flag;
use crate::problem::{Problem, bad, conflict};
use crate::resource::declared::{Assuming, Declaring, put, take};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::Batch;
use gateway_domain::resource::Kind;
use gateway_domain::resource::access::WorkspaceAccess;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Entries of one request that lets workspaces in.
const MOST_WORKSPACES: usize = 1000;

/// An integration that workspaces are let in to.
pub(super) trait OpenToWorkspaces: Resource {
    fn access(&self) -> &WorkspaceAccess;
    fn access_mut(&mut self) -> &mut WorkspaceAccess;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenSeats {
    workspaces: Vec<GivenSeat>,
    global_workspace_access: Option<GivenGlobal>,
    #[serde(default)]
    override_existing_workspace_access: Flag,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenSeat {
    id: String,
    enabled: Flag,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenGlobal {
    enabled: Flag,
}

pub(super) async fn list<R: OpenToWorkspaces>(call: AdminCall) -> Result<AdminReply, Problem> {
    let row = locate::<R>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let newer = call.query.one_of("version", &["v1", "v2", "1", "2"])?.is_some_and(|version| version.ends_with('2'));
    let snapshot = call.snapshot();
    let all = row.doc.access().workspaces.iter().filter_map(|(id, enabled)| {
        let workspace = snapshot.workspace(*id)?;
        Some(json!({"id": workspace.slug, "name": workspace.name, "enabled": enabled}))
    });
    let data: Vec<Value> = all.collect();
    let global = json!({"enabled": is_global(&row)});
    let total = data.len();
    let view = if newer {
        json!({"data": data, "global_workspace_access": global, "total": total})
    } else {
        json!({"workspaces": data, "global_workspace_access": global, "total": total})
    };
    Ok(AdminReply::json(view))
}

pub(super) async fn set<R: OpenToWorkspaces>(call: AdminCall) -> Result<AdminReply, Problem> {
    let snapshot = call.snapshot();
    let row = locate::<R>(&call, call.query.text("workspace_id"), Action::Update).await?;
    let body = call.body()?;
    let told = body.0.clone();
    let given: GivenSeats = body.read()?;
    if row.workspace.is_some() {
        return Err(serves_one::<R>());
    }
    if given.workspaces.len() > MOST_WORKSPACES {
        return Err(bad("workspaces", format_args!("must hold at most {MOST_WORKSPACES} entries")));
    }
    let mut seats = Vec::new();
    for (at, seat) in given.workspaces.iter().enumerate() {
        let found = call.actor.named(&snapshot, Some(&seat.id)).ok().flatten();
        let id = found.ok_or_else(|| bad(format_args!("workspaces[{at}].id"), "names no workspace"))?;
        seats.push((id, seat.enabled.0));
    }
    let decide = |around: &WriteView<'_>| {
        let mut row = around.newest(row)?;
        if given.override_existing_workspace_access.0 {
            row.doc.access_mut().workspaces.clear();
        }
        if let Some(global) = &given.global_workspace_access {
            row.doc.access_mut().global = global.enabled.0;
        }
        row.doc.access_mut().workspaces.extend(seats);
        row.touch(call.now);
        let rows = vec![row.stored()?];
        let audit = vec![audit(&call, Action::Update, &rows[0], &told)];
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(snapshot.revision, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}

/// Whether it is open to workspaces that nobody told of.
pub(super) fn is_global<R: OpenToWorkspaces>(row: &ResourceRow<R>) -> bool {
    row.workspace.is_none() && row.doc.access().global
}

fn serves_one<R: Resource>() -> Problem {
    conflict(format!("an {} of a workspace serves that one alone", R::NOUN))
}

/// Puts which workspaces have access into the fields of a declaration, as a configuration file holds it.
pub(super) fn declare(access: &WorkspaceAccess, fields: &mut Map<String, Value>, to: &Declaring<'_>) {
    if !access.global {
        fields.insert("global_workspace_access".to_owned(), json!({"enabled": false}));
    }
    let seats = access.workspaces.iter().filter(|(id, _)| to.names.knows(Kind::Workspace, id.0));
    let mut seats: Vec<(String, bool)> = seats.map(|(id, on)| (to.names.name(id.0), *on)).collect();
    seats.sort();
    let seats = seats.into_iter().map(|(name, on)| json!({"id": name, "enabled": on}));
    put(fields, "workspaces", seats.collect::<Vec<_>>());
}

/// Reads which workspaces have access from a configuration file, and takes that out of the fields.
pub(super) fn assume<R: Resource>(
    fields: &mut Map<String, Value>,
    home: Option<WorkspaceId>,
    from: &Assuming<'_>,
) -> Result<WorkspaceAccess, Problem> {
    let global: Option<GivenGlobal> = take(fields, "global_workspace_access")?;
    let seats: Vec<GivenSeat> = take(fields, "workspaces")?.unwrap_or_default();
    if home.is_some() && (global.is_some() || !seats.is_empty()) {
        return Err(serves_one::<R>());
    }
    let mut access = WorkspaceAccess { global: global.is_none_or(|global| global.enabled.0), ..Default::default() };
    for (at, seat) in seats.iter().enumerate() {
        let id = WorkspaceId(from.find(Kind::Workspace, None, &format!("workspaces[{at}].id"), &seat.id)?);
        if access.workspaces.insert(id, seat.enabled.0).is_some() {
            return Err(bad(format_args!("workspaces[{at}].id"), "is named again"));
        }
    }
    Ok(access)
}
