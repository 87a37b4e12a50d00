//! What Cohere tells of its own counts.

use super::count;
use gateway_domain::Usage;
use serde::Deserialize;

/// `usage` of Cohere. What is billed is told apart from what the model read, which holds the templates too.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CohereUsage {
    billed_units: CohereTokens,
    tokens: CohereTokens,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct CohereTokens {
    #[serde(deserialize_with = "count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    output_tokens: Option<u64>,
}

impl CohereUsage {
    /// `None` when nothing is counted.
    pub(crate) fn split(&self) -> Option<Usage> {
        let input = self.billed_units.input_tokens.or(self.tokens.input_tokens);
        let output = self.billed_units.output_tokens.or(self.tokens.output_tokens);
        input.or(output)?;
        Some(Usage { input: input.unwrap_or(0), output: output.unwrap_or(0), ..Usage::default() })
    }
}
