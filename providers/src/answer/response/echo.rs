//! What a response repeats of the request: SDKs and tools read the settings that were in force from there.

use crate::adapter::ResponseKeeping;
use crate::edit;
use serde_json::{Map, Value, json};

/// The fields in question and what they are when the request does not name them.
fn defaults() -> Map<String, Value> {
    let all = json!({
        "background": false, "instructions": null, "max_output_tokens": null, "max_tool_calls": null, "metadata": {},
        "parallel_tool_calls": true, "previous_response_id": null, "reasoning": { "effort": null, "summary": null },
        "safety_identifier": null, "service_tier": "default", "store": false, "temperature": 1.0,
        "text": { "format": { "type": "text" } }, "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0,
        "truncation": "disabled", "user": null,
    });
    match all {
        Value::Object(all) => all,
        _ => Map::new(),
    }
}

pub(super) fn of(asked: &[u8], keeps: Option<ResponseKeeping<'_>>) -> Map<String, Value> {
    let mut all = defaults();
    if let Some(keeps) = keeps {
        all.insert("store".to_owned(), true.into());
        all.insert("previous_response_id".to_owned(), keeps.continues.into());
    }
    for member in edit::members(asked).unwrap_or_default() {
        // What is kept nowhere cannot be fetched, whatever was asked.
        if keeps.is_none() && member.key == "store" {
            continue;
        }
        if let Some(slot) = all.get_mut(&*member.key) {
            let said = serde_json::from_slice(&asked[member.value.clone()]).unwrap_or_default();
            if !matches!(said, Value::Null) {
                *slot = said;
            }
        }
    }
    all
}
