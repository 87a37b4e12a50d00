//! What each route answers with, as the description tells it: `answers.json` holds a schema for each route and the
//! things that several of them show. That it says what is shown is held by the tests: they compare every answer they
//! get with it.

use serde_json::{Map, Value};
use std::sync::LazyLock;

static TOLD: LazyLock<Value> = LazyLock::new(|| serde_json::from_str(include_str!("answers.json")).unwrap_or_default());

/// The things that answers are made of, by their names.
pub(super) fn schemas() -> Map<String, Value> {
    TOLD["schemas"].as_object().cloned().unwrap_or_default()
}

/// The 200 of a route.
pub(super) fn of(method: &str, path: &str) -> Option<&'static Value> {
    TOLD["answers"].get(format!("{method} {path}"))
}
