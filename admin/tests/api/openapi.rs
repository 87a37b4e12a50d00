//! The description of the API tells every route, and what it tells of bodies is what is read.

use crate::access::is_of_workspaces;
use crate::harness::House;
use axum::body::Body;
use gateway_admin::routes;
use http::{Request, header};
use serde_json::{Value, json};

async fn document(house: &House) -> Value {
    house.send(Request::get("/openapi.json").body(Body::empty()).expect("a request")).await.expect(200)
}

#[tokio::test]
async fn every_route_is_told_once() {
    let house = House::new().await;
    let document = document(&house).await;
    assert_eq!((&document["openapi"], &document["info"]["version"]), (&json!("3.1.0"), &json!("9.9.9")));
    let mut ids = Vec::new();
    for route in routes() {
        let path = if route.versioned { format!("/v1{}", route.path) } else { route.path.replace("{*", "{") };
        let told = &document["paths"][&path][route.method.as_str().to_lowercase()];
        assert_eq!(told["summary"], route.summary, "{path}");
        assert_eq!(told.get("security").is_some(), !route.public, "{path}");
        for scope in &route.scopes {
            assert!(told["description"].as_str().is_some_and(|d| d.contains(scope)), "{path}: {told}");
        }
        ids.push(told["operationId"].to_string().to_lowercase());
    }
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all, "operation ids differ, and not by case alone");
    let page = house.send(Request::get("/docs").body(Body::empty()).expect("a request")).await;
    assert_eq!(page.headers[header::CONTENT_TYPE], "text/html; charset=utf-8");
    assert_eq!(page.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    assert_eq!(page.headers[header::CONTENT_SECURITY_POLICY], "frame-ancestors 'none'");
    assert!(!page.text.contains("http://") && !page.text.contains("https://"), "nothing from elsewhere");
}

#[tokio::test]
async fn bodies_are_told_as_they_are_read() {
    let house = House::new().await;
    let document = document(&house).await;
    let body = |path: &str, method: &str| {
        document["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"].clone()
    };
    let policy = body("/v1/policies/rate-limits", "post");
    assert_eq!(policy["required"], json!(["type", "unit", "value", "conditions"]));
    assert_eq!(policy["properties"]["type"], json!({"type": "string", "enum": ["requests", "tokens"]}));
    assert_eq!(policy["properties"]["workspace_id"], json!({}));
    let key = body("/v1/api-keys/{type}/{sub_type}", "post");
    assert_eq!(key["required"], json!(["name", "scopes"]));
    assert!(key["properties"].get("type").is_none(), "the path says it: {key}");
    assert_eq!(body("/v1/configs", "post")["required"], json!(["name", "config"]));
    assert!(body("/v1/configs/{id}", "put").get("required").is_none());
    let made =
        house.as_admin().post("/configs", json!({"name": "c", "config": {"provider": "mock"}})).await.expect(200);
    let config = format!("/configs/{}", made["slug"].as_str().expect("a slug"));
    let check = json!({"id": "contains", "parameters": {"words": ["x"]}});
    let made = house.as_admin().post("/guardrails", json!({"name": "g", "checks": [check]})).await.expect(200);
    let guardrail = format!("/guardrails/{}", made["slug"].as_str().expect("a slug"));
    // What is told as required is what is missed.
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let Some(required) =
            methods["post"]["requestBody"]["content"]["application/json"]["schema"]["required"].as_array()
        else {
            continue;
        };
        // Only a config is there to be rolled back; `history` shows that other kinds refuse a rollback to no version.
        if path.ends_with("/rollback") && !path.contains("/configs/") {
            continue;
        }
        let path = path
            .replace("/configs/{id}", &config)
            .replace("/guardrails/{id}", &guardrail)
            .replace("{type}", "workspace")
            .replace("{sub_type}", "service")
            .replace("{id}", "default");
        let asker = if is_of_workspaces(&path) { house.as_service() } else { house.as_admin() };
        let said = asker.post(&path, json!({})).await.refused(400, "AB01");
        let first = required[0].as_str().expect("a name");
        assert!(said.starts_with(first), "{path}: {said}");
    }
}

/// Whoever makes a client of the description needs to know what a list holds, be it anything.
#[tokio::test]
async fn every_list_says_what_is_in_it() {
    fn unsaid(place: &str, node: &Value, found: &mut Vec<String>) {
        match node {
            Value::Object(fields) => {
                let is_list = match fields.get("type") {
                    Some(Value::String(kind)) => kind == "array",
                    Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "array"),
                    _ => false,
                };
                if is_list && !fields.contains_key("items") {
                    found.push(place.to_owned());
                }
                fields.iter().for_each(|(name, inner)| unsaid(&format!("{place}/{name}"), inner, found));
            }
            Value::Array(items) => items.iter().for_each(|inner| unsaid(place, inner, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    unsaid("", &document(&House::new().await).await, &mut found);
    assert!(found.is_empty(), "{found:#?}");
}

/// Lists that come whole, and what bounds each of them.
const WHOLE: &[(&str, &str)] = &[
    ("/admin/users/invites/{id}", "what one invite names, which is at most what one body may hold"),
    ("/admin/workspaces/{id}", "the first thousand members; the list of them has all"),
    ("/api-keys/self/limits", "limits of one key and of the policies, of which there are at most so many"),
    ("/api-keys/{id}/limits", "the same"),
    ("/configs/{id}/circuit-breakers", "targets of one config"),
    ("/integrations/{id}/models", "at most 5,000 models of one integration"),
    ("/integrations/{id}/workspaces", "workspaces that somebody let in or shut out one by one"),
    ("/mcp-integrations/{id}/workspaces", "the same"),
    ("/agent-integrations/{id}/workspaces", "the same"),
    ("/agent-integrations/{id}/skills", "skills of one card, which is bounded, and what was switched by name"),
    ("/agent-integrations/{id}/capabilities", "the three that there are"),
    ("/agent-servers/{id}/skills", "skills of one card"),
    ("/agent-servers/{id}/capabilities", "the three that there are"),
    ("/model-prices/unpriced", "the first thousand models that are called and have no price"),
    ("/nodes", "processes of the installation that were heard of lately"),
    ("/nodes/settings", "settings of the program"),
    ("/scim/ResourceTypes", "what the program knows"),
    ("/scim/Schemas", "the same"),
    ("/scim/Users/{id}", "groups of one user, of which there are at most so many"),
    ("/workspaces/{id}", "the first thousand members; the list of them has all"),
];

/// An answer is a page, or as long as something that has a bound: none grows with what an organisation has in use.
#[tokio::test]
async fn every_list_is_a_page_or_has_a_bound_that_is_told() {
    const SIZES: [&str; 5] = ["page_size", "pageSize", "count", "limit", "pagesize"];
    const LISTS: [&str; 8] = ["data", "Resources", "records", "workspaces", "mappings", "groups", "models", "users"];
    let document = document(&House::new().await).await;
    let named = |schema: &Value| match schema["$ref"].as_str() {
        Some(name) => document["components"]["schemas"][name.rsplit('/').next().expect("a name")].clone(),
        None => schema.clone(),
    };
    let mut whole = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let told = &methods["get"];
        let schema = named(&told["responses"]["200"]["content"]["application/json"]["schema"]);
        let is_list = LISTS.iter().any(|name| schema["properties"][name]["type"] == "array");
        let parameters = told["parameters"].as_array().into_iter().flatten();
        let is_paged = parameters.filter_map(|one| one["name"].as_str()).any(|name| SIZES.contains(&name));
        if is_list && !is_paged {
            whole.push(path.trim_start_matches("/v1").to_owned());
        }
    }
    whole.sort();
    let mut known: Vec<String> = WHOLE.iter().map(|(path, _)| (*path).to_owned()).collect();
    known.sort();
    assert_eq!(whole, known);
}
