//! Whether a request is exchanged, its body held, or relayed as it streams: told by its head alone.

use super::handshake;
use super::request::Route;
use gateway_domain::operation::Body;
use gateway_domain::{Fault, FaultKind};
use http::{HeaderValue, Method, header};
use pingora::proxy::Session;

/// How the bytes of this request travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyMode {
    Buffered,
    Streaming,
}

/// Only a WebSocket handshake leaves the exchange: any other `Upgrade` (h2c, for one) is the client's offer, and
/// declining it is answering over HTTP/1.1.
pub(crate) fn is_websocket(session: &Session) -> bool {
    let head = session.req_header();
    let is_offered = || {
        let offer = head.headers.get(header::UPGRADE);
        offer.is_some_and(|offer| offer.as_bytes().eq_ignore_ascii_case(b"websocket"))
    };
    head.method == Method::GET && is_offered() && session.downstream_session.is_upgrade_req()
}

/// Whether the request is exchanged or relayed, from its head alone.
pub(crate) fn of(session: &mut Session, route: &Route) -> Result<BodyMode, Fault> {
    if is_websocket(session) {
        return handshake::broken(&session.req_header().headers).map_or(Ok(BodyMode::Streaming), Err);
    }
    // What nearly everybody sends is told by one look.
    let plain = |name, value: &[u8]| session.get_header(name).is_some_and(|told| told.as_bytes() == value);
    if plain(header::CONTENT_TYPE, b"application/json") && session.get_header(header::CONTENT_ENCODING).is_none() {
        return Ok(BodyMode::Buffered);
    }
    if session.downstream_session.is_body_empty() {
        return Ok(BodyMode::Buffered);
    }
    let content_type = session.get_header(header::CONTENT_TYPE).map(|v| v.as_bytes().to_ascii_lowercase());
    let wants_json = route.body == Some(Body::Json);
    let takes_form = route.body == Some(Body::Form);
    let packed = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
    if (wants_json || takes_form) && session.get_header(header::CONTENT_ENCODING).is_some_and(packed) {
        let why = "content-encoding is not taken on this route: send the body as it is";
        return Err(Fault::new(FaultKind::BadHeader, why).on("content-encoding"));
    }
    let Some(content_type) = content_type else {
        return Ok(if wants_json || invokes(route) { BodyMode::Buffered } else { BodyMode::Streaming });
    };
    let essence = content_type.split(|b| *b == b';').next().unwrap_or_default().trim_ascii();
    if essence == b"application/octet-stream" && invokes(route) {
        return Ok(BodyMode::Buffered);
    }
    if essence == b"application/json" || essence.ends_with(b"+json") {
        return Ok(BodyMode::Buffered);
    }
    if essence == b"multipart/form-data" && takes_form {
        return Ok(BodyMode::Buffered);
    }
    let relayed = essence == b"multipart/form-data" || essence.starts_with(b"audio/") || route.raw;
    if !relayed || wants_json {
        let why = "Invalid content type passed: this route takes application/json";
        return Err(Fault::new(FaultKind::BadHeader, why).on("content-type"));
    }
    Ok(BodyMode::Streaming)
}

/// AWS's SDKs give the body of Bedrock's InvokeModel no type, or that of mere bytes; it has to be held to be signed.
fn invokes(route: &Route) -> bool {
    let tail = route.tail();
    let verb = tail.strip_prefix("/model/").and_then(|rest| rest.rsplit_once('/')).map(|(_, verb)| verb);
    route.raw && matches!(verb, Some("invoke" | "invoke-with-response-stream"))
}
