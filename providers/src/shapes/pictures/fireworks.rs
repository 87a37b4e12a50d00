//! Fireworks: FLUX is a workflow with words of its own
//! (<https://docs.fireworks.ai/api-reference/generate-a-new-image-from-a-text-prompt>); other models have older
//! words, which its pages no longer show.

use super::super::object::Object;
use super::super::{NativeShape, in_path};
use super::answer::{Picture, filtered, list, texts, unreadable};
use super::native::FIREWORKS_OLDER;
use super::request::{Gives, PictureAsk, accepts_json, outgoing, ratio};
use crate::adapter::{Call, Failure, ProviderRequest, Reply};
use bytes::Bytes;
use gateway_domain::Fault;
use serde_json::Value;
use std::borrow::Cow;

#[derive(Debug)]
pub(crate) struct Fireworks;

pub(crate) static FIREWORKS: Fireworks = Fireworks;

const RATIOS: &[(u32, u32)] =
    &[(1, 1), (21, 9), (16, 9), (3, 2), (5, 4), (4, 5), (2, 3), (9, 16), (9, 21), (4, 3), (3, 4)];

fn is_workflow(call: &Call<'_>) -> bool {
    call.model.is_some_and(|model| model.contains("flux"))
}

impl NativeShape for Fireworks {
    fn path(&self) -> &'static str {
        FIREWORKS_OLDER.path()
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        if !is_workflow(call) {
            return FIREWORKS_OLDER.request(call);
        }
        let ask = PictureAsk::read(call)?;
        ask.refuse_several()?;
        let mut body = Object::new();
        body.put("prompt", &ask.prompt);
        if let Some(sides) = ask.sides {
            body.put("aspect_ratio", &ratio(sides, RATIOS)?);
        }
        ask.put_own(&mut body);
        let path = format!("/workflows/{}/text_to_image", in_path(call)?);
        let mut out = outgoing(Some(path), body, ask.adjusted(&[], Gives::Bytes));
        out.headers.push(accepts_json());
        Ok(out)
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        if !is_workflow(call) {
            return FIREWORKS_OLDER.response(slug, call, body);
        }
        let answer: Value = serde_json::from_slice(body).map_err(|_| unreadable(slug, call, body))?;
        if answer["finishReason"] == "CONTENT_FILTERED" {
            return Err(filtered(slug, call));
        }
        let found = texts(&answer["base64"]);
        // Some are addresses that hold their bytes (RFC 2397).
        let bytes = |text: &&str| text.split_once(";base64,").map_or(*text, |(_, bytes)| bytes).to_owned();
        let pictures: Vec<Picture<'_>> = found.iter().map(|text| Picture::Bytes(Cow::Owned(bytes(text)))).collect();
        if pictures.is_empty() {
            return Err(unreadable(slug, call, body));
        }
        Ok(list(slug, call, &pictures, None))
    }
}
