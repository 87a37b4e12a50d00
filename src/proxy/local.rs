//! What needs neither a tenant nor an upstream: preflights, greeting, health, the documents of MCP servers, and the
//! control-plane routes, which are handed to the admin service, so that clients need one base URL.

use super::client::{SmallAnswer, answer_early, send_head};
use super::control;
use super::deliver::bare_head;
use super::gateway::Gateway;
use bytes::Bytes;
use http::{HeaderValue, Method, header};
use pingora::proxy::Session;
use serde_json::json;

/// `None`: not such a request.
pub(crate) async fn serve(gateway: &Gateway, session: &mut Session) -> pingora::Result<Option<bool>> {
    let head = session.req_header();
    let path = head.uri.path();
    if gateway.settings.cors.as_ref().is_some_and(|origins| origins.is_preflight(head))
        || gateway.mcp.is_preflight(head)
    {
        send_head(session, bare_head(204), None, true).await?;
        return Ok(Some(true));
    }
    if head.method == Method::GET && path == "/" {
        return text(session, "This is an AI gateway. Inference and Admin API live below /v1.\n").await;
    }
    if head.method == Method::GET && path == "/v1/health" {
        let body = json!({ "status": "success", "message": "Server is healthy", "version": env!("CARGO_PKG_VERSION") });
        return answer(session, 200, "application/json", body.to_string().into()).await;
    }
    let signing_in = gateway.mcp.authorization().filter(|_| path.starts_with("/.well-known/"));
    if let Some(document) = signing_in.and_then(|told| told.document(path, &gateway.live.current().snapshot))
        && matches!(head.method, Method::GET | Method::OPTIONS)
    {
        let asks_first = head.method == Method::OPTIONS;
        let mut head = bare_head(if asks_first { 204 } else { 200 });
        if asks_first {
            // Clients in pages name the version that they speak, which a page may not do unasked.
            head.insert_header(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET"))?;
            head.insert_header(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("mcp-protocol-version"))?;
            head.insert_header(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"))?;
            send_head(session, head, None, true).await?;
            return Ok(Some(true));
        }
        head.insert_header(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))?;
        head.insert_header(header::CACHE_CONTROL, HeaderValue::from_static("no-store"))?;
        // It is for everybody, pages of other origins too.
        head.insert_header(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"))?;
        answer_early(session, SmallAnswer { head, body: document.into() }).await?;
        return Ok(Some(true));
    }
    // The table of the admin crate decides; pass-through is never in it.
    if !gateway_admin::is_control_plane(&head.method, path) {
        return Ok(None);
    }
    // Boxed to keep the room for it out of every inference request.
    Box::pin(control::hand_over(gateway.control(), session)).await.map(Some)
}

async fn text(session: &mut Session, text: &'static str) -> pingora::Result<Option<bool>> {
    answer(session, 200, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes())).await
}

async fn answer(session: &mut Session, status: u16, media: &'static str, body: Bytes) -> pingora::Result<Option<bool>> {
    let mut head = bare_head(status);
    head.insert_header(header::CONTENT_TYPE, HeaderValue::from_static(media))?;
    answer_early(session, SmallAnswer { head, body }).await?;
    Ok(Some(true))
}
