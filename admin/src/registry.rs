//! The MCP servers of a workspace as a registry tells of them (`server.json`, the API of
//! registry.modelcontextprotocol.io of 2025-12-01), so that clients find out by themselves what there is: of whoever
//! asks, what they may use, under the address by which the gateway serves it. These routes speak that API's dialect, so
//! they have a table of their own. Nothing is published here.

mod entry;
mod fault;
mod query;

use crate::actor::Actor;
use crate::app::App;
use crate::problem::Problem;
use crate::reply::AdminReply;
use crate::resource::pages;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use entry::RegistryEntry;
use fault::RegistryFault;
use gateway_domain::id::{UserId, WorkspaceId};
use gateway_domain::path::decoded;
use gateway_domain::ports::ResourceQuery;
use gateway_domain::resource::Kind;
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::{McpBehind, Snapshot};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use query::RegistryQuestion;
use serde_json::{Value, json};
use std::sync::Arc;

const SERVERS: &str = "/v0.1/servers";
const LIST: &[Scope] = &[Scope::named("mcp_servers.list")];

/// True for what the proxy port hands over to these routes.
pub(crate) fn is_served_at(path: &str) -> bool {
    path.strip_prefix("/v0.1/").is_some_and(|rest| {
        rest == "publish" || rest.strip_prefix("servers").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Adds these routes to the router.
pub(crate) fn join(mut router: axum::Router, app: &Arc<App>) -> axum::Router {
    for path in [SERVERS, "/v0.1/servers/{*rest}", "/v0.1/publish"] {
        let app = app.clone();
        let serve = move |request: Request| {
            let app = app.clone();
            async move {
                let id = app.id();
                let reply = answer(&app, request).await.unwrap_or_else(|fault| {
                    let reply = AdminReply::json(json!({"error": fault.told})).with_status(fault.status);
                    match fault.status {
                        StatusCode::UNAUTHORIZED => reply.with_header(header::WWW_AUTHENTICATE, "Bearer".to_owned()),
                        _ => reply,
                    }
                });
                open_to_pages(reply.answer(id))
            }
        };
        router = router.route(path, any(serve));
    }
    router
}

/// Clients that run in a page ask from its origin. Keys come in headers, and no cookie counts.
fn open_to_pages(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, x-gateway-api-key"),
        (HeaderName::from_static("access-control-max-age"), "7200"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

async fn answer(app: &App, request: Request) -> Result<AdminReply, RegistryFault> {
    let (parts, _) = request.into_parts();
    if parts.method == Method::OPTIONS {
        return Ok(AdminReply::nothing(StatusCode::NO_CONTENT));
    }
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return Err(RegistryFault::new(StatusCode::NOT_IMPLEMENTED, "Publishing is not supported by this registry"));
    }
    // A cookie is no key that somebody sent.
    let mut headers = parts.headers.clone();
    headers.remove(header::COOKIE);
    let now = app.now();
    let actor = Actor::authenticate(app, &headers, now).await.map_err(|refused| refused.report(app, &parts, now))?;
    actor.require(LIST)?;
    let public = app.public_url.as_deref();
    let public = public.ok_or_else(|| {
        RegistryFault::new(StatusCode::NOT_FOUND, "there is no registry here: the gateway was given no --public-url")
    })?;
    let question = RegistryQuestion::read(parts.uri.query().unwrap_or_default())?;
    let snapshot = app.live.snapshot();
    let home = actor.home(&snapshot, question.workspace.as_deref())?;
    let all = entries(app, (&actor, home), public).await?;
    let path = parts.uri.path().strip_prefix(SERVERS).unwrap_or_default().trim_matches('/');
    if path.is_empty() {
        return Ok(AdminReply::json(question.page(&all)?));
    }
    one(&decoded(path), &all).map(AdminReply::json).ok_or_else(RegistryFault::missing)
}

/// What a path below the list names: all versions of a server, of which there is one, or that one.
fn one(path: &str, all: &[RegistryEntry]) -> Option<Value> {
    let (name, version) = match path.rsplit_once("/versions") {
        Some((name, "")) => (name, None),
        Some((name, version)) => (name, Some(version.strip_prefix('/')?)),
        None => return None,
    };
    let found = all.iter().find(|entry| entry.name == name)?;
    match version {
        None => Some(json!({"servers": [found.shown()], "metadata": {"count": 1}})),
        Some(version) => (version == "latest" || version == found.version).then(|| found.shown()),
    }
}

/// The newest first.
async fn entries(
    app: &App,
    (actor, home): (&Actor, WorkspaceId),
    public: &str,
) -> Result<Vec<RegistryEntry>, RegistryFault> {
    let query = ResourceQuery { workspace: Some(Some(home)), ..ResourceQuery::all(Kind::McpServer, actor.org) };
    let snapshot = app.live.snapshot();
    let rows = pages(app, query).await?;
    let open = rows.iter().filter(|row| row.status == "active" && may_use(&snapshot, (actor, home), &row.slug));
    let mut all = open.map(|row| RegistryEntry::of(row, public)).collect::<Result<Vec<_>, Problem>>()?;
    all.sort_by_key(|entry| std::cmp::Reverse((entry.created_at, entry.id)));
    Ok(all)
}

/// The questions that the door of the server asks before any other.
fn may_use(snapshot: &Snapshot, (actor, home): (&Actor, WorkspaceId), slug: &str) -> bool {
    let Some(server) = snapshot.workspace(home).and_then(|workspace| workspace.mcp_server(slug)) else { return false };
    let leads_on = match &server.behind {
        McpBehind::Integration(id) => snapshot.mcp_upstream(*id).is_some_and(|upstream| upstream.open_to(home)),
        McpBehind::Members(_) => true,
    };
    let held = actor.mcp_access.as_ref().is_none_or(|reach| reach.opens(slug));
    // An Admin key uses no server: it sees what there is.
    let admitted = actor.workspace.is_none() || server.admits(actor.user.map(UserId));
    server.active && leads_on && held && admitted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_is_what_is_served() {
        for path in ["/v0.1/servers", "/v0.1/servers/", "/v0.1/servers/com.example%2Ffiles/versions", "/v0.1/publish"] {
            assert!(is_served_at(path), "{path}");
        }
        for path in ["/v0.1", "/v0.1/", "/v0.1/serversx", "/v0/servers", "/v0.1/publish/x", "/v1/servers"] {
            assert!(!is_served_at(path), "{path}");
        }
    }
}
