//! Token counts as providers report them, split into the disjoint classes of [`Usage`].
//! OpenAI-like counts overlap (cached tokens are part of the prompt); Anthropic's input classes do not.

mod billing;
mod client_usage;
mod cohere;
mod fast_path;
mod media;
mod oracle;

pub(crate) use billing::{filter_reported_cost, served};
pub(crate) use client_usage::{ChatUsage, MessageUsage, ResponseUsage};
pub(crate) use cohere::CohereUsage;
pub(crate) use oracle::OracleUsage;

use super::members::{MemberCursor, Odd};
use gateway_domain::Usage;
use gateway_domain::money::NanoUsd;
use gateway_domain::usage::{ServiceTier, UsageDetail};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Usage of chat completions, responses, embeddings and images; the names differ, the meaning does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct OpenAiUsage {
    #[serde(deserialize_with = "count")]
    prompt_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    completion_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
    /// Transcriptions have the word in the singular.
    #[serde(alias = "input_token_details")]
    input_tokens_details: Option<Details>,
    completion_tokens_details: Option<Details>,
    #[serde(alias = "output_token_details")]
    output_tokens_details: Option<Details>,
    /// DeepSeek's name for cached prompt tokens.
    #[serde(deserialize_with = "count")]
    prompt_cache_hit_tokens: Option<u64>,
    /// Moonshot's.
    #[serde(deserialize_with = "count")]
    cached_tokens: Option<u64>,
    /// Claude's names for cached tokens, which providers that resell it use.
    #[serde(deserialize_with = "count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    cache_creation_input_tokens: Option<u64>,
    /// What the provider says that the call cost, in dollars; believed of few, see `told`.
    #[serde(deserialize_with = "dollars")]
    cost: Option<NanoUsd>,
    /// Seconds of sound, of a transcription that is billed by them.
    #[serde(deserialize_with = "millis")]
    seconds: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Details {
    #[serde(deserialize_with = "count", alias = "cache_read_input_tokens")]
    cached_tokens: Option<u64>,
    /// Written to a cache.
    #[serde(deserialize_with = "count", alias = "cache_creation_input_tokens")]
    cache_write_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    audio_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    reasoning_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    image_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    accepted_prediction_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    rejected_prediction_tokens: Option<u64>,
    /// What the cached tokens are of.
    cached_tokens_details: Option<CachedDetails>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct CachedDetails {
    #[serde(deserialize_with = "count")]
    audio_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    image_tokens: Option<u64>,
}

impl Details {
    fn skim(into: &mut Option<Self>, at: &mut MemberCursor<'_>) -> Result<(), Odd> {
        if at.is_null() {
            return at.value().map(drop);
        }
        if into.is_some() {
            return Err(Odd);
        }
        let details = into.insert(Self::default());
        at.object(|key, at| match key {
            "cached_tokens" | "cache_read_input_tokens" => skim_count(&mut details.cached_tokens, at),
            "cache_write_tokens" | "cache_creation_input_tokens" => skim_count(&mut details.cache_write_tokens, at),
            "audio_tokens" => skim_count(&mut details.audio_tokens, at),
            "reasoning_tokens" => skim_count(&mut details.reasoning_tokens, at),
            "image_tokens" => skim_count(&mut details.image_tokens, at),
            "accepted_prediction_tokens" => skim_count(&mut details.accepted_prediction_tokens, at),
            "rejected_prediction_tokens" => skim_count(&mut details.rejected_prediction_tokens, at),
            // Rare, and read the thorough way.
            "cached_tokens_details" => Err(Odd),
            _ => at.value().map(drop),
        })
    }
}

/// A whole number, or null, and the first of its name.
fn skim_count(into: &mut Option<u64>, at: &mut MemberCursor<'_>) -> Result<(), Odd> {
    let Some(number) = at.count()? else { return Ok(()) };
    if into.replace(number).is_some() { Err(Odd) } else { Ok(()) }
}

impl OpenAiUsage {
    /// Adds what the common usage object says, of whole numbers that stand there once each. Whatever is odd about it is
    /// `None`, and for serde to read. In place, as it is large and most answers have one.
    pub(crate) fn skim(&mut self, at: &mut MemberCursor<'_>) -> Option<()> {
        if fast_path::read(self, at).is_some() {
            return Some(());
        }
        at.object(|key, at| self.put(key, at)).ok()
    }

    fn put(&mut self, key: &str, at: &mut MemberCursor<'_>) -> Result<(), Odd> {
        let count = match key {
            "prompt_tokens" => &mut self.prompt_tokens,
            "input_tokens" => &mut self.input_tokens,
            "completion_tokens" => &mut self.completion_tokens,
            "output_tokens" => &mut self.output_tokens,
            "total_tokens" => &mut self.total_tokens,
            "prompt_tokens_details" => return Details::skim(&mut self.prompt_tokens_details, at),
            "input_tokens_details" | "input_token_details" => {
                return Details::skim(&mut self.input_tokens_details, at);
            }
            "completion_tokens_details" => {
                return Details::skim(&mut self.completion_tokens_details, at);
            }
            "output_tokens_details" | "output_token_details" => {
                return Details::skim(&mut self.output_tokens_details, at);
            }
            "prompt_cache_hit_tokens" => &mut self.prompt_cache_hit_tokens,
            "cached_tokens" => &mut self.cached_tokens,
            "cache_read_input_tokens" => &mut self.cache_read_input_tokens,
            "cache_creation_input_tokens" => &mut self.cache_creation_input_tokens,
            "cost" if self.cost.is_none() => {
                self.cost = serde_json::from_str::<Value>(at.value()?).ok().as_ref().and_then(money);
                return Ok(());
            }
            // No whole number, and rare.
            "cost" | "seconds" => return Err(Odd),
            _ => return at.value().map(drop),
        };
        skim_count(count, at)
    }

    /// `None` when the object reports nothing that is billed (rerank units).
    pub(crate) fn split(&self) -> Option<Usage> {
        let prompt = self.prompt_tokens.or(self.input_tokens);
        let completion = self.completion_tokens.or(self.output_tokens);
        if let (None, None, None, Some(millis_in)) = (prompt, completion, self.total_tokens, self.seconds) {
            let detail = UsageDetail { millis_in, told: self.cost, ..UsageDetail::default() };
            return Some(Usage { detail, ..Usage::default() });
        }
        let into = self.prompt_tokens_details.or(self.input_tokens_details).unwrap_or_default();
        let out = self.completion_tokens_details.or(self.output_tokens_details).unwrap_or_default();
        let (prompt, completion) = match (prompt, completion, self.total_tokens) {
            (None, None, total) => (total?, 0),
            (None, Some(completion), total) => (total.unwrap_or(completion).saturating_sub(completion), completion),
            (Some(prompt), completion, _) => (prompt, completion.unwrap_or(0)),
        };

        let cached = into.cached_tokens.or(self.cache_read_input_tokens);
        let cache_read = cached.or(self.prompt_cache_hit_tokens).or(self.cached_tokens).unwrap_or(0).min(prompt);
        let cache_write = into.cache_write_tokens.or(self.cache_creation_input_tokens).unwrap_or(0);
        let cache_write = cache_write.min(prompt - cache_read);
        let kept = into.cached_tokens_details.unwrap_or_default();
        let (audio_kept, image_kept) = (kept.audio_tokens.unwrap_or(0), kept.image_tokens.unwrap_or(0));
        let audio_in = into.audio_tokens.unwrap_or(0).saturating_sub(audio_kept).min(prompt - cache_read - cache_write);

        let reasoning = out.reasoning_tokens.unwrap_or(0);
        // xAI counts reasoning beside the completion: its total is the sum of three.
        let beside = reasoning > completion
            || (reasoning > 0 && self.total_tokens.is_some_and(|total| total == prompt + completion + reasoning));
        let rest = if beside { completion } else { completion - reasoning };
        let audio_out = out.audio_tokens.unwrap_or(0).min(rest);
        Some(Usage {
            input: prompt - cache_read - cache_write - audio_in,
            cache_read,
            cache_write,
            output: rest - audio_out,
            reasoning,
            audio_in,
            audio_out,
            images: 0,
            estimated: false,
            detail: UsageDetail {
                audio_cache_read: small(kept.audio_tokens),
                image_cache_read: small(kept.image_tokens),
                image_in: small(into.image_tokens.map(|tokens| tokens.saturating_sub(image_kept))),
                image_out: small(out.image_tokens),
                prediction_accepted: small(out.accepted_prediction_tokens),
                prediction_rejected: small(out.rejected_prediction_tokens),
                told: self.cost,
                ..UsageDetail::default()
            },
        })
    }
}

/// Parts of a class: what lies beyond is no count of tokens of one call.
fn small(count: Option<u64>) -> u32 {
    u32::try_from(count.unwrap_or_default()).unwrap_or(u32::MAX)
}

/// Usage of an Anthropic message; in a stream the counts of a later event replace those of an earlier one.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AnthropicUsage {
    #[serde(deserialize_with = "count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    cache_creation_input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    output_tokens: Option<u64>,
    output_tokens_details: Option<ThinkingTokens>,
    cache_creation: Option<Keeping>,
    server_tool_use: Option<ServerTools>,
    #[serde(deserialize_with = "tier")]
    service_tier: Option<ServiceTier>,
    #[serde(deserialize_with = "tier")]
    speed: Option<ServiceTier>,
}

/// Cache writes by how long they are kept.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Keeping {
    #[serde(deserialize_with = "count")]
    ephemeral_1h_input_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct ServerTools {
    #[serde(deserialize_with = "count")]
    web_search_requests: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct ThinkingTokens {
    #[serde(deserialize_with = "count")]
    thinking_tokens: Option<u64>,
}

impl AnthropicUsage {
    pub(crate) fn update(&mut self, later: &Self) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.cache_read_input_tokens = later.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens = later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.output_tokens_details = later.output_tokens_details.or(self.output_tokens_details);
        self.cache_creation = later.cache_creation.or(self.cache_creation);
        self.server_tool_use = later.server_tool_use.or(self.server_tool_use);
        self.service_tier = later.service_tier.or(self.service_tier);
        self.speed = later.speed.or(self.speed);
    }

    pub(crate) fn split(&self) -> Option<Usage> {
        if self.input_tokens.is_none() && self.output_tokens.is_none() {
            return None;
        }
        let output = self.output_tokens.unwrap_or(0);
        let thinking = self.output_tokens_details.and_then(|d| d.thinking_tokens).unwrap_or(0).min(output);
        Some(Usage {
            input: self.input_tokens.unwrap_or(0),
            cache_read: self.cache_read_input_tokens.unwrap_or(0),
            cache_write: self.cache_creation_input_tokens.unwrap_or(0),
            output: output - thinking,
            reasoning: thinking,
            detail: UsageDetail {
                cache_write_1h: small(self.cache_creation.and_then(|kept| kept.ephemeral_1h_input_tokens)),
                web_searches: small(self.server_tool_use.and_then(|tools| tools.web_search_requests)),
                tier: self.tier(),
                ..UsageDetail::default()
            },
            ..Usage::default()
        })
    }

    /// Speed is bought apart from the tier.
    fn tier(&self) -> ServiceTier {
        let faster = self.speed.filter(|speed| *speed != ServiceTier::Standard);
        faster.or(self.service_tier).unwrap_or_default()
    }
}

/// Usage of Bedrock's Converse. What is cached stands beside `inputTokens`
/// (<https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html>).
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ConverseUsage {
    #[serde(deserialize_with = "count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "count")]
    cache_write_input_tokens: Option<u64>,
}

impl ConverseUsage {
    pub(crate) fn split(&self) -> Option<Usage> {
        if self.input_tokens.is_none() && self.output_tokens.is_none() {
            return None;
        }
        Some(Usage {
            input: self.input_tokens.unwrap_or(0),
            cache_read: self.cache_read_input_tokens.unwrap_or(0),
            cache_write: self.cache_write_input_tokens.unwrap_or(0),
            output: self.output_tokens.unwrap_or(0),
            ..Usage::default()
        })
    }
}

/// `usageMetadata` of Gemini. Cached tokens are part of the prompt; thoughts stand beside the candidates, and the
/// results of tools that Google ran beside the prompt.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct GeminiUsage {
    #[serde(deserialize_with = "count")]
    prompt_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    cached_content_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    candidates_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    thoughts_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    tool_use_prompt_token_count: Option<u64>,
    #[serde(deserialize_with = "count")]
    total_token_count: Option<u64>,
    prompt_tokens_details: Vec<Modality>,
    cache_tokens_details: Vec<Modality>,
    candidates_tokens_details: Vec<Modality>,
    /// Vertex AI's name of the tier.
    traffic_type: Option<String>,
    #[serde(deserialize_with = "tier")]
    service_tier: Option<ServiceTier>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Modality {
    modality: String,
    #[serde(deserialize_with = "count")]
    token_count: Option<u64>,
}

impl GeminiUsage {
    /// `None` when nothing is counted.
    pub(crate) fn split(&self) -> Option<Usage> {
        let tokens = |all: &[Modality], of: &str| -> u64 {
            all.iter().filter(|m| m.modality == of).filter_map(|m| m.token_count).sum()
        };
        let (prompted, cached) = (&self.prompt_tokens_details, &self.cache_tokens_details);
        let fresh = |of: &str| tokens(prompted, of).saturating_sub(tokens(cached, of));
        let reasoning = self.thoughts_token_count.unwrap_or(0);
        let tools = self.tool_use_prompt_token_count.unwrap_or(0);
        let (prompt, output) = match (self.prompt_token_count, self.candidates_token_count, self.total_token_count) {
            (None, None, total) => (total?, 0),
            (prompt, output, _) => (prompt.unwrap_or(0), output.unwrap_or(0)),
        };
        let cache_read = self.cached_content_token_count.unwrap_or(0).min(prompt);
        let audio_in = fresh("AUDIO").min(prompt - cache_read);
        let audio_out = tokens(&self.candidates_tokens_details, "AUDIO").min(output);
        Some(Usage {
            input: prompt - cache_read - audio_in + tools,
            cache_read,
            output: output - audio_out,
            reasoning,
            audio_in,
            audio_out,
            detail: UsageDetail {
                audio_cache_read: small(Some(tokens(cached, "AUDIO"))),
                image_cache_read: small(Some(tokens(cached, "IMAGE"))),
                image_in: small(Some(fresh("IMAGE"))),
                video_in: small(Some(fresh("VIDEO"))),
                image_out: small(Some(tokens(&self.candidates_tokens_details, "IMAGE"))),
                tier: self.tier(),
                ..UsageDetail::default()
            },
            ..Usage::default()
        })
    }

    /// <https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/GenerateContentResponse>
    fn tier(&self) -> ServiceTier {
        match self.traffic_type.as_deref() {
            None => self.service_tier.unwrap_or_default(),
            Some("ON_DEMAND" | "TRAFFIC_TYPE_UNSPECIFIED") => ServiceTier::Standard,
            Some("ON_DEMAND_FLEX") => ServiceTier::Flex,
            Some("ON_DEMAND_PRIORITY") => ServiceTier::Priority,
            // Throughput that was bought before costs nothing by the token.
            Some(_) => ServiceTier::Unknown,
        }
    }
}

/// Counts come as integers, now and then as `12.0` or null; a nonsense count is no reason to lose an answer.
fn count<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, NaN is 0")]
    Option::<f64>::deserialize(d).map(|n| n.map(|n| n as u64))
}

/// The name of a tier; what is none is no reason to lose an answer.
fn tier<'de, D: Deserializer<'de>>(d: D) -> Result<Option<ServiceTier>, D::Error> {
    let name = Option::<Value>::deserialize(d)?;
    Ok(name.and_then(|name| name.as_str().map(|name| ServiceTier::named(&name.to_lowercase()))))
}

/// Dollars as a number, or an object that has their sum.
fn money(cost: &Value) -> Option<NanoUsd> {
    let dollars = cost.as_f64().or_else(|| cost["total_cost"].as_f64())?;
    #[expect(clippy::cast_possible_truncation, reason = "of a number that is not large")]
    (0.0..1e6).contains(&dollars).then(|| NanoUsd((dollars * 1e9).round() as i64))
}

fn dollars<'de, D: Deserializer<'de>>(d: D) -> Result<Option<NanoUsd>, D::Error> {
    Option::<Value>::deserialize(d).map(|cost| cost.as_ref().and_then(money))
}

fn millis<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u32>, D::Error> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, NaN is 0")]
    Option::<f64>::deserialize(d).map(|n| n.map(|n| (n * 1e3).round() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn openai(json: &str) -> Option<Usage> {
        serde_json::from_str::<OpenAiUsage>(json).expect("valid").split()
    }

    #[test]
    fn overlapping_counts_become_disjoint() {
        let u = openai(
            r#"{"prompt_tokens":100,"completion_tokens":50,"total_tokens":150,
                "prompt_tokens_details":{"cached_tokens":60,"audio_tokens":10},
                "completion_tokens_details":{"reasoning_tokens":30,"audio_tokens":5}}"#,
        );
        let expected = Usage {
            input: 30,
            cache_read: 60,
            audio_in: 10,
            output: 15,
            reasoning: 30,
            audio_out: 5,
            ..Usage::default()
        };
        assert_eq!(u, Some(expected));
        assert_eq!(expected.total(), 150, "nothing is counted twice");
    }

    #[test]
    fn reasoning_beside_the_completion() {
        let u = openai(
            r#"{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"completion_tokens_details":{"reasoning_tokens":94}}"#,
        );
        assert_eq!(u.map(|u| (u.output, u.reasoning)), Some((9, 94)));
        let u = openai(
            r#"{"prompt_tokens":1,"completion_tokens":9,"total_tokens":14,"completion_tokens_details":{"reasoning_tokens":4}}"#,
        );
        assert_eq!(u.map(|u| (u.output, u.reasoning)), Some((9, 4)));
    }

    #[test]
    fn other_names_of_the_same() {
        let u = openai(r#"{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":8}"#);
        assert_eq!(u.map(|u| (u.input, u.cache_read)), Some((2, 8)));
        let u = openai(r#"{"input_tokens":7,"output_tokens":5,"output_tokens_details":{"reasoning_tokens":5}}"#);
        assert_eq!(u.map(|u| (u.input, u.output, u.reasoning)), Some((7, 0, 5)));
        assert_eq!(openai(r#"{"total_tokens":8}"#).map(|u| u.input), Some(8), "embeddings of some providers");
        assert_eq!(openai(r#"{"search_units":1}"#), None);
        let u = openai(r#"{"prompt_tokens":5.0,"completion_tokens":null,"prompt_tokens_details":null}"#);
        assert_eq!(u.map(|u| (u.input, u.output)), Some((5, 0)));
        let u = openai(r#"{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":9}}"#);
        assert_eq!(u.map(|u| (u.input, u.cache_read)), Some((0, 5)), "nonsense does not underflow");
    }

    #[test]
    fn gemini_counts_become_disjoint() {
        let usage: GeminiUsage = serde_json::from_str(
            r#"{"promptTokenCount":100,"cachedContentTokenCount":60,"candidatesTokenCount":12,"thoughtsTokenCount":30,
                "toolUsePromptTokenCount":5,"totalTokenCount":147,
                "promptTokensDetails":[{"modality":"TEXT","tokenCount":80},{"modality":"AUDIO","tokenCount":20}],
                "cacheTokensDetails":[{"modality":"AUDIO","tokenCount":8},{"modality":"TEXT","tokenCount":52}],
                "candidatesTokensDetails":[{"modality":"AUDIO","tokenCount":2}]}"#,
        )
        .expect("valid");
        let split = usage.split().expect("counted");
        let expected = Usage {
            input: 33,
            cache_read: 60,
            audio_in: 12,
            output: 10,
            audio_out: 2,
            reasoning: 30,
            detail: UsageDetail { audio_cache_read: 8, ..UsageDetail::default() },
            ..Usage::default()
        };
        assert_eq!(split, expected);
        assert_eq!(split.total(), 147, "nothing is counted twice");
        assert_eq!(serde_json::from_str::<GeminiUsage>("{}").expect("valid").split(), None);
    }

    #[test]
    fn anthropic_counts_add_up_over_events() {
        let mut usage: AnthropicUsage = serde_json::from_str(
            r#"{"input_tokens":20,"cache_read_input_tokens":300,"cache_creation_input_tokens":40,"output_tokens":1}"#,
        )
        .expect("valid");
        let later = serde_json::from_str(r#"{"output_tokens":90,"output_tokens_details":{"thinking_tokens":70}}"#)
            .expect("valid");
        usage.update(&later);
        let expected =
            Usage { input: 20, cache_read: 300, cache_write: 40, output: 20, reasoning: 70, ..Usage::default() };
        assert_eq!(usage.split(), Some(expected));
        assert_eq!(expected.prompt(), 360);
    }

    fn skim(json: &str) -> Option<OpenAiUsage> {
        let whole = format!("{{\"usage\":{json}}}");
        let mut members = MemberCursor::of(&whole).expect("an object");
        members.key().expect("a key");
        let mut usage = OpenAiUsage::default();
        usage.skim(&mut members).map(|()| usage)
    }

    #[test]
    fn skimmed_is_read() {
        let plain = [
            r#"{}"#,
            r#"{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15}"#,
            r#"{ "input_tokens": 7, "output_tokens": 0, "cost": 0.25, "by": {"model": ["a", "}"]} }"#,
            r#"{"prompt_tokens":12,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":null,"text_tokens":1.5}}"#,
            r#"{"output_tokens":9,"output_tokens_details":{"reasoning_tokens":9},"input_tokens_details":null}"#,
            r#"{"completion_tokens_details":{},"prompt_cache_hit_tokens":1,"cached_tokens":2}"#,
            r#"{"cache_read_input_tokens":5,"cache_creation_input_tokens":6,"prompt_tokens":null}"#,
            // Spelled as OpenAI does to the byte, and nearly so.
            r#"{"prompt_tokens":212,"completion_tokens":33,"total_tokens":245,"prompt_tokens_details":{"cached_tokens":11,"audio_tokens":12},"completion_tokens_details":{"reasoning_tokens":13,"audio_tokens":0,"accepted_prediction_tokens":14,"rejected_prediction_tokens":15}}"#,
            r#"{"prompt_tokens":212,"completion_tokens":33,"total_tokens":245,"prompt_tokens_details":{"cached_tokens":11,"audio_tokens":12}}"#,
            r#"{"prompt_tokens":212,"completion_tokens":33,"total_tokens":245,"prompt_tokens_details":{"cached_tokens":11,"audio_tokens":12},"completion_tokens_details":{"reasoning_tokens":13,"audio_tokens":0,"accepted_prediction_tokens":14,"rejected_prediction_tokens":15,"text_tokens":1}}"#,
            r#"{"prompt_tokens":212,"completion_tokens":33,"total_tokens":245,"prompt_tokens_details":{"cached_tokens":null,"audio_tokens":12},"cost":0.5}"#,
            r#"{"prompt_tokens":9007199254740992,"completion_tokens":0,"total_tokens":0}"#,
            r#"{"prompt_tokens":1 ,"completion_tokens":0,"total_tokens":0}"#,
        ];
        for json in plain {
            let read: OpenAiUsage = serde_json::from_str(json).expect(json);
            assert_eq!(skim(json), Some(read), "{json}");
        }
    }

    #[test]
    fn what_is_odd_is_left_to_serde() {
        let odd = [
            "null",
            "[]",
            r#"{"prompt_tokens":12.0}"#,
            r#"{"prompt_tokens":-1}"#,
            r#"{"prompt_tokens":+1}"#,
            r#"{"prompt_tokens":"12"}"#,
            r#"{"prompt_tokens":1,"prompt_tokens":2}"#,
            r#"{"prompt_tokens":99999999999999999999}"#,
            r#"{"prompt_tokens_details":[1]}"#,
            r#"{"prompt_tokens_details":{"cached_tokens":true}}"#,
            r#"{"prompt_tokens_details":{},"prompt_tokens_details":{}}"#,
        ];
        for json in odd {
            assert_eq!(skim(json), None, "{json}");
        }
    }
}
