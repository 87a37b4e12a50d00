//! A Gemini request from an OpenAI chat completion request. What carries meaning is translated or refused by name;
//! what only tunes sampling or bookkeeping, and has no counterpart, is dropped and named.

mod parts;
mod thinking;
mod tools;
mod turns;

use crate::wire::gemini::{GenerationConfig, Request};
use crate::wire::{Text, chat, speaks};
use gateway_domain::{Fault, FaultKind};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Debug)]
pub(crate) struct Translated {
    pub(crate) body: Vec<u8>,
    pub(crate) adjusted: Vec<&'static str>,
}

/// Names of fields that were dropped or clamped, each once.
#[derive(Debug, Default)]
struct Adjusted(Vec<&'static str>);

impl Adjusted {
    fn note(&mut self, field: &'static str) {
        if !self.0.contains(&field) {
            self.0.push(field);
        }
    }
}

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
pub(crate) fn request(body: &[u8], model: &str, origin: u64) -> Result<Translated, Fault> {
    let no_request =
        |e: serde_json::Error| Fault::new(FaultKind::BadBody, format!("the body is no chat completion request: {e}"));
    let ask: chat::Request<'_> = serde_json::from_slice(body).map_err(no_request)?;
    let extras: Extras<'_> = serde_json::from_slice(body).map_err(no_request)?;
    refuse_untranslatable(&ask)?;
    let mut adjusted = Adjusted::default();
    note_dropped(&ask, &mut adjusted);
    let conversation = turns::conversation(&ask.messages, model, origin, &mut adjusted)?;
    let out = Request {
        system_instruction: conversation.system,
        contents: conversation.turns,
        tools: tools::tools(&ask, &mut adjusted)?,
        tool_config: tools::choice(&ask, &mut adjusted)?,
        safety_settings: extras.safety_settings,
        cached_content: extras.cached_content,
        generation_config: generation(&ask, model, &mut adjusted)?,
    };
    let body = serde_json::to_vec(&out).map_err(|e| Fault::new(FaultKind::Internal, e.to_string()))?;
    Ok(Translated { body, adjusted: adjusted.0 })
}

/// A 400 that names the field.
fn refused(field: impl Into<String>, why: impl std::fmt::Display) -> Fault {
    let field = field.into();
    Fault::new(FaultKind::Refused, format!("{field} {why}")).on(field)
}

fn refuse_untranslatable(ask: &chat::Request<'_>) -> Result<(), Fault> {
    if ask.audio.is_some() || ask.modalities.as_ref().is_some_and(|m| m.iter().any(|m| m.0 != "text")) {
        let field = if ask.audio.is_some() { "audio" } else { "modalities" };
        return Err(refused(field, "asks for an answer that is not text, which is not translated for Gemini"));
    }
    if speaks(ask.functions) {
        return Err(refused("functions", "is not translated; send the functions as `tools`"));
    }
    if ask.function_call.is_some_and(|f| f.get() != "\"none\"" && f.get() != "\"auto\"") {
        return Err(refused("function_call", "is not translated; use `tools` and `tool_choice`"));
    }
    if ask.moderation.is_some() {
        return Err(refused("moderation", "would not happen: Gemini has no such field; use `safety_settings`"));
    }
    for (name, field) in
        [("mcp_servers", ask.mcp_servers), ("container", ask.container), ("context_management", ask.context_management)]
    {
        if speaks(field) {
            return Err(refused(name, "has no counterpart at Gemini"));
        }
    }
    Ok(())
}

fn note_dropped(ask: &chat::Request<'_>, adjusted: &mut Adjusted) {
    let fields: [(&str, Option<&RawValue>); 14] = [
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
    ];
    for (name, raw) in fields {
        if speaks(raw) {
            adjusted.note(name);
        }
    }
    let texts = [("user", &ask.user), ("safety_identifier", &ask.safety_identifier)];
    for (name, text) in texts {
        if text.is_some() {
            adjusted.note(name);
        }
    }
    if ask.service_tier.as_ref().is_some_and(|tier| tier.0 != "auto" && tier.0 != "default") {
        adjusted.note("service_tier");
    }
    if ask.parallel_tool_calls == Some(false) && ask.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
        adjusted.note("parallel_tool_calls");
    }
}

fn generation<'a>(
    ask: &chat::Request<'a>,
    model: &str,
    adjusted: &mut Adjusted,
) -> Result<GenerationConfig<'a>, Fault> {
    let neutral = |raw: &&RawValue| !matches!(raw.get(), "0" | "0.0" | "-0" | "-0.0");
    let mut out = GenerationConfig {
        max_output_tokens: ask.max_completion_tokens.or(ask.max_tokens),
        candidate_count: ask.n.filter(|n| *n > 1),
        temperature: ask.temperature,
        top_p: ask.top_p,
        top_k: ask.top_k,
        seed: ask.seed,
        // Some models answer 400 to the fields, even where they ask for nothing.
        presence_penalty: ask.presence_penalty.filter(neutral),
        frequency_penalty: ask.frequency_penalty.filter(neutral),
        stop_sequences: stop(ask.stop)?,
        thinking_config: thinking::config(ask, model, adjusted)?,
        ..GenerationConfig::default()
    };
    if let Some(wanted) = &ask.response_format {
        match &*wanted.kind.0 {
            "text" => {}
            "json_object" => out.response_mime_type = Some("application/json"),
            "json_schema" => {
                let schema = wanted.json_schema.as_ref().and_then(|s| s.schema);
                out.response_mime_type = Some("application/json");
                out.response_json_schema =
                    Some(schema.ok_or_else(|| refused("response_format.json_schema.schema", "is needed"))?);
            }
            _ => return Err(refused("response_format", "must be of type text, json_object or json_schema")),
        }
    }
    Ok(out)
}

fn stop(raw: Option<&RawValue>) -> Result<Vec<Cow<'_, str>>, Fault> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    if let Ok(one) = serde_json::from_str::<Text<'_>>(raw.get()) {
        return Ok(vec![one.0]);
    }
    let all: Result<Vec<Text<'_>>, _> = serde_json::from_str(raw.get());
    all.map(|all| all.into_iter().map(|t| t.0).collect())
        .map_err(|_| refused("stop", "must be a string or an array of strings"))
}

#[cfg(test)]
mod tests;
