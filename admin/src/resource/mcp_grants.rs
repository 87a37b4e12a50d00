//! What people allowed clients to do at an MCP server, where they signed in at the gateway itself: shown to whoever
//! sees the server, and ended by whoever changes it. Tokens are in none of it.

use super::{locate, pages, tombstone};
use crate::change::{Action, WriteView, audit};
use crate::problem::{Problem, internal};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::id::{GrantId, UserId};
use gateway_domain::ports::{Batch, ResourceQuery, Revision};
use gateway_domain::resource::mcp::McpServer;
use gateway_domain::resource::mcp_grant::McpSignIn;
use gateway_domain::resource::{Kind, Stored};
use gateway_domain::scope::Scope;
use http::Method;
use serde_json::{Map, Value, json};
use uuid::Uuid;

const READ: &[Scope] = &[Scope::named("mcp_servers.read")];
const UPDATE: &[Scope] = &[Scope::named("mcp_servers.update")];
const MOST_ROWS: u64 = 500;
/// That end in one write.
const MOST_AT_ONCE: usize = 500;

pub(crate) fn routes() -> Vec<AdminRoute> {
    const GRANTS: &str = "/mcp-servers/{id}/grants";
    vec![
        authed(Method::GET, GRANTS, READ, "List what people allowed clients to do at an MCP server", list).asks(&[
            "workspace_id",
            "user_id",
            "current_page",
            "page_size",
        ]),
        authed(Method::DELETE, GRANTS, UPDATE, "End what people allowed clients to do at an MCP server", end).asks(&[
            "workspace_id",
            "user_id",
            "grant_id",
        ]),
    ]
}

/// A stored grant and what it says.
struct StoredGrant {
    row: Stored,
    doc: McpSignIn,
}

async fn list(call: AdminCall) -> Result<AdminReply, Problem> {
    let paging = call.query.paging_by("current_page", "page_size", MOST_ROWS)?;
    let all = found(&call, Action::Read).await?;
    let more = (paging.page + 1).saturating_mul(paging.size) < all.len() as u64;
    let total = all.len();
    let data: Vec<Value> = paging.cut(&all.iter().map(|grant| shown(grant, &call)).collect::<Vec<_>>()).to_vec();
    Ok(AdminReply::json(json!({"data": data, "total": total, "has_more": more})))
}

/// The oldest first.
async fn found(call: &AdminCall, action: Action) -> Result<Vec<StoredGrant>, Problem> {
    let server = locate::<McpServer>(call, call.query.text("workspace_id"), action).await?;
    let user = call.query.parsed::<UserId>("user_id", "must be a user's id")?;
    let query =
        ResourceQuery { workspace: Some(server.workspace), ..ResourceQuery::all(Kind::McpGrant, call.actor.org) };
    let mut found = Vec::new();
    for row in pages(&call.app, query).await? {
        let doc: McpSignIn = serde_json::from_str(&row.doc).map_err(internal)?;
        if doc.server == server.slug && user.is_none_or(|user| user == doc.user) {
            found.push(StoredGrant { row, doc });
        }
    }
    found.sort_by_key(|grant| (grant.row.created_at, grant.row.id));
    Ok(found)
}

fn shown(grant: &StoredGrant, call: &AdminCall) -> Value {
    let StoredGrant { row, doc } = grant;
    let snapshot = call.snapshot();
    let person = snapshot.person(doc.user);
    json!({
        "id": row.id, "object": "mcp_grant", "user_id": doc.user, "user_email": person.map(|p| &*p.email),
        "client_id": doc.client_id, "client_name": doc.client_name, "scope": doc.scope, "api_key_id": doc.key,
        "created_at": row.created_at,
    })
}

/// Ends grants: once this is answered, no token of theirs opens anything.
async fn end(call: AdminCall) -> Result<AdminReply, Problem> {
    let only = call.query.parsed::<Uuid>("grant_id", "must be a grant's id")?;
    let mut all = found(&call, Action::Update).await?;
    all.retain(|grant| only.is_none_or(|id| id == grant.row.id));
    let ended = all.len();
    let revision = end_these(&call, all).await?;
    Ok(AdminReply::json(json!({"success": true, "ended": ended})).at(revision))
}

/// Before a server goes: another one by the same name is none that anybody allowed something.
pub(crate) async fn end_with_server(call: &AdminCall) -> Result<(), Problem> {
    let all = found(call, Action::Delete).await?;
    end_these(call, all).await.map(drop)
}

/// What anybody allowed a client that goes.
pub(crate) async fn end_of_client(call: &AdminCall, client_id: &str) -> Result<(), Problem> {
    let mut theirs = Vec::new();
    for row in pages(&call.app, ResourceQuery::all(Kind::McpGrant, call.actor.org)).await? {
        let doc: McpSignIn = serde_json::from_str(&row.doc).map_err(internal)?;
        if doc.client_id == client_id {
            theirs.push(StoredGrant { row, doc });
        }
    }
    end_these(call, theirs).await.map(drop)
}

/// The state of the configuration behind it.
async fn end_these(call: &AdminCall, all: Vec<StoredGrant>) -> Result<Revision, Problem> {
    let seen = call.snapshot().revision;
    let mut revision = seen;
    for some in all.chunks(MOST_AT_ONCE) {
        let mut gone = Vec::with_capacity(some.len());
        for grant in some {
            // First the refresh tokens: of a write that fails nothing is left that could be turned.
            if let Some(store) = &call.app.oauth {
                store.end_grant(GrantId(grant.row.id)).await?;
            }
            gone.push(tombstone(grant.row.clone(), call.now)?);
        }
        let decide = |around: &WriteView<'_>| {
            gone.retain(|row| around.since(Kind::McpGrant, row.id, row.version - 1).is_none());
            let audit = gone.iter().map(|row| audit(call, Action::Delete, row, &Map::new())).collect();
            Ok(Batch { rows: gone, audit, ..Batch::default() })
        };
        revision = call.commit(seen, decide).await?;
    }
    Ok(revision)
}
