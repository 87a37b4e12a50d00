//! The gateway as an authorisation server of its own (OAuth 2.1), so that clients of MCP servers sign people in by
//! themselves: what it says of itself, how clients register, the page where somebody allows one, and the tokens at the
//! end. These routes speak OAuth's dialect and not that of the Admin API, so they have a table of their own. What a
//! token opens is decided where requests come in.

mod access;
mod authorize;
mod authorize_request;
mod browser;
mod client;
mod client_metadata;
mod client_proof;
mod connect;
mod connect_callback;
mod connect_page;
mod consent;
mod fault;
mod form;
mod grant;
mod identity;
mod introspect;
mod known_client;
mod metadata;
mod page;
mod rate_limit;
mod redirect;
mod refresh;
mod register;
mod request_context;
mod revoke;
mod signer;
mod signing;
mod sweep;
mod ticket;
mod token;

pub use access::{AccessToken, BadAccessToken, read_access_token};
pub(crate) use authorize_request::SCOPES;
pub use identity::{IdentityClaims, sign_identity};
pub(crate) use known_client::MOST_REDIRECTS;
pub(crate) use redirect::check_redirect;
pub(crate) use signing::first_key;
pub use signing::rotate_signing_key;
pub(crate) use sweep::sweep;

use crate::app::{App, ClientAddr};
use crate::reply::AdminReply;
use crate::route::Visit;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use fault::OauthFault;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use request_context::{OauthVisit, SignInDesk};
use std::pin::Pin;
use std::sync::Arc;

/// Forms, and what a client says of itself.
const MOST_BODY: usize = 16 * 1024;
/// A form with a sealed ticket in it.
const MOST_PAGE_BODY: usize = 32 * 1024;

type OauthAnswer = Pin<Box<dyn Future<Output = Result<AdminReply, OauthFault>> + Send>>;

struct OauthRoute {
    method: Method,
    path: &'static str,
    most: usize,
    /// Pages of any origin may call: nothing here goes by a cookie.
    is_open: bool,
    /// Served where the gateway issues tokens itself, and not merely where browsers reach it.
    needs_issuer: bool,
    run: fn(OauthVisit) -> OauthAnswer,
}

/// What of a route a request needs.
#[derive(Clone, Copy)]
struct OauthRun {
    needs_issuer: bool,
    most: usize,
    run: fn(OauthVisit) -> OauthAnswer,
}

fn open(method: Method, path: &'static str, run: fn(OauthVisit) -> OauthAnswer) -> OauthRoute {
    OauthRoute { method, path, most: MOST_BODY, is_open: true, needs_issuer: true, run }
}

fn page(method: Method, path: &'static str, run: fn(OauthVisit) -> OauthAnswer) -> OauthRoute {
    OauthRoute { method, path, most: MOST_PAGE_BODY, is_open: false, needs_issuer: true, run }
}

/// A route about people's accounts at MCP servers: served also where the gateway issues no tokens itself.
fn everywhere(route: OauthRoute) -> OauthRoute {
    OauthRoute { needs_issuer: false, ..route }
}

fn table() -> Vec<OauthRoute> {
    const SERVER: &str = "/.well-known/oauth-authorization-server";
    const SERVER_AT: &str = "/.well-known/oauth-authorization-server/{*rest}";
    const OPENID: &str = "/.well-known/openid-configuration";
    const CONNECT: &str = "/oauth/connect/{link}";
    const OPENID_AT: &str = "/.well-known/openid-configuration/{*rest}";
    vec![
        open(Method::GET, SERVER, |v| Box::pin(metadata::server(v))),
        open(Method::GET, SERVER_AT, |v| Box::pin(metadata::server(v))),
        open(Method::GET, OPENID, |v| Box::pin(metadata::openid(v))),
        open(Method::GET, OPENID_AT, |v| Box::pin(metadata::openid(v))),
        open(Method::GET, "/.well-known/jwks.json", |v| Box::pin(metadata::keys(v))),
        open(Method::POST, "/oauth/register", |v| Box::pin(register::serve(v))),
        open(Method::POST, "/oauth/token", |v| Box::pin(token::serve(v))),
        open(Method::POST, "/oauth/introspect", |v| Box::pin(introspect::serve(v))),
        open(Method::POST, "/oauth/revoke", |v| Box::pin(revoke::serve(v))),
        page(Method::GET, "/oauth/authorize", |v| Box::pin(authorize::serve(v))),
        page(Method::POST, "/oauth/authorize", |v| Box::pin(consent::serve(v))),
        everywhere(page(Method::GET, CONNECT, |v| Box::pin(connect::serve(v)))),
        everywhere(page(Method::POST, CONNECT, |v| Box::pin(connect::decide(v)))),
        everywhere(page(Method::GET, "/oauth/upstream-callback", |v| Box::pin(connect_callback::serve(v)))),
        everywhere(open(Method::GET, "/oauth/client.json", |v| Box::pin(connect_callback::document(v)))),
    ]
}

/// True for what the proxy port hands over to these routes.
pub(crate) fn is_served_at(path: &str) -> bool {
    let Some(rest) = path.strip_prefix("/.well-known/") else {
        let name = path.strip_prefix("/oauth/");
        const NAMES: [&str; 7] =
            ["authorize", "token", "register", "introspect", "revoke", "upstream-callback", "client.json"];
        let is_link = |name: &str| name.strip_prefix("connect/").is_some_and(|l| !l.is_empty() && !l.contains('/'));
        return name.is_some_and(|name| NAMES.contains(&name) || is_link(name));
    };
    let below = |name: &str| rest.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    rest == "jwks.json" || below("oauth-authorization-server") || below("openid-configuration")
}

/// Adds these routes to the router.
pub(crate) fn join(mut router: axum::Router, app: &Arc<App>) -> axum::Router {
    let desk = Arc::<SignInDesk>::default();
    for route in table() {
        let OauthRoute { method, path, most, is_open, needs_issuer, run } = route;
        let Ok(mut filter) = MethodFilter::try_from(method) else { continue };
        if is_open {
            filter = filter.or(MethodFilter::OPTIONS);
        }
        let (app, desk) = (app.clone(), desk.clone());
        let serve = move |request: Request| {
            let (app, desk) = (app.clone(), desk.clone());
            async move {
                let id = app.id();
                let reply = if request.method() == Method::OPTIONS {
                    Ok(AdminReply::nothing(StatusCode::NO_CONTENT))
                } else {
                    answer((app, desk), OauthRun { needs_issuer, most, run }, request).await
                };
                let mut answer = reply.unwrap_or_else(|fault| fault.reply(is_open)).answer(id);
                if is_open {
                    open_to_pages(&mut answer);
                }
                answer
            }
        };
        router = router.route(path, on(filter, serve));
    }
    router
}

async fn answer(
    (app, desk): (Arc<App>, Arc<SignInDesk>),
    OauthRun { needs_issuer, most, run }: OauthRun,
    request: Request,
) -> Result<AdminReply, OauthFault> {
    let is_on = if needs_issuer { app.issuer().is_some() } else { app.public_url.is_some() };
    if !is_on {
        return Err(OauthFault::off());
    }
    let (parts, body) = request.into_parts();
    let bytes: Bytes = to_bytes(body, most).await.map_err(|_| OauthFault::too_long(most))?;
    let client = parts.extensions.get::<ClientAddr>().map(|c| c.0);
    let (now, request_id) = (app.now(), app.id());
    let (method, uri, headers) = (parts.method, parts.uri, parts.headers);
    let visit = Visit { app, now, method, uri, vars: Vec::new(), bytes, client, request_id, headers };
    run(OauthVisit { desk, visit }).await
}

/// Clients that run in a page call from its origin. They send no cookies, and none would count.
fn open_to_pages(answer: &mut Response) {
    let headers = answer.headers_mut();
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, mcp-protocol-version, x-gateway-api-key"),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, "www-authenticate, retry-after"),
        (HeaderName::from_static("access-control-max-age"), "7200"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_is_what_is_served() {
        for route in table() {
            let path = route.path.replace("{*rest}", "files/mcp").replace("{link}", "x");
            assert!(is_served_at(&path), "{path}");
        }
        for other in [
            "/oauth",
            "/oauth/",
            "/oauth/mcp",
            "/oauth/token/",
            "/oauth/tokens",
            "/oauth/connect",
            "/oauth/connect/",
            "/oauth/connect/a/b",
            "/oauth/client.jsonx",
            "/.well-known/",
            "/.well-known/x",
            "/.well-known/oauth-protected-resource/files/mcp",
            "/.well-known/jwks.json/x",
            "/.well-known/openid-configurations",
            "/files/mcp",
        ] {
            assert!(!is_served_at(other), "{other}");
        }
    }
}
