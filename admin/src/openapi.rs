//! The description of this API, made from the route table and from what handlers read: OpenAPI 3.1 and a page
//! to browse it that loads nothing from elsewhere.

mod answers;
mod parameters;

use crate::app::App;
use crate::idempotency::Repeat;
use crate::route::{AdminReply, AdminRoute, Gate, MountPoint, PublicFn, public};
use crate::scim;
use http::Method;
use serde_json::{Map, Value, json};

/// `describe` gives the description of the table that these routes stand in.
pub(crate) fn routes(describe: PublicFn) -> Vec<AdminRoute> {
    vec![
        public(MountPoint::Operator, "/openapi.json", "Describe this API in OpenAPI 3.1", describe),
        public(MountPoint::Operator, "/docs", "Browse this API", browse),
    ]
}

fn browse(_: &App) -> AdminReply {
    AdminReply::text("text/html; charset=utf-8", include_str!("openapi/page.html"))
}

/// The description of a table of routes, without the version, which only the process knows.
pub(crate) fn document(table: &[AdminRoute]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in table {
        let path =
            if route.place == MountPoint::Api { format!("/v1{}", route.path) } else { route.path.replace("{*", "{") };
        let entry = paths.entry(path).or_insert_with(|| json!({}));
        entry[route.method.as_str().to_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Gateway Admin API",
            "version": "",
            "description": "Paths below /v1 answer below /v2 too.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "x-gateway-api-key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "schemas": schemas(),
        },
    })
}

fn schemas() -> Value {
    let mut all = answers::schemas();
    all.insert("Problem".to_owned(), problem());
    Value::Object(all)
}

fn problem() -> Value {
    let data = json!({
        "type": "object",
        "required": ["message", "errorCode"],
        "properties": {
            "message": {"type": "string"},
            "errorCode": {"type": "string", "enum": ["AB01", "AB02", "AB03", "AB04", "AB05", "AB06", "AB07", "AB08", "AB09"]},
            "errors": {"type": "array", "items": {"type": "string"}},
        },
    });
    json!({
        "type": "object",
        "required": ["success", "data", "request_id"],
        "properties": {
            // That it is false: what generators make of a constant of this type is not always code.
            "success": {"type": "boolean"},
            "data": data,
            "request_id": {"type": "string", "format": "uuid"},
            // These two are only in answers for a route that is not served here.
            "message": {"type": "string"},
            "ok": {"type": "boolean"},
        },
    })
}

/// Names of operations become names of files, which on some systems have no case: `/scim/Groups` is not `/scim/groups`.
fn operation_name(segments: &[&str]) -> String {
    let is_resource = |segment: &str| segment.starts_with(|c: char| c.is_ascii_uppercase());
    let name = |segment: &&str| {
        if is_resource(segment) { format!("{}_resources", segment.to_lowercase()) } else { (*segment).to_owned() }
    };
    segments.iter().map(name).collect::<Vec<_>>().join("_")
}

fn operation(route: &AdminRoute) -> Value {
    let segments = route.path.split('/').filter(|s| !s.is_empty());
    let plain: Vec<&str> = segments.map(|s| s.trim_matches(['{', '*', '}'])).collect();
    let tag = plain.iter().find(|s| **s != "admin").copied().unwrap_or("root");
    let variables =
        route.path.split('/').filter_map(|s| Some(s.strip_prefix('{')?.strip_suffix('}')?.trim_start_matches('*')));
    let variables: Vec<&str> = variables.collect();
    let mut parameters: Vec<Value> = variables
        .iter()
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    let text = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    parameters.extend(parameters::conditions(route));
    parameters.extend(parameters::repeat(route));
    parameters.extend(route.query.iter().map(|name| parameters::of(name).unwrap_or_else(|| text(name))));
    let mut operation = json!({
        "operationId": format!("{}_{}", route.method.as_str().to_lowercase(), operation_name(&plain)),
        "tags": [tag],
        "summary": route.summary,
        "parameters": parameters,
        "responses": responses(route),
    });
    if let Some(body) = route.body {
        let schema = whole(body(), route, &variables);
        let required = schema.get("required").is_some();
        let mut content = json!({"application/json": {"schema": schema}});
        if scim::speaks(route.path) {
            content[scim::MEDIA_TYPE] = content["application/json"].clone();
        }
        operation["requestBody"] = json!({"required": required, "content": content});
    }
    if let Gate::Scopes(any_of, _) = &route.gate {
        let names: Vec<&str> = any_of.iter().map(|s| s.name()).collect();
        operation["description"] = format!("Needs the scope {}.", names.join(" or ")).into();
    }
    if matches!(route.gate, Gate::Scopes(..) | Gate::AnyKey(_)) {
        operation["security"] = json!([{"key": []}, {"bearer": []}]);
    }
    operation
}

/// The schema of the whole body: with the fields that a handler takes out before it reads the rest, and without those
/// that it puts in from the path.
fn whole(mut schema: Value, route: &AdminRoute, path: &[&str]) -> Value {
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.retain(|name, _| !path.contains(&name.as_str()));
        properties.extend(route.more.iter().map(|name| ((*name).to_owned(), json!({}))));
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !path.iter().any(|s| name == s));
    }
    schema
}

/// What browsers are answered that come to sign in.
fn turned() -> Value {
    let mut all = json!({"303": {"description": "On to the place in `Location`"}});
    for (status, description) in [
        ("400", "A parameter breaks a rule, which the message names"),
        ("401", "The answer of the provider is not taken"),
        ("403", "Whoever it is may not sign in here"),
        ("404", "The organisation has no sign-on"),
        ("500", "Something failed inside"),
        ("501", "Not on this node"),
        ("503", "The provider or the configuration store cannot be reached; try again"),
    ] {
        let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}});
        all[status] = json!({"description": description, "content": content});
    }
    all
}

fn responses(route: &AdminRoute) -> Value {
    if let Gate::Public(_) = route.gate {
        return json!({"200": {"description": "As the summary says"}, "503": {"description": "Not now"}});
    }
    if route.path.starts_with("/sso/") {
        return turned();
    }
    if scim::speaks(route.path) {
        return scim::responses(&route.method, route.path, answers::of(route.method.as_str(), route.path));
    }
    let schema = answers::of(route.method.as_str(), route.path).cloned().unwrap_or_else(|| json!({"type": "object"}));
    let kind = if schema["format"] == "binary" { "application/octet-stream" } else { "application/json" };
    let mut all = json!({"200": {"description": "Done", "content": {kind: {"schema": schema}}}});
    let guarded = !matches!(route.gate, Gate::Guest(_));
    if route.is_of_one() {
        let tag = json!({"description": "The state that it is in, as if-match takes it", "schema": {"type": "string"}});
        all["200"]["headers"] = json!({"ETag": tag});
    }
    if route.is_of_one() && route.method == Method::GET {
        all["304"] = json!({"description": "As if-none-match says that it is known already"});
    }
    for (status, description, told) in [
        ("400", "A field breaks a rule, which the message names", true),
        ("401", "No valid key", guarded),
        ("403", "The key, or the link, may not do this", true),
        ("404", "Does not exist, or not here", true),
        ("409", "Taken already, or still in use", true),
        ("412", "Not in the state that if-match or if-none-match asks for", route.is_of_one()),
        ("413", "The body is too long", true),
        (
            "422",
            "The idempotency-key was sent with another request",
            guarded && Repeat::is_taken_by(&route.method, route.path),
        ),
        ("429", "Too much at once; `Retry-After` says when to come again", guarded),
        ("500", "Something failed inside", true),
        ("501", "Not in this version, or not on this node", guarded),
        ("503", "The configuration store cannot be reached; try again", true),
    ] {
        if told {
            let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}});
            all[status] = json!({"description": description, "content": content});
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::table;

    #[test]
    fn every_parameter_and_every_answer_is_described() {
        for route in table() {
            for name in route.query {
                assert!(parameters::of(name).is_some(), "{} {}: ?{name}=", route.method, route.path);
            }
            let told = answers::of(route.method.as_str(), route.path).is_some();
            assert_eq!(told, route.place == MountPoint::Api, "{} {}", route.method, route.path);
        }
    }
}
