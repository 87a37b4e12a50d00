//! Accounts that people connected at the servers behind an MCP server: who has one, and the end of them. Told and ended are those of people
//! who have a seat in the server's workspace; an integration of the organisation may have others.

use crate::change::Action;
use crate::mcp_account::remove;
use crate::problem::{Problem, missing};
use crate::resource::{Row, locate};
use crate::route::{Call, Reply};
use gateway_domain::id::{McpIntegrationId, UserId};
use gateway_domain::ports::McpAccount;
use gateway_domain::resource::mcp::McpServer;
use gateway_domain::snapshot::McpBehind;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Rows of one look.
const PAGE: u32 = 1_000;
/// Rows of a page that is told.
const MOST_ROWS: u64 = 500;

/// In the order of their users.
async fn found(call: &Call, server: &Row<McpServer>, only: Option<UserId>) -> Result<Vec<McpAccount>, Problem> {
    let snapshot = call.snapshot();
    let workspace = server.workspace.and_then(|id| snapshot.workspace(id)).ok_or_else(|| missing("workspace"))?;
    let mut all = Vec::new();
    for integration in integrations_of(call, server) {
        let mut after = None;
        loop {
            let some = call.app.accounts.accounts_of(integration, after, PAGE).await?;
            let Some(last) = some.last() else { break };
            after = Some(last.id.user);
            let is_theirs = |row: &McpAccount| {
                row.org == server.org
                    && only.is_none_or(|user| user == row.id.user)
                    && snapshot.standing(row.id.user, workspace).is_some()
            };
            all.extend(some.into_iter().filter(is_theirs));
        }
    }
    all.sort_by_key(|row| (row.id.user, row.id.integration));
    Ok(all)
}

/// People who need not sign in anywhere before they call.
pub(super) async fn connected(call: &Call, server: &Row<McpServer>) -> Result<BTreeSet<UserId>, Problem> {
    let all = found(call, server, None).await?;
    Ok(all.iter().filter(|row| row.is_connected()).map(|row| row.id.user).collect())
}

pub(super) async fn list(call: Call) -> Result<Reply, Problem> {
    let server = locate::<McpServer>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let paging = call.query.paging_by("current_page", "page_size", MOST_ROWS)?;
    let only = call.query.parsed::<UserId>("user_id", "must be a user's id")?;
    let all = found(&call, &server, only).await?;
    let (total, more) = (all.len(), (paging.page + 1).saturating_mul(paging.size) < all.len() as u64);
    let data: Vec<Value> = paging.cut(&all).iter().map(shown).collect();
    Ok(Reply::json(json!({"data": data, "total": total, "has_more": more})))
}

fn shown(row: &McpAccount) -> Value {
    json!({
        "user_id": row.id.user, "mcp_integration_id": row.id.integration, "connected": row.is_connected(),
        "created_at": row.created_at, "last_updated_at": row.updated_at,
    })
}

/// From the answer on this node calls with none of them, and others within seconds.
pub(super) async fn end(call: Call) -> Result<Reply, Problem> {
    let server = locate::<McpServer>(&call, call.query.text("workspace_id"), Action::Update).await?;
    let only = call.query.parsed::<UserId>("user_id", "must be a user's id")?;
    for row in found(&call, &server, only).await? {
        remove(&call.app, row.id).await?;
    }
    Ok(Reply::json(json!({"success": true})))
}

/// The integrations that a server leads to.
fn integrations_of(call: &Call, server: &Row<McpServer>) -> BTreeSet<McpIntegrationId> {
    let snapshot = call.snapshot();
    let workspace = server.workspace.and_then(|id| snapshot.workspace(id));
    let of_members = server.doc.members.iter().filter_map(|member| {
        let behind = &workspace?.mcp_server_of(member.mcp_server_id)?.behind;
        if let McpBehind::Integration(id) = behind { Some(*id) } else { None }
    });
    server.doc.mcp_integration_id.into_iter().chain(of_members).collect()
}
