//! An Anthropic Messages request from an OpenAI chat completion request. What carries meaning is translated or
//! refused by name; what only tunes sampling or bookkeeping, and has no counterpart, is dropped and named.

pub(crate) mod generation;
mod parts;
pub(crate) mod thinking;
mod tools;
mod turns;

use crate::adapter::Call;
use crate::convert::request::{self, Adjusted, TranslatedBody, refused};
use crate::json_mode;
use crate::wire::chat;
use crate::wire::messages::{MessagesMetadata, MessagesOutputConfig, MessagesOutputFormat, MessagesRequest};
use gateway_domain::{Fault, FaultKind};
use generation::{Generation, Keeps};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Anthropic demands a limit. Models up to Claude 3 write at most 4096 tokens; later ones write far more, and
/// their thinking counts too, so that a small default would cut answers off.
const DEFAULT_MAX_TOKENS: u64 = 4096;
const DEFAULT_MAX_TOKENS_SINCE_4: u64 = 16_384;

pub(crate) fn request(call: &Call<'_>) -> Result<TranslatedBody, Fault> {
    let (model, stream) = (call.model, call.stream);
    let ask: chat::ChatRequest<'_> = request::parsed(call.body)?;
    refuse_untranslatable(&ask)?;
    let mut adjusted = Adjusted::default();
    note_dropped(&ask, &mut adjusted);

    let model = model.map(Cow::Borrowed).or_else(|| ask.model.as_ref().map(|m| m.0.clone()));
    let model = model.ok_or_else(|| Fault::new(FaultKind::BadBody, "model is needed").on("model"))?;
    let generation = Generation::of(&model);
    let mut conversation = turns::conversation(&ask.messages, call.origin, &mut adjusted)?;
    if request::wants_any_json(&ask) {
        adjusted.note("response_format");
        conversation.instruct(json_mode::INSTRUCTION);
    }
    let tool_choice = tools::choice(&ask)?;
    let limit = ask.max_completion_tokens.or(ask.max_tokens);
    let plan = thinking::plan(&ask, generation, limit, conversation.bare_tool_turn, &mut adjusted)?;
    let default = if generation.since(4, 0) { DEFAULT_MAX_TOKENS_SINCE_4 } else { DEFAULT_MAX_TOKENS };

    let mut out = MessagesRequest {
        model,
        max_tokens: limit.unwrap_or(default + plan.budget()),
        system: conversation.system,
        messages: conversation.turns,
        tools: tools::tools(&ask)?,
        tool_choice,
        output_config: output_config(&ask, plan.effort)?,
        stop_sequences: request::stop(ask.stop)?,
        metadata: ask.user.or(ask.safety_identifier).map(|user| MessagesMetadata { user_id: user.0 }),
        service_tier: service_tier(ask.service_tier.as_ref().map(|t| &*t.0), &mut adjusted),
        mcp_servers: ask.mcp_servers,
        container: ask.container,
        context_management: ask.context_management,
        cache_control: ask.cache_control,
        inference_geo: ask.inference_geo,
        speed: ask.speed,
        stream,
        ..MessagesRequest::default()
    };
    let sampling = Sampling { temperature: ask.temperature, top_p: ask.top_p, top_k: ask.top_k };
    sampling.put(&mut out, generation, plan.thinks(), &mut adjusted);
    out.thinking = plan.thinking;
    TranslatedBody::of(&out, adjusted)
}

fn refuse_untranslatable(ask: &chat::ChatRequest<'_>) -> Result<(), Fault> {
    request::refuse_choices(ask, "Anthropic")?;
    request::refuse_untranslatable(ask, "Anthropic")?;
    if ask.web_search_options.is_some() {
        return Err(refused("web_search_options", "is not translated; send Anthropic's web search tool in `tools`"));
    }
    if ask.moderation.is_some() {
        return Err(refused("moderation", "would not happen: Anthropic has no such field"));
    }
    Ok(())
}

fn note_dropped(ask: &chat::ChatRequest<'_>, adjusted: &mut Adjusted) {
    adjusted.note_spoken(&[
        ("frequency_penalty", request::unless_neutral(ask.frequency_penalty)),
        ("presence_penalty", request::unless_neutral(ask.presence_penalty)),
        ("logit_bias", ask.logit_bias),
        ("logprobs", ask.logprobs),
        ("top_logprobs", ask.top_logprobs),
        ("seed", ask.seed),
        ("store", ask.store),
        ("metadata", ask.metadata),
        ("prediction", ask.prediction),
        ("verbosity", ask.verbosity),
        ("prompt_cache_key", ask.prompt_cache_key),
        ("prompt_cache_options", ask.prompt_cache_options),
        ("prompt_cache_retention", ask.prompt_cache_retention),
    ]);
}

fn output_config<'a>(
    ask: &chat::ChatRequest<'a>,
    effort: Option<&'static str>,
) -> Result<Option<MessagesOutputConfig<'a>>, Fault> {
    let format = match &ask.response_format {
        None => None,
        Some(wanted) => match &*wanted.kind.0 {
            "text" => None,
            "json_schema" => Some(MessagesOutputFormat { kind: "json_schema", schema: request::schema(wanted)? }),
            // There is no mode that promises JSON of any shape: the model is told, and its answer looked at.
            "json_object" => None,
            _ => return Err(refused("response_format", "must be of type text, json_object or json_schema")),
        },
    };
    Ok((format.is_some() || effort.is_some()).then_some(MessagesOutputConfig { effort, format }))
}

fn service_tier(tier: Option<&str>, adjusted: &mut Adjusted) -> Option<&'static str> {
    match tier {
        None => None,
        Some("auto") => Some("auto"),
        Some("default" | "standard_only") => Some("standard_only"),
        Some(_) => {
            adjusted.note("service_tier");
            None
        }
    }
}

struct Sampling<'a> {
    temperature: Option<&'a RawValue>,
    top_p: Option<&'a RawValue>,
    top_k: Option<&'a RawValue>,
}

impl<'a> Sampling<'a> {
    fn put(self, out: &mut MessagesRequest<'a>, generation: Generation, thinks: bool, adjusted: &mut Adjusted) {
        if !generation.takes_sampling() || thinks {
            // 1 is what thinking demands and what is used anyway.
            if self.temperature.is_some_and(|t| !matches!(t.get(), "1" | "1.0")) {
                adjusted.note("temperature");
            }
            if self.top_p.is_some_and(|p| !matches!(p.get(), "1" | "1.0")) {
                adjusted.note("top_p");
            }
            if self.top_k.is_some() {
                adjusted.note("top_k");
            }
            return;
        }
        out.top_k = self.top_k;
        out.temperature = self.temperature.map(Cow::Borrowed);
        if self.temperature.is_some_and(|t| t.get().parse::<f64>().is_ok_and(|t| t > 1.0)) {
            adjusted.note("temperature");
            out.temperature = RawValue::from_string("1".to_owned()).ok().map(Cow::Owned);
        }
        let both = self.temperature.zip(self.top_p).map(|(t, p)| generation.keeps(t.get(), p.get()));
        match both {
            None | Some(Keeps::Both) => out.top_p = self.top_p,
            Some(Keeps::Temperature) => {}
            Some(Keeps::TopP) => (out.temperature, out.top_p) = (None, self.top_p),
            Some(Keeps::TemperatureAlone) => adjusted.note("top_p"),
        }
    }
}

#[cfg(test)]
mod tests;
