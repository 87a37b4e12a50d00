//! Each field that an admin can set, and the test that sees it on the proxy. The tables are held to the description of
//! the API: a new field needs its line, and the test that a line names must be there.

mod calls;
mod settings;
mod tenants;
mod tools;

use crate::harness::Gateway;
use serde_json::Value;
use std::collections::BTreeSet;

/// It is for people, or for programs that read it back; no request depends on it.
const SHOWN: &str = "shown";
/// Says which row is meant, or how this one write is to be made.
const MEANS: &str = "means";
/// Falls on a midnight: seen where the clock is an argument, in the tests of `policies` and of `admin`.
const CALENDAR: &str = "calendar";

/// Kind of resource, where each of its fields is seen.
type Places = &'static [(&'static str, &'static [(&'static str, &'static str)])];

const TABLES: [Places; 3] = [calls::FIELDS, tenants::FIELDS, tools::FIELDS];

fn kind(path: &str) -> &str {
    let mut parts =
        path.trim_start_matches("/v1").split('/').filter(|s| !s.is_empty() && *s != "admin" && *s != "policies");
    parts.next().unwrap_or_default()
}

pub(crate) fn is_there(test: &str) -> bool {
    let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("{test} names no test"));
    let path = format!("{}/tests/e2e/{file}.rs", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).is_ok_and(|source| source.contains(&format!("async fn {name}()")))
}

#[tokio::test]
async fn every_field_has_its_place_here() {
    let gateway = Gateway::start().await;
    let text = gateway.client().get(gateway.admin_url("/openapi.json")).send().await.expect("an answer").text().await;
    let document: Value = serde_json::from_str(&text.expect("text")).expect("JSON");
    let mut told: BTreeSet<(String, String)> = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let fields = &operation["requestBody"]["content"]["application/json"]["schema"]["properties"];
            let Some(fields) = fields.as_object().filter(|_| method != "delete") else { continue };
            told.extend(fields.keys().map(|field| (kind(path).to_owned(), field.clone())));
        }
    }
    let rows = || TABLES.into_iter().flatten();
    let listed = rows().flat_map(|(kind, fields)| fields.iter().map(|(f, _)| ((*kind).to_owned(), (*f).to_owned())));
    assert_eq!(listed.collect::<BTreeSet<_>>(), told);
    for (kind, fields) in rows() {
        for (field, place) in fields.iter().filter(|(_, place)| ![SHOWN, MEANS, CALENDAR].contains(place)) {
            assert!(is_there(place), "{kind} {field}: there is no test {place}");
        }
    }
}
