//! The document of a config as clients send it.

use crate::problem::{Problem, bad};
use serde_json::Value;

/// The config as an object, which clients also send as its text.
pub(super) fn document(config: Value) -> Result<Value, Problem> {
    let config = match config {
        Value::String(text) => {
            serde_json::from_str(&text).map_err(|_| bad("config", "must be an object or the JSON text of one"))?
        }
        config => config,
    };
    if config.is_object() { Ok(config) } else { Err(bad("config", "must be an object or the JSON text of one")) }
}
