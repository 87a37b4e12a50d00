//! Sampling, limits and reasoning: what Converse has fields for, and what goes to the model past it, under the names
//! that its maker uses.

use super::ConverseExtensions;
use crate::convert::converse::vendor::Maker;
use crate::convert::messages::from_chat::generation::{Generation, Keeps};
use crate::convert::messages::from_chat::thinking;
use crate::convert::request::{self, Adjusted};
use crate::wire::converse::Inference;
use crate::wire::messages::MessagesThinking;
use crate::wire::{JsonStr, chat, speaks};
use gateway_domain::Fault;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// Beside a budget for thinking a limit is needed, and must be above it.
const ROOM_BESIDE_THINKING: u64 = 16_384;

pub(super) struct InferencePlan<'a> {
    pub(super) inference: Inference<'a>,
    pub(super) additional: Map<String, Value>,
}

pub(super) fn plan<'a>(
    ask: &chat::ChatRequest<'a>,
    own: &ConverseExtensions<'a>,
    maker: Maker<'_>,
    bare_tool_turn: bool,
    adjusted: &mut Adjusted,
) -> Result<InferencePlan<'a>, Fault> {
    let additional = own.fields.clone().unwrap_or_default();
    let inference = Inference {
        max_tokens: ask.max_completion_tokens.or(ask.max_tokens),
        temperature: ask.temperature.map(Cow::Borrowed),
        top_p: ask.top_p,
        stop_sequences: request::stop(ask.stop)?,
    };
    let mut plan = InferencePlan { inference, additional };
    match maker.claude() {
        Some(generation) => {
            claude(ask, generation, bare_tool_turn, &mut plan, adjusted)?;
            name_betas(own.anthropic_beta, &mut plan.additional);
        }
        None => {
            reasoning(ask, maker, &mut plan.additional, adjusted);
            top_k(ask, maker, &mut plan.additional, adjusted);
            for (name, field) in
                [("anthropic_beta", own.anthropic_beta), ("context_management", ask.context_management)]
            {
                if speaks(field) {
                    adjusted.note(name);
                }
            }
        }
    }
    let above = |raw: &Cow<'_, RawValue>| raw.get().parse::<f64>().is_ok_and(|t| t > 1.0);
    if plan.inference.temperature.as_ref().is_some_and(above) {
        adjusted.note("temperature");
        plan.inference.temperature = RawValue::from_string("1".to_owned()).ok().map(Cow::Owned);
    }
    Ok(plan)
}

/// Claude behind Converse takes what it takes at home, by the rules of its generation.
fn claude<'a>(
    ask: &chat::ChatRequest<'a>,
    generation: Generation,
    bare_tool_turn: bool,
    InferencePlan { inference, additional }: &mut InferencePlan<'a>,
    adjusted: &mut Adjusted,
) -> Result<(), Fault> {
    let plan = thinking::plan(ask, generation, inference.max_tokens, bare_tool_turn, adjusted)?;
    if plan.budget() > 0 && inference.max_tokens.is_none() {
        inference.max_tokens = Some(plan.budget() + ROOM_BESIDE_THINKING);
    }
    if !generation.takes_sampling() || plan.thinks() {
        let one = |raw: &RawValue| matches!(raw.get(), "1" | "1.0");
        if inference.temperature.take().is_some_and(|t| !one(&t)) {
            adjusted.note("temperature");
        }
        if inference.top_p.take().is_some_and(|p| !one(p)) {
            adjusted.note("top_p");
        }
        if speaks(ask.top_k) {
            adjusted.note("top_k");
        }
    } else {
        let both = inference.temperature.as_deref().zip(inference.top_p);
        match both.map(|(t, p)| generation.keeps(t.get(), p.get())) {
            None | Some(Keeps::Both) => {}
            Some(Keeps::Temperature) => inference.top_p = None,
            Some(Keeps::TopP) => inference.temperature = None,
            Some(Keeps::TemperatureAlone) => {
                inference.top_p = None;
                adjusted.note("top_p");
            }
        }
        put(additional, "top_k", ask.top_k);
    }
    if let Some(wanted) = &plan.thinking {
        let wanted = match wanted {
            MessagesThinking::Raw(raw) => value(raw),
            other => serde_json::to_value(other).unwrap_or_default(),
        };
        additional.entry("thinking").or_insert(wanted);
    }
    if let Some(effort) = plan.effort {
        additional.entry("output_config").or_insert(json!({ "effort": effort }));
    }
    put(additional, "context_management", ask.context_management);
    Ok(())
}

/// Betas of Claude, as a list or as the header spells them.
fn name_betas(raw: Option<&RawValue>, additional: &mut Map<String, Value>) {
    let Some(raw) = raw else { return };
    let all = match serde_json::from_str::<JsonStr<'_>>(raw.get()) {
        Ok(text) => text.0.split(',').map(|b| Value::from(b.trim())).collect(),
        Err(_) => value(raw),
    };
    additional.entry("anthropic_beta").or_insert(all);
}

fn reasoning(
    ask: &chat::ChatRequest<'_>,
    maker: Maker<'_>,
    additional: &mut Map<String, Value>,
    adjusted: &mut Adjusted,
) {
    if speaks(ask.thinking) {
        adjusted.note("thinking");
    }
    let Some(effort) = &ask.reasoning_effort else { return };
    // <https://docs.aws.amazon.com/nova/latest/nova2-userguide/extended-thinking.html>, and OpenAI's own field.
    let level = match &*effort.0 {
        "minimal" | "low" => "low",
        "medium" => "medium",
        "high" | "xhigh" | "max" => "high",
        _ => {
            if effort.0 != "none" {
                adjusted.note("reasoning_effort");
            }
            return;
        }
    };
    if maker.is_openai() {
        additional.entry("reasoning_effort").or_insert(level.into());
    } else if maker.model().starts_with("amazon.nova-2") {
        additional.entry("reasoningConfig").or_insert(json!({ "type": "enabled", "maxReasoningEffort": level }));
    } else {
        adjusted.note("reasoning_effort");
    }
}

fn top_k(ask: &chat::ChatRequest<'_>, maker: Maker<'_>, additional: &mut Map<String, Value>, adjusted: &mut Adjusted) {
    let Some(k) = ask.top_k.filter(|raw| speaks(Some(raw))) else { return };
    if maker.is_nova() {
        // <https://docs.aws.amazon.com/nova/latest/userguide/complete-request-schema.html>.
        additional.entry("inferenceConfig").or_insert(json!({ "topK": value(k) }));
    } else if maker.is_mistral() {
        put(additional, "top_k", Some(k));
    } else if maker.is_cohere() {
        put(additional, "k", Some(k));
    } else {
        adjusted.note("top_k");
    }
}

fn put(additional: &mut Map<String, Value>, name: &str, raw: Option<&RawValue>) {
    if let Some(raw) = raw.filter(|raw| speaks(Some(raw))) {
        additional.entry(name).or_insert(value(raw));
    }
}

fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or_default()
}
