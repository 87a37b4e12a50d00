//! Pictures that a Gemini model makes or changes.

use super::{files, inline, refused, shown};
use crate::adapter::{Call, Failure, Reply};
use crate::failure::ProviderError;
use gateway_domain::{Fault, FaultKind, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

/// <https://ai.google.dev/gemini-api/docs/image-generation#aspect_ratios>
const RATIOS: &[(u32, u32)] = &[(1, 1), (2, 3), (3, 2), (3, 4), (4, 3), (4, 5), (5, 4), (9, 16), (16, 9), (21, 9)];
const KINDS: &[(&str, &str)] =
    &[("png", "image/png"), ("jpg", "image/jpeg"), ("jpeg", "image/jpeg"), ("webp", "image/webp")];
/// Steers pictures of OpenAI's models in ways that Gemini's have no words for.
const LACKS: &[&str] = &[
    "quality",
    "background",
    "moderation",
    "output_format",
    "output_compression",
    "partial_images",
    "style",
    "input_fidelity",
];

/// A request for pictures, as a form or as JSON.
#[derive(Default, Deserialize)]
struct PictureWish {
    prompt: Option<String>,
    n: Option<u64>,
    size: Option<String>,
    response_format: Option<String>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    images: Vec<Value>,
    mask: Option<Value>,
}

fn wish(call: &Call<'_>) -> Result<PictureWish, Fault> {
    let Some(form) = call.form else {
        return serde_json::from_slice(call.body)
            .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no request for images: {e}")));
    };
    let text = |name: &str| form.text(call.body, name).map(str::to_owned);
    Ok(PictureWish {
        prompt: text("prompt"),
        n: text("n").and_then(|n| n.parse().ok()),
        size: text("size"),
        response_format: text("response_format"),
        stream: Some(call.stream),
        images: Vec::new(),
        mask: form.file(&["mask"]).map(|_| Value::Bool(true)),
    })
}

pub(super) fn request(call: &Call<'_>) -> Result<(Value, Vec<&'static str>), Fault> {
    let wish = wish(call)?;
    if wish.n.is_some_and(|n| n > 1) {
        return Err(refused("n", "must be 1: this provider makes one picture at a time"));
    }
    if wish.stream == Some(true) {
        return Err(refused("stream", "must be false: this provider gives pictures whole"));
    }
    if wish.mask.is_some_and(|mask| !mask.is_null()) {
        return Err(refused("mask", "is not taken by this provider: say in the prompt what is to change"));
    }
    let mut parts = Vec::new();
    for image in &wish.images {
        parts.push(of_address(image["image_url"].as_str().unwrap_or_default())?);
    }
    let files = call.form.into_iter().flat_map(|form| form.parts());
    let files = files.filter(|part| part.filename.is_some() && matches!(&*part.name, "image" | "image[]"));
    parts.extend(files.map(|file| inline(call, file, KINDS, "image/png")));
    parts.push(json!({ "text": wish.prompt.ok_or_else(|| refused("prompt", "is needed"))? }));
    let mut generation = json!({ "responseModalities": ["IMAGE"] });
    if let Some(picture) = wish.size.as_deref().map(config).transpose()?.flatten() {
        generation["imageConfig"] = picture;
    }
    let mut adjusted = dropped(call);
    adjusted.extend((wish.response_format.as_deref() == Some("url")).then_some("response_format"));
    Ok((json!({ "contents": [{ "role": "user", "parts": parts }], "generationConfig": generation }), adjusted))
}

/// Fields that say something and are left out.
fn dropped(call: &Call<'_>) -> Vec<&'static str> {
    let body: Value =
        if call.form.is_some() { Value::Null } else { serde_json::from_slice(call.body).unwrap_or_default() };
    let says = |name: &&&str| match call.form {
        Some(form) => form.text(call.body, name).is_some_and(|text| !matches!(text, "" | "auto" | "0")),
        None => !matches!(&body[**name], Value::Null) && body[**name] != "auto" && body[**name] != 0,
    };
    LACKS.iter().filter(says).copied().collect()
}

/// A picture that comes with the request. Nothing is fetched here.
fn of_address(url: &str) -> Result<Value, Fault> {
    let inline = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let (media, data) =
        inline.ok_or_else(|| refused("images", "must be data URLs (data:image/png;base64,…) at this provider"))?;
    Ok(json!({ "inlineData": { "mimeType": media, "data": data } }))
}

/// How a picture is asked for by these models.
#[derive(Debug)]
pub(crate) struct PictureRatio {
    pub(crate) pixels: u32,
    /// The ratio of width to height in lowest terms, like `16:9`.
    pub(crate) name: String,
}

/// `None`: as the model likes.
pub(crate) fn ratio(size: &str) -> Result<Option<PictureRatio>, Fault> {
    if size == "auto" {
        return Ok(None);
    }
    let sides = size.split_once('x').and_then(|(w, h)| Some((w.parse::<u16>().ok()?, h.parse::<u16>().ok()?)));
    let (width, height) = sides.map(|(w, h)| (u32::from(w), u32::from(h))).unwrap_or_default();
    let fits = RATIOS.iter().find(|(w, h)| width > 0 && width * h == height * w);
    let (w, h) = fits.ok_or_else(|| {
        refused(
            "size",
            "must be auto, or have one of the ratios 1:1, 2:3, 3:2, 3:4, 4:3, 4:5, 5:4, 9:16, 16:9 and 21:9",
        )
    })?;
    Ok(Some(PictureRatio { pixels: width * height, name: format!("{w}:{h}") }))
}

fn config(size: &str) -> Result<Option<Value>, Fault> {
    let Some(ratio) = ratio(size)? else { return Ok(None) };
    let mut out = json!({ "aspectRatio": ratio.name });
    // The smallest is what all make, and some know no other.
    match ratio.pixels {
        0..=1_800_000 => {}
        1_800_001..=6_500_000 => out["imageSize"] = "2K".into(),
        _ => out["imageSize"] = "4K".into(),
    }
    Ok(Some(out))
}

/// `None`: it is not what was promised.
pub(super) fn response(
    slug: &'static str,
    call: &Call<'_>,
    (answer, usage): (&Value, Option<Usage>),
) -> Option<Result<Reply, Failure>> {
    let data: Vec<Value> = files(answer).map(|(_, data)| json!({ "b64_json": data })).collect();
    if data.is_empty() {
        let reason =
            answer["candidates"][0]["finishReason"].as_str().or(answer["promptFeedback"]["blockReason"].as_str())?;
        let kind = Some("invalid_request_error".to_owned());
        let message = format!("no picture was made: {reason}");
        let trouble = ProviderError { kind, code: json!("content_policy_violation"), ..ProviderError::new(message) };
        return Some(Err(Failure { usage: usage.map(Box::new), ..trouble.render(slug, 400, call.dialect) }));
    }
    let told = json!({
        "created": call.now_ms.div_euclid(1000), "data": data, "usage": usage.as_ref().map(shown), "provider": slug,
    });
    let model = answer["modelVersion"].as_str().map(str::to_owned);
    Some(Ok(Reply { body: told.to_string().into(), usage, model }))
}
