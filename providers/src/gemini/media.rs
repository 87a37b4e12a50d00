//! Pictures, speech and transcripts by Gemini's one call, `generateContent`: what is asked for is told by the kinds of
//! answer that are wanted (<https://ai.google.dev/gemini-api/docs/image-generation>,
//! <https://ai.google.dev/gemini-api/docs/speech-generation>,
//! <https://ai.google.dev/gemini-api/docs/audio>).

mod pictures;
mod speech;
mod transcription;

pub(crate) use pictures::ratio;
pub(crate) use speech::wav_head;

use super::{GeminiRequestBody, trouble};
use crate::adapter::{Call, Failure, Reply};
use crate::failure;
use crate::wire::usage::GeminiUsage;
use bytes::Bytes;
use gateway_domain::form::FormPart;
use gateway_domain::{Fault, FaultKind, Operation, Usage};
use serde_json::{Value, json};

/// What is served so.
pub(crate) const fn serves(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::ImagesGenerate | Operation::ImagesEdit | Operation::Speech | Operation::Transcription
    )
}

pub(crate) fn request(call: &Call<'_>) -> Result<GeminiRequestBody, Fault> {
    let (body, adjusted) = match call.operation {
        Operation::Speech => speech::request(call)?,
        Operation::Transcription => transcription::request(call)?,
        _ => pictures::request(call)?,
    };
    Ok(GeminiRequestBody { body: body.to_string().into_bytes(), adjusted })
}

pub(crate) fn response(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let unreadable = || match trouble(body) {
        Some(trouble) => trouble.render(slug, trouble.status(), call.dialect),
        None => failure::unreadable(slug, "the answer", &body[..body.len().min(200)], call.dialect),
    };
    let answer: Value = serde_json::from_slice(body).map_err(|_| unreadable())?;
    let usage = serde_json::from_value::<GeminiUsage>(answer["usageMetadata"].clone()).ok();
    let usage = usage.and_then(|usage| usage.split());
    let told = match call.operation {
        Operation::Speech => speech::response(call, &answer, usage),
        Operation::Transcription => transcription::response(call, &answer, usage),
        _ => return pictures::response(slug, call, (&answer, usage)).unwrap_or_else(|| Err(unreadable())),
    };
    let model = answer["modelVersion"].as_str().map(str::to_owned);
    told.map(|reply| Reply { model, ..reply }).ok_or_else(unreadable)
}

/// The media type of an answer that is no JSON.
pub(crate) fn media(call: &Call<'_>) -> Option<&'static str> {
    match call.operation {
        Operation::Speech => Some(speech::media(call)),
        Operation::Transcription => transcription::media(call),
        _ => None,
    }
}

fn parts(answer: &Value) -> impl Iterator<Item = &Value> {
    let candidates = answer["candidates"].as_array().into_iter().flatten();
    candidates.flat_map(|candidate| candidate["content"]["parts"].as_array()).flatten()
}

/// Files of an answer: their media types and what they hold, in base64.
fn files(answer: &Value) -> impl Iterator<Item = (&str, &str)> {
    parts(answer).filter_map(|part| {
        let data = &part["inlineData"];
        Some((data["mimeType"].as_str().unwrap_or_default(), data["data"].as_str()?))
    })
}

/// A file of a form as a part of the prompt.
fn inline(call: &Call<'_>, file: &FormPart, kinds: &[(&str, &str)], otherwise: &str) -> Value {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let told = file.media.as_deref().filter(|media| media.contains('/') && *media != "application/octet-stream");
    let ending = file.filename.as_deref().and_then(|name| name.rsplit('.').next()).unwrap_or_default().to_lowercase();
    let known = kinds.iter().find(|(kind, _)| *kind == ending).map(|(_, media)| *media);
    let data = STANDARD.encode(call.body.get(file.value.clone()).unwrap_or_default());
    json!({ "inlineData": { "mimeType": told.or(known).unwrap_or(otherwise), "data": data } })
}

fn refused(field: &'static str, rule: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::Refused, format!("{field} {rule}")).on(field)
}

/// Usage as OpenAI tells that of pictures and of transcripts.
fn shown(usage: &Usage) -> Value {
    let detail = usage.detail;
    let text = usage.input.saturating_sub(detail.image_in.into());
    json!({
        "input_tokens": usage.prompt(), "output_tokens": usage.completion(), "total_tokens": usage.total(),
        "input_tokens_details": { "text_tokens": text, "image_tokens": detail.image_in },
        "output_tokens_details": {
            "text_tokens": usage.completion().saturating_sub(detail.image_out.into()), "image_tokens": detail.image_out,
        },
    })
}
