//! Anthropic's list of models in the form of OpenAI's.

use crate::adapter::{Failure, Reply};
use crate::failure;
use crate::wire::{JsonStr, read};
use bytes::Bytes;
use gateway_domain::{Dialect, Timestamp};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Theirs<'a> {
    #[serde(borrow)]
    data: Vec<TheirModel<'a>>,
}

#[derive(Deserialize)]
struct TheirModel<'a> {
    #[serde(borrow)]
    id: JsonStr<'a>,
    #[serde(borrow)]
    created_at: Option<JsonStr<'a>>,
}

#[derive(Serialize)]
struct AnthropicModelList<'a> {
    object: &'static str,
    data: Vec<AnthropicModel<'a>>,
    provider: &'static str,
}

#[derive(Serialize)]
struct AnthropicModel<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    owned_by: &'static str,
}

pub(super) fn response(body: &Bytes) -> Result<Reply, Failure> {
    let theirs: Theirs<'_> =
        read(body).ok_or_else(|| failure::unreadable("anthropic", "the list of models", body, Dialect::OpenAi))?;
    let list =
        AnthropicModelList { object: "list", data: theirs.data.iter().map(model).collect(), provider: "anthropic" };
    Ok(Reply { body: serde_json::to_vec(&list).unwrap_or_default().into(), usage: None, model: None })
}

fn model<'m>(theirs: &'m TheirModel<'_>) -> AnthropicModel<'m> {
    let created = theirs.created_at.as_ref().and_then(|at| at.0.parse::<Timestamp>().ok());
    AnthropicModel {
        id: &theirs.id.0,
        object: "model",
        created: created.map_or(0, Timestamp::secs),
        owned_by: "anthropic",
    }
}
