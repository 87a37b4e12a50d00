//! Gemini's list of models in the form of OpenAI's.

use crate::adapter::{Failure, Reply};
use crate::failure;
use crate::wire::{JsonStr, read};
use bytes::Bytes;
use gateway_domain::Dialect;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct GeminiPage<'a> {
    #[serde(borrow, alias = "publisherModels")]
    models: Vec<GeminiListed<'a>>,
}

#[derive(Deserialize)]
struct GeminiListed<'a> {
    /// `models/gemini-…`; at Vertex AI `publishers/google/models/gemini-…`.
    #[serde(borrow)]
    name: JsonStr<'a>,
}

pub(crate) fn response(slug: &'static str, body: &Bytes) -> Result<Reply, Failure> {
    let theirs: GeminiPage<'_> =
        read(body).ok_or_else(|| failure::unreadable(slug, "the list of models", body, Dialect::OpenAi))?;
    let entry = |model: &GeminiListed<'_>| {
        let id = model.name.0.rsplit("models/").next().unwrap_or(&model.name.0);
        // When a model was made is not told.
        json!({ "id": id, "object": "model", "created": 0, "owned_by": "google" })
    };
    let data: Vec<_> = theirs.models.iter().map(entry).collect();
    let list = json!({ "object": "list", "data": data, "provider": slug });
    Ok(Reply { body: list.to_string().into(), usage: None, model: None })
}
