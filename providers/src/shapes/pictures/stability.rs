//! Stability AI: its newer models take a form and want to be asked for JSON, its older engines JSON with weighted
//! prompts (<https://platform.stability.ai/docs/api-reference>).

use super::super::object::Object;
use super::super::{NativeShape, in_path};
use super::answer::{Picture, filtered, list, unreadable};
use super::request::{Gives, PictureAsk, accepts_json, outgoing, ratio};
use crate::adapter::{BodyPieces, Call, Failure, ProviderRequest, Reply};
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind};
use http::{HeaderValue, header};
use serde_json::{Value, json};
use std::borrow::Cow;

#[derive(Debug)]
pub(crate) struct Stability;

pub(crate) static STABILITY: Stability = Stability;

/// Ratios that the newer models have.
const RATIOS: &[(u32, u32)] = &[(16, 9), (1, 1), (21, 9), (2, 3), (3, 2), (4, 5), (5, 4), (9, 16), (9, 21)];

/// Whether it is one of the third generation, the only ones that change a picture by a prompt alone.
pub(super) fn is_third(model: &str) -> bool {
    model.starts_with("sd3")
}

/// Which of the newer models this is, by its path and the name that stands in the form.
fn newer(model: &str) -> Option<(&'static str, Option<&str>)> {
    match model {
        "core" | "stable-image-core" => Some(("core", None)),
        "ultra" | "stable-image-ultra" => Some(("ultra", None)),
        sd3 if is_third(sd3) => Some(("sd3", Some(sd3).filter(|name| *name != "sd3"))),
        _ => None,
    }
}

impl NativeShape for Stability {
    fn path(&self) -> &'static str {
        "/v1/generation/{model}/text-to-image"
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let (ask, model) = (PictureAsk::read(call)?, in_path(call)?);
        match newer(model) {
            Some((kind, name)) => form(call, &ask, kind, name),
            None => {
                let mut body = Object::new();
                body.put("text_prompts", &json!([{ "text": ask.prompt, "weight": 1 }]));
                body.put_some("samples", ask.n);
                if let Some(sides) = ask.sides {
                    body.put("width", &sides.width);
                    body.put("height", &sides.height);
                }
                ask.put_own(&mut body);
                let path = Some(format!("/v1/generation/{model}/text-to-image"));
                let mut out = outgoing(path, body, ask.adjusted(&[], Gives::Bytes));
                out.headers.push(accepts_json());
                Ok(out)
            }
        }
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        let answer: Value = serde_json::from_slice(body).map_err(|_| unreadable(slug, call, body))?;
        let withheld = |one: &Value| {
            [&one["finish_reason"], &one["finishReason"]].into_iter().any(|reason| reason == "CONTENT_FILTERED")
        };
        let made: Vec<&Value> = match answer["artifacts"].as_array() {
            Some(artifacts) => artifacts.iter().collect(),
            None => vec![&answer],
        };
        let picture = |one: &&Value| {
            let bytes = one["base64"].as_str().or_else(|| one["image"].as_str())?;
            Some(Picture::Bytes(Cow::Owned(bytes.to_owned())))
        };
        let shown: Vec<Picture<'_>> = made.iter().filter(|one| !withheld(one)).filter_map(picture).collect();
        match shown.is_empty() {
            false => Ok(list(slug, call, &shown, None)),
            true if made.iter().any(|one| withheld(one)) => Err(filtered(slug, call)),
            true => Err(unreadable(slug, call, body)),
        }
    }
}

/// A form of texts (RFC 7578), with a boundary that no field contains.
fn form(call: &Call<'_>, ask: &PictureAsk<'_>, kind: &str, name: Option<&str>) -> Result<ProviderRequest, Fault> {
    ask.refuse_several()?;
    let boundary = format!("{:016x}{:016x}", call.dice, call.now_ms);
    let mut body = Vec::new();
    let mut put = |name: &str, value: &str| {
        let head = format!("--{boundary}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n");
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(value.as_bytes());
        body.extend_from_slice(b"\r\n");
    };
    put("prompt", &ask.prompt);
    if let Some(sides) = ask.sides {
        put("aspect_ratio", &ratio(sides, RATIOS)?);
    }
    if let Some(format) = &ask.output_format {
        put("output_format", format);
    }
    if let Some(name) = name {
        put("model", name);
    }
    for (key, value) in ask.own() {
        if !key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            continue;
        }
        match serde_json::from_slice::<Value>(value) {
            Ok(Value::String(text)) => put(key, &text),
            Ok(Value::Number(number)) => put(key, &number.to_string()),
            _ => {}
        }
    }
    if memchr::memmem::find(&body, format!("\r\n--{boundary}\r\n--").as_bytes()).is_some() {
        return Err(Fault::new(FaultKind::BadBody, "the prompt cannot be sent in a form"));
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let media = HeaderValue::from_str(&format!("multipart/form-data; boundary={boundary}"));
    let media = media.map_err(|e| Fault::new(FaultKind::Internal, e.to_string()))?;
    Ok(ProviderRequest {
        path: Some(format!("/v2beta/stable-image/generate/{kind}")),
        headers: vec![accepts_json(), (header::CONTENT_TYPE, media)],
        body: BodyPieces::One(body.into()),
        adjusted: ask.adjusted(&["output_format"], Gives::Bytes),
    })
}
