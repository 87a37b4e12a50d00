//! Anthropic's Messages: answers and stream events as they are read, requests as they are written.
//! Blocks and deltas are kept raw until somebody knows what to do with their type.

use super::JsonStr;
use super::usage::AnthropicUsage;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Any event of a stream; which fields are there depends on `kind`.
#[derive(Deserialize)]
pub(crate) struct MessagesEvent<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: JsonStr<'a>,
    #[serde(default)]
    pub(crate) index: u64,
    #[serde(borrow)]
    pub(crate) message: Option<MessagesResponse<'a>>,
    #[serde(borrow)]
    pub(crate) content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) delta: Option<&'a RawValue>,
    pub(crate) usage: Option<AnthropicUsage>,
}

/// A whole answer, or the shell of one in `message_start`.
#[derive(Deserialize)]
pub(crate) struct MessagesResponse<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) model: Option<JsonStr<'a>>,
    #[serde(borrow, default)]
    pub(crate) content: Vec<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) stop_reason: Option<JsonStr<'a>>,
    pub(crate) usage: Option<AnthropicUsage>,
}

/// A content block; which fields are there depends on `kind`.
#[derive(Deserialize)]
pub(crate) struct MessagesBlock<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: JsonStr<'a>,
    #[serde(borrow)]
    pub(crate) text: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) citations: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(crate) thinking: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) signature: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) data: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) name: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) input: Option<&'a RawValue>,
}

/// The `delta` of a content block or of the message.
#[derive(Deserialize)]
pub(crate) struct MessagesDelta<'a> {
    #[serde(borrow)]
    pub(crate) text: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) thinking: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) signature: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) partial_json: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) citation: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) stop_reason: Option<JsonStr<'a>>,
}

/// What is sent to `/messages`. Schemas, inputs and extensions go out as the bytes that came in.
#[derive(Default, Serialize)]
pub(crate) struct MessagesRequest<'a> {
    pub(crate) model: Cow<'a, str>,
    pub(crate) max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) system: Option<MessagesContent<'a>>,
    pub(crate) messages: Vec<MessagesTurn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<MessagesTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_choice: Option<MessagesToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking: Option<MessagesThinking<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_config: Option<MessagesOutputConfig<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) stop_sequences: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) temperature: Option<Cow<'a, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) top_p: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) top_k: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metadata: Option<MessagesMetadata<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service_tier: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mcp_servers: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context_management: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cache_control: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) inference_geo: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) speed: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) stream: bool,
}

#[derive(Serialize)]
pub(crate) struct MessagesTurn<'a> {
    pub(crate) role: &'static str,
    pub(crate) content: MessagesContent<'a>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum MessagesContent<'a> {
    Text(Cow<'a, str>),
    Blocks(Vec<MessagesInputBlock<'a>>),
}

/// A block of a request: one that is made here, or one that the client sent in Anthropic's own form.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum MessagesInputBlock<'a> {
    Made(MessagesTypedBlock<'a>),
    Raw(&'a RawValue),
    /// A block in Anthropic's own form that was put together from what was streamed.
    Rebuilt(Box<RawValue>),
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum MessagesTypedBlock<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a RawValue>,
    },
    Image {
        source: MessagesSource<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a RawValue>,
    },
    Document {
        source: MessagesSource<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a RawValue>,
    },
    Thinking {
        thinking: Cow<'a, str>,
        signature: Cow<'a, str>,
    },
    RedactedThinking {
        data: Cow<'a, str>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Box<RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a RawValue>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<MessagesContent<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a RawValue>,
    },
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum MessagesSource<'a> {
    Base64 { media_type: Cow<'a, str>, data: Cow<'a, str> },
    Url { url: Cow<'a, str> },
    Text { media_type: &'static str, data: String },
}

/// A function, or a tool of Anthropic's own (`web_search_20250305`) as it came.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum MessagesTool<'a> {
    Function {
        name: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<Cow<'a, str>>,
        input_schema: Cow<'a, RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        strict: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<&'a RawValue>,
    },
    Raw(&'a RawValue),
}

#[derive(Serialize)]
pub(crate) struct MessagesToolChoice<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disable_parallel_tool_use: Option<bool>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum MessagesThinking<'a> {
    Budget {
        #[serde(rename = "type")]
        kind: &'static str,
        budget_tokens: u64,
    },
    Adaptive {
        #[serde(rename = "type")]
        kind: &'static str,
    },
    Raw(&'a RawValue),
}

#[derive(Default, Serialize)]
pub(crate) struct MessagesOutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) format: Option<MessagesOutputFormat<'a>>,
}

#[derive(Serialize)]
pub(crate) struct MessagesOutputFormat<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) schema: &'a RawValue,
}

#[derive(Serialize)]
pub(crate) struct MessagesMetadata<'a> {
    pub(crate) user_id: Cow<'a, str>,
}
