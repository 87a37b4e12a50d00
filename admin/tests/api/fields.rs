//! Every field that a body may hold, set and changed once: it comes back on a node that knows nothing but what the
//! database tells it, now and after everybody was started anew. A field that the description of the API tells and
//! this story does not send fails the test.

mod agents;
mod alerts;
mod configs;
mod deployments;
mod exports;
mod guardrails;
mod integrations;
mod keys;
mod mcp;
mod newer;
mod oauth_clients;
mod people;
mod policies;
mod prompts;
mod secret_references;
mod sharing;
mod taken_back;
mod tenants;

use crate::access::is_of_workspaces;
use crate::harness::{House, in_seconds, text};
use axum::body::Body;
use http::{Method, Request};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What was sent so far, and what has to come back.
struct Story<'h> {
    house: &'h House,
    sent: BTreeMap<String, BTreeSet<String>>,
    told: BTreeMap<String, Value>,
}

/// Two families of paths stand for one resource.
fn plain(route: &str) -> String {
    route.replace("/admin/workspaces", "/workspaces").replace("/integration-models", "/models")
}

impl<'h> Story<'h> {
    fn of(house: &'h House) -> Self {
        Self { house, sent: BTreeMap::new(), told: BTreeMap::new() }
    }

    /// `route` as the description has it; `path` with its variables filled in.
    async fn send(&mut self, route: &str, path: &str, body: Value) -> Value {
        let fields = body.as_object().expect("an object").keys().cloned();
        self.sent.entry(plain(route)).or_default().extend(fields);
        let method: Method = route.split_once(' ').expect("a method").0.parse().expect("a method");
        let answer = self.house.as_admin().ask(method, path, Some(body.clone())).await;
        let done = [200, 201, 204].contains(&answer.status.as_u16());
        assert!(done, "{route} {body}: {} {}", answer.status, answer.text);
        if answer.text.is_empty() { Value::Null } else { answer.json() }
    }

    async fn shows(&mut self, path: &str, want: Value) {
        same(path, &want, &self.house.as_admin().get(path).await.expect(200));
        self.told.insert(path.to_owned(), want);
    }

    /// Every path once more, on a node with a connection of its own.
    async fn holds_elsewhere(&self) {
        let other = self.house.elsewhere().await;
        for (path, want) in &self.told {
            let here = self.house.as_admin().get(path).await.expect(200);
            assert_eq!(other.as_admin().get(path).await.expect(200), here, "{path} differs by node");
            same(path, want, &here);
        }
    }
}

/// Each field that is wanted is there; what is beyond them does not matter.
fn same(at: &str, want: &Value, got: &Value) {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => {
            want.iter()
                .for_each(|(name, want)| same(&format!("{at} {name}"), want, got.get(name).unwrap_or(&json!(null))));
        }
        (Value::Array(want), Value::Array(got)) if want.len() == got.len() => {
            want.iter().zip(got).enumerate().for_each(|(i, (want, got))| same(&format!("{at} [{i}]"), want, got));
        }
        (Value::Number(want), Value::Number(got)) => assert_eq!(want.as_f64(), got.as_f64(), "{at}"),
        _ => assert_eq!(want, got, "{at}"),
    }
}

fn rates(value: u64) -> Value {
    json!([{"type": "requests", "unit": "rpm", "value": value}, {"type": "tokens", "unit": "rpd", "value": value + 1}])
}

fn budget(limit: u64) -> Value {
    json!({"type": "tokens", "credit_limit": limit, "alert_threshold": limit - 1, "periodic_reset": "weekly",
        "next_usage_reset_at": midnight(20)})
}

/// The midnight at which a day begins, so many days from now.
fn midnight(days: i64) -> String {
    format!("{}T00:00:00.000Z", &in_seconds(days * 86_400)[..10])
}

/// What is shown of a body beside these fields.
fn beside(mut body: Value, names: &[&str]) -> Value {
    names.iter().for_each(|name| drop(body.as_object_mut().expect("an object").remove(*name)));
    body
}

/// All of it as a document says the same.
async fn configuration(story: &mut Story<'_>) {
    let document = story.house.as_admin().get("/configuration").await.expect(200)["document"].clone();
    let body = json!({"document": document, "secrets": {"GATEWAY_SECRET_NOBODYS": "x"}, "dry_run": false});
    let done = story.send("POST /configuration/import", "/configuration/import", body.clone()).await;
    assert_eq!(done["changes"], json!([]), "{document}");
    let body = json!({"document": document, "secrets": {}});
    let done = story.send("POST /configuration/diff", "/configuration/diff", body).await;
    assert_eq!(done["changes"], json!([]), "{document}");
    let body = json!({"document": document, "dry_run": true});
    let done = story.send("POST /configuration/prune", "/configuration/prune", body).await;
    assert_eq!(done["deleted"], 0, "{document}");
}

/// Everything, each field at least once.
async fn whole(house: &House) -> Story<'_> {
    let mut story = Story::of(house);
    tenants::organisation(&mut story).await;
    let (user, _) = house.user("ann@example.com", "member", json!([]), None).await;
    tenants::workspace(&mut story, &user).await;
    people::members(&mut story).await;
    integrations::integration(&mut story).await;
    integrations::access(&mut story).await;
    integrations::providers(&mut story).await;
    secret_references::round_trip(&mut story).await;
    deployments::round_trip(&mut story).await;
    oauth_clients::round_trip(&mut story).await;
    guardrails::round_trip(&mut story).await;
    mcp::round_trip(&mut story).await;
    agents::agents(&mut story).await;
    let config = configs::round_trip(&mut story).await;
    keys::round_trip(&mut story, &user, &config).await;
    let key = house.as_admin().get("/api-keys?workspace_id=team").await.expect(200)["data"][0]["id"].clone();
    exports::round_trip(&mut story).await;
    policies::round_trip(&mut story, &text(&key)).await;
    alerts::round_trip(&mut story).await;
    prompts::round_trip(&mut story).await;
    sharing::round_trip(&mut story).await;
    people::directory(&mut story).await;
    people::sign_on(&mut story).await;
    people::organisations(&mut story).await;
    taken_back::taken_back(&mut story).await;
    configuration(&mut story).await;
    story
}

#[tokio::test]
async fn every_field_comes_back_elsewhere_and_after_a_restart() {
    let house = House::new().await;
    let story = whole(&house).await;
    story.holds_elsewhere().await;
    let request = Request::get("/openapi.json").body(Body::empty()).expect("a request");
    let document = house.send(request).await.expect(200);
    let mut bodies = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, told) in methods.as_object().expect("methods") {
            let Some(schema) = told["requestBody"]["content"]["application/json"]["schema"].as_object() else {
                continue;
            };
            // What is judged is not kept.
            if method == "delete"
                || is_of_workspaces(path)
                || ["/test", "/explain", "/fetch-agent-card"].iter().any(|judged| path.ends_with(judged))
            {
                continue;
            }
            bodies += 1;
            let route = plain(&format!("{} {}", method.to_uppercase(), path.trim_start_matches("/v1")));
            let sent = story.sent.get(&route).cloned().unwrap_or_default();
            let known = schema["properties"].as_object().expect("fields").keys().cloned().collect::<BTreeSet<_>>();
            let unsent: Vec<&String> = known.difference(&sent).collect();
            assert!(unsent.is_empty(), "{route}: nobody shows that {unsent:?} comes back");
        }
    }
    assert!(bodies >= 28, "bodies are read by {bodies} routes");
    // The story's first node is forgotten; who starts now has the database only.
    let again = house.elsewhere().await;
    for (path, want) in &story.told {
        same(path, want, &again.as_admin().get(path).await.expect(200));
    }
}
