//! Accounts that people connected at the servers behind an MCP server: who has one, and the end of them. Told and ended
//! are those of people who have a seat in the server's workspace; an integration of the organisation may have others.

use crate::change::Action;
use crate::mcp_account::remove;
use crate::problem::{Problem, missing};
use crate::resource::{ResourceRow, locate};
use crate::route::{AdminCall, AdminReply};
use gateway_domain::id::{McpIntegrationId, OrgId, UserId};
use gateway_domain::ports::{AccountPage, AccountsAsked, McpAccount};
use gateway_domain::resource::mcp::McpServer;
use gateway_domain::snapshot::McpBehind;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Rows of one page, whether it is shown to a client or gone through here.
const MOST_ROWS: u32 = 500;

/// The accounts that are shown or ended: those of these users behind these integrations.
struct ServerAccounts {
    org: OrgId,
    integrations: Vec<McpIntegrationId>,
    users: Vec<UserId>,
}

impl ServerAccounts {
    fn of(call: &AdminCall, server: &ResourceRow<McpServer>, only: Option<UserId>) -> Result<Self, Problem> {
        let snapshot = call.snapshot();
        let workspace = server.workspace.and_then(|id| snapshot.workspace(id)).ok_or_else(|| missing("workspace"))?;
        let people = snapshot.people().map(|person| person.id).filter(|id| only.is_none_or(|user| user == *id));
        let users = people.filter(|id| snapshot.standing(*id, workspace).is_some()).collect();
        Ok(Self { org: server.org, integrations: integrations_of(call, server).into_iter().collect(), users })
    }

    async fn page(&self, call: &AdminCall, skip: u64, most: u32) -> Result<AccountPage, Problem> {
        let Self { org, integrations, users } = self;
        let asked = AccountsAsked { org: *org, integrations, users, skip, most };
        Ok(call.app.accounts.accounts_page(asked).await?)
    }
}

/// People who need not sign in anywhere before they call.
pub(super) async fn connected(call: &AdminCall, server: &ResourceRow<McpServer>) -> Result<BTreeSet<UserId>, Problem> {
    let all = ServerAccounts::of(call, server, None)?;
    let (mut connected, mut seen) = (BTreeSet::new(), 0);
    loop {
        let page = all.page(call, seen, MOST_ROWS).await?;
        if page.rows.is_empty() {
            return Ok(connected);
        }
        seen += page.rows.len() as u64;
        connected.extend(page.rows.iter().filter(|row| row.is_connected()).map(|row| row.id.user));
    }
}

pub(super) async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let server = locate::<McpServer>(&call, call.query.text("workspace_id"), Action::Read).await?;
    let paging = call.query.paging_by("current_page", "page_size", u64::from(MOST_ROWS))?;
    let only = call.query.parsed::<UserId>("user_id", "must be a user's id")?;
    let most = u32::try_from(paging.size).unwrap_or(MOST_ROWS);
    let all = ServerAccounts::of(&call, &server, only)?;
    let page = all.page(&call, paging.page.saturating_mul(paging.size), most).await?;
    let more = (paging.page + 1).saturating_mul(paging.size) < page.total;
    let data: Vec<Value> = page.rows.iter().map(shown).collect();
    Ok(AdminReply::json(json!({"data": data, "total": page.total, "has_more": more})))
}

fn shown(row: &McpAccount) -> Value {
    json!({
        "user_id": row.id.user, "mcp_integration_id": row.id.integration, "connected": row.is_connected(),
        "created_at": row.created_at, "last_updated_at": row.updated_at,
    })
}

/// Ends accounts: once this is answered, this node calls with none of them, and the others stop within seconds.
pub(super) async fn end(call: AdminCall) -> Result<AdminReply, Problem> {
    let server = locate::<McpServer>(&call, call.query.text("workspace_id"), Action::Update).await?;
    let only = call.query.parsed::<UserId>("user_id", "must be a user's id")?;
    let all = ServerAccounts::of(&call, &server, only)?;
    loop {
        let page = all.page(&call, 0, MOST_ROWS).await?;
        if page.rows.is_empty() {
            return Ok(AdminReply::json(json!({"success": true})));
        }
        for row in page.rows {
            remove(&call.app, row.id).await?;
        }
    }
}

/// The integrations that a server leads to.
fn integrations_of(call: &AdminCall, server: &ResourceRow<McpServer>) -> BTreeSet<McpIntegrationId> {
    let snapshot = call.snapshot();
    let workspace = server.workspace.and_then(|id| snapshot.workspace(id));
    let of_members = server.doc.members.iter().filter_map(|member| {
        let behind = &workspace?.mcp_server_of(member.mcp_server_id)?.behind;
        if let McpBehind::Integration(id) = behind { Some(*id) } else { None }
    });
    server.doc.mcp_integration_id.into_iter().chain(of_members).collect()
}
