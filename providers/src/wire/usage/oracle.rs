//! What Oracle's own API tells of counts.

use super::count;
use gateway_domain::Usage;
use serde::Deserialize;

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct OracleUsage {
    #[serde(deserialize_with = "count")]
    prompt_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<OraclePromptTokens>,
    completion_tokens_details: Option<OracleCompletionTokens>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OraclePromptTokens {
    #[serde(deserialize_with = "count")]
    cached_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OracleCompletionTokens {
    #[serde(deserialize_with = "count")]
    reasoning_tokens: Option<u64>,
}

impl OracleUsage {
    /// `None` when nothing is counted.
    pub(crate) fn split(&self) -> Option<Usage> {
        self.prompt_tokens.or(self.completion_tokens)?;
        let (prompt, completion) = (self.prompt_tokens.unwrap_or(0), self.completion_tokens.unwrap_or(0));
        let cached = self.prompt_tokens_details.and_then(|told| told.cached_tokens).unwrap_or(0).min(prompt);
        let reasoning = self.completion_tokens_details.and_then(|told| told.reasoning_tokens).unwrap_or(0);
        let reasoning = reasoning.min(completion);
        Some(Usage {
            input: prompt - cached,
            cache_read: cached,
            output: completion - reasoning,
            reasoning,
            ..Usage::default()
        })
    }
}
