//! Embeddings: OpenAI's body as Gemini's batch or Vertex AI's prediction, and their numbers in OpenAI's form.

use super::{GeminiRequestBody, trouble};
use crate::adapter::{Call, Failure, Reply};
use crate::answer::embeddings;
use crate::failure;
use crate::wire::{JsonStr, read, speaks};
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;

#[derive(Deserialize)]
struct GeminiEmbeddingParameters<'a> {
    #[serde(borrow)]
    input: &'a RawValue,
    dimensions: Option<u64>,
    #[serde(borrow)]
    user: Option<&'a RawValue>,
    /// Google's own: what the vectors are for.
    #[serde(borrow)]
    task_type: Option<JsonStr<'a>>,
    #[serde(borrow)]
    title: Option<JsonStr<'a>>,
}

struct GeminiEmbedRequest<'a> {
    ask: GeminiEmbeddingParameters<'a>,
    texts: Vec<Cow<'a, str>>,
    adjusted: Vec<&'static str>,
}

fn wanted(body: &[u8]) -> Result<GeminiEmbedRequest<'_>, Fault> {
    let ask: GeminiEmbeddingParameters<'_> = serde_json::from_slice(body)
        .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no embeddings request: {e}")))?;
    let rule = "input must be a string or an array of strings: Gemini counts tokens by itself and takes none";
    let refused = || Fault::new(FaultKind::Refused, rule).on("input");
    let texts = match read::<JsonStr<'_>>(ask.input.get().as_bytes()) {
        Some(one) => vec![one.0],
        None => read::<Vec<JsonStr<'_>>>(ask.input.get().as_bytes())
            .ok_or_else(refused)?
            .into_iter()
            .map(|text| text.0)
            .collect(),
    };
    let adjusted = if speaks(ask.user) { vec!["user"] } else { Vec::new() };
    Ok(GeminiEmbedRequest { ask, texts, adjusted })
}

fn finished(body: &impl Serialize, adjusted: Vec<&'static str>) -> Result<GeminiRequestBody, Fault> {
    let body = serde_json::to_vec(body).map_err(|e| Fault::new(FaultKind::Internal, e.to_string()))?;
    Ok(GeminiRequestBody { body, adjusted })
}

/// `batchEmbedContents` of the Gemini API (<https://ai.google.dev/api/embeddings>).
pub(crate) fn batch(body: &[u8], resource: &str) -> Result<GeminiRequestBody, Fault> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct One<'a> {
        model: &'a str,
        content: Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        task_type: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        output_dimensionality: Option<u64>,
    }
    let GeminiEmbedRequest { ask, texts, adjusted } = wanted(body)?;
    let one = |text: &Cow<'_, str>| One {
        model: resource,
        content: json!({ "parts": [{ "text": text }] }),
        task_type: ask.task_type.as_ref().map(|t| &*t.0),
        title: ask.title.as_ref().map(|t| &*t.0),
        output_dimensionality: ask.dimensions,
    };
    let requests: Vec<One<'_>> = texts.iter().map(one).collect();
    finished(&json!({ "requests": requests }), adjusted)
}

/// `predict` of Vertex AI's text embedding models.
pub(crate) fn predict(body: &[u8]) -> Result<GeminiRequestBody, Fault> {
    #[derive(Serialize)]
    struct Instance<'a> {
        content: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        task_type: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    }
    let GeminiEmbedRequest { ask, texts, adjusted } = wanted(body)?;
    let one = |text| Instance {
        content: text,
        task_type: ask.task_type.as_ref().map(|t| &*t.0),
        title: ask.title.as_ref().map(|t| &*t.0),
    };
    let instances: Vec<Instance<'_>> = texts.iter().map(|text| one(text)).collect();
    let mut whole = json!({ "instances": instances });
    if let Some(dimensions) = ask.dimensions {
        whole["parameters"] = json!({ "outputDimensionality": dimensions });
    }
    finished(&whole, adjusted)
}

/// An answer of either API; which fields are there depends on which.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiEmbedReply<'a> {
    #[serde(borrow)]
    embeddings: Option<Vec<Vector<'a>>>,
    #[serde(borrow)]
    predictions: Option<Vec<Prediction<'a>>>,
    usage_metadata: Option<GeminiEmbedUsage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiEmbedUsage {
    prompt_token_count: Option<u64>,
}

#[derive(Deserialize)]
struct Prediction<'a> {
    #[serde(borrow)]
    embeddings: Vector<'a>,
}

#[derive(Deserialize)]
struct Vector<'a> {
    #[serde(borrow)]
    values: &'a RawValue,
    statistics: Option<Statistics>,
}

#[derive(Deserialize)]
struct Statistics {
    token_count: Option<f64>,
}

pub(crate) fn response(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let unreadable = || match trouble(body) {
        Some(trouble) => trouble.render(slug, trouble.status(), call.dialect),
        None => failure::unreadable(slug, "the answer", body, call.dialect),
    };
    let answer: GeminiEmbedReply<'_> = read(body).ok_or_else(unreadable)?;
    let counted = answer.usage_metadata.and_then(|u| u.prompt_token_count);
    let vectors = match (answer.embeddings, answer.predictions) {
        (Some(vectors), _) => vectors,
        (None, Some(predictions)) => predictions.into_iter().map(|p| p.embeddings).collect(),
        (None, None) => return Err(unreadable()),
    };
    let usage = usage(call, counted, &vectors);
    let vectors = embeddings::wanted(call, vectors.iter().map(|v| v.values)).ok_or_else(unreadable)?;
    Ok(embeddings::list(slug, call, vectors, Some(usage)))
}

/// The Gemini API counts embeddings only of late: without a count about four characters make a token.
fn usage(call: &Call<'_>, counted: Option<u64>, vectors: &[Vector<'_>]) -> Usage {
    let each = vectors.iter().map(|v| v.statistics.as_ref()?.token_count);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    let summed = each.sum::<Option<f64>>().filter(|_| !vectors.is_empty()).map(|sum| sum as u64);
    if let Some(input) = counted.or(summed) {
        return Usage { input, ..Usage::default() };
    }
    let texts = wanted(call.body).map(|w| w.texts).unwrap_or_default();
    let chars: u64 = texts.iter().map(|text| text.chars().count() as u64).sum();
    Usage { input: chars.div_ceil(4), estimated: true, ..Usage::default() }
}
