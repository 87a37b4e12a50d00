//! What a body says of the tokens that it may use, by itself: guessed for what goes in, and bounded by the fields of
//! its dialect for what may come out. Knows no request and no config.

use gateway_providers::tokens;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// What a body says by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reckoned {
    pub(super) prompt: u64,
    /// The most tokens of an answer, where it bounds them.
    pub(super) output: Option<u64>,
}

impl Reckoned {
    pub(super) fn of(body: &[u8]) -> Self {
        Self { prompt: tokens::estimate(body), output: AnswerBounds::read(body).output() }
    }
}

/// The fields by which the dialects bound an answer.
#[derive(Default, Deserialize)]
struct AnswerBounds {
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    max_completion_tokens: Option<u64>,
    #[serde(default)]
    max_output_tokens: Option<u64>,
    /// Answers asked for; each may be that long.
    #[serde(default)]
    n: Option<u64>,
    /// Answers made of which `n` are given: all are used.
    #[serde(default)]
    best_of: Option<u64>,
    #[serde(default)]
    prompt: Prompts,
    /// Gemini's.
    #[serde(default, alias = "generation_config", rename = "generationConfig")]
    generation: Option<GeminiBounds>,
    /// Bedrock's.
    #[serde(default, rename = "inferenceConfig")]
    inference: Option<BedrockBounds>,
}

/// What reaches providers as it came is bounded in their own words.
#[derive(Default, Deserialize)]
struct GeminiBounds {
    #[serde(default, alias = "max_output_tokens", rename = "maxOutputTokens")]
    most: Option<u64>,
    #[serde(default, alias = "candidate_count", rename = "candidateCount")]
    answers: Option<u64>,
}

#[derive(Default, Deserialize)]
struct BedrockBounds {
    #[serde(default, rename = "maxTokens")]
    most: Option<u64>,
}

/// Each prompt of a list is answered by itself.
#[derive(Deserialize)]
#[serde(untagged)]
enum Prompts {
    Many(Vec<PromptPiece>),
    One(IgnoredAny),
}

/// A prompt is a text or a list of tokens; a list of numbers is one prompt.
#[derive(Deserialize)]
#[serde(untagged)]
enum PromptPiece {
    Token(#[expect(dead_code, reason = "only its type tells")] i64),
    Prompt(IgnoredAny),
}

impl Default for Prompts {
    fn default() -> Self {
        Self::One(IgnoredAny)
    }
}

impl Prompts {
    fn count(&self) -> u64 {
        let Self::Many(pieces) = self else { return 1 };
        pieces.iter().filter(|piece| matches!(piece, PromptPiece::Prompt(_))).count().max(1) as u64
    }
}

impl AnswerBounds {
    fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    fn output(&self) -> Option<u64> {
        let gemini = self.generation.as_ref();
        let named = self.max_completion_tokens.or(self.max_tokens).or(self.max_output_tokens);
        let nested = || gemini.and_then(|g| g.most).or_else(|| self.inference.as_ref()?.most);
        let each = named.or_else(nested)?;
        let answers = self.n.max(self.best_of).or_else(|| gemini?.answers).unwrap_or(1).max(1);
        Some(each.saturating_mul(answers).saturating_mul(self.prompt.count()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_bounded_by_the_fields_of_every_dialect() {
        for (body, most) in [
            (r#"{"max_tokens": 5}"#, Some(5)),
            (r#"{"max_tokens": 5, "n": 3}"#, Some(15)),
            (r#"{"max_tokens": 5, "n": 2, "best_of": 4}"#, Some(20)),
            (r#"{"max_tokens": 5, "n": 2, "prompt": ["a", "b", [1, 2]]}"#, Some(30)),
            (r#"{"max_tokens": 5, "prompt": [1, 2, 3]}"#, Some(5)),
            (r#"{"max_tokens": 5, "prompt": [[1, 2], [3]]}"#, Some(10)),
            (r#"{"max_tokens": 5, "prompt": {"id": "x"}}"#, Some(5)),
            (r#"{"max_tokens": 5, "prompt": []}"#, Some(5)),
            (r#"{"max_tokens": 5, "max_completion_tokens": 7}"#, Some(7)),
            (r#"{"max_output_tokens": 9}"#, Some(9)),
            (r#"{"generationConfig": {"maxOutputTokens": 6, "candidateCount": 2}}"#, Some(12)),
            (r#"{"generation_config": {"max_output_tokens": 6}}"#, Some(6)),
            (r#"{"inferenceConfig": {"maxTokens": 8, "topP": 1}}"#, Some(8)),
            (r#"{"generationConfig": {}}"#, None),
            (r#"{"max_tokens": null}"#, None),
            (r#"{"messages": []}"#, None),
            ("no json", None),
        ] {
            assert_eq!(AnswerBounds::read(body.as_bytes()).output(), most, "{body}");
        }
    }
}
