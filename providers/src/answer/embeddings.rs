//! Vectors in OpenAI's form, as a list, whoever made them: as numbers, or packed where the client wants it so.

use crate::adapter::{Call, Reply};
use crate::wire::{JsonStr, read};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gateway_domain::Usage;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

#[derive(Deserialize)]
struct EmbeddingEncodingFormat<'a> {
    #[serde(borrow)]
    encoding_format: Option<JsonStr<'a>>,
}

#[derive(Serialize)]
struct EmbeddingList<'a> {
    object: &'static str,
    data: Vec<EmbeddingEntry<'a>>,
    model: &'a str,
    usage: Value,
    provider: &'a str,
}

#[derive(Serialize)]
struct EmbeddingEntry<'a> {
    object: &'static str,
    index: usize,
    embedding: Cow<'a, RawValue>,
}

/// The vectors as the client asked for them; `None` when one is no list of numbers.
pub(crate) fn wanted<'a>(
    call: &Call<'_>,
    vectors: impl ExactSizeIterator<Item = &'a RawValue>,
) -> Option<Vec<Cow<'a, RawValue>>> {
    let packed =
        read::<EmbeddingEncodingFormat<'_>>(call.body).and_then(|f| f.encoding_format).is_some_and(|f| f.0 == "base64");
    vectors.map(|vector| if packed { base64_of(vector).map(Cow::Owned) } else { Some(Cow::Borrowed(vector)) }).collect()
}

pub(crate) fn list<'a>(
    slug: &'static str,
    call: &Call<'_>,
    vectors: Vec<Cow<'a, RawValue>>,
    usage: Option<Usage>,
) -> Reply {
    let tokens = usage.map_or(0, |u| u.input);
    let entry =
        |(index, embedding): (usize, Cow<'a, RawValue>)| EmbeddingEntry { object: "embedding", index, embedding };
    let list = EmbeddingList {
        object: "list",
        data: vectors.into_iter().enumerate().map(entry).collect(),
        model: call.model.unwrap_or_default(),
        usage: json!({ "prompt_tokens": tokens, "total_tokens": tokens }),
        provider: slug,
    };
    Reply { body: serde_json::to_vec(&list).unwrap_or_default().into(), usage, model: None }
}

/// Little-endian floats of 32 bits, as OpenAI packs them.
fn base64_of(values: &RawValue) -> Option<Box<RawValue>> {
    let values: Vec<f32> = read(values.get().as_bytes())?;
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    RawValue::from_string(format!("\"{}\"", STANDARD.encode(bytes))).ok()
}
