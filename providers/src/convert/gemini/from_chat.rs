//! A Gemini request from an OpenAI chat completion request. What carries meaning is translated or refused by name;
//! what only tunes sampling or bookkeeping, and has no counterpart, is dropped and named.

mod parts;
mod thinking;
mod tools;
mod turns;

use crate::convert::request::{self, Adjusted, TranslatedBody, refused};
use crate::wire::chat;
use crate::wire::gemini::{GeminiRequest, GenerationConfig};
use gateway_domain::Fault;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Google's own, which clients of gateways send beside OpenAI's.
#[derive(Deserialize)]
struct Extras<'a> {
    #[serde(borrow)]
    safety_settings: Option<&'a RawValue>,
    /// Name of a cached content that was made before.
    #[serde(borrow)]
    cached_content: Option<&'a RawValue>,
}

/// `model` is what is asked for, without `models/` or a publisher: what it takes depends on its generation.
/// `origin` is [`crate::Call::origin`].
pub(crate) fn request(body: &[u8], model: &str, origin: u64) -> Result<TranslatedBody, Fault> {
    let ask: chat::ChatRequest<'_> = request::parsed(body)?;
    let extras: Extras<'_> = request::parsed(body)?;
    refuse_untranslatable(&ask)?;
    let mut adjusted = Adjusted::default();
    note_dropped(&ask, &mut adjusted);
    let conversation = turns::conversation(&ask.messages, model, origin, &mut adjusted)?;
    let out = GeminiRequest {
        system_instruction: conversation.system,
        contents: conversation.turns,
        tools: tools::tools(&ask, &mut adjusted)?,
        tool_config: tools::choice(&ask, &mut adjusted)?,
        safety_settings: extras.safety_settings,
        cached_content: extras.cached_content,
        generation_config: generation(&ask, model, &mut adjusted)?,
    };
    TranslatedBody::of(&out, adjusted)
}

fn refuse_untranslatable(ask: &chat::ChatRequest<'_>) -> Result<(), Fault> {
    request::refuse_untranslatable(ask, "Gemini")?;
    if ask.moderation.is_some() {
        return Err(refused("moderation", "would not happen: Gemini has no such field; use `safety_settings`"));
    }
    let fields = [
        ("mcp_servers", ask.mcp_servers),
        ("container", ask.container),
        ("context_management", ask.context_management),
    ];
    request::refuse_spoken(&fields, "Gemini")
}

fn note_dropped(ask: &chat::ChatRequest<'_>, adjusted: &mut Adjusted) {
    adjusted.note_spoken(&[
        ("logit_bias", ask.logit_bias),
        ("logprobs", ask.logprobs),
        ("top_logprobs", ask.top_logprobs),
        ("store", ask.store),
        ("metadata", ask.metadata),
        ("prediction", ask.prediction),
        ("verbosity", ask.verbosity),
        ("prompt_cache_key", ask.prompt_cache_key),
        ("prompt_cache_options", ask.prompt_cache_options),
        ("prompt_cache_retention", ask.prompt_cache_retention),
        ("cache_control", ask.cache_control),
        ("inference_geo", ask.inference_geo),
        ("speed", ask.speed),
        ("web_search_options", ask.web_search_options),
    ]);
    adjusted.note_people(ask);
    adjusted.note_tier(ask);
    adjusted.note_single_calls(ask);
}

fn generation<'a>(
    ask: &chat::ChatRequest<'a>,
    model: &str,
    adjusted: &mut Adjusted,
) -> Result<GenerationConfig<'a>, Fault> {
    let mut out = GenerationConfig {
        max_output_tokens: ask.max_completion_tokens.or(ask.max_tokens),
        candidate_count: ask.n.filter(|n| *n > 1),
        temperature: ask.temperature,
        top_p: ask.top_p,
        top_k: ask.top_k,
        seed: ask.seed,
        // Some models answer 400 to the fields, even where they ask for nothing.
        presence_penalty: request::unless_neutral(ask.presence_penalty),
        frequency_penalty: request::unless_neutral(ask.frequency_penalty),
        stop_sequences: request::stop(ask.stop)?,
        thinking_config: thinking::config(ask, model, adjusted)?,
        ..GenerationConfig::default()
    };
    if let Some(wanted) = &ask.response_format {
        match &*wanted.kind.0 {
            "text" => {}
            "json_object" => out.response_mime_type = Some("application/json"),
            "json_schema" => {
                out.response_mime_type = Some("application/json");
                out.response_json_schema = Some(request::schema(wanted)?);
            }
            _ => return Err(refused("response_format", "must be of type text, json_object or json_schema")),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
