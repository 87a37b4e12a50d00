//! Shapes that have nothing of OpenAI's but the prompt.

use super::super::object::Object;
use super::super::{NativeShape, in_path};
use super::answer::{Picture, list, texts, unreadable};
use super::request::{Gives, PictureAsk, Sides, accepts_json, outgoing};
use crate::adapter::{Call, Failure, ProviderRequest, Reply};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use gateway_domain::Fault;
use serde_json::{Value, json};
use std::borrow::Cow;

/// A provider's words for a request, and where its pictures stand.
#[derive(Debug)]
pub(crate) struct Native {
    path: &'static str,
    /// The model stands at the path's end.
    named_in_path: bool,
    taken: &'static [&'static str],
    gives: Gives,
    one_at_a_time: bool,
    asks_for_json: bool,
    /// What is the provider's own stands among `parameters`, where `write` puts it.
    nested: bool,
    write: fn(&PictureAsk<'_>, &Call<'_>, &mut Object),
    /// The pictures, each a text; `None`: the answer is not what was promised.
    found: fn(&Value) -> Option<Vec<String>>,
    /// The size, where the answer tells it.
    size: fn(&Value) -> Option<String>,
}

const PLAIN: Native = Native {
    path: "",
    named_in_path: false,
    taken: &[],
    gives: Gives::Bytes,
    one_at_a_time: false,
    asks_for_json: false,
    nested: false,
    write: |_, _, _| {},
    found: |_| None,
    size: |_| None,
};

fn sides(ask: &PictureAsk<'_>, body: &mut Object, (width, height): (&str, &str)) {
    if let Some(sides) = ask.sides {
        body.put(width, &sides.width);
        body.put(height, &sides.height);
    }
}

fn each<'v>(list: &'v Value, field: &str) -> Option<Vec<String>> {
    let list: &'v Vec<Value> = list.as_array()?;
    list.iter().map(|one| one[field].as_str().map(str::to_owned)).collect()
}

/// <https://docs.fal.ai/model-apis>; the model is the path.
pub(crate) static FAL: Native = Native {
    path: "/",
    named_in_path: true,
    taken: &["output_format"],
    gives: Gives::Addresses,
    write: |ask, _, body| {
        body.put("prompt", &ask.prompt);
        body.put_some("num_images", ask.n);
        let size = |sides: Sides| json!({ "width": sides.width, "height": sides.height });
        body.put_some("image_size", ask.sides.map(size));
        body.put_some("output_format", ask.output_format.as_deref());
    },
    found: |answer| each(&answer["images"], "url"),
    size: |answer| {
        let first = &answer["images"][0];
        Some(format!("{}x{}", first["width"].as_u64()?, first["height"].as_u64()?))
    },
    ..PLAIN
};

pub(crate) static SEGMIND: Native = Native {
    path: "/",
    named_in_path: true,
    write: |ask, _, body| {
        body.put("prompt", &ask.prompt);
        body.put_some("samples", ask.n);
        sides(ask, body, ("img_width", "img_height"));
        body.put("base64", &true);
    },
    found: |answer| match answer {
        Value::Array(_) => each(answer, "image"),
        answer => Some(texts(&answer["image"]).into_iter().map(str::to_owned).collect()),
    },
    ..PLAIN
};

pub(crate) static HYPERBOLIC: Native = Native {
    path: "/v1/image/generation",
    one_at_a_time: true,
    write: |ask, call, body| {
        body.put_some("model_name", call.model);
        body.put("prompt", &ask.prompt);
        sides(ask, body, ("width", "height"));
    },
    found: |answer| each(&answer["images"], "image"),
    ..PLAIN
};

/// <https://docs.siliconflow.com/en/api-reference/images/images-generations>
pub(crate) static SILICONFLOW: Native = Native {
    path: "/images/generations",
    gives: Gives::Addresses,
    write: |ask, call, body| {
        body.put_some("model", call.model);
        body.put("prompt", &ask.prompt);
        body.put_some("image_size", ask.sides.map(|sides| format!("{}x{}", sides.width, sides.height)));
        body.put_some("batch_size", ask.n);
    },
    found: |answer| each(&answer["images"], "url"),
    ..PLAIN
};

/// Models of Fireworks that are no workflow, asked in the way of its own client until 2025
/// (<https://pypi.org/project/fireworks-ai/0.15.15/>).
pub(super) static FIREWORKS_OLDER: Native = Native {
    path: "/image_generation/",
    named_in_path: true,
    asks_for_json: true,
    write: |ask, _, body| {
        body.put("prompt", &ask.prompt);
        sides(ask, body, ("width", "height"));
        body.put_some("samples", ask.n);
    },
    found: |answer| each(answer, "base64"),
    ..PLAIN
};

/// <https://developers.cloudflare.com/workers-ai/models/>; some answer with the bare picture.
pub(crate) static WORKERS_AI: Native = Native {
    path: "/run/",
    named_in_path: true,
    one_at_a_time: true,
    write: |ask, _, body| {
        body.put("prompt", &ask.prompt);
        sides(ask, body, ("width", "height"));
    },
    found: |answer| Some(vec![answer["result"]["image"].as_str()?.to_owned()]),
    ..PLAIN
};

/// <https://www.alibabacloud.com/help/en/model-studio/qwen-image-api>
pub(crate) static DASHSCOPE: Native = Native {
    path: "/api/v1/services/aigc/multimodal-generation/generation",
    nested: true,
    gives: Gives::Addresses,
    write: |ask, call, body| {
        body.put_some("model", call.model);
        body.put("input", &json!({ "messages": [{ "role": "user", "content": [{ "text": ask.prompt }] }] }));
        let mut parameters = Object::new();
        parameters.put_some("size", ask.sides.map(|sides| format!("{}*{}", sides.width, sides.height)));
        parameters.put_some("n", ask.n);
        ask.put_own(&mut parameters);
        body.raw("parameters", &parameters.written());
    },
    found: |answer| {
        let choices = answer["output"]["choices"].as_array()?;
        let parts = choices.iter().flat_map(|choice| choice["message"]["content"].as_array()).flatten();
        Some(parts.filter_map(|part| part["image"].as_str().map(str::to_owned)).collect())
    },
    size: |answer| {
        let usage = &answer["usage"];
        Some(format!("{}x{}", usage["width"].as_u64()?, usage["height"].as_u64()?))
    },
    ..PLAIN
};

impl NativeShape for Native {
    fn path(&self) -> &'static str {
        self.path
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let ask = PictureAsk::read(call)?;
        if self.one_at_a_time {
            ask.refuse_several()?;
        }
        let path = if self.named_in_path { Some([self.path, in_path(call)?].concat()) } else { None };
        let mut body = Object::new();
        (self.write)(&ask, call, &mut body);
        if !self.nested {
            ask.put_own(&mut body);
        }
        let mut out = outgoing(path, body, ask.adjusted(self.taken, self.gives));
        out.headers.extend(self.asks_for_json.then(accepts_json));
        Ok(out)
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        let Ok(answer) = serde_json::from_slice::<Value>(body) else {
            // No text begins like a picture.
            let bare = self.gives == Gives::Bytes && !body.is_empty() && std::str::from_utf8(body).is_err();
            if bare {
                let picture = Picture::Bytes(Cow::Owned(STANDARD.encode(body)));
                return Ok(list(slug, call, &[picture], None));
            }
            return Err(unreadable(slug, call, body));
        };
        let found = (self.found)(&answer).filter(|found| !found.is_empty());
        let found = found.ok_or_else(|| unreadable(slug, call, body))?;
        let made = |text: String| match self.gives {
            Gives::Addresses => Picture::Address(Cow::Owned(text)),
            Gives::Bytes | Gives::Either => Picture::Bytes(Cow::Owned(text)),
        };
        let pictures: Vec<Picture<'_>> = found.into_iter().map(made).collect();
        Ok(list(slug, call, &pictures, (self.size)(&answer).as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gateway_domain::cloud::CloudSettings;
    use gateway_domain::{Dialect, Operation};
    use http::Method;

    #[test]
    fn a_bare_picture_is_one() {
        let body = Bytes::from_static(br#"{"prompt":"a cat","size":"512x256"}"#);
        let call = Call {
            operation: Operation::ImagesGenerate,
            dialect: Dialect::OpenAi,
            method: &Method::POST,
            tail: "/images/generations",
            query: None,
            body: &body,
            model: Some("@cf/x/y"),
            form: None,
            sound_ms: None,
            model_span: None,
            stream: false,
            wants_usage: false,
            strict: true,
            now_ms: 0,
            dice: 0,
            origin: 0,
            settings: CloudSettings::none(),
            keeps: None,
        };
        let picture = Bytes::from_static(b"\x89PNG\r\n\x1a\n\xff\xd8");
        let reply = WORKERS_AI.response("workers-ai", &call, &picture).expect("a picture");
        let told: Value = serde_json::from_slice(&reply.body).expect("JSON");
        assert_eq!(told["data"][0]["b64_json"], STANDARD.encode(&picture));
        let usage = reply.usage.expect("counted");
        assert_eq!((usage.images, usage.detail.picture.width, usage.detail.picture.height), (1, 512, 256));
        for odd in ["", "<html>", "{}", r#"{"images":[]}"#] {
            let odd = Bytes::from(odd);
            assert!(
                WORKERS_AI.response("workers-ai", &call, &odd).is_err() && FAL.response("fal-ai", &call, &odd).is_err()
            );
        }
    }
}
