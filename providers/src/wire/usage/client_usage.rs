//! Usage as clients read it, in each of their dialects, made from the disjoint classes.

use gateway_domain::Usage;
use serde::Serialize;

/// Usage as an OpenAI client reads it, made from the disjoint classes.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ChatUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_read_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_creation_input_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct PromptDetails {
    cached_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cache_write_tokens: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct CompletionDetails {
    reasoning_tokens: u64,
}

impl ChatUsage {
    /// The names of the cache classes are no OpenAI fields, so `strict` leaves them out.
    pub(crate) fn new(usage: &Usage, strict: bool) -> Self {
        Self {
            prompt_tokens: usage.prompt(),
            completion_tokens: usage.completion(),
            total_tokens: usage.total(),
            prompt_tokens_details: PromptDetails {
                cached_tokens: usage.cache_read,
                cache_write_tokens: usage.cache_write,
            },
            completion_tokens_details: CompletionDetails { reasoning_tokens: usage.reasoning },
            cache_read_input_tokens: (!strict).then_some(usage.cache_read),
            cache_creation_input_tokens: (!strict).then_some(usage.cache_write),
        }
    }
}

/// Usage as a client of Anthropic's Messages reads it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct MessageUsage {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
}

impl MessageUsage {
    pub(crate) fn new(usage: &Usage) -> Self {
        let (cache_read, cache_write) = (usage.cache_read, usage.cache_write);
        Self {
            // Whatever class a prompt token is of, beside the two of the cache.
            input_tokens: usage.prompt() - cache_read - cache_write,
            cache_creation_input_tokens: cache_write,
            cache_read_input_tokens: cache_read,
            output_tokens: usage.completion(),
        }
    }
}

/// Usage as a client of OpenAI's Responses reads it.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: CompletionDetails,
    total_tokens: u64,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct InputDetails {
    cached_tokens: u64,
    #[serde(skip_serializing_if = "is_zero")]
    cache_write_tokens: u64,
}

impl ResponseUsage {
    pub(crate) fn new(usage: &Usage) -> Self {
        Self {
            input_tokens: usage.prompt(),
            input_tokens_details: InputDetails {
                cached_tokens: usage.cache_read,
                cache_write_tokens: usage.cache_write,
            },
            output_tokens: usage.completion(),
            output_tokens_details: CompletionDetails { reasoning_tokens: usage.reasoning },
            total_tokens: usage.total(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form serde asks for")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}
