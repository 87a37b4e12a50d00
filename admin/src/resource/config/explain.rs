//! What would become of a request of a key: asked of whoever serves requests, and told without one being made.

use crate::problem::{Problem, bad, busy, missing, not_built};
use crate::route::{AdminCall, AdminReply, AdminRoute, authed};
use gateway_domain::id::KeyId;
use gateway_domain::keys::KeyHash;
use gateway_domain::ports::SupposedRequest;
use gateway_domain::scope::Scope;
use gateway_domain::snapshot::{Key, Snapshot};
use http::{HeaderName, HeaderValue, Method};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Headers of a supposed request.
const MOST_HEADERS: usize = 100;
const LONGEST_TARGET: usize = 8 * 1024;

/// The connection's own, and those that say who asks: that is said by `key`.
const NOT_ITS_OWN: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-gateway-api-key",
];

const READ: &[Scope] = &[Scope::named("configs.read")];

pub(super) fn routes() -> Vec<AdminRoute> {
    const SAYS: &str = "Say what would become of a request; nothing is sent";
    vec![authed(Method::POST, "/configs/explain", READ, SAYS, explain).takes::<Supposition>()]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Supposition {
    key: String,
    #[serde(default)]
    method: Option<String>,
    path: String,
    #[serde(default)]
    headers: Option<Map<String, Value>>,
    #[serde(default)]
    body: Option<Value>,
}

async fn explain(call: AdminCall) -> Result<AdminReply, Problem> {
    let asked: Supposition = call.body()?.read()?;
    let snapshot = call.snapshot();
    let key = key_of(&call, &snapshot, &asked.key)?;
    let method = match asked.method.as_deref().unwrap_or("POST") {
        "GET" => Method::GET,
        "POST" => Method::POST,
        "PUT" => Method::PUT,
        "DELETE" => Method::DELETE,
        "PATCH" => Method::PATCH,
        _ => return Err(bad("method", "must be one of: GET, POST, PUT, PATCH, DELETE")),
    };
    let fits = asked.path.starts_with("/v1") && asked.path.len() <= LONGEST_TARGET;
    if !fits || asked.path.parse::<http::uri::PathAndQuery>().is_err() {
        return Err(bad("path", "must be the path of a request, with its query, and begin with /v1"));
    }
    let headers = headers_of(asked.headers.unwrap_or_default())?;
    let body = asked.body.map(|body| body.to_string()).unwrap_or_default().into();
    let explanations = call.app.explanations.as_ref();
    let explanations = explanations.ok_or_else(|| not_built(call.method.as_str(), call.route.path))?;
    let request = SupposedRequest { key: key.id, method, target: asked.path, headers, body };
    let mut told = explanations.explain(&request).await.map_err(|why| busy(&why.0))?;
    told["object"] = "explanation".into();
    if told.get("key").is_none() {
        told["key"] = json!({ "id": key.id.0, "name": &*key.name });
    }
    Ok(AdminReply::json(told))
}

/// Finds the key by its secret, which is proof enough; or by its id, or by a name that no other key has, where the
/// actor may see keys of its kind. A key that may not be seen is told of like one that is not there.
fn key_of(call: &AdminCall, snapshot: &Snapshot, text: &str) -> Result<Arc<Key>, Problem> {
    let is_near = |key: &&Arc<Key>| {
        let home = key.workspace.map(|id| id.0.to_string());
        key.org == call.actor.org && home.is_some_and(|home| call.actor.home(snapshot, Some(&home)).is_ok())
    };
    if let Some(found) = snapshot.key(&KeyHash::of(text)).filter(is_near) {
        return in_force(call, found);
    }
    let is_seen = |key: &&Arc<Key>| is_near(key) && (key.id == call.actor.key || call.actor.may_see_keys(key.kind));
    let by_id = text.parse().ok().and_then(|id| snapshot.key_by_id(KeyId(id)));
    if let Some(found) = by_id.filter(is_seen) {
        return in_force(call, found);
    }
    let mut named = snapshot.keys().filter(|key| &*key.name == text).filter(is_seen);
    match (named.next(), named.next()) {
        (Some(found), None) => in_force(call, found),
        (Some(_), Some(_)) => Err(bad("key", "names several keys: give the id of one")),
        (None, _) => Err(missing("key")),
    }
}

fn in_force(call: &AdminCall, key: &Arc<Key>) -> Result<Arc<Key>, Problem> {
    let now = (call.app.clock)();
    if !key.active || key.expires_at.is_some_and(|at| at <= now) {
        return Err(bad("key", "is not active or has expired: all its requests are refused"));
    }
    Ok(key.clone())
}

fn headers_of(given: Map<String, Value>) -> Result<Vec<(HeaderName, HeaderValue)>, Problem> {
    if given.len() > MOST_HEADERS {
        return Err(bad("headers", format_args!("must be at most {MOST_HEADERS}")));
    }
    let mut out = Vec::with_capacity(given.len());
    for (name, value) in given {
        let field = format!("headers.{}", name.chars().take(64).collect::<String>());
        let parsed = name.parse::<HeaderName>().map_err(|_| bad(&field, "is no name of a header"))?;
        if NOT_ITS_OWN.contains(&parsed.as_str()) {
            return Err(bad(&field, "cannot be supposed: the connection says it, or `key` does"));
        }
        let text = value.as_str().filter(|text| text.len() <= LONGEST_TARGET);
        let value = text.and_then(|text| HeaderValue::from_str(text).ok());
        out.push((parsed, value.ok_or_else(|| bad(&field, "must be a text that a header can have"))?));
    }
    Ok(out)
}
