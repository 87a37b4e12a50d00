//! Operations that a provider serves in a shape of its own, one value each: what goes up, and what comes back in
//! OpenAI's form. Chat has dialects instead.

mod dashscope_speech;
mod event_mapping;
mod mistral_speech;
mod moderation;
mod nomic;
mod object;
mod ocr;
mod oracle;
mod pictures;
mod rerank;
mod speech;
mod transcription;

pub(crate) use dashscope_speech::DASHSCOPE_SPEAKS;
pub(crate) use mistral_speech::MISTRAL_SPEAKS;
pub(crate) use moderation::MISTRAL_MODERATION;
pub(crate) use nomic::NOMIC;
pub(crate) use object::Object;
pub(crate) use ocr::{COHERE_PARSE, OCR, asked as asked_for_pages, mistrals as pages_of_mistral};
pub(crate) use oracle::{ORACLE_EMBEDS, ORACLE_RERANK};
pub(crate) use pictures::{
    DASHSCOPE, DASHSCOPE_EDITS, FAL, FIREWORKS, HYPERBOLIC, OPENROUTER, SEGMIND, SILICONFLOW, STABILITY,
    STABILITY_EDITS, TOGETHER, WORKERS_AI,
};
pub(crate) use rerank::{
    COHERE_RERANK, DEEPINFRA_RERANK, FIREWORKS_RERANK, RERANK, RerankAsk, Scored, TEI, VOYAGE, refuse_more_than,
    render, search_units,
};
pub(crate) use speech::MINIMAX;
pub(crate) use transcription::{
    COHERE_HEARS, DEEPINFRA_HEARS, HeardSound, MISTRAL_HEARS, OPENROUTER_HEARS, WORKERS_HEAR, XAI_HEARS,
    render_transcript,
};

use crate::adapter::{Call, Failure, ProviderRequest, Reply, StreamTranslator};
use gateway_domain::{Fault, FaultKind};

/// One operation of one provider.
pub(crate) trait NativeShape: Sync + std::fmt::Debug {
    /// The path below the base URL, a template where the model decides. Empty: the provider's row has the path.
    fn path(&self) -> &'static str;
    fn request(&self, call: &Call<'_>) -> Result<ProviderRequest, Fault>;
    fn response(&self, slug: &'static str, call: &Call<'_>, body: &bytes::Bytes) -> Result<Reply, Failure>;
    /// The media type of an answer that is no JSON once it is translated.
    fn media(&self, _call: &Call<'_>) -> Option<&'static str> {
        None
    }
    /// Translates an answer that comes in events; `None`: the provider gives none.
    fn stream(&self, _slug: &'static str, _call: &Call<'_>) -> Option<Box<dyn StreamTranslator>> {
        None
    }
}

/// A 400 that names the field.
fn refused(field: &'static str, rule: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::Refused, format!("{field} {rule}")).on(field)
}

/// The model of a call whose path it stands in.
fn in_path<'c>(call: &Call<'c>) -> Result<&'c str, Fault> {
    let model = call.model.ok_or_else(|| refused("model", "is needed: it is part of this provider's path"))?;
    // `@cf/…` of Cloudflare's is a path like any other.
    let bare = model.strip_prefix('@').unwrap_or(model);
    if crate::compat::safe(bare) {
        Ok(model)
    } else {
        Err(refused("model", "does not fit into a path: only letters, digits, `-`, `_`, `.`, `:` and single `/`"))
    }
}
