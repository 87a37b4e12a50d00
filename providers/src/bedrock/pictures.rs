//! Pictures of Amazon's and Stability's models, by InvokeModel in the form of who made the model
//! (<https://docs.aws.amazon.com/nova/latest/userguide/image-gen-req-resp-structure.html>,
//! <https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-stability-diffusion.html>). They are billed by the piece.

use super::refused;
use crate::adapter::{Call, Failure, Reply};
use crate::failure::{self, ProviderError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gateway_domain::usage::{PictureSize, UsageDetail};
use gateway_domain::{Fault, FaultKind, Usage};
use serde::Deserialize;
use serde_json::{Value, json};

/// Ratios that Stability's models have.
const RATIOS: &[(u32, u32)] = &[(16, 9), (1, 1), (21, 9), (2, 3), (3, 2), (4, 5), (5, 4), (9, 16), (9, 21)];
const LACKS: &[&str] =
    &["background", "moderation", "output_compression", "partial_images", "style", "input_fidelity", "user"];

#[derive(Default, Deserialize)]
struct CloudPictureFields {
    prompt: Option<String>,
    n: Option<u64>,
    size: Option<String>,
    quality: Option<String>,
    response_format: Option<String>,
    output_format: Option<String>,
    negative_prompt: Option<String>,
    seed: Option<u64>,
    strength: Option<f64>,
    stream: Option<bool>,
}

fn fields(call: &Call<'_>) -> Result<CloudPictureFields, Fault> {
    let Some(form) = call.form else {
        return serde_json::from_slice(call.body)
            .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no request for images: {e}")));
    };
    let text = |name: &str| form.text(call.body, name).map(str::to_owned);
    Ok(CloudPictureFields {
        prompt: text("prompt"),
        n: text("n").and_then(|n| n.parse().ok()),
        size: text("size"),
        quality: text("quality"),
        response_format: text("response_format"),
        output_format: text("output_format"),
        negative_prompt: text("negative_prompt"),
        seed: text("seed").and_then(|seed| seed.parse().ok()),
        strength: text("strength").and_then(|strength| strength.parse().ok()),
        stream: Some(call.stream),
    })
}

/// Files of the form that are to be changed.
fn images(call: &Call<'_>) -> Vec<String> {
    let parts = call.form.into_iter().flat_map(|form| form.parts());
    let files = parts.filter(|part| part.filename.is_some() && matches!(&*part.name, "image" | "image[]"));
    files.map(|file| STANDARD.encode(call.body.get(file.value.clone()).unwrap_or_default())).collect()
}

fn sides(size: Option<&str>) -> Result<Option<(u32, u32)>, Fault> {
    let Some(size) = size.filter(|size| *size != "auto") else { return Ok(None) };
    let sides = size.split_once('x').and_then(|(w, h)| Some((w.parse::<u16>().ok()?, h.parse::<u16>().ok()?)));
    let sides = sides.filter(|(w, h)| *w > 0 && *h > 0).map(|(w, h)| (u32::from(w), u32::from(h)));
    sides.map(Some).ok_or_else(|| refused("size", "must be auto, or width and height as in 1024x1024"))
}

pub(super) fn request(call: &Call<'_>, model: &str) -> Result<(Vec<u8>, Vec<&'static str>), Fault> {
    let fields = fields(call)?;
    if fields.stream == Some(true) {
        return Err(refused("stream", "must be false: this provider gives pictures whole"));
    }
    if call.form.is_some_and(|form| form.file(&["mask"]).is_some()) {
        return Err(refused(
            "mask",
            "is not taken: masks of this provider's models mean the opposite; use its own API",
        ));
    }
    let body = if model.contains("stability.") { stability(call, &fields)? } else { amazon(call, &fields)? };
    Ok((body.to_string().into_bytes(), dropped(call, &fields)))
}

fn dropped(call: &Call<'_>, fields: &CloudPictureFields) -> Vec<&'static str> {
    let body: Value =
        if call.form.is_some() { Value::Null } else { serde_json::from_slice(call.body).unwrap_or_default() };
    let says = |name: &&&str| match call.form {
        Some(form) => form.text(call.body, name).is_some_and(|text| !matches!(text, "" | "auto")),
        None => !body[**name].is_null() && body[**name] != "auto",
    };
    let mut out: Vec<&'static str> = LACKS.iter().filter(says).copied().collect();
    out.extend((fields.response_format.as_deref() == Some("url")).then_some("response_format"));
    out
}

fn amazon(call: &Call<'_>, fields: &CloudPictureFields) -> Result<Value, Fault> {
    let prompt = fields.prompt.as_deref().ok_or_else(|| refused("prompt", "is needed"))?;
    let mut made = json!({});
    if let Some(n) = fields.n {
        made["numberOfImages"] = n.into();
    }
    if let Some((width, height)) = sides(fields.size.as_deref())? {
        (made["width"], made["height"]) = (width.into(), height.into());
    }
    match fields.quality.as_deref() {
        Some("hd" | "high" | "premium") => made["quality"] = "premium".into(),
        Some("standard" | "low" | "medium") => made["quality"] = "standard".into(),
        _ => {}
    }
    if let Some(seed) = fields.seed {
        made["seed"] = seed.into();
    }
    let mut said = json!({ "text": prompt });
    if let Some(not) = &fields.negative_prompt {
        said["negativeText"] = not.as_str().into();
    }
    let images = images(call);
    Ok(if images.is_empty() {
        json!({ "taskType": "TEXT_IMAGE", "textToImageParams": said, "imageGenerationConfig": made })
    } else {
        said["images"] = images.into();
        json!({ "taskType": "IMAGE_VARIATION", "imageVariationParams": said, "imageGenerationConfig": made })
    })
}

fn stability(call: &Call<'_>, fields: &CloudPictureFields) -> Result<Value, Fault> {
    if fields.n.is_some_and(|n| n > 1) {
        return Err(refused("n", "must be 1: these models make one picture at a time"));
    }
    let prompt = fields.prompt.as_deref().ok_or_else(|| refused("prompt", "is needed"))?;
    let mut body = json!({ "prompt": prompt, "mode": "text-to-image" });
    let mut images = images(call);
    if let Some(image) = images.pop() {
        let strength = fields.strength.filter(|strength| (0.0..=1.0).contains(strength));
        let strength =
            strength.ok_or_else(|| refused("strength", "is needed, 0..1: how much of the picture may change"))?;
        (body["mode"], body["image"], body["strength"]) = ("image-to-image".into(), image.into(), strength.into());
    } else if let Some((width, height)) = sides(fields.size.as_deref())? {
        let fits = RATIOS.iter().find(|(w, h)| width * h == height * w);
        let (w, h) = fits.ok_or_else(|| {
            refused("size", "must have one of the ratios 16:9, 1:1, 21:9, 2:3, 3:2, 4:5, 5:4, 9:16 and 9:21")
        })?;
        body["aspect_ratio"] = format!("{w}:{h}").into();
    }
    if let Some(format) = fields.output_format.as_deref() {
        body["output_format"] = format.into();
    }
    if let Some(not) = &fields.negative_prompt {
        body["negative_prompt"] = not.as_str().into();
    }
    if let Some(seed) = fields.seed {
        body["seed"] = seed.into();
    }
    Ok(body)
}

pub(super) fn response(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let unreadable = || failure::unreadable(slug, "the answer", &body[..body.len().min(200)], call.dialect);
    let answer: Value = serde_json::from_slice(body).map_err(|_| unreadable())?;
    let reasons = answer["finish_reasons"].as_array().into_iter().flatten();
    let withheld = answer["error"].as_str().or_else(|| reasons.filter_map(Value::as_str).next());
    let made: Vec<Value> =
        answer["images"].as_array().into_iter().flatten().filter(|image| image.is_string()).cloned().collect();
    if let Some(why) = withheld {
        let kind = Some("invalid_request_error".to_owned());
        let trouble = ProviderError { kind, code: json!("content_policy_violation"), ..ProviderError::new(why) };
        return Err(trouble.render(slug, 400, call.dialect));
    }
    if made.is_empty() {
        return Err(unreadable());
    }
    let asked = fields(call).ok();
    let (quality, size) =
        asked.map(|f| (f.quality.unwrap_or_default(), f.size.unwrap_or_default())).unwrap_or_default();
    let detail = UsageDetail { picture: PictureSize::named(&quality, &size), ..UsageDetail::default() };
    let usage = Usage { images: made.len() as u64, detail, ..Usage::default() };
    let data: Vec<Value> = made.into_iter().map(|image| json!({ "b64_json": image })).collect();
    let told = json!({ "created": call.now_ms.div_euclid(1000), "data": data, "provider": slug });
    Ok(Reply { body: told.to_string().into(), usage: Some(usage), model: None })
}
