//! Embeddings of Nomic's: `texts` with a task, vectors side by side
//! (<https://docs.nomic.ai/reference/api/embed-text-v-1-embedding-text-post>).

use super::object::Object;
use super::{NativeShape, refused};
use crate::adapter::{BodyPieces, Call, Failure, ProviderRequest, Reply};
use crate::answer::embeddings;
use crate::failure;
use crate::wire::{JsonStr, read, speaks};
use bytes::Bytes;
use gateway_domain::{Fault, FaultKind, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Debug)]
pub(crate) struct Nomic;

pub(crate) static NOMIC: Nomic = Nomic;

#[derive(Deserialize)]
struct NomicAsk<'a> {
    #[serde(borrow)]
    input: &'a RawValue,
    dimensions: Option<u64>,
    #[serde(borrow)]
    user: Option<&'a RawValue>,
    /// Nomic's own: what the vectors are for, and what becomes of long texts.
    #[serde(borrow)]
    task_type: Option<JsonStr<'a>>,
    #[serde(borrow)]
    long_text_mode: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct NomicAnswer<'a> {
    #[serde(borrow)]
    embeddings: Vec<&'a RawValue>,
    usage: Option<NomicUsed>,
}

#[derive(Deserialize)]
struct NomicUsed {
    total_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
}

impl NativeShape for Nomic {
    fn path(&self) -> &'static str {
        "/embedding/text"
    }

    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault> {
        let ask: NomicAsk<'_> = serde_json::from_slice(call.body)
            .map_err(|e| Fault::new(FaultKind::BadBody, format!("the body is no embeddings request: {e}")))?;
        let one = read::<JsonStr<'_>>(ask.input.get().as_bytes()).map(|text| vec![text.0]);
        let several = || Some(read::<Vec<JsonStr<'_>>>(ask.input.get().as_bytes())?.into_iter().map(|t| t.0).collect());
        let texts: Vec<Cow<'_, str>> = one.or_else(several).ok_or_else(|| {
            refused("input", "must be a string or an array of strings: Nomic counts tokens by itself and takes none")
        })?;
        let mut body = Object::new();
        body.put_some("model", call.model);
        body.put("texts", &texts);
        body.put("task_type", &ask.task_type.as_ref().map_or("search_document", |task| &*task.0));
        body.put_some("dimensionality", ask.dimensions);
        body.put_some("long_text_mode", ask.long_text_mode.as_ref().map(|mode| &*mode.0));
        let adjusted = if speaks(ask.user) { vec!["user"] } else { Vec::new() };
        Ok(ProviderRequest { path: None, headers: Vec::new(), body: BodyPieces::One(body.written()), adjusted })
    }

    fn response(&self, slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
        let unreadable = || failure::unreadable(slug, "the answer", body, call.dialect);
        let answer: NomicAnswer<'_> = read(body).ok_or_else(unreadable)?;
        let vectors = embeddings::wanted(call, answer.embeddings.into_iter()).ok_or_else(unreadable)?;
        let tokens = answer.usage.and_then(|used| used.prompt_tokens.or(used.total_tokens));
        let usage = tokens.map(|input| Usage { input, ..Usage::default() });
        Ok(embeddings::list(slug, call, vectors, usage))
    }
}
