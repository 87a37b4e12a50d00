//! Embeddings: OpenAI's body as Cohere's `/v2/embed`, and its numbers in OpenAI's form
//! (<https://docs.cohere.com/reference/embed>).

use crate::adapter::{Call, Failure, Reply};
use crate::answer::embeddings;
use crate::failure;
use crate::wire::{JsonStr, read, speaks};
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Deserialize)]
struct CohereEmbeddingParameters<'a> {
    #[serde(borrow)]
    input: &'a RawValue,
    dimensions: Option<u64>,
    #[serde(borrow)]
    encoding_format: Option<JsonStr<'a>>,
    #[serde(borrow)]
    user: Option<&'a RawValue>,
    /// Cohere's own: what the vectors are for.
    #[serde(borrow)]
    input_type: Option<JsonStr<'a>>,
    #[serde(borrow)]
    truncate: Option<JsonStr<'a>>,
}

#[derive(Serialize)]
struct CohereEmbedRequest<'a> {
    model: &'a str,
    texts: Vec<Cow<'a, str>>,
    /// Needed by every model since v3.
    input_type: Cow<'a, str>,
    embedding_types: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimension: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncate: Option<Cow<'a, str>>,
}

fn packed(ask: &CohereEmbeddingParameters<'_>) -> bool {
    ask.encoding_format.as_ref().is_some_and(|f| f.0 == "base64")
}

pub(super) fn request(body: &[u8], model: &str) -> Result<(Vec<u8>, Vec<&'static str>), Fault> {
    let ask: CohereEmbeddingParameters<'_> = serde_json::from_slice(body)
        .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no embeddings request: {e}")))?;
    let rule = "input must be a string or an array of strings: Cohere counts tokens by itself and takes none";
    let texts = match read::<JsonStr<'_>>(ask.input.get().as_bytes()) {
        Some(one) => vec![one.0],
        None => read::<Vec<JsonStr<'_>>>(ask.input.get().as_bytes())
            .ok_or_else(|| Fault::new(FaultKind::Refused, rule).on("input"))?
            .into_iter()
            .map(|text| text.0)
            .collect(),
    };
    let adjusted = if speaks(ask.user) { vec!["user"] } else { Vec::new() };
    let wanted = CohereEmbedRequest {
        model,
        texts,
        embedding_types: [if packed(&ask) { "base64" } else { "float" }],
        input_type: ask.input_type.map_or(Cow::Borrowed("search_document"), |t| t.0),
        output_dimension: ask.dimensions,
        truncate: ask.truncate.map(|t| t.0),
    };
    let body = serde_json::to_vec(&wanted).map_err(|e| Fault::new(FaultKind::Internal, e.to_string()))?;
    Ok((body, adjusted))
}

#[derive(Deserialize)]
struct CohereEmbedReply<'a> {
    #[serde(borrow)]
    embeddings: Embeddings<'a>,
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Embeddings<'a> {
    #[serde(borrow)]
    float: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    base64: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct Meta {
    billed_units: Option<Billed>,
}

#[derive(Deserialize)]
struct Billed {
    input_tokens: Option<f64>,
}

pub(super) fn response(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let answer: CohereEmbedReply<'_> =
        read(body).ok_or_else(|| failure::unreadable(slug, "the answer", body, call.dialect))?;
    let vectors = answer.embeddings.base64.or(answer.embeddings.float).unwrap_or_default();
    let billed = answer.meta.and_then(|m| m.billed_units).and_then(|b| b.input_tokens);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, NaN is 0")]
    let usage = billed.map(|input| Usage { input: input as u64, ..Usage::default() });
    Ok(embeddings::list(slug, call, vectors.into_iter().map(Cow::Borrowed).collect(), usage))
}
