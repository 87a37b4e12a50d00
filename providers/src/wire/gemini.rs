//! Gemini's `generateContent` as it is written and read: the same shapes at the Gemini API and at Vertex AI
//! (<https://ai.google.dev/api/generate-content>). Fields whose form varies stay raw.

use super::JsonStr;
use super::usage::GeminiUsage;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GeminiRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) system_instruction: Option<GeminiContent<'a>>,
    pub(crate) contents: Vec<GeminiContent<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<GeminiTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool_config: Option<GeminiToolConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) safety_settings: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cached_content: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "GenerationConfig::is_empty")]
    pub(crate) generation_config: GenerationConfig<'a>,
}

#[derive(Debug, Serialize)]
pub(crate) struct GeminiContent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    pub(crate) parts: Vec<GeminiPart<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(crate) enum GeminiPart<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Inline {
        inline_data: Blob<'a>,
    },
    File {
        file_data: FileData<'a>,
    },
    Call {
        function_call: GeminiFunctionCall<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<Cow<'a, str>>,
    },
    Result {
        function_response: FunctionResponse<'a>,
    },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Blob<'a> {
    pub(crate) mime_type: Cow<'a, str>,
    pub(crate) data: Cow<'a, str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mime_type: Option<Cow<'a, str>>,
    pub(crate) file_uri: Cow<'a, str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct GeminiFunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Cow<'a, str>>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) args: Box<RawValue>,
}

#[derive(Debug, Serialize)]
pub(crate) struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<Cow<'a, str>>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) response: Box<RawValue>,
    /// Media of a result, which the JSON of it cannot hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<GeminiPart<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub(crate) enum GeminiTool<'a> {
    Functions {
        function_declarations: Vec<GeminiFunctionDeclaration<'a>>,
    },
    /// A tool of Google's own.
    Own(Box<RawValue>),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GeminiFunctionDeclaration<'a> {
    pub(crate) name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parameters_json_schema: Option<&'a RawValue>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GeminiToolConfig<'a> {
    pub(crate) function_calling_config: CallingConfig<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallingConfig<'a> {
    pub(crate) mode: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) allowed_function_names: Vec<Cow<'a, str>>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) candidate_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) temperature: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) top_p: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) top_k: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) seed: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) presence_penalty: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) frequency_penalty: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) stop_sequences: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) response_json_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking_config: Option<ThinkingConfig>,
}

impl GenerationConfig<'_> {
    /// Nothing is set, so that the object itself can be left out.
    fn is_empty(&self) -> bool {
        let raw = [self.temperature, self.top_p, self.top_k, self.seed, self.presence_penalty, self.frequency_penalty];
        self.max_output_tokens.or(self.candidate_count).is_none()
            && raw.iter().all(Option::is_none)
            && self.stop_sequences.is_empty()
            && self.response_mime_type.is_none()
            && self.response_json_schema.is_none()
            && self.thinking_config.is_none()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ThinkingConfig {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) include_thoughts: bool,
    /// Tokens; 0 turns thinking off, -1 leaves it to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking_budget: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking_level: Option<&'static str>,
}

/// An answer, or one event of a stream: both have the same form.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GeminiResponse<'a> {
    #[serde(borrow)]
    pub(crate) candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow)]
    pub(crate) prompt_feedback: Option<Feedback<'a>>,
    pub(crate) usage_metadata: Option<GeminiUsage>,
    #[serde(borrow)]
    pub(crate) model_version: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) response_id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) error: Option<&'a RawValue>,
}

/// Why nothing was generated at all.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Feedback<'a> {
    #[serde(borrow)]
    pub(crate) block_reason: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Candidate<'a> {
    #[serde(default)]
    pub(crate) index: u64,
    #[serde(borrow)]
    pub(crate) content: Option<CandidateContent<'a>>,
    #[serde(borrow)]
    pub(crate) finish_reason: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) grounding_metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct CandidateContent<'a> {
    #[serde(borrow)]
    pub(crate) parts: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SaidPart<'a> {
    #[serde(borrow)]
    pub(crate) text: Option<JsonStr<'a>>,
    #[serde(default)]
    pub(crate) thought: bool,
    #[serde(borrow)]
    pub(crate) thought_signature: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) function_call: Option<CandidateFunctionCall<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct CandidateFunctionCall<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) name: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) args: Option<&'a RawValue>,
}
