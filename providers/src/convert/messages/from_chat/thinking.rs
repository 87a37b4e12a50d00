//! Reasoning: `thinking` as a client of Anthropic's writes it, or `reasoning_effort` as one of OpenAI's does.

use super::generation::Generation;
use crate::convert::asked::{Adjusted, refused};
use crate::wire::chat;
use crate::wire::messages::Thinking;
use gateway_domain::Fault;
use serde::Deserialize;

/// The least that Anthropic accepts.
const MIN_BUDGET: u64 = 1024;

/// What to send, and what follows from it for the limit.
#[derive(Default)]
pub(crate) struct Plan<'a> {
    pub(crate) thinking: Option<Thinking<'a>>,
    pub(crate) effort: Option<&'static str>,
    budget: u64,
    off: bool,
}

impl Plan<'_> {
    /// Tokens that thinking takes from the limit.
    pub(crate) fn budget(&self) -> u64 {
        self.budget
    }

    pub(crate) fn thinks(&self) -> bool {
        self.thinking.is_some() && !self.off
    }
}

#[derive(Deserialize)]
struct Wanted {
    #[serde(rename = "type")]
    kind: String,
    budget_tokens: Option<u64>,
}

/// `bare_tool_turn`: the conversation is inside a tool call whose turn has no thinking to send back, in which
/// case Anthropic refuses to think now.
pub(crate) fn plan<'a>(
    ask: &chat::Request<'a>,
    generation: Generation,
    limit: Option<u64>,
    bare_tool_turn: bool,
    adjusted: &mut Adjusted,
) -> Result<Plan<'a>, Fault> {
    let effort = ask.reasoning_effort.as_ref().map(|e| &*e.0);
    if let Some(raw) = ask.thinking {
        let wanted: Wanted = serde_json::from_str(raw.get())
            .map_err(|e| refused("thinking", format!("must be an object with a type: {e}")))?;
        return explicit(raw, &wanted, effort, generation, adjusted);
    }
    let Some(effort) = effort else { return Ok(Plan::default()) };
    let (named, budget) = level(effort)?;
    let Some(named) = named else {
        if generation.adaptive_only() {
            adjusted.note("reasoning_effort");
        }
        return Ok(Plan::default());
    };
    if generation.adaptive_only() {
        let thinking = Some(Thinking::Adaptive { kind: "adaptive" });
        return Ok(Plan { thinking, effort: Some(named), ..Plan::default() });
    }
    let room = limit.map_or(u64::MAX, |limit| limit.saturating_sub(1));
    if !generation.thinks() || bare_tool_turn || forces_a_tool(ask) || room < MIN_BUDGET {
        adjusted.note("reasoning_effort");
        return Ok(Plan::default());
    }
    let fitting = if budget > room {
        // Half of the limit stays for the answer.
        adjusted.note("reasoning_effort");
        room.div_ceil(2).max(MIN_BUDGET)
    } else {
        budget
    };
    let thinking = Some(Thinking::Budget { kind: "enabled", budget_tokens: fitting });
    Ok(Plan { thinking, budget: fitting, ..Plan::default() })
}

fn explicit<'a>(
    raw: &'a serde_json::value::RawValue,
    wanted: &Wanted,
    effort: Option<&str>,
    generation: Generation,
    adjusted: &mut Adjusted,
) -> Result<Plan<'a>, Fault> {
    let effort = match effort.map(level).transpose()? {
        Some((named, _)) => named,
        None => None,
    };
    match wanted.kind.as_str() {
        "enabled" if generation.adaptive_only() => {
            adjusted.note("thinking.budget_tokens");
            Ok(Plan { thinking: Some(Thinking::Adaptive { kind: "adaptive" }), effort, ..Plan::default() })
        }
        "adaptive" => Ok(Plan { thinking: Some(Thinking::Raw(raw)), effort, ..Plan::default() }),
        kind => {
            if effort.is_some() {
                adjusted.note("reasoning_effort");
            }
            let (budget, off) = (wanted.budget_tokens.unwrap_or(0), kind == "disabled");
            Ok(Plan { thinking: Some(Thinking::Raw(raw)), effort: None, budget, off })
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
fn forces_a_tool(ask: &chat::Request<'_>) -> bool {
    ask.tool_choice.is_some_and(|choice| choice.get() == "\"required\"" || choice.get().starts_with('{'))
}
