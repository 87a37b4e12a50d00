//! What a path asks for, by the table of operations: the route, or the saved prompt that it calls. Knows neither who
//! asks nor what the body says.

use super::body_mode::is_websocket;
use super::realtime_call_request::call_in_path;
use super::request::{PromptAsk, Route, chat_route, prompt_asked};
use gateway_domain::path::normal;
use gateway_domain::{Dialect, Fault, FaultKind, Operation, operation, realtime_paths};
use http::{Method, Uri};
use pingora::proxy::Session;
use std::borrow::Cow;

/// The dialect that errors about this path are told in.
pub(crate) fn dialect(method: &Method, path: &str) -> Dialect {
    let path = normal(path).unwrap_or(Cow::Borrowed(path));
    operation::route(method, &path).map_or(Dialect::OpenAi, |r| r.dialect)
}

pub(crate) fn route(method: &Method, path: &str, query: Option<&str>) -> Result<Route, Fault> {
    let path = normal(path).map_err(|why| Fault::new(FaultKind::BadPath, why.to_string()))?;
    let routed = operation::route(method, &path)
        .filter(|_| matches!(*method, Method::GET | Method::POST | Method::PUT | Method::DELETE | Method::PATCH))
        .ok_or_else(|| Fault::new(FaultKind::UnknownRoute, "Not Found: every route begins with /v1"))?;
    Ok(Route {
        operation: routed.operation,
        dialect: routed.dialect,
        raw: routed.raw,
        body: routed.body,
        tail: routed.path.len() - routed.tail.len()..routed.path.len(),
        path: routed.path.into(),
        query: query.map(Into::into),
    })
}

/// What a path asks for.
pub(crate) struct AskedPath {
    pub(crate) route: Route,
    /// The saved prompt that the path calls; such a call becomes a chat request.
    pub(crate) prompt: Option<Box<PromptAsk>>,
}

/// Looks for prompts where nothing else is known, so that what is known pays nothing for it.
pub(crate) fn asked(method: &Method, uri: &Uri) -> Result<AskedPath, Fault> {
    let found = route(method, uri.path(), uri.query());
    if !matches!(&found, Ok(route) if route.operation != Operation::Proxy)
        && let Some(ask) = prompt_asked(method, uri.path())
    {
        return Ok(AskedPath { route: chat_route(), prompt: Some(Box::new(ask)) });
    }
    Ok(AskedPath { route: found?, prompt: None })
}

/// A session is watched by whatever path it is opened.
pub(crate) fn name_session(route: &mut Route, session: &Session) {
    if route.operation == Operation::Proxy
        && is_websocket(session)
        && let Some(operation) = realtime_paths::session(route.tail())
    {
        route.operation = operation;
    }
}

/// Sessions, and calls that begin, are what keys of browsers are for.
pub(crate) fn takes_short_keys(route: &Route) -> bool {
    match route.operation {
        Operation::Realtime => true,
        Operation::RealtimeCall => call_in_path(route.tail()).is_none(),
        _ => false,
    }
}
