//! A Converse request of Bedrock's from an OpenAI chat completion request. What carries meaning is translated or
//! refused by name; what only tunes sampling or bookkeeping, and has no counterpart, is dropped and named. What
//! Converse has no field for, but the model behind it does, goes into `additionalModelRequestFields`.

mod fields;
mod parts;
mod tools;
mod turns;

use super::vendor::Maker;
use crate::convert::request::{self, Adjusted, TranslatedBody, refused};
use crate::json_mode;
use crate::wire::converse::{
    ConverseBlock, ConverseOutputConfig, ConverseRequest, Inference, Schema, Structure, TextFormat, Typed,
};
use crate::wire::{JsonStr, chat, speaks};
use gateway_domain::Fault;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Converse's own fields, which clients of gateways send beside their dialect's, in either spelling.
#[derive(Default, Deserialize)]
#[serde(expecting = "an object")]
struct ConverseExtensions<'a> {
    #[serde(borrow, rename = "guardrailConfig", alias = "guardrail_config")]
    guardrail: Option<&'a RawValue>,
    #[serde(borrow, rename = "performanceConfig", alias = "performance_config")]
    performance: Option<&'a RawValue>,
    #[serde(borrow, rename = "promptVariables", alias = "prompt_variables")]
    variables: Option<&'a RawValue>,
    #[serde(borrow, rename = "requestMetadata", alias = "request_metadata")]
    metadata: Option<&'a RawValue>,
    #[serde(rename = "additionalModelRequestFields", alias = "additional_model_request_fields")]
    fields: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(borrow, rename = "additionalModelResponseFieldPaths", alias = "additional_model_response_field_paths")]
    paths: Option<&'a RawValue>,
    /// Anthropic's, by which a model of its makes is given abilities: a list, or one text with commas.
    #[serde(borrow)]
    anthropic_beta: Option<&'a RawValue>,
}

/// The parts of `response_format` that only Converse has a place for.
#[derive(Deserialize)]
struct Formatted<'a> {
    #[serde(borrow)]
    response_format: Option<DescribedFormat<'a>>,
}

#[derive(Deserialize)]
struct DescribedFormat<'a> {
    #[serde(borrow)]
    json_schema: Option<Described<'a>>,
}

#[derive(Deserialize)]
struct Described<'a> {
    #[serde(borrow)]
    name: Option<JsonStr<'a>>,
    #[serde(borrow)]
    description: Option<JsonStr<'a>>,
}

/// What is asked of whom.
#[derive(Clone, Copy)]
pub(crate) struct Wish<'a> {
    /// A chat request, in the extended form.
    pub(crate) body: &'a [u8],
    /// What the client sent, which may hold Converse's own fields.
    pub(crate) original: &'a [u8],
    pub(crate) maker: Maker<'a>,
    /// [`crate::Call::origin`].
    pub(crate) origin: u64,
}

pub(crate) fn request(wish: Wish<'_>) -> Result<TranslatedBody, Fault> {
    let mut adjusted = Adjusted::default();
    let out = made(wish, &mut adjusted)?;
    TranslatedBody::of(&out, adjusted)
}

/// The parts of a request that count as its prompt, as `CountTokens` wants them.
pub(crate) fn prompt(wish: Wish<'_>) -> Result<TranslatedBody, Fault> {
    let mut adjusted = Adjusted::default();
    let made = made(wish, &mut adjusted)?;
    let mut counted = serde_json::json!({ "messages": made.messages });
    if !made.system.is_empty() {
        counted["system"] = serde_json::json!(made.system);
    }
    if let Some(tools) = &made.tool_config {
        counted["toolConfig"] = serde_json::json!(tools);
    }
    if let Some(fields) = made.additional_model_request_fields {
        counted["additionalModelRequestFields"] = fields.into();
    }
    TranslatedBody::of(&serde_json::json!({ "input": { "converse": counted } }), adjusted)
}

fn made<'a>(wish: Wish<'a>, adjusted: &mut Adjusted) -> Result<ConverseRequest<'a>, Fault> {
    let ask: chat::ChatRequest<'a> = request::parsed(wish.body)?;
    let own: ConverseExtensions<'a> = request::parsed(wish.original)?;
    refuse_untranslatable(&ask)?;
    note_dropped(&ask, adjusted);
    let mut conversation = turns::conversation(&ask.messages, wish.origin, adjusted)?;
    if request::wants_any_json(&ask) {
        adjusted.note("response_format");
        conversation.system.push(ConverseBlock::Text(json_mode::INSTRUCTION.into()));
    }
    let plan = fields::plan(&ask, &own, wish.maker, conversation.bare_tool_turn, adjusted)?;
    let tools = tools::config(&ask, wish.maker, &conversation, adjusted)?;
    let mut additional = plan.additional;
    for (key, value) in tools.additional {
        additional.entry(key).or_insert(value);
    }
    Ok(ConverseRequest {
        messages: conversation.turns,
        system: conversation.system,
        inference_config: Some(plan.inference).filter(Inference::says),
        tool_config: tools.config,
        output_config: output(&ask, wish.body)?,
        additional_model_request_fields: (!additional.is_empty()).then_some(additional),
        request_metadata: own.metadata.or_else(|| metadata(&ask, adjusted)),
        service_tier: tier(&ask, adjusted),
        guardrail_config: own.guardrail,
        performance_config: own.performance,
        prompt_variables: own.variables,
        additional_model_response_field_paths: own.paths,
    })
}

fn refuse_untranslatable(ask: &chat::ChatRequest<'_>) -> Result<(), Fault> {
    request::refuse_choices(ask, "Bedrock")?;
    request::refuse_untranslatable(ask, "Bedrock")?;
    let fields = [
        ("web_search_options", ask.web_search_options),
        ("moderation", ask.moderation),
        ("mcp_servers", ask.mcp_servers),
        ("container", ask.container),
    ];
    request::refuse_spoken(&fields, "Bedrock")
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
        ("prediction", ask.prediction),
        ("verbosity", ask.verbosity),
        ("prompt_cache_key", ask.prompt_cache_key),
        ("prompt_cache_options", ask.prompt_cache_options),
        ("prompt_cache_retention", ask.prompt_cache_retention),
        ("cache_control", ask.cache_control),
        ("inference_geo", ask.inference_geo),
        ("speed", ask.speed),
    ]);
    adjusted.note_people(ask);
}

fn output<'a>(ask: &chat::ChatRequest<'a>, body: &'a [u8]) -> Result<Option<ConverseOutputConfig<'a>>, Fault> {
    let Some(wanted) = &ask.response_format else { return Ok(None) };
    match &*wanted.kind.0 {
        "text" => return Ok(None),
        "json_schema" => {}
        // There is no mode that promises JSON of any shape: the model is told, and its answer looked at.
        "json_object" => return Ok(None),
        _ => return Err(refused("response_format", "must be of type text, json_object or json_schema")),
    }
    let schema = request::schema(wanted)?;
    let described = serde_json::from_slice::<Formatted<'a>>(body).ok().and_then(|f| f.response_format?.json_schema);
    let (name, description) = described.map_or((None, None), |d| (d.name, d.description));
    let json_schema = Schema { schema: schema.get(), name: name.map(|n| n.0), description: description.map(|d| d.0) };
    let text_format = TextFormat { kind: "json_schema", structure: Structure { json_schema } };
    Ok(Some(ConverseOutputConfig { text_format }))
}

/// Both are pairs that the provider keeps with the call; Bedrock takes fewer characters
/// (<https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>, `requestMetadata`).
fn metadata<'a>(ask: &chat::ChatRequest<'a>, adjusted: &mut Adjusted) -> Option<&'a RawValue> {
    let raw = ask.metadata.filter(|raw| speaks(Some(raw)))?;
    let fits = |text: &str| {
        let known = |c: char| c.is_ascii_alphanumeric() || c.is_whitespace() || ":_@$#=/+,-.".contains(c);
        text.len() <= 256 && text.chars().all(known)
    };
    let pairs: Option<std::collections::BTreeMap<String, String>> = serde_json::from_str(raw.get()).ok();
    let fitting = pairs.is_some_and(|p| p.len() <= 16 && p.iter().all(|(k, v)| !k.is_empty() && fits(k) && fits(v)));
    if !fitting {
        adjusted.note("metadata");
    }
    fitting.then_some(raw)
}

fn tier<'a>(ask: &chat::ChatRequest<'a>, adjusted: &mut Adjusted) -> Option<Typed<'a>> {
    let tier = ask.service_tier.as_ref()?;
    match &*tier.0 {
        "auto" => None,
        "default" | "flex" | "priority" | "reserved" => Some(Typed { kind: tier.0.clone() }),
        "standard_only" => Some(Typed { kind: Cow::Borrowed("default") }),
        _ => {
            adjusted.note("service_tier");
            None
        }
    }
}
