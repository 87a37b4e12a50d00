//! Imagen: pictures by `predict`, billed by the piece
//! (<https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/imagen-api>).

use crate::adapter::{Call, Failure, Reply};
use crate::failure::{self, ProviderError};
use crate::gemini::{self, GeminiRequestBody};
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) fn is_one(model: &str) -> bool {
    model.starts_with("imagen") || model.starts_with("imagegeneration")
}

#[derive(Deserialize)]
struct ImagenWish {
    prompt: String,
    n: Option<u64>,
    size: Option<String>,
    response_format: Option<String>,
    stream: Option<bool>,
}

pub(super) fn request(call: &Call<'_>) -> Result<GeminiRequestBody, Fault> {
    let wish: ImagenWish = serde_json::from_slice(call.body)
        .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no request for images: {e}")))?;
    if wish.stream == Some(true) {
        let why = "stream must be false: this provider gives pictures whole";
        return Err(Fault::new(FaultKind::Refused, why).on("stream"));
    }
    let mut parameters = json!({ "sampleCount": wish.n.unwrap_or(1) });
    if let Some(ratio) = wish.size.as_deref().map(gemini::media::ratio).transpose()?.flatten() {
        parameters["aspectRatio"] = ratio.name.into();
    }
    let body = json!({ "instances": [{ "prompt": wish.prompt }], "parameters": parameters });
    let url = wish.response_format.as_deref() == Some("url");
    Ok(GeminiRequestBody {
        body: body.to_string().into_bytes(),
        adjusted: url.then_some("response_format").into_iter().collect(),
    })
}

pub(super) fn response(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let unreadable = || failure::unreadable(slug, "the answer", &body[..body.len().min(200)], call.dialect);
    let answer: Value = serde_json::from_slice(body).map_err(|_| unreadable())?;
    let all = answer["predictions"].as_array().map_or(&[][..], Vec::as_slice);
    let made = all.iter().filter_map(|one| Some(json!({ "b64_json": one["bytesBase64Encoded"].as_str()? })));
    let data: Vec<Value> = made.collect();
    if data.is_empty() {
        if !answer.is_object() {
            return Err(unreadable());
        }
        // What its filter keeps back is left out without a word, unless a reason was asked for.
        let why = all.iter().find_map(|one| one["raiFilteredReason"].as_str()).unwrap_or("no picture was made");
        let kind = Some("invalid_request_error".to_owned());
        let trouble = ProviderError { kind, code: json!("content_policy_violation"), ..ProviderError::new(why) };
        return Err(trouble.render(slug, 400, call.dialect));
    }
    let usage = Usage { images: data.len() as u64, ..Usage::default() };
    let told = json!({ "created": call.now_ms.div_euclid(1000), "data": data, "provider": slug });
    Ok(Reply { body: told.to_string().into(), usage: Some(usage), model: None })
}
