//! Shapes that are OpenAI's but for a path or a field.

use super::super::NativeShape;
use super::super::object::Object;
use super::request::{Gives, PictureAsk, asked_size, outgoing};
use crate::adapter::{Call, Failure, ProviderRequest, Reply};
use crate::compat::openai_reply;
use crate::model;
use bytes::Bytes;
use gateway_domain::Fault;
use gateway_domain::usage::PictureSize;

/// OpenAI's request at a path of its own (<https://openrouter.ai/docs/features/multimodal/image-generation>).
#[derive(Debug)]
pub(crate) struct OpenRouter;

pub(crate) static OPENROUTER: OpenRouter = OpenRouter;

impl NativeShape for OpenRouter {
    fn path(&self) -> &'static str {
        "/v1/images"
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let body = model::replaced(call, model::changed(call, call.model)?, "")?;
        Ok(ProviderRequest { path: None, headers: Vec::new(), body, adjusted: Vec::new() })
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        openai_reply(slug, call, body)
    }
}

/// Width and height apart, and another word for bytes (<https://docs.together.ai/reference/post-images-generations>).
#[derive(Debug)]
pub(crate) struct Together;

pub(crate) static TOGETHER: Together = Together;

impl NativeShape for Together {
    fn path(&self) -> &'static str {
        "/v1/images/generations"
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let ask = PictureAsk::read(call)?;
        let mut body = Object::new();
        body.put_some("model", call.model);
        body.put("prompt", &ask.prompt);
        body.put_some("n", ask.n);
        if let Some(sides) = ask.sides {
            body.put("width", &sides.width);
            body.put("height", &sides.height);
        }
        body.put_some("response_format", ask.given_as("base64"));
        body.put_some("output_format", ask.output_format.as_deref());
        ask.put_own(&mut body);
        Ok(outgoing(None, body, ask.adjusted(&["output_format"], Gives::Either)))
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        // The size is not told again.
        let mut reply = openai_reply(slug, call, body)?;
        if let Some(usage) = reply.usage.as_mut().filter(|usage| usage.images > 0) {
            usage.detail.picture = PictureSize::named("", &asked_size(call));
        }
        Ok(reply)
    }
}
