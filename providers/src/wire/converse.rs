//! Shapes of Bedrock's Converse API
//! (<https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>): what it wants, and what it
//! answers. Objects with one member of many are tagged unions; they are written as the enums that they are.

use super::JsonStr;
use super::usage::ConverseUsage;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConverseRequest<'a> {
    pub(crate) messages: Vec<ConverseMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) system: Vec<ConverseBlock<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) inference_config: Option<Inference<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_config: Option<ToolConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_config: Option<ConverseOutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) additional_model_request_fields: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_metadata: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) service_tier: Option<Typed<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) guardrail_config: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) performance_config: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prompt_variables: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) additional_model_response_field_paths: Option<&'a RawValue>,
}

#[derive(Serialize)]
pub(crate) struct Typed<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: Cow<'a, str>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Inference<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) temperature: Option<Cow<'a, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) top_p: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) stop_sequences: Vec<Cow<'a, str>>,
}

impl Inference<'_> {
    pub(crate) fn says(&self) -> bool {
        self.max_tokens.is_some()
            || self.temperature.is_some()
            || self.top_p.is_some()
            || !self.stop_sequences.is_empty()
    }
}

#[derive(Serialize)]
pub(crate) struct ConverseMessage<'a> {
    pub(crate) role: &'static str,
    pub(crate) content: Vec<ConverseBlock<'a>>,
}

/// A block of a message, of a tool's result or of the system's instructions.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ConverseBlock<'a> {
    Text(Cow<'a, str>),
    Json(Cow<'a, RawValue>),
    Image(Media<'a>),
    Video(Media<'a>),
    Audio(Media<'a>),
    Document(Document<'a>),
    ToolUse(ToolUse<'a>),
    ToolResult(ToolResult<'a>),
    ReasoningContent(ConverseReasoning<'a>),
    CachePoint(CachePoint<'a>),
    GuardContent(&'a RawValue),
}

#[derive(Serialize)]
pub(crate) struct Media<'a> {
    pub(crate) format: Cow<'a, str>,
    pub(crate) source: ConverseSource<'a>,
}

#[derive(Serialize)]
pub(crate) struct Document<'a> {
    pub(crate) format: &'static str,
    pub(crate) name: String,
    pub(crate) source: ConverseSource<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ConverseSource<'a> {
    /// Base64.
    Bytes(Cow<'a, str>),
    S3Location {
        uri: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolUse<'a> {
    pub(crate) tool_use_id: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) input: Box<RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolResult<'a> {
    pub(crate) tool_use_id: Cow<'a, str>,
    pub(crate) content: Vec<ConverseBlock<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ConverseReasoning<'a> {
    ReasoningText {
        text: Cow<'a, str>,
        signature: Cow<'a, str>,
    },
    /// Base64.
    RedactedContent(Cow<'a, str>),
}

#[derive(Serialize)]
pub(crate) struct CachePoint<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolConfig<'a> {
    pub(crate) tools: Vec<ConverseTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_choice: Option<ConverseToolChoice<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ConverseTool<'a> {
    ToolSpec(ToolSpec<'a>),
    CachePoint(CachePoint<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolSpec<'a> {
    pub(crate) name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<Cow<'a, str>>,
    pub(crate) input_schema: InputSchema<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) strict: Option<bool>,
}

#[derive(Serialize)]
pub(crate) struct InputSchema<'a> {
    pub(crate) json: Cow<'a, RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ConverseToolChoice<'a> {
    Any {},
    Tool { name: Cow<'a, str> },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConverseOutputConfig<'a> {
    pub(crate) text_format: TextFormat<'a>,
}

#[derive(Serialize)]
pub(crate) struct TextFormat<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) structure: Structure<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Structure<'a> {
    pub(crate) json_schema: Schema<'a>,
}

#[derive(Serialize)]
pub(crate) struct Schema<'a> {
    /// JSON as text.
    pub(crate) schema: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<Cow<'a, str>>,
}

/// A whole answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConverseResponse<'a> {
    #[serde(borrow)]
    pub(crate) output: Output<'a>,
    #[serde(borrow)]
    pub(crate) stop_reason: Option<JsonStr<'a>>,
    pub(crate) usage: Option<ConverseUsage>,
}

#[derive(Deserialize)]
pub(crate) struct Output<'a> {
    #[serde(borrow)]
    pub(crate) message: SaidMessage<'a>,
}

#[derive(Deserialize)]
pub(crate) struct SaidMessage<'a> {
    #[serde(borrow)]
    pub(crate) content: Vec<&'a RawValue>,
}

/// A block of an answer; one member is there.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConverseOutputBlock<'a> {
    #[serde(borrow)]
    pub(crate) text: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) tool_use: Option<SaidCall<'a>>,
    #[serde(borrow)]
    pub(crate) reasoning_content: Option<SaidReasoning<'a>>,
    #[serde(borrow)]
    pub(crate) citations_content: Option<SaidCitations<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SaidCall<'a> {
    #[serde(borrow)]
    pub(crate) tool_use_id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) name: Option<JsonStr<'a>>,
    /// Whole answers only.
    #[serde(borrow)]
    pub(crate) input: Option<&'a RawValue>,
    /// `server_tool_use`: AWS runs it.
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SaidReasoning<'a> {
    #[serde(borrow)]
    pub(crate) reasoning_text: Option<SaidThought<'a>>,
    #[serde(borrow)]
    pub(crate) redacted_content: Option<JsonStr<'a>>,
    // Both stand in a delta, which has no `reasoningText` around them.
    #[serde(borrow)]
    pub(crate) text: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) signature: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct SaidThought<'a> {
    #[serde(borrow)]
    pub(crate) text: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) signature: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct SaidCitations<'a> {
    #[serde(borrow, default)]
    pub(crate) content: Vec<SaidText<'a>>,
    #[serde(default)]
    pub(crate) citations: Vec<Citation>,
}

#[derive(Deserialize)]
pub(crate) struct SaidText<'a> {
    #[serde(borrow)]
    pub(crate) text: Option<JsonStr<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Citation {
    pub(crate) title: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) source_content: Vec<Quoted>,
    pub(crate) location: Option<Location>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Quoted {
    pub(crate) text: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Location {
    Web {
        url: Option<String>,
    },
    DocumentChar(CitationSpan),
    DocumentPage(CitationSpan),
    DocumentChunk(CitationSpan),
    #[serde(rename = "searchResultLocation")]
    SearchResult(CitationSpan),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CitationSpan {
    pub(crate) document_index: u64,
    pub(crate) search_result_index: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// An event of a stream, whose name stands beside it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConverseEvent<'a> {
    #[serde(default)]
    pub(crate) content_block_index: u64,
    #[serde(borrow)]
    pub(crate) start: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) delta: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) stop_reason: Option<JsonStr<'a>>,
    pub(crate) usage: Option<ConverseUsage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Start<'a> {
    #[serde(borrow)]
    pub(crate) tool_use: Option<SaidCall<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConverseDelta<'a> {
    #[serde(borrow)]
    pub(crate) text: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) tool_use: Option<SaidInput<'a>>,
    #[serde(borrow)]
    pub(crate) reasoning_content: Option<SaidReasoning<'a>>,
    pub(crate) citation: Option<Citation>,
}

#[derive(Deserialize)]
pub(crate) struct SaidInput<'a> {
    #[serde(borrow)]
    pub(crate) input: Option<JsonStr<'a>>,
}
