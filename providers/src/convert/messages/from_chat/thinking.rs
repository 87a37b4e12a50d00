//! Reasoning: `thinking` as a client of Anthropic's writes it, or `reasoning_effort` as one of OpenAI's does.

use super::generation::Generation;
use crate::convert::request::{Adjusted, refused};
use crate::wire::chat;
use crate::wire::messages::MessagesThinking;
use gateway_domain::Fault;
use serde::Deserialize;

/// The least that Anthropic accepts.
const MIN_BUDGET: u64 = 1024;

/// What to send, and what follows from it for the limit.
#[derive(Default)]
pub(crate) struct ThinkingPlan<'a> {
    pub(crate) thinking: Option<MessagesThinking<'a>>,
    pub(crate) effort: Option<&'static str>,
    budget: u64,
    off: bool,
}

impl ThinkingPlan<'_> {
    /// Tokens that thinking takes from the limit.
    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    pub(crate) fn thinks(&self) -> bool {
        self.thinking.is_some() && !self.off
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct MessagesThinkingBudget {
    #[serde(rename = "type")]
    kind: String,
    budget_tokens: Option<u64>,
}

/// `bare_tool_turn`: the conversation is inside a tool call whose turn has no thinking to send back, in which
/// case Anthropic refuses to think now.
pub(crate) fn plan<'a>(
    ask: &chat::ChatRequest<'a>,
    generation: Generation,
    limit: Option<u64>,
    bare_tool_turn: bool,
    adjusted: &mut Adjusted,
) -> Result<ThinkingPlan<'a>, Fault> {
    let effort = ask.reasoning_effort.as_ref().map(|e| &*e.0);
    if let Some(raw) = ask.thinking {
        let wanted: MessagesThinkingBudget = serde_json::from_str(raw.get())
            .map_err(|e| refused("thinking", format!("must be an object with a type: {e}")))?;
        return explicit(raw, &wanted, effort, generation, adjusted);
    }
    let Some(effort) = effort else { return Ok(ThinkingPlan::default()) };
    let (named, budget) = level(effort)?;
    let Some(named) = named else {
        if generation.adaptive_only() {
            adjusted.note("reasoning_effort");
        }
        return Ok(ThinkingPlan::default());
    };
    if generation.adaptive_only() {
        let thinking = Some(MessagesThinking::Adaptive { kind: "adaptive" });
        return Ok(ThinkingPlan { thinking, effort: Some(named), ..ThinkingPlan::default() });
    }
    let room = limit.map_or(u64::MAX, |limit| limit.saturating_sub(1));
    if !generation.thinks() || bare_tool_turn || forces_a_tool(ask) || room < MIN_BUDGET {
        adjusted.note("reasoning_effort");
        return Ok(ThinkingPlan::default());
    }
    let fitting = if budget > room {
        // Half of the limit stays for the answer.
        adjusted.note("reasoning_effort");
        room.div_ceil(2).max(MIN_BUDGET)
    } else {
        budget
    };
    let thinking = Some(MessagesThinking::Budget { kind: "enabled", budget_tokens: fitting });
    Ok(ThinkingPlan { thinking, budget: fitting, ..ThinkingPlan::default() })
}

fn explicit<'a>(
    raw: &'a serde_json::value::RawValue,
    wanted: &MessagesThinkingBudget,
    effort: Option<&str>,
    generation: Generation,
    adjusted: &mut Adjusted,
) -> Result<ThinkingPlan<'a>, Fault> {
    let effort = match effort.map(level).transpose()? {
        Some((named, _)) => named,
        None => None,
    };
    match wanted.kind.as_str() {
        "enabled" if generation.adaptive_only() => {
            adjusted.note("thinking.budget_tokens");
            Ok(ThinkingPlan {
                thinking: Some(MessagesThinking::Adaptive { kind: "adaptive" }),
                effort,
                ..ThinkingPlan::default()
            })
        }
        "adaptive" => {
            Ok(ThinkingPlan { thinking: Some(MessagesThinking::Raw(raw)), effort, ..ThinkingPlan::default() })
        }
        kind => {
            if effort.is_some() {
                adjusted.note("reasoning_effort");
            }
            let (budget, off) = (wanted.budget_tokens.unwrap_or(0), kind == "disabled");
            Ok(ThinkingPlan { thinking: Some(MessagesThinking::Raw(raw)), effort: None, budget, off })
        }
    }
}

/// The name of an effort for models that adapt, and the budget it stands for with those that do not.
fn level(effort: &str) -> Result<(Option<&'static str>, u64), Fault> {
    Ok(match effort {
        "none" => (None, 0),
        "minimal" | "low" => (Some("low"), 1024),
        "medium" => (Some("medium"), 8192),
        "high" => (Some("high"), 16_384),
        "xhigh" => (Some("xhigh"), 32_768),
        "max" => (Some("max"), 32_768),
        _ => return Err(refused("reasoning_effort", "must be one of none, minimal, low, medium, high, xhigh, max")),
    })
}

/// Thinking goes with `auto` and `none` only; of the two wishes the tool is the one with meaning.
fn forces_a_tool(ask: &chat::ChatRequest<'_>) -> bool {
    ask.tool_choice.is_some_and(|choice| choice.get() == "\"required\"" || choice.get().starts_with('{'))
}
