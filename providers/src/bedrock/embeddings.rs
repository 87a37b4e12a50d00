//! Embeddings through InvokeModel, in the form of who made the model: Amazon's Titan
//! (<https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html>) takes one text a
//! call, Cohere's models (<https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed.html>) take
//! many.

use super::refused;
use crate::adapter::{Call, Failure, Reply};
use crate::answer::embeddings;
use crate::convert::converse::vendor::Maker;
use crate::failure;
use crate::tokens;
use crate::wire::{JsonStr, read, speaks};
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

#[derive(Deserialize)]
struct BedrockEmbeddingParameters<'a> {
    #[serde(borrow)]
    input: &'a RawValue,
    dimensions: Option<u64>,
    #[serde(borrow)]
    user: Option<&'a RawValue>,
    /// Titan's own.
    normalize: Option<bool>,
    /// Cohere's own: what the vectors are for, and where long texts are cut.
    #[serde(borrow)]
    input_type: Option<JsonStr<'a>>,
    #[serde(borrow)]
    truncate: Option<JsonStr<'a>>,
}

pub(super) fn request(body: &[u8], maker: Maker<'_>) -> Result<(Vec<u8>, Vec<&'static str>), Fault> {
    let ask: BedrockEmbeddingParameters<'_> = serde_json::from_slice(body)
        .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no embeddings request: {e}")))?;
    let rule = "must be a string or an array of strings: Bedrock's models count tokens by themselves and take none";
    let raw = ask.input.get().as_bytes();
    let texts = match read::<JsonStr<'_>>(raw) {
        Some(one) => vec![one.0],
        None => {
            let all = read::<Vec<JsonStr<'_>>>(raw).ok_or_else(|| refused("input", rule))?;
            all.into_iter().map(|text| text.0).collect()
        }
    };
    let adjusted = if speaks(ask.user) { vec!["user"] } else { Vec::new() };
    let body = if maker.is_titan() {
        titan(&ask, &texts, maker)?
    } else if maker.is_cohere() {
        cohere(&ask, &texts)
    } else {
        let message = "embed is not supported by bedrock for this model: it knows those of Amazon Titan and Cohere";
        return Err(Fault::new(FaultKind::Unsupported, message).on("model"));
    };
    Ok((body.to_string().into_bytes(), adjusted))
}

fn titan(ask: &BedrockEmbeddingParameters<'_>, texts: &[Cow<'_, str>], maker: Maker<'_>) -> Result<Value, Fault> {
    let [text] = texts else {
        return Err(refused("input", "must be one text: Titan takes one a call"));
    };
    let mut out = json!({ "inputText": text });
    match maker.model() {
        image if image.contains("-image-") => {
            if let Some(length) = ask.dimensions {
                out["embeddingConfig"] = json!({ "outputEmbeddingLength": length });
            }
        }
        second if second.contains("-v2") => {
            if let Some(dimensions) = ask.dimensions {
                out["dimensions"] = dimensions.into();
            }
            if let Some(normalize) = ask.normalize {
                out["normalize"] = normalize.into();
            }
        }
        _ if ask.dimensions.is_some() => {
            return Err(refused("dimensions", "cannot be chosen with this model; Titan's second version takes them"));
        }
        _ => {}
    }
    Ok(out)
}

fn cohere(ask: &BedrockEmbeddingParameters<'_>, texts: &[Cow<'_, str>]) -> Value {
    let purpose = ask.input_type.as_ref().map_or("search_document", |t| &*t.0);
    let mut out = json!({ "texts": texts, "input_type": purpose, "embedding_types": ["float"] });
    if let Some(truncate) = &ask.truncate {
        out["truncate"] = (*truncate.0).into();
    }
    if let Some(dimensions) = ask.dimensions {
        out["output_dimension"] = dimensions.into();
    }
    out
}

#[derive(Deserialize)]
struct Titan<'a> {
    #[serde(borrow)]
    embedding: &'a RawValue,
    #[serde(rename = "inputTextTokenCount")]
    tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CohereEmbeddings<'a> {
    #[serde(borrow)]
    embeddings: &'a RawValue,
}

#[derive(Deserialize)]
struct ByType<'a> {
    #[serde(borrow)]
    float: Vec<&'a RawValue>,
}

pub(super) fn response(slug: &'static str, call: &Call<'_>, maker: Maker<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let unreadable = || failure::unreadable(slug, "the answer", body, call.dialect);
    let (vectors, counted) = if maker.is_titan() {
        let said: Titan<'_> = read(body).ok_or_else(unreadable)?;
        (vec![said.embedding], said.tokens)
    } else {
        let said: CohereEmbeddings<'_> = read(body).ok_or_else(unreadable)?;
        let raw = said.embeddings.get().as_bytes();
        let by_type = raw.starts_with(b"{").then(|| read::<ByType<'_>>(raw)).flatten().map(|b| b.float);
        (by_type.or_else(|| read::<Vec<&RawValue>>(raw)).ok_or_else(unreadable)?, None)
    };
    let usage = match counted {
        Some(input) => Usage { input, ..Usage::default() },
        // Cohere's body does not tell; the tokenizer is not for a thread that serves.
        None => Usage { input: tokens::rough_prompt(call.body), estimated: true, ..Usage::default() },
    };
    let vectors = embeddings::wanted(call, vectors.into_iter()).ok_or_else(unreadable)?;
    Ok(embeddings::list(slug, call, vectors, Some(usage)))
}
