//! The end of a workspace and of everything in it, in one write.

use crate::change::{Action, WriteView, audit};
use crate::input::Flag;
use crate::problem::{Problem, bad, conflict};
use crate::resource::{locate, pages, tombstone};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::id::WorkspaceId;
use gateway_domain::ports::{Batch, ResourceQuery};
use gateway_domain::resource::workspace::Workspace;
use gateway_domain::resource::{Kind, Stored};
use serde::Deserialize;
use serde_json::{Map, json};

/// What lives in a workspace, and what it is called when it stands in the way.
const INSIDE: &[(Kind, Option<&str>)] = &[
    (Kind::ApiKey, Some("API keys")),
    (Kind::Config, Some("configs")),
    (Kind::Guardrail, Some("guardrails")),
    (Kind::McpServer, Some("MCP servers")),
    (Kind::McpIntegration, Some("MCP integrations")),
    (Kind::AgentServer, Some("agent servers")),
    (Kind::AgentIntegration, Some("agent integrations")),
    (Kind::Provider, Some("providers")),
    (Kind::Integration, Some("integrations")),
    (Kind::RateLimitPolicy, Some("rate-limit policies")),
    (Kind::UsageLimitPolicy, Some("usage-limit policies")),
    (Kind::Alert, Some("alert rules")),
    (Kind::Prompt, Some("prompts")),
    (Kind::PromptPartial, Some("prompt partials")),
    (Kind::Collection, None),
    (Kind::Label, None),
    (Kind::Member, None),
];

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteWorkspace {
    /// The name or slug of the workspace, as a proof that the right one is meant.
    name: Option<String>,
    #[serde(default)]
    force_delete: Flag,
}

pub(super) async fn delete(call: AdminCall) -> Result<AdminReply, Problem> {
    let seen = call.snapshot().revision;
    let row = locate::<Workspace>(&call, None, Action::Delete).await?;
    let asked: DeleteWorkspace = call.body()?.read()?;
    if asked.name.as_ref().is_some_and(|name| *name != row.name && *name != row.slug) {
        return Err(bad("name", "is not the name of this workspace"));
    }
    let id = WorkspaceId(row.id);
    let read = inside(&call, id).await?;
    let decide = |around: &WriteView<'_>| {
        let row = around.newest(row)?;
        if around.snapshot.org(row.org).is_some_and(|o| o.default_workspace == id) {
            return Err(conflict("the default workspace of the organisation cannot be deleted"));
        }
        let rows = around.now(read, |r| r.workspace == Some(id.0));
        if !asked.force_delete.0 {
            refuse_full(&rows)?;
        }
        let mut gone = rows.into_iter().map(|r| tombstone(r, call.now)).collect::<Result<Vec<_>, _>>()?;
        gone.push(row.tombstone(call.now)?);
        let audit = gone.iter().map(|row| audit(&call, Action::Delete, row, &Map::new())).collect();
        Ok(Batch { rows: gone, audit, ..Batch::default() })
    };
    let revision = call.commit(seen, decide).await?;
    Ok(AdminReply::json(json!({})).at(revision))
}

fn refuse_full(rows: &[Stored]) -> Result<(), Problem> {
    let mut held = Vec::new();
    for (kind, noun) in INSIDE {
        let count = rows.iter().filter(|r| r.kind == kind.name() && r.status != "archived").count();
        if let Some(noun) = noun.filter(|_| count > 0) {
            held.push(format!("{count} {noun}"));
        }
    }
    if held.is_empty() {
        return Ok(());
    }
    Err(conflict(format!("the workspace still holds {}; force_delete deletes them with it", held.join(", "))))
}

async fn inside(call: &AdminCall, workspace: WorkspaceId) -> Result<Vec<Stored>, Problem> {
    let mut rows = Vec::new();
    for (kind, _) in INSIDE {
        let workspace = Some(Some(workspace));
        let query = ResourceQuery { workspace, ..ResourceQuery::all(*kind, call.actor.org) };
        rows.extend(pages(&call.app, query).await?);
    }
    Ok(rows)
}
