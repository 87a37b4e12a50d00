//! Gemini's list of models in the form of OpenAI's (`spec/inference.md`, Models).

use super::SLUG;
use crate::adapter::{Failure, Reply};
use crate::failure;
use crate::wire::{Text, read};
use bytes::Bytes;
use gateway_domain::Dialect;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Theirs<'a> {
    #[serde(borrow)]
    models: Vec<TheirModel<'a>>,
}

#[derive(Deserialize)]
struct TheirModel<'a> {
    /// `models/gemini-…`.
    #[serde(borrow)]
    name: Text<'a>,
}

pub(super) fn response(body: &Bytes) -> Result<Reply, Failure> {
    let theirs: Theirs<'_> =
        read(body).ok_or_else(|| failure::unreadable(SLUG, "the list of models", body, Dialect::OpenAi))?;
    let entry = |model: &TheirModel<'_>| {
        let id = model.name.0.strip_prefix("models/").unwrap_or(&model.name.0);
        // When a model was made is not told.
        json!({ "id": id, "object": "model", "created": 0, "owned_by": SLUG })
    };
    let data: Vec<_> = theirs.models.iter().map(entry).collect();
    let list = json!({ "object": "list", "data": data, "provider": SLUG });
    Ok(Reply { body: list.to_string().into(), usage: None, model: None })
}
