//! Shapes of Cohere's v2 API (<https://docs.cohere.com/reference/chat>): what it wants, and what it answers.

use super::JsonStr;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Serialize)]
pub(crate) struct CohereRequest<'a> {
    pub(crate) model: &'a str,
    pub(crate) messages: Vec<CohereMessage<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) stream: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<CohereTool<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) strict_tools: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) stop_sequences: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) temperature: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) k: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) frequency_penalty: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) presence_penalty: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response_format: Option<CohereResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking: Option<CohereThinking>,
    #[serde(flatten)]
    pub(crate) own: CohereExtensions<'a>,
}

/// Cohere's own settings, which its users send beside OpenAI's.
#[derive(Default, Serialize, Deserialize)]
#[serde(expecting = "an object")]
pub(crate) struct CohereExtensions<'a> {
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) documents: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) citation_options: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) safety_mode: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<&'a RawValue>,
}

#[derive(Serialize)]
pub(crate) struct CohereResponseFormat<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) json_schema: Option<&'a RawValue>,
}

#[derive(Serialize)]
pub(crate) struct CohereThinking {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token_budget: Option<u64>,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(crate) enum CohereMessage<'a> {
    System {
        content: Vec<CoherePart<'a>>,
    },
    User {
        content: Vec<CoherePart<'a>>,
    },
    Assistant {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<CoherePart<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_plan: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<CohereToolCall<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: Vec<CoherePart<'a>>,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum CoherePart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
pub(crate) struct ImageUrl<'a> {
    pub(crate) url: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
pub(crate) struct CohereToolCall<'a> {
    pub(crate) id: Cow<'a, str>,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) function: CohereFunctionCall<'a>,
}

#[derive(Serialize)]
pub(crate) struct CohereFunctionCall<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) arguments: Cow<'a, str>,
}

#[derive(Serialize)]
pub(crate) struct CohereTool<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) function: CohereFunction<'a>,
}

#[derive(Serialize)]
pub(crate) struct CohereFunction<'a> {
    pub(crate) name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<Cow<'a, str>>,
    pub(crate) parameters: Cow<'a, RawValue>,
}

/// An event of a stream; which fields are there depends on `kind`.
#[derive(Deserialize)]
pub(crate) struct CohereEvent<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: JsonStr<'a>,
    #[serde(borrow)]
    pub(crate) id: Option<JsonStr<'a>>,
    pub(crate) index: Option<u64>,
    #[serde(borrow)]
    pub(crate) delta: Option<CohereDelta<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct CohereDelta<'a> {
    #[serde(borrow)]
    pub(crate) message: Option<CohereMessageDelta<'a>>,
    #[serde(borrow)]
    pub(crate) finish_reason: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) error: Option<JsonStr<'a>>,
    pub(crate) usage: Option<super::usage::CohereUsage>,
}

/// The piece of a message that one event brings. A start has empty lists where later events have objects, so each
/// place is read on its own.
#[derive(Deserialize)]
pub(crate) struct CohereMessageDelta<'a> {
    #[serde(borrow)]
    pub(crate) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) tool_plan: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) citations: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct CohereContent<'a> {
    #[serde(borrow)]
    pub(crate) text: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) thinking: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct CohereSaidCall<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) function: Option<SaidFunction<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct SaidFunction<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) arguments: Option<JsonStr<'a>>,
}

/// A whole answer.
#[derive(Deserialize)]
pub(crate) struct CohereResponse<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) finish_reason: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) message: CohereSaidMessage<'a>,
    pub(crate) usage: Option<super::usage::CohereUsage>,
}

#[derive(Deserialize)]
pub(crate) struct CohereSaidMessage<'a> {
    #[serde(borrow, default)]
    pub(crate) content: Option<Vec<CohereContent<'a>>>,
    #[serde(borrow)]
    pub(crate) tool_plan: Option<JsonStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) tool_calls: Option<Vec<CohereSaidCall<'a>>>,
    #[serde(borrow, default)]
    pub(crate) citations: Option<Vec<&'a RawValue>>,
}
