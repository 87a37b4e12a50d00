//! Which workspaces may use an MCP integration of the organisation.

use crate::change::{Action, WriteView, audit};
use crate::input::Flag;
use crate::problem::{Problem, bad, conflict};
use crate::resource::{Row, locate};
use crate::route::{Call, Reply};
use gateway_domain::ports::Batch;
use gateway_domain::resource::mcp::McpIntegration;
use serde::Deserialize;
use serde_json::{Value, json};

/// Entries of one request that lets workspaces in.
const MOST_WORKSPACES: usize = 1000;

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

pub(super) async fn list(call: Call) -> Result<Reply, Problem> {
    let row = locate::<McpIntegration>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let newer = call.query.one_of("version", &["v1", "v2", "1", "2"])?.is_some_and(|version| version.ends_with('2'));
    let snapshot = call.snapshot();
    let all = row.doc.access.workspaces.iter().filter_map(|(id, enabled)| {
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
    Ok(Reply::json(view))
}

pub(super) async fn set(call: Call) -> Result<Reply, Problem> {
    let snapshot = call.snapshot();
    let row = locate::<McpIntegration>(&call, call.query.text("workspace_id"), Action::Update).await?;
    let body = call.body()?;
    let told = body.0.clone();
    let given: GivenSeats = body.read()?;
    if row.workspace.is_some() {
        return Err(conflict("an MCP integration of a workspace serves that one alone"));
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
            row.doc.access.workspaces.clear();
        }
        if let Some(global) = &given.global_workspace_access {
            row.doc.access.global = global.enabled.0;
        }
        row.doc.access.workspaces.extend(seats);
        row.touch(call.now);
        let rows = vec![row.stored()?];
        let audit = vec![audit(&call, Action::Update, &rows[0], &told)];
        Ok(Batch { rows, audit, ..Batch::default() })
    };
    let revision = call.commit(snapshot.revision, decide).await?;
    Ok(Reply::json(json!({})).at(revision))
}

/// Whether it is open to workspaces that nobody told of.
pub(super) fn is_global(row: &Row<McpIntegration>) -> bool {
    row.workspace.is_none() && row.doc.access.global
}
