//! The one route table, and what is built from it: the axum router, the answer to "is this ours?" for the
//! proxy port, and the list that tests and the API description walk.

use crate::actor::Actor;
use crate::app::{App, ClientAddr};
use crate::change::AdminHead;
use crate::contract::{self, Reserved};
use crate::idempotency::{Repeat, RunningRepeats};
use crate::input::{QueryString, Variable, is_nul};
use crate::problem::{Problem, not_built, on_the_proxy_port, too_large, unknown_route, unreadable, wrong_method};
use crate::refusal::{ChangeAttempt, Refusals};
use crate::request_target::AskedRow;
use crate::route::{AdminCall, AdminReply, AdminRoute, Gate, MountPoint, PREFIXES, Visit, stamp};
use crate::{
    analytics, audit, batch_output, feedback, logs, manifest, nodes, oauth, openapi, organisations, prices, public,
    registry, resource, scim, sso, tokenize,
};
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use gateway_domain::path::normal;
use http::request::Parts;
use http::{Method, Uri};
use serde_json::Value;
use std::sync::{Arc, LazyLock};
use tower::util::MapRequest;
use uuid::Uuid;

/// Larger bodies are no configuration.
const MAX_BODY: usize = 4 * 1024 * 1024;

/// Adding a resource is adding its file and its line here.
static TABLE: LazyLock<Vec<AdminRoute>> = LazyLock::new(|| {
    let parts = [
        public::routes(),
        resource::config::routes(),
        resource::integration::routes(),
        resource::provider::routes(),
        resource::virtual_key::routes(),
        resource::history::routes(),
        resource::api_key::routes(),
        resource::rate_limit::routes(),
        resource::usage_limit::routes(),
        resource::alert::routes(),
        resource::guardrail::routes(),
        resource::plugin::routes(),
        resource::secret_reference::routes(),
        resource::deployment::routes(),
        resource::oauth_client::routes(),
        resource::partial::routes(),
        resource::prompt::routes(),
        resource::collection::routes(),
        resource::label::routes(),
        resource::exclusion::routes(),
        resource::mcp_integration::routes(),
        resource::mcp_server::routes(),
        resource::mcp_capabilities::routes(),
        resource::mcp_grants::routes(),
        resource::agent_integration::routes(),
        resource::agent_server::routes(),
        resource::agent_capabilities::routes(),
        resource::organisation::routes(),
        organisations::routes(),
        resource::workspace::routes(),
        resource::member::routes(),
        resource::user::routes(),
        resource::invite::routes(),
        scim::routes(),
        sso::routes(),
        analytics::routes(),
        logs::routes(),
        feedback::routes(),
        tokenize::routes(),
        batch_output::routes(),
        audit::routes(),
        nodes::routes(),
        manifest::routes(),
        prices::routes(),
        openapi::routes(describe),
    ];
    parts.into_iter().flatten().collect()
});

#[cfg(test)]
pub(crate) fn table() -> &'static [AdminRoute] {
    &TABLE
}

/// The description of the API, made when it is first asked for: the table is there then.
static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| openapi::document(&TABLE));

fn describe(app: &App) -> AdminReply {
    let mut document = DESCRIPTION.clone();
    document["info"]["version"] = app.status.version().into();
    AdminReply::json(document)
}

/// A row of the table, as it may be told to others.
#[derive(Clone, Debug)]
pub struct RouteInfo {
    pub method: Method,
    /// The path without a version prefix; `{name}` stands for one segment.
    pub path: &'static str,
    pub summary: &'static str,
    /// Served without a key.
    pub public: bool,
    /// The path is served below `/v1`, `/v2` and `/v1/v2`, and not just as written.
    pub versioned: bool,
    /// Any of these is enough to be let in; without any, every key is.
    pub scopes: Vec<&'static str>,
}

/// The whole table.
pub fn routes() -> Vec<RouteInfo> {
    let info = |r: &AdminRoute| {
        let (public, scopes) = match &r.gate {
            Gate::Public(_) | Gate::Guest(_) => (true, Vec::new()),
            Gate::AnyKey(_) => (false, Vec::new()),
            Gate::Scopes(any_of, _) => (false, any_of.iter().map(|s| s.name()).collect()),
        };
        let (method, versioned) = (r.method.clone(), r.place == MountPoint::Api);
        RouteInfo { method, path: r.path, summary: r.summary, public, versioned, scopes }
    };
    TABLE.iter().map(info).collect()
}

/// The Admin API. Put [`ClientAddr`] on each request before handing it over.
pub fn router(app: App) -> axum::Router {
    let (app, door) = (Arc::new(app), Arc::<AdminDoor>::default());
    let mut router = axum::Router::new();
    for route in TABLE.iter() {
        let Ok(filter) = MethodFilter::try_from(route.method.clone()) else { continue };
        for path in route.paths() {
            let (app, door) = (app.clone(), door.clone());
            router = router.route(&path, on(filter, move |request: Request| serve(app, door, route, request)));
        }
    }
    let reserved = contract::TEMPLATES.iter().flat_map(|t| t.prefixes().iter().map(move |prefix| (t, prefix)));
    for (template, prefix) in reserved {
        for method in template.missing.split(' ') {
            let Some(filter) = method.parse().ok().and_then(|m: Method| MethodFilter::try_from(m).ok()) else {
                continue;
            };
            let app = app.clone();
            let run = move |request: Request| async move { refuse(&app, &request) };
            router = router.route(&format!("{prefix}{}", template.path), on(filter, run));
        }
    }
    router = oauth::join(router, &app);
    router = registry::join(router, &app);
    let (here, nowhere) = (app.clone(), app);
    let inner = router
        .method_not_allowed_fallback(move |request: Request| async move { refuse(&here, &request) })
        .fallback(move |request: Request| async move { refuse(&nowhere, &request) });
    axum::Router::new().fallback_service(MapRequest::new(inner, straightened))
}

/// Every spelling of an address is the one that routes are written in.
fn straightened(mut request: Request) -> Request {
    let path = request.uri().path();
    let Some(straight) = contract::straight(path).filter(|straight| straight != path) else { return request };
    let whole = request.uri().query().map_or_else(|| straight.clone(), |query| format!("{straight}?{query}"));
    if let Ok(path_and_query) = whole.parse() {
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(path_and_query);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// Why nothing is served for this method at this path.
fn lost(request: &Request) -> Problem {
    let (method, path) = (request.method().as_str(), request.uri().path());
    if let Err(why) = normal(path) {
        return unreadable(why.to_string());
    }
    match contract::find(path) {
        Some(Reserved::Template(template)) if template.proxied && method == "POST" => on_the_proxy_port(),
        Some(Reserved::Template(template)) if template.misses(method) => not_built(method, template.path),
        Some(Reserved::Template(_)) => wrong_method(),
        Some(Reserved::Unknown) | None => unknown_route(),
    }
}

/// Refuses a request in the words of the protocol that its path belongs to.
fn refuse(app: &App, request: &Request) -> Response {
    let (id, problem) = (app.id(), lost(request));
    let rest = PREFIXES.iter().find_map(|prefix| request.uri().path().strip_prefix(prefix));
    let answer = if rest.is_some_and(scim::speaks) { scim::answer(&problem) } else { problem.answer(id) };
    stamp(answer, id)
}

/// What this node knows of the requests that come in.
#[derive(Default)]
struct AdminDoor {
    refusals: Refusals,
    repeats: RunningRepeats,
}

async fn serve(app: Arc<App>, door: Arc<AdminDoor>, route: &'static AdminRoute, request: Request) -> Response {
    let id = app.id();
    match answer((app, &door), route, request, id).await {
        Ok(reply) => reply.answer(id),
        Err(problem) if scim::speaks(route.path) => stamp(scim::answer(&problem), id),
        Err(problem) => stamp(problem.answer(id), id),
    }
}

/// Authentication and scope come before the body is read.
async fn answer(
    (app, door): (Arc<App>, &AdminDoor),
    route: &'static AdminRoute,
    request: Request,
    request_id: Uuid,
) -> Result<AdminReply, Problem> {
    let (any_of, run) = match &route.gate {
        Gate::Public(run) => return Ok(run(&app)),
        Gate::Guest(run) => return run(visit(app, route, request, request_id).await?).await,
        Gate::AnyKey(run) => (&[][..], run),
        Gate::Scopes(any_of, run) => (*any_of, run),
    };
    let now = app.now();
    let (mut parts, body) = request.into_parts();
    let actor = Actor::authenticate(&app, &parts.headers, now).await.map_err(|who| who.report(&app, &parts, now))?;
    let attempt = ChangeAttempt::of(&app, route, &actor, AdminHead { parts: &parts, at: now, request_id });
    let done = async {
        actor.require(any_of)?;
        let vars = variables(&mut parts).await?;
        let query = QueryString::parse(&parts.uri)?.aligned(&route.known_names(), &vars)?;
        let subject = Arc::new(AskedRow::of(&route.method, route.path, &parts.headers)?);
        let bytes = read(body).await?;
        let client = parts.extensions.get::<ClientAddr>().map(|c| c.0);
        let repeat = Repeat::of(route.path, &actor, &parts, &bytes, now)?;
        let (method, uri, headers) = (parts.method, parts.uri, parts.headers);
        let (about, again, asked) = (subject.clone(), repeat.clone(), method.clone());
        let call = AdminCall {
            app: app.clone(),
            route,
            actor,
            now,
            method,
            uri,
            vars,
            query,
            bytes,
            client,
            request_id,
            headers,
            subject,
            repeat,
        };
        let run = async { about.answer(&asked, run(call).await?) };
        match again {
            Some(again) => again.once(&app, &door.repeats, run).await,
            None => run.await,
        }
    };
    match done.await {
        Err(problem) => {
            if let Some(attempt) = attempt {
                attempt.refused(&problem, &door.refusals).await;
            }
            Err(problem)
        }
        done => done,
    }
}

async fn visit(app: Arc<App>, route: &AdminRoute, request: Request, request_id: Uuid) -> Result<Visit, Problem> {
    let now = app.now();
    let (mut parts, body) = request.into_parts();
    let vars = variables(&mut parts).await?;
    QueryString::parse(&parts.uri)?.aligned(&route.known_names(), &vars)?;
    let bytes = read(body).await?;
    let client = parts.extensions.get::<ClientAddr>().map(|c| c.0);
    let (method, uri, headers) = (parts.method, parts.uri, parts.headers);
    Ok(Visit { app, now, method, uri, vars, bytes, client, request_id, headers })
}

async fn variables(parts: &mut Parts) -> Result<Vec<Variable>, Problem> {
    let found = RawPathParams::from_request_parts(parts, &()).await;
    let found = found.map_err(|_| unreadable("the path cannot be read"))?;
    if found.iter().any(|(_, value)| is_nul(value)) {
        return Err(unreadable("the path must not hold the character U+0000"));
    }
    Ok(found.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

async fn read(body: Body) -> Result<Bytes, Problem> {
    to_bytes(body, MAX_BODY).await.map_err(|error| {
        let long = std::error::Error::source(&error).is_some_and(|e| e.to_string().contains("length limit"));
        if long { too_large(MAX_BODY) } else { unreadable("the body could not be read to its end") }
    })
}

/// A path taken apart.
struct PathPattern {
    /// `None` stands for a variable.
    segments: Vec<Option<&'static str>>,
    /// The last variable takes whatever follows, slashes too.
    is_open: bool,
}

static ROOTS: LazyLock<Vec<PathPattern>> =
    LazyLock::new(|| TABLE.iter().filter(|r| r.place == MountPoint::Root).map(|r| pattern(r.path)).collect());

fn pattern(path: &'static str) -> PathPattern {
    let segments = path[1..].split('/').map(|s| (!s.starts_with('{')).then_some(s)).collect();
    PathPattern { segments, is_open: path.contains("{*") }
}

/// Where nearly all requests of the proxy port go, so that they are told by a glance. None is the control plane's.
const BUSY: [&str; 5] = ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/embeddings", "/v1/completions"];

/// True for what the proxy port hands over to this service: every path of the contract by whatever method, served or
/// not, and what lies below first segments that no provider uses. Below `/v1/proxy` nothing is.
pub fn is_control_plane(method: &Method, path: &str) -> bool {
    if BUSY.contains(&path) {
        return false;
    }
    let Some(path) = contract::straight(path) else { return false };
    if oauth::is_served_at(&path) || registry::is_served_at(&path) {
        return true;
    }
    let method = if method == Method::HEAD { &Method::GET } else { method };
    if method == Method::GET && path.strip_prefix('/').is_some_and(|path| ROOTS.iter().any(|p| fits(p, path))) {
        return true;
    }
    match contract::find(&path) {
        Some(Reserved::Template(template)) => !(template.proxied && method == Method::POST),
        Some(Reserved::Unknown) => true,
        None => false,
    }
}

fn fits(pattern: &PathPattern, path: &str) -> bool {
    let mut segments = path.split('/');
    let same = pattern.segments.iter().all(|want| match (want, segments.next()) {
        (Some(want), Some(segment)) => *want == segment,
        (None, Some(segment)) => !segment.is_empty(),
        (_, None) => false,
    });
    same && (pattern.is_open || segments.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_busy_path_is_the_control_planes() {
        for path in BUSY {
            let straight = contract::straight(path).expect("a plain path");
            assert!(contract::find(&straight).is_none(), "{path}");
        }
    }

    #[test]
    fn the_proxy_port_keeps_what_is_not_the_control_planes() {
        for (method, path, ours) in [
            (Method::GET, "/", true),
            (Method::HEAD, "/", true),
            (Method::POST, "/", false),
            (Method::GET, "/v1/health", true),
            (Method::GET, "/model-configs/pricing/openai/gpt-4o", true),
            (Method::GET, "/model-configs/pricing/openai", false),
            (Method::HEAD, "/model-configs/pricing/workers-ai/@cf/meta/llama", true),
            (Method::GET, "/model-configs/general/openai/gpt-4o", true),
            (Method::POST, "/model-configs/pricing/openai/gpt-4o", false),
            (Method::GET, "/metrics", false),
            (Method::GET, "/health/ready", false),
            (Method::GET, "/v1/configs", true),
            (Method::GET, "/v2/configs/pc-1", true),
            (Method::GET, "/v1/v2/configs/pc-1/versions", true),
            (Method::PATCH, "/v1/configs/pc-1", true),
            (Method::GET, "/v1/configs/", true),
            (Method::GET, "/v1/c%6Fnfigs", true),
            (Method::GET, "/v1/./configs", false),
            (Method::GET, "/configs", false),
            (Method::GET, "/v3/configs", false),
            (Method::GET, "/v1/proxy/configs", false),
            (Method::GET, "/proxy/configs", false),
            (Method::GET, "/v1/proxy/v1/configs", false),
            (Method::POST, "/v1/chat/completions", false),
            (Method::GET, "/v1/models", false),
            (Method::POST, "/v1/api-keys/workspace/service", true),
            (Method::POST, "/v1/api-keys/workspace", true),
            (Method::POST, "/v1/logs", true),
            (Method::POST, "/v1/prompts/p/completions", false),
            (Method::POST, "/v2/prompts/p@2/render", false),
            (Method::GET, "/v1/prompts/p/completions", true),
            (Method::POST, "/v1/prompts/partials/completions", true),
            (Method::POST, "/v1/deployments/d/chat/completions", false),
            (Method::GET, "/v1/logs/0194", true),
            (Method::PUT, "/v2/policies/rate-limits/x", true),
        ] {
            assert_eq!(is_control_plane(&method, path), ours, "{method} {path}");
        }
    }

    #[test]
    fn each_row_is_described_and_stands_once() {
        let all = routes();
        for (i, row) in all.iter().enumerate() {
            assert!(row.path.starts_with('/') && !row.summary.is_empty(), "{row:?}");
            let own = row.path.starts_with("/api-keys/self/");
            assert!(row.public || own || !row.scopes.is_empty(), "{row:?} opens to any key");
            assert!(!all[..i].iter().any(|o| o.method == row.method && o.path == row.path), "{row:?}");
        }
    }
}
