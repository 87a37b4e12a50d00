//! A Cohere request from an OpenAI chat completion request. What carries meaning is translated or refused by name;
//! what only tunes sampling or bookkeeping, and has no counterpart, is dropped and named.

mod turns;

use crate::convert::request::{self, Adjusted, TranslatedBody, refused};
use crate::wire::cohere::{
    CohereExtensions, CohereFunction, CohereRequest, CohereResponseFormat, CohereThinking, CohereTool,
};
use crate::wire::{JsonStr, chat, read};
use gateway_domain::Fault;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

pub(crate) fn request(body: &[u8], model: &str, stream: bool) -> Result<TranslatedBody, Fault> {
    let ask: chat::ChatRequest<'_> = request::parsed(body)?;
    let own: CohereExtensions<'_> = request::parsed(body)?;
    refuse_untranslatable(&ask)?;
    let mut adjusted = Adjusted::default();
    note_dropped(&ask, &mut adjusted);
    let (tools, strict_tools) = tools(&ask, &mut adjusted)?;
    let (tools, tool_choice) = choice(&ask, tools)?;
    let out = CohereRequest {
        model,
        messages: turns::turns(&ask.messages, &mut adjusted)?,
        stream,
        tools,
        strict_tools,
        tool_choice,
        max_tokens: ask.max_completion_tokens.or(ask.max_tokens),
        stop_sequences: request::stop(ask.stop)?,
        temperature: ask.temperature,
        p: ask.top_p,
        k: ask.top_k,
        seed: ask.seed,
        frequency_penalty: ask.frequency_penalty,
        presence_penalty: ask.presence_penalty,
        response_format: format(&ask)?,
        thinking: thinking(&ask, model, &mut adjusted),
        own,
    };
    TranslatedBody::of(&out, adjusted)
}

fn refuse_untranslatable(ask: &chat::ChatRequest<'_>) -> Result<(), Fault> {
    request::refuse_choices(ask, "Cohere")?;
    request::refuse_untranslatable(ask, "Cohere")?;
    let fields = [
        ("web_search_options", ask.web_search_options),
        ("moderation", ask.moderation),
        ("mcp_servers", ask.mcp_servers),
        ("container", ask.container),
        ("context_management", ask.context_management),
    ];
    request::refuse_spoken(&fields, "Cohere")
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
    ]);
    adjusted.note_people(ask);
    adjusted.note_tier(ask);
    adjusted.note_single_calls(ask);
}

/// The tools, and whether any of them is to be held to its schema: Cohere knows that for all or none.
fn tools<'a>(ask: &chat::ChatRequest<'a>, adjusted: &mut Adjusted) -> Result<(Vec<CohereTool<'a>>, bool), Fault> {
    let (mut out, mut strict) = (Vec::new(), false);
    for (i, raw) in ask.tools.iter().flatten().enumerate() {
        let function = request::function(raw, i, adjusted)?;
        strict |= function.strict == Some(true);
        out.push(CohereTool {
            kind: "function",
            function: CohereFunction {
                name: function.name.0,
                description: function.description.map(|d| d.0),
                parameters: function.parameters.map_or_else(no_parameters, Cow::Borrowed),
            },
        });
    }
    Ok((out, strict))
}

/// Cohere wants a schema for every tool.
fn no_parameters<'a>() -> Cow<'a, RawValue> {
    let schema = RawValue::from_string(r#"{"type":"object","properties":{}}"#.to_owned());
    Cow::Owned(schema.unwrap_or_else(|_| RawValue::NULL.to_owned()))
}

/// One named tool is forced by offering only that one.
fn choice<'a>(
    ask: &chat::ChatRequest<'a>,
    tools: Vec<CohereTool<'a>>,
) -> Result<(Vec<CohereTool<'a>>, Option<&'static str>), Fault> {
    let Some(wanted) = ask.tool_choice.filter(|_| !tools.is_empty()) else { return Ok((tools, None)) };
    match wanted.get() {
        "null" | "\"auto\"" => return Ok((tools, None)),
        "\"none\"" => return Ok((tools, Some("NONE"))),
        "\"required\"" => return Ok((tools, Some("REQUIRED"))),
        _ => {}
    }
    let name = request::chosen(wanted.get())?;
    let only: Vec<CohereTool<'a>> = tools.into_iter().filter(|t| t.function.name == name).collect();
    if only.is_empty() {
        return Err(refused("tool_choice.function.name", "names none of the tools"));
    }
    Ok((only, Some("REQUIRED")))
}

fn format<'a>(ask: &chat::ChatRequest<'a>) -> Result<Option<CohereResponseFormat<'a>>, Fault> {
    let Some(wanted) = &ask.response_format else { return Ok(None) };
    let json_schema = match &*wanted.kind.0 {
        "text" => return Ok(None),
        "json_object" => None,
        "json_schema" => Some(request::schema(wanted)?),
        _ => return Err(refused("response_format", "must be of type text, json_object or json_schema")),
    };
    Ok(Some(CohereResponseFormat { kind: "json_object", json_schema }))
}

#[derive(Deserialize)]
struct CohereThinkingBudget<'a> {
    #[serde(rename = "type", borrow)]
    kind: JsonStr<'a>,
    budget_tokens: Option<u64>,
}

/// Models that reason do so unless told not to; the others answer 400 to the field.
fn thinking(ask: &chat::ChatRequest<'_>, model: &str, adjusted: &mut Adjusted) -> Option<CohereThinking> {
    let asked = ask.thinking.and_then(|raw| read::<CohereThinkingBudget<'_>>(raw.get().as_bytes()));
    let effort = ask.reasoning_effort.as_ref().map(|e| &*e.0);
    let wanted = match (&asked, effort) {
        (Some(budget), _) if budget.kind.0 == "disabled" => CohereThinking { kind: "disabled", token_budget: None },
        (Some(budget), _) => CohereThinking { kind: "enabled", token_budget: budget.budget_tokens },
        (None, Some("none")) => CohereThinking { kind: "disabled", token_budget: None },
        (None, Some(_)) => CohereThinking { kind: "enabled", token_budget: None },
        (None, None) => return None,
    };
    if model.contains("reasoning") {
        return Some(wanted);
    }
    if wanted.kind == "enabled" {
        adjusted.note(if asked.is_some() { "thinking" } else { "reasoning_effort" });
    }
    None
}
