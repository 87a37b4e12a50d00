//! What of a body matters to routing: read within its bounds, looked through once, and kept as it came. Knows the
//! operation, not who asks; what a saved prompt makes of its body is `prompt_target.rs`'s and `prompt_calls.rs`'s.

use super::body::{self, BodyError, BodyLimits, Permit, WholeBody};
use super::request::{Request, RequestContent, Route};
use bytes::Bytes;
use gateway_domain::bounds::{Peek, peek, peek_form};
use gateway_domain::form::{ClientForm, FormError};
use gateway_domain::operation::Body;
use gateway_domain::{Fault, FaultKind, Operation};
use http::header;
use pingora::proxy::Session;
use std::sync::Arc;

/// Parsing a body above this takes long enough to hold up the other connections of a worker.
const LARGE: usize = 256 * 1024;

/// Reads and bounds the body of an exchanged request.
pub(crate) async fn read_content(
    session: &mut Session,
    route: &Route,
    limits: BodyLimits,
    held: &mut Permit,
) -> Result<RequestContent, BodyError> {
    let WholeBody { bytes, waited } = body::read(&mut session.downstream_session, limits, held).await?;
    let waited_us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
    if bytes.is_empty() && route.body != Some(Body::Json) {
        return Ok(RequestContent::default());
    }
    if let Some(kind) = form_type(session, route) {
        return form_content(&kind, route.operation, bytes, waited_us);
    }
    let found = look(&bytes, route.asked()).await;
    let found = found.map_err(|fault| BodyError::Invalid(fault, bytes.clone()))?;
    // The provider may see any model in a body that makes no sense here.
    let unread = found.unread && !bytes.is_empty();
    Ok(RequestContent { bytes, unread, waited_us, ..found })
}

/// What of a body matters to routing, with the body held to its bounds.
pub(crate) async fn look(bytes: &Bytes, operation: Operation) -> Result<RequestContent, Fault> {
    let look = |bytes: &Bytes, operation| peek(operation, bytes).map(|p| own(&p));
    if bytes.len() <= LARGE {
        return look(bytes, operation);
    }
    let bytes = bytes.clone();
    let looked = tokio::task::spawn_blocking(move || look(&bytes, operation)).await;
    looked.unwrap_or_else(|_| Err(Fault::new(FaultKind::Internal, "The request body could not be read")))
}

/// The content type of a form on a route that reads forms.
fn form_type(session: &Session, route: &Route) -> Option<String> {
    if route.body != Some(Body::Form) {
        return None;
    }
    let told = session.get_header(header::CONTENT_TYPE)?.to_str().ok()?;
    let is_form = told.get(..19).is_some_and(|start| start.eq_ignore_ascii_case("multipart/form-data"));
    is_form.then(|| told.to_owned())
}

/// Reads a form. Finding its parts takes one search for the boundary, whatever its files hold.
fn form_content(kind: &str, operation: Operation, bytes: Bytes, waited_us: u64) -> Result<RequestContent, BodyError> {
    let invalid = |fault| BodyError::Invalid(fault, bytes.clone());
    let form = ClientForm::read(kind, &bytes).map_err(|why| {
        let fault = Fault::new(FaultKind::BadBody, format!("The request body is not a valid form: {why}"));
        invalid(if why == FormError::Boundary { fault.on("content-type") } else { fault })
    })?;
    let found = peek_form(operation, &form, &bytes).map(|peek| own(&peek)).map_err(invalid)?;
    Ok(RequestContent { bytes, form: Some(Arc::new(form)), waited_us, ..found })
}

fn own(peek: &Peek<'_>) -> RequestContent {
    RequestContent {
        model: peek.model.as_deref().map(Arc::from),
        model_span: peek.model_span.clone(),
        stream: peek.stream,
        wants_usage: peek.wants_usage,
        unread: !peek.read,
        model_respelled: peek.model_respelled,
        names_no_object: peek.names_no_object,
        ..RequestContent::default()
    }
}

/// The model of a session stands in its address, where it may name a provider as the `model` of a body may.
pub(crate) fn read_session_model(request: &mut Request) {
    let route = &request.ask.route;
    if !route.operation.facts().opens_session || route.raw {
        return;
    }
    let pairs = url::form_urlencoded::parse(route.query.as_deref().unwrap_or_default().as_bytes());
    let mut named = pairs.filter(|(name, _)| name == "model");
    let model = named.next().filter(|(_, model)| model.starts_with('@'));
    let alone = named.next().is_none();
    request.ask.content.model = model.filter(|_| alone).map(|(_, model)| model.into());
}
