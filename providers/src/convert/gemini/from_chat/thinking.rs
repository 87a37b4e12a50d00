//! Reasoning: `reasoning_effort` as OpenAI's clients write it, or `thinking` as Anthropic's do. Gemini 2.5 takes a
//! budget in tokens, Gemini 3 a level (<https://ai.google.dev/gemini-api/docs/thinking>).

use crate::convert::request::{Adjusted, refused};
use crate::wire::chat;
use crate::wire::gemini::ThinkingConfig;
use gateway_domain::Fault;
use serde::Deserialize;

/// The least that Gemini 2.5 Pro thinks: it cannot be told not to.
const LEAST_OF_PRO: i64 = 128;
const LEFT_TO_THE_MODEL: i64 = -1;

/// How a model is told to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It does not think.
    Never,
    Budget {
        /// It can be told not to think.
        off: bool,
    },
    Level {
        /// `minimal` is a level of it.
        minimal: bool,
        medium: bool,
    },
}

/// How a model is told to think. The version in its name decides, so that a model that comes tomorrow is treated like
/// the newest one known today. A name without a version (`gemini-flash-latest`) is told a budget, which every
/// generation that thinks understands.
fn way(model: &str) -> Way {
    let Some(at) = model.find("gemini-") else { return Way::Never };
    let name = &model[at + "gemini-".len()..];
    let pro = name.contains("pro");
    let number = name.split('-').next().unwrap_or_default();
    let mut digits = number.split('.').map(str::parse::<u32>);
    match (digits.next(), digits.next().and_then(Result::ok).unwrap_or(0)) {
        (Some(Ok(0..=1)), _) | (Some(Ok(2)), 0..=4) => Way::Never,
        (Some(Ok(2)), _) => Way::Budget { off: !pro },
        (Some(Ok(major)), minor) => Way::Level { minimal: !pro, medium: !pro || (major, minor) > (3, 0) },
        _ => Way::Budget { off: !pro },
    }
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct GeminiThinkingBudget {
    #[serde(rename = "type")]
    kind: String,
    budget_tokens: Option<i64>,
}

pub(super) fn config(
    ask: &chat::ChatRequest<'_>,
    model: &str,
    adjusted: &mut Adjusted,
) -> Result<Option<ThinkingConfig>, Fault> {
    let way = way(model);
    let effort = ask.reasoning_effort.as_ref().map(|e| effort(&e.0)).transpose()?;
    if let Some(raw) = ask.thinking {
        let wanted: GeminiThinkingBudget = serde_json::from_str(raw.get())
            .map_err(|e| refused("thinking", format!("must be an object with a type: {e}")))?;
        return explicit(&wanted, effort, way, adjusted);
    }
    let Some(effort) = effort else { return Ok(None) };
    Ok(thinking_config(effort, way, "reasoning_effort", adjusted))
}

fn explicit(
    wanted: &GeminiThinkingBudget,
    effort: Option<ThinkingEffort>,
    way: Way,
    adjusted: &mut Adjusted,
) -> Result<Option<ThinkingConfig>, Fault> {
    if way == Way::Never && wanted.kind != "disabled" {
        adjusted.note("thinking");
        return Ok(None);
    }
    match (wanted.kind.as_str(), wanted.budget_tokens, effort) {
        ("disabled", ..) => Ok(thinking_config(ThinkingEffort::None, way, "thinking", adjusted)),
        ("enabled", Some(budget), _) => {
            Ok(Some(ThinkingConfig { include_thoughts: true, thinking_budget: Some(budget), thinking_level: None }))
        }
        ("enabled" | "adaptive", _, Some(effort)) => Ok(thinking_config(effort, way, "reasoning_effort", adjusted)),
        ("enabled" | "adaptive", _, None) => {
            let thinking_budget = matches!(way, Way::Budget { .. }).then_some(LEFT_TO_THE_MODEL);
            Ok(Some(ThinkingConfig { include_thoughts: true, thinking_budget, thinking_level: None }))
        }
        _ => Err(refused("thinking.type", "must be enabled, adaptive or disabled")),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThinkingEffort {
    None,
    Minimal,
    Low,
    Medium,
    High,
}

fn effort(name: &str) -> Result<ThinkingEffort, Fault> {
    Ok(match name {
        "none" => ThinkingEffort::None,
        "minimal" => ThinkingEffort::Minimal,
        "low" => ThinkingEffort::Low,
        "medium" => ThinkingEffort::Medium,
        "high" | "xhigh" | "max" => ThinkingEffort::High,
        _ => return Err(refused("reasoning_effort", "must be one of none, minimal, low, medium, high, xhigh, max")),
    })
}

/// What an effort is called or costs in tokens at Gemini.
fn thinking_config(
    effort: ThinkingEffort,
    way: Way,
    field: &'static str,
    adjusted: &mut Adjusted,
) -> Option<ThinkingConfig> {
    let include_thoughts = effort != ThinkingEffort::None;
    match way {
        Way::Never => {
            if include_thoughts {
                adjusted.note(field);
            }
            None
        }
        Way::Budget { off } => {
            let budget = match effort {
                ThinkingEffort::None if off => 0,
                ThinkingEffort::None => {
                    adjusted.note(field);
                    LEAST_OF_PRO
                }
                ThinkingEffort::Minimal | ThinkingEffort::Low => 1024,
                ThinkingEffort::Medium => 8192,
                ThinkingEffort::High => 24_576,
            };
            Some(ThinkingConfig { include_thoughts, thinking_budget: Some(budget), thinking_level: None })
        }
        Way::Level { minimal, medium } => {
            // Thinking cannot be turned off: the least there is stands for that.
            if effort == ThinkingEffort::None || (effort == ThinkingEffort::Medium && !medium) {
                adjusted.note(field);
            }
            let level = match effort {
                ThinkingEffort::None | ThinkingEffort::Minimal if minimal => "minimal",
                ThinkingEffort::None | ThinkingEffort::Minimal | ThinkingEffort::Low => "low",
                ThinkingEffort::Medium if medium => "medium",
                ThinkingEffort::Medium | ThinkingEffort::High => "high",
            };
            Some(ThinkingConfig { include_thoughts, thinking_budget: None, thinking_level: Some(level) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_by_name() {
        let flash = Way::Level { minimal: true, medium: true };
        for (model, expected) in [
            ("gemini-1.5-pro", Way::Never),
            ("gemini-2.0-flash-001", Way::Never),
            ("gemini-2.5-flash-lite", Way::Budget { off: true }),
            ("gemini-2.5-pro", Way::Budget { off: false }),
            ("gemini-flash-latest", Way::Budget { off: true }),
            ("gemini-pro-latest", Way::Budget { off: false }),
            ("gemini-3-flash-preview", flash),
            ("gemini-3-pro-preview", Way::Level { minimal: false, medium: false }),
            ("gemini-3.1-pro-preview", Way::Level { minimal: false, medium: true }),
            ("gemini-4-ultra", flash),
            ("gemma-3-27b-it", Way::Never),
        ] {
            assert_eq!(way(model), expected, "{model}");
        }
    }
}
