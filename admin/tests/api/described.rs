//! Every answer that a test gets is held to the description of the API: a status that it tells, and a body of the
//! schema that it gives, with no field beyond. So a client made from the description reads what is sent.

use crate::harness::{Answer, House};
use axum::body::Body;
use http::{Method, Request};
use jsonschema::Validator;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};

static TOLD: OnceLock<ToldAnswers> = OnceLock::new();

pub(crate) struct ToldAnswers {
    document: Value,
    /// A validator for each path, method and status.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl ToldAnswers {
    pub(crate) fn is_there() -> bool {
        TOLD.get().is_some()
    }

    pub(crate) fn learn(document: Value) {
        TOLD.get_or_init(|| Self { document, validators: Mutex::default() });
    }

    pub(crate) fn check(method: &Method, path: &str, answer: &Answer) {
        let told = TOLD.get().expect("learnt before");
        let Some((template, operation)) = told.operation(method, path) else { return };
        let status = answer.status.as_u16().to_string();
        let what = format!("{method} {template} {status}");
        let response = &operation["responses"][&status];
        assert!(response.is_object(), "{what} is not described: {}", answer.text);
        let schema = &response["content"]["application/json"]["schema"];
        if schema.is_null() {
            return;
        }
        let validator = told.validator(&what, schema);
        let body = answer.json();
        let wrong: Vec<String> =
            validator.iter_errors(&body).map(|e| format!("{}: {e}", e.instance_path())).take(5).collect();
        assert!(wrong.is_empty(), "{what} is not as described: {wrong:#?}\n{}", answer.text);
    }

    /// The path as the document writes it, the one with most written out where several fit.
    fn operation(&self, method: &Method, path: &str) -> Option<(&str, &Value)> {
        let rest = ["/v1/v2/", "/v1/", "/v2/"].iter().find_map(|prefix| path.strip_prefix(prefix))?;
        let have: Vec<&str> = rest.trim_end_matches('/').split('/').collect();
        let exact = |template: &str| {
            let want: Vec<&str> = template.strip_prefix("/v1/")?.split('/').collect();
            let fits = want.len() == have.len() && want.iter().zip(&have).all(|(w, h)| w.starts_with('{') || w == h);
            fits.then(|| want.iter().filter(|w| !w.starts_with('{')).count())
        };
        let paths = self.document["paths"].as_object()?;
        let (_, template, methods) =
            paths.iter().filter_map(|(t, m)| Some((exact(t)?, t, m))).max_by_key(|(exact, ..)| *exact)?;
        methods.get(method.as_str().to_lowercase()).map(|operation| (template.as_str(), operation))
    }

    fn validator(&self, what: &str, schema: &Value) -> Arc<Validator> {
        let mut known = self.validators.lock().expect("unpoisoned");
        known.entry(what.to_owned()).or_insert_with(|| Arc::new(compiled(schema, &self.document))).clone()
    }
}

/// A schema with what it names, closed: an object that lists its fields holds no others.
fn compiled(schema: &Value, document: &Value) -> Validator {
    let mut whole = schema.clone();
    whole["components"] = json!({"schemas": document["components"]["schemas"]});
    close(&mut whole);
    jsonschema::options().should_validate_formats(true).build(&whole).expect("a schema")
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.values_mut().for_each(close);
            // What is named `properties` inside `properties` is a field of that name.
            if fields.get("properties").is_some_and(Value::is_object) && fields.contains_key("type") {
                fields.entry("additionalProperties").or_insert(Value::Bool(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

/// What any tool that reads such documents asks of them.
#[tokio::test]
async fn the_document_is_whole() {
    let house = House::new().await;
    let request = Request::get("/openapi.json").body(Body::empty()).expect("a request");
    let document = house.send(request).await.expect(200);
    let mut used = HashSet::new();
    references(&document, &mut used);
    for name in &used {
        assert!(document.pointer(name.trim_start_matches('#')).is_some(), "{name} leads nowhere");
    }
    for name in document["components"]["schemas"].as_object().expect("schemas").keys() {
        assert!(used.contains(&format!("#/components/schemas/{name}")), "nothing shows a {name}");
    }
    let mut operations = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let variables: HashSet<&str> = path.split('/').filter_map(|s| s.strip_prefix('{')?.strip_suffix('}')).collect();
        for (method, operation) in methods.as_object().expect("methods") {
            operations += 1;
            let what = format!("{method} {path}");
            let parameters = operation["parameters"].as_array().expect("parameters");
            let named = |place: &str| -> Vec<&str> {
                let here = parameters.iter().filter(|p| p["in"] == place);
                here.map(|p| p["name"].as_str().expect("a name")).collect()
            };
            assert_eq!(named("path").into_iter().collect::<HashSet<_>>(), variables, "{what}");
            let query = named("query");
            assert_eq!(query.iter().collect::<HashSet<_>>().len(), query.len(), "{what} names one twice");
            for parameter in parameters {
                assert!(parameter["schema"]["type"].is_string(), "{what}: {parameter}");
                let required = parameter["in"] == "path";
                assert_eq!(parameter["required"].as_bool().unwrap_or_default(), required, "{what}: {parameter}");
            }
            for (status, response) in operation["responses"].as_object().expect("responses") {
                assert!(response["description"].is_string(), "{what} {status}");
                let schema = &response["content"]["application/json"]["schema"];
                if !schema.is_null() {
                    compiled(schema, &document);
                }
            }
        }
    }
    assert!(operations > 100, "{operations} operations are described");
}

fn references(value: &Value, out: &mut HashSet<String>) {
    match value {
        Value::Object(fields) => {
            out.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| references(value, out));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, out)),
        _ => {}
    }
}
