//! `ListFoundationModels` in the form of OpenAI's list.

use crate::adapter::{Failure, Reply};
use crate::failure;
use crate::wire::{JsonStr, read};
use bytes::Bytes;
use gateway_domain::Dialect;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BedrockPage<'a> {
    #[serde(borrow)]
    model_summaries: Vec<BedrockListed<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BedrockListed<'a> {
    #[serde(borrow)]
    model_id: JsonStr<'a>,
    #[serde(borrow)]
    provider_name: Option<JsonStr<'a>>,
}

pub(super) fn response(slug: &'static str, body: &Bytes) -> Result<Reply, Failure> {
    let theirs: BedrockPage<'_> =
        read(body).ok_or_else(|| failure::unreadable(slug, "the list of models", body, Dialect::OpenAi))?;
    let entry = |m: &BedrockListed<'_>| {
        let owner = m.provider_name.as_ref().map_or(slug, |name| &*name.0);
        // When a model was made is not told.
        json!({ "id": m.model_id.0, "object": "model", "created": 0, "owned_by": owner })
    };
    let data: Vec<_> = theirs.model_summaries.iter().map(entry).collect();
    let list = json!({ "object": "list", "data": data, "provider": slug });
    Ok(Reply { body: list.to_string().into(), usage: None, model: None })
}
