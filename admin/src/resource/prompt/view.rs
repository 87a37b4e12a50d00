//! How prompts and their versions are shown.

use crate::resource::ResourceRow;
use crate::resource::edition::{KeptVersion, status};
use gateway_domain::resource::edition::Edition;
use gateway_domain::resource::prompt::{PromptContent, PromptDocument};
use serde_json::{Map, Value, json};

/// A prompt in one of its versions.
pub(super) fn one(row: &ResourceRow<PromptDocument>, number: u32, edition: Option<&Edition<PromptContent>>) -> Value {
    let mut view = row.common("prompt");
    view.insert("collection_id".into(), place(row));
    let Some(edition) = edition else { return Value::Object(view) };
    view.extend(template(&edition.content));
    let more = json!({
        "prompt_version": number,
        "prompt_version_id": edition.id,
        "prompt_version_status": status(&row.doc.editions, number),
        "prompt_version_description": edition.description,
        "prompt_version_label_id": row.doc.editions.label_of(number),
    });
    view.extend(more.as_object().cloned().unwrap_or_default());
    Value::Object(view)
}

/// A row of the list.
pub(super) fn listed(row: &ResourceRow<PromptDocument>) -> Value {
    let mut view = row.common("prompt");
    view.insert("collection_id".into(), place(row));
    view.insert("model".into(), json!(row.doc.editions.current().and_then(|e| e.content.model.as_ref())));
    Value::Object(view)
}

/// A row of the list of versions.
pub(super) fn version(row: &ResourceRow<PromptDocument>, kept: &KeptVersion<PromptContent>) -> Value {
    json!({
        "object": "prompt",
        "id": kept.edition.id,
        "prompt_id": row.id,
        "prompt_template": template(&kept.edition.content),
        "prompt_version": kept.number,
        "prompt_description": kept.edition.description,
        "label_id": row.doc.editions.label_of(kept.number),
        "created_at": kept.edition.created_at,
        "status": status(&row.doc.editions, kept.number),
    })
}

/// What lies in no collection lies in the one that the workspace is by itself.
fn place(row: &ResourceRow<PromptDocument>) -> Value {
    json!(row.doc.collection.or_else(|| row.workspace.map(|w| w.0)))
}

pub(super) fn template(content: &PromptContent) -> Map<String, Value> {
    let value = json!({
        "string": content.string,
        "parameters": content.parameters,
        "model": content.model,
        "virtual_key": content.virtual_key,
        "functions": content.functions,
        "tools": content.tools,
        "tool_choice": content.tool_choice,
        "template_metadata": content.template_metadata,
        // A number, as it is sent: clients with types have one for it.
        "is_raw_template": u8::from(content.is_raw_template),
    });
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
