//! A request for pictures as it is read.

use super::super::object::Object;
use super::super::refused;
use crate::adapter::{BodyPieces, Call, ProviderRequest};
use crate::edit::{self, MemberSpan};
use crate::model;
use crate::wire::{JsonStr, read};
use gateway_domain::{Fault, FaultKind};
use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use std::borrow::Cow;

/// OpenAI's fields (<https://platform.openai.com/docs/api-reference/images/create>). A shape takes some of them; what
/// it leaves is dropped and named, but for those that say nothing.
const OPENAIS: &[&str] = &[
    "quality",
    "background",
    "moderation",
    "output_format",
    "output_compression",
    "partial_images",
    "style",
    "user",
    "safety_identifier",
];
/// Read by every shape.
const READ: &[&str] = &["prompt", "model", "n", "size", "response_format", "stream"];

#[derive(Deserialize)]
struct PictureFields<'a> {
    #[serde(borrow)]
    prompt: Option<JsonStr<'a>>,
    n: Option<u64>,
    #[serde(borrow)]
    size: Option<JsonStr<'a>>,
    #[serde(borrow)]
    response_format: Option<JsonStr<'a>>,
    stream: Option<bool>,
    #[serde(borrow)]
    output_format: Option<JsonStr<'a>>,
}

/// Width and height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sides {
    pub(super) width: u16,
    pub(super) height: u16,
}

#[derive(Debug)]
pub(super) struct PictureAsk<'c> {
    call: &'c Call<'c>,
    members: Vec<MemberSpan<'c>>,
    pub(super) prompt: Cow<'c, str>,
    pub(super) n: Option<u64>,
    pub(super) sides: Option<Sides>,
    pub(super) output_format: Option<Cow<'c, str>>,
    wants_url: bool,
    wants_bytes: bool,
}

impl<'c> PictureAsk<'c> {
    pub(super) fn read(call: &'c Call<'c>) -> Result<Self, Fault> {
        let fields: PictureFields<'c> = serde_json::from_slice(call.body)
            .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no request for images: {e}")))?;
        if fields.stream == Some(true) {
            return Err(refused("stream", "must be false: this provider gives pictures whole"));
        }
        let members = edit::members(call.body).map_err(|e| model::not_an_object(&e))?;
        let format = fields.response_format.as_ref().map(|format| &*format.0);
        Ok(Self {
            call,
            members,
            prompt: fields.prompt.ok_or_else(|| refused("prompt", "is needed"))?.0,
            n: fields.n,
            sides: fields.size.map(|size| sides(&size.0)).transpose()?.flatten(),
            output_format: fields.output_format.map(|format| format.0),
            wants_url: format == Some("url"),
            wants_bytes: format == Some("b64_json"),
        })
    }

    /// One picture at a time.
    pub(super) fn refuse_several(&self) -> Result<(), Fault> {
        if self.n.is_some_and(|n| n > 1) {
            return Err(refused("n", "must be 1: this provider makes one picture at a time"));
        }
        Ok(())
    }

    /// Members that are not OpenAI's, as they were written.
    pub(super) fn own(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let foreign = |m: &&MemberSpan<'c>| !READ.contains(&&*m.key) && !OPENAIS.contains(&&*m.key);
        self.members.iter().filter(foreign).map(|m| (&*m.key, &self.call.body[m.value.clone()]))
    }

    /// `response_format` with the provider's word for bytes.
    pub(super) fn given_as(&self, bytes: &'static str) -> Option<&'static str> {
        if self.wants_bytes { Some(bytes) } else { self.wants_url.then_some("url") }
    }

    pub(super) fn put_own(&self, body: &mut Object) {
        self.own().for_each(|(key, value)| body.raw(key, value));
    }

    /// Fields that are dropped: those of OpenAI's that the shape does not take, and a way of giving pictures
    /// that it has not.
    pub(super) fn adjusted(&self, taken: &[&str], gives: Gives) -> Vec<&'static str> {
        let neutral = |value: &[u8]| matches!(value, b"null" | b"\"auto\"" | b"0" | b"\"standard\"");
        let given = |name: &&&str| {
            let member = self.members.iter().find(|m| m.key == ***name);
            member.is_some_and(|m| !neutral(&self.call.body[m.value.clone()]))
        };
        let mut out: Vec<&'static str> =
            OPENAIS.iter().filter(|name| !taken.contains(*name)).filter(given).copied().collect();
        let other = match gives {
            Gives::Bytes => self.wants_url,
            Gives::Addresses => self.wants_bytes,
            Gives::Either => false,
        };
        out.extend(other.then_some("response_format"));
        out
    }
}

/// How a provider gives its pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gives {
    Bytes,
    Addresses,
    Either,
}

/// The size that a call asks for, for what the answer does not tell.
pub(super) fn asked_size(call: &Call<'_>) -> String {
    #[derive(Deserialize)]
    struct AskedSize<'a> {
        #[serde(borrow)]
        size: Option<JsonStr<'a>>,
    }
    read::<AskedSize<'_>>(call.body).and_then(|asked| asked.size).map(|size| size.0.into_owned()).unwrap_or_default()
}

/// Steps that a call asks for, whatever its provider calls them.
pub(super) fn asked_steps(call: &Call<'_>) -> Option<u32> {
    #[derive(Deserialize)]
    struct AskedSteps {
        #[serde(alias = "num_steps", alias = "num_inference_steps")]
        steps: u32,
    }
    read::<AskedSteps>(call.body).map(|asked| asked.steps)
}

pub(super) fn sides(size: &str) -> Result<Option<Sides>, Fault> {
    if size == "auto" {
        return Ok(None);
    }
    let told = size.split_once('x').and_then(|(w, h)| Some(Sides { width: w.parse().ok()?, height: h.parse().ok()? }));
    let fits = told.filter(|sides| sides.width > 0 && sides.height > 0);
    fits.map(Some).ok_or_else(|| refused("size", "must be auto, or width and height as in 1024x1024"))
}

pub(super) fn outgoing(path: Option<String>, body: Object, adjusted: Vec<&'static str>) -> ProviderRequest {
    ProviderRequest { path, headers: Vec::new(), body: BodyPieces::One(body.written()), adjusted }
}

/// Some give bare bytes unless JSON is asked for by name.
pub(super) fn accepts_json() -> (HeaderName, HeaderValue) {
    (http::header::ACCEPT, HeaderValue::from_static("application/json"))
}

/// The sides as one of the ratios that a provider has.
pub(super) fn ratio(sides: Sides, known: &[(u32, u32)]) -> Result<String, Fault> {
    let (width, height) = (u32::from(sides.width), u32::from(sides.height));
    if let Some((w, h)) = known.iter().find(|(w, h)| width * h == height * w) {
        return Ok(format!("{w}:{h}"));
    }
    let names: Vec<String> = known.iter().map(|(w, h)| format!("{w}:{h}")).collect();
    Err(refused("size", format!("must have one of the ratios {}", names.join(", "))))
}
