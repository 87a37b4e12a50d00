//! A form that asks for pictures to be changed, as it is read; and who changes them: Stability's newer models by a form
//! of their own (<https://platform.stability.ai/docs/api-reference>), Alibaba's by pictures beside the text
//! (<https://www.alibabacloud.com/help/en/model-studio/qwen-image-edit>).

use super::super::object::Object;
use super::super::{NativeShape, refused};
use super::native::DASHSCOPE;
use super::request::{Sides, accepts_json, outgoing, sides};
use super::stability::{STABILITY, is_third};
use crate::adapter::{Call, Failure, ProviderRequest, Reply};
use crate::forms::FormWriter;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gateway_domain::form::{ClientForm, FormPart};
use gateway_domain::{Fault, FaultKind};
use serde_json::{Value, json};

/// OpenAI's fields (<https://platform.openai.com/docs/api-reference/images/createEdit>) that say how, and not what.
const OPENAIS: &[&str] = &[
    "size",
    "quality",
    "background",
    "moderation",
    "input_fidelity",
    "output_format",
    "output_compression",
    "partial_images",
    "style",
    "user",
    "safety_identifier",
];
const READ: &[&str] = &["prompt", "model", "n", "image", "image[]", "mask", "response_format", "stream"];
const NEUTRAL: &[&str] = &["", "auto", "0", "standard"];

#[derive(Debug)]
struct EditAsk<'c> {
    call: &'c Call<'c>,
    form: &'c ClientForm,
    prompt: Option<&'c str>,
    n: Option<u64>,
    sides: Option<Sides>,
    images: Vec<&'c FormPart>,
}

impl<'c> EditAsk<'c> {
    fn read(call: &'c Call<'c>) -> Result<Self, Fault> {
        let form = call.form.ok_or_else(|| Fault::new(FaultKind::BadBody, "the body must be a form with an image"))?;
        if call.stream {
            return Err(refused("stream", "must be false: this provider gives pictures whole"));
        }
        // What is transparent of OpenAI's masks is to be changed, what is white of others'.
        if form.file(&["mask"]).is_some() {
            return Err(refused("mask", "is not taken: masks of this provider mean something else; use its own API"));
        }
        let text = |name: &str| form.text(call.body, name).filter(|text| !text.is_empty());
        let images: Vec<&FormPart> = ["image", "image[]"].into_iter().flat_map(|name| form.named(name)).collect();
        if images.is_empty() {
            return Err(refused("image", "is needed"));
        }
        let n = text("n").map(|n| n.parse().map_err(|_| refused("n", "must be a whole number"))).transpose()?;
        let sides = text("size").map(sides).transpose()?.flatten();
        Ok(Self { call, form, prompt: text("prompt"), n, sides, images })
    }

    fn text_of(&self, part: &FormPart) -> String {
        String::from_utf8_lossy(self.call.body.get(part.value.clone()).unwrap_or_default()).into_owned()
    }

    /// Fields that are not OpenAI's.
    fn own(&self) -> impl Iterator<Item = (&str, String)> {
        let texts = self.form.parts().iter().filter(|part| part.filename.is_none());
        let foreign = texts.filter(|part| !READ.contains(&&*part.name) && !OPENAIS.contains(&&*part.name));
        foreign.map(|part| (&*part.name, self.text_of(part)))
    }

    /// OpenAI's fields that are dropped; `gives`: the one `response_format` that pictures come in.
    fn adjusted(&self, taken: &[&str], gives: &str) -> Vec<&'static str> {
        let said = |name: &str| self.form.text(self.call.body, name).is_some_and(|text| !NEUTRAL.contains(&text));
        let mut out: Vec<&'static str> =
            OPENAIS.iter().filter(|name| !taken.contains(*name) && said(name)).copied().collect();
        let format = self.form.text(self.call.body, "response_format");
        out.extend(format.is_some_and(|format| !format.is_empty() && format != gives).then_some("response_format"));
        out
    }

    fn data_url(&self, part: &FormPart) -> String {
        let told = part.media.as_deref().filter(|media| media.starts_with("image/"));
        let ending = part.filename.as_deref().and_then(|name| name.rsplit('.').next()).unwrap_or_default();
        let media = told.unwrap_or(match &*ending.to_lowercase() {
            "jpg" | "jpeg" => "image/jpeg",
            "webp" => "image/webp",
            _ => "image/png",
        });
        let bytes = self.call.body.get(part.value.clone()).unwrap_or_default();
        format!("data:{media};base64,{}", STANDARD.encode(bytes))
    }
}

/// What Stability does to a picture, each at a path of its name. Those that ask no prompt have none.
const DOINGS: &[(&str, bool)] = &[
    ("inpaint", true),
    ("outpaint", true),
    ("search-and-replace", true),
    ("search-and-recolor", true),
    ("erase", false),
    ("remove-background", false),
];

#[derive(Debug)]
pub(crate) struct StabilityEdits;

pub(crate) static STABILITY_EDITS: StabilityEdits = StabilityEdits;

impl NativeShape for StabilityEdits {
    fn path(&self) -> &'static str {
        "/v2beta/stable-image/edit/{model}"
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let ask = EditAsk::read(call)?;
        if ask.n.is_some_and(|n| n > 1) {
            return Err(refused("n", "must be 1: this provider makes one picture at a time"));
        }
        let [image] = ask.images[..] else {
            return Err(refused("image", "must be one: this provider changes one picture at a time"));
        };
        let model = call.model.unwrap_or_default();
        let doing = DOINGS.iter().find(|(name, _)| *name == model);
        let third = is_third(model);
        if doing.is_none() && !third {
            let known: Vec<&str> = DOINGS.iter().map(|(name, _)| *name).collect();
            let rule = format!("must be one of {} or begin with sd3 where pictures are changed", known.join(", "));
            return Err(refused("model", rule));
        }
        let mut adjusted = ask.adjusted(&["output_format"], "b64_json");
        let mut form = FormWriter::over(ask.form);
        match ask.prompt {
            Some(prompt) if doing.is_none_or(|(_, asks)| *asks) => form.text("prompt", prompt),
            Some(_) => adjusted.push("prompt"),
            None => {}
        }
        if let Some(format) = ask.form.text(call.body, "output_format") {
            form.text("output_format", format);
        }
        if third {
            form.text("mode", "image-to-image");
            if model != "sd3" {
                form.text("model", model);
            }
        }
        ask.own().for_each(|(name, text)| form.text(name, &text));
        form.part("image", image, call.body);
        let path = if third { "generate/sd3" } else { doing.map_or("", |_| "edit/") };
        let named = if third { "" } else { model };
        let mut out = form.outgoing(Some(format!("/v2beta/stable-image/{path}{named}")), adjusted)?;
        out.headers.push(accepts_json());
        Ok(out)
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        STABILITY.response(slug, call, body)
    }
}

#[derive(Debug)]
pub(crate) struct DashScopeEdits;

pub(crate) static DASHSCOPE_EDITS: DashScopeEdits = DashScopeEdits;

impl NativeShape for DashScopeEdits {
    fn path(&self) -> &'static str {
        DASHSCOPE.path()
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let ask = EditAsk::read(call)?;
        let prompt = ask.prompt.ok_or_else(|| refused("prompt", "is needed"))?;
        let pictures = ask.images.iter().map(|image| json!({ "image": ask.data_url(image) }));
        let content: Vec<Value> = pictures.chain([json!({ "text": prompt })]).collect();
        let mut body = Object::new();
        body.put_some("model", call.model);
        body.put("input", &json!({ "messages": [{ "role": "user", "content": content }] }));
        let mut parameters = Object::new();
        parameters.put_some("size", ask.sides.map(|sides| format!("{}*{}", sides.width, sides.height)));
        parameters.put_some("n", ask.n);
        for (name, text) in ask.own() {
            // A form knows texts only; numbers and flags are what they look like.
            let value =
                serde_json::from_str(&text).ok().filter(|value: &Value| value.is_number() || value.is_boolean());
            parameters.put(name, &value.unwrap_or(Value::String(text)));
        }
        body.raw("parameters", &parameters.written());
        Ok(outgoing(None, body, ask.adjusted(&["size"], "url")))
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        DASHSCOPE.response(slug, call, body)
    }
}
