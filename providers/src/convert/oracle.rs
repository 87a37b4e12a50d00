//! What is made for `chatRequest` of Oracle's own chat: the form that most models share, and the one that Cohere's had
//! before.

mod cohere;
mod generic;

use super::request::{Adjusted, TranslatedBody};
use crate::wire::chat;
use gateway_domain::Fault;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiFormat {
    Generic,
    Cohere,
}

pub(crate) fn request(format: ApiFormat, body: &[u8], model: &str, stream: bool) -> Result<TranslatedBody, Fault> {
    match format {
        ApiFormat::Generic => generic::request(body, model, stream),
        ApiFormat::Cohere => cohere::request(body, stream),
    }
}

const PROVIDER: &str = "Oracle";

/// What neither form has a place for, and what would change the answer if it were dropped.
fn refuse_untranslatable(ask: &chat::ChatRequest<'_>) -> Result<(), Fault> {
    super::request::refuse_choices(ask, PROVIDER)?;
    super::request::refuse_untranslatable(ask, PROVIDER)?;
    let fields = [
        ("web_search_options", ask.web_search_options),
        ("moderation", ask.moderation),
        ("mcp_servers", ask.mcp_servers),
        ("container", ask.container),
        ("context_management", ask.context_management),
    ];
    super::request::refuse_spoken(&fields, PROVIDER)
}

fn note_dropped(ask: &chat::ChatRequest<'_>, adjusted: &mut Adjusted) {
    adjusted.note_spoken(&[
        ("logprobs", ask.logprobs),
        ("top_logprobs", ask.top_logprobs),
        ("store", ask.store),
        ("prediction", ask.prediction),
        ("thinking", ask.thinking),
        ("prompt_cache_key", ask.prompt_cache_key),
        ("prompt_cache_options", ask.prompt_cache_options),
        ("prompt_cache_retention", ask.prompt_cache_retention),
        ("cache_control", ask.cache_control),
        ("inference_geo", ask.inference_geo),
        ("speed", ask.speed),
    ]);
    adjusted.note_people(ask);
}

/// What a message says beside its content, and neither form takes.
fn note_of_message(message: &chat::ChatMessage<'_>, adjusted: &mut Adjusted) {
    adjusted.note_if("messages.name", message.name.is_some() && message.role.0 != "tool");
    adjusted.note_if("cache_control", message.cache_control.is_some());
    adjusted.note_if("messages.reasoning_content", crate::wire::speaks(message.reasoning_content));
    let blocks = message.content_blocks.as_ref().is_some_and(|blocks| !blocks.is_empty());
    adjusted.note_if("messages.content_blocks", blocks);
}
