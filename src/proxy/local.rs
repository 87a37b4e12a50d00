//! What the gateway answers itself on the proxy port: greeting, health, the model catalogue, and the
//! control-plane routes, which are handed to the admin service, so that clients need one base URL.

mod booked;
mod catalogue;
mod explained;
mod prompts;
mod realtime_calls;

pub(crate) use prompts::{read_content as read_prompt, show as show_prompt};

use super::client::{SmallAnswer, answer_early, send_head};
use super::deliver::{bare_head, json_answer};
use super::record::PendingRecords;
use super::request::Request;
use super::routing::Routing;
use super::{Gateway, control, record};
use crate::price_list;
use bytes::Bytes;
use gateway_domain::path::decoded;
use gateway_domain::{Fault, Operation};
use http::{HeaderValue, Method, header};
use pingora::proxy::Session;
use serde_json::{Value, json};

/// Answers what needs no upstream and no tenant. `None`: not such a request.
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
        let body = json_bytes(
            &json!({ "status": "success", "message": "Server is healthy", "version": env!("CARGO_PKG_VERSION") }),
        );
        return answer(session, 200, "application/json", body).await;
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
    Box::pin(control::hand_over(gateway, session)).await.map(Some)
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

/// The catalogue is listed when it is asked for, or when nothing names a provider to ask.
fn lists_models(request: &Request) -> bool {
    request.ask.route.asked() == Operation::ListModels
        && (request.ask.headers.integrated_models || names_nobody(request) || is_held_to_models(request))
}

/// A provider's own list would show what its key may not call.
fn is_held_to_models(request: &Request) -> bool {
    request.caller.tenant.key.allowed_models.is_some()
}

fn names_nobody(request: &Request) -> bool {
    let headers = &request.ask.headers;
    headers.config.is_none() && headers.provider.is_none() && headers.virtual_key.is_none()
}

/// What the catalogue says to a request; `None` where a provider is to be asked.
pub(crate) async fn catalogued(request: &Request, routing: &Routing) -> Option<Result<Value, Fault>> {
    if lists_models(request) {
        price_list::opened().await;
        return Some(catalogue::list(request, routing));
    }
    let id = single(request)?;
    price_list::opened().await;
    let is_ours = || names_nobody(request) || is_held_to_models(request);
    let lost = || is_ours().then(|| Err(catalogue::unknown(&id)));
    catalogue::one(request, routing, &id).or_else(lost)
}

/// The id of the one model that is asked about: the rest of the path, slashes too.
fn single(request: &Request) -> Option<String> {
    let id = request.ask.route.path.strip_prefix("/v1/models/").filter(|id| !id.is_empty())?;
    (request.ask.method == Method::GET).then(|| decoded(id).into_owned())
}

/// Tells what the catalogue said.
pub(crate) async fn deliver(
    gateway: &Gateway,
    session: &mut Session,
    told: CatalogAnswer<'_>,
    records: &mut PendingRecords,
) -> pingora::Result<bool> {
    let CatalogAnswer { request, routing, body } = told;
    let body = json_bytes(&body);
    let mut record = record::of(request, &request.steps(), Some(routing), None, 1);
    record.status = 200;
    record.response_bytes = body.len() as u64;
    record::finish(&mut record, request);
    records.push(record);
    answer_early(session, json_answer(&gateway.names, request, body)).await.map(|()| true)
}

/// What is answered, and to whom.
pub(crate) struct CatalogAnswer<'a> {
    pub(crate) request: &'a Request,
    pub(crate) routing: &'a Routing,
    pub(crate) body: Value,
}

/// Small JSON for local answers.
fn json_bytes(value: &Value) -> Bytes {
    value.to_string().into()
}
