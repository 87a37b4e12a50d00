//! OpenAI's chat completion requests as they are read. Fields whose form varies stay raw, and everything unknown
//! is left out: this is read only to translate into another dialect.

use super::JsonStr;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(crate) struct ChatRequest<'a> {
    #[serde(borrow)]
    pub(crate) messages: Vec<ChatMessage<'a>>,
    #[serde(borrow)]
    pub(crate) model: Option<JsonStr<'a>>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) max_completion_tokens: Option<u64>,
    #[serde(borrow)]
    pub(crate) stop: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) temperature: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) top_p: Option<&'a RawValue>,
    pub(crate) n: Option<u64>,
    #[serde(borrow)]
    pub(crate) tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(crate) tool_choice: Option<&'a RawValue>,
    pub(crate) parallel_tool_calls: Option<bool>,
    #[serde(borrow)]
    pub(crate) functions: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) response_format: Option<ResponseFormat<'a>>,
    #[serde(borrow)]
    pub(crate) reasoning_effort: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) user: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) safety_identifier: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) service_tier: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) modalities: Option<Vec<JsonStr<'a>>>,
    #[serde(borrow)]
    pub(crate) audio: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) web_search_options: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) moderation: Option<&'a RawValue>,

    // Fields that have no counterpart elsewhere, and no meaning for the answer's content.
    #[serde(borrow)]
    pub(crate) frequency_penalty: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) presence_penalty: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) logit_bias: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) logprobs: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) top_logprobs: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) seed: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) store: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) prediction: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) verbosity: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) prompt_cache_key: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) prompt_cache_options: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) prompt_cache_retention: Option<&'a RawValue>,

    // Anthropic's own, which clients of gateways send beside OpenAI's.
    #[serde(borrow)]
    pub(crate) thinking: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) top_k: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) mcp_servers: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) container: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) context_management: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) cache_control: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) inference_geo: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) speed: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(crate) struct ChatMessage<'a> {
    #[serde(borrow)]
    pub(crate) role: JsonStr<'a>,
    #[serde(borrow)]
    pub(crate) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) name: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) refusal: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) tool_calls: Option<Vec<ToolCall<'a>>>,
    #[serde(borrow)]
    pub(crate) tool_call_id: Option<JsonStr<'a>>,
    /// The result of a tool says that it failed.
    pub(crate) is_error: Option<bool>,
    #[serde(borrow)]
    pub(crate) function_call: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) audio: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) content_blocks: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    pub(crate) cache_control: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(crate) struct ToolCall<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<JsonStr<'a>>,
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) function: Option<ChatFunctionCall<'a>>,
    /// What a provider wants back with the call.
    #[serde(borrow)]
    pub(crate) extra_content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) cache_control: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(crate) struct ChatFunctionCall<'a> {
    #[serde(borrow)]
    pub(crate) name: JsonStr<'a>,
    #[serde(borrow)]
    pub(crate) arguments: Option<JsonStr<'a>>,
}

/// A part of a message's content; which fields are there depends on `kind`.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(crate) struct ChatPart<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: JsonStr<'a>,
    #[serde(borrow)]
    pub(crate) text: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) refusal: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) image_url: Option<Address<'a>>,
    #[serde(borrow)]
    pub(crate) video_url: Option<Address<'a>>,
    #[serde(borrow)]
    pub(crate) input_audio: Option<Audio<'a>>,
    #[serde(borrow)]
    pub(crate) file: Option<File<'a>>,
    /// What a guardrail of Bedrock's is to look at.
    #[serde(borrow, alias = "guard_content", rename = "guardContent")]
    pub(crate) guard: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) cache_control: Option<&'a RawValue>,
}

pub(crate) struct Address<'a> {
    pub(crate) url: JsonStr<'a>,
    pub(crate) detail: Option<JsonStr<'a>>,
    /// The media type, for addresses that do not end in one.
    pub(crate) mime_type: Option<JsonStr<'a>>,
}

/// An object, or the address alone, as Mistral's clients write it (<https://docs.mistral.ai/capabilities/vision/>).
impl<'de: 'a, 'a> Deserialize<'de> for Address<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Spelled<'a> {
            #[serde(borrow)]
            url: JsonStr<'a>,
            #[serde(borrow)]
            detail: Option<JsonStr<'a>>,
            #[serde(borrow)]
            mime_type: Option<JsonStr<'a>>,
        }
        let raw = <&RawValue>::deserialize(d)?;
        if raw.get().starts_with('"') {
            let url = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
            return Ok(Self { url, detail: None, mime_type: None });
        }
        let Spelled { url, detail, mime_type } = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        Ok(Self { url, detail, mime_type })
    }
}

#[derive(Deserialize)]
pub(crate) struct Audio<'a> {
    #[serde(borrow)]
    pub(crate) data: JsonStr<'a>,
    #[serde(borrow)]
    pub(crate) format: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct File<'a> {
    #[serde(borrow)]
    pub(crate) file_data: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) file_id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) file_url: Option<JsonStr<'a>>,
    #[serde(borrow, alias = "file_name")]
    pub(crate) filename: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) mime_type: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(crate) struct ChatTool<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: JsonStr<'a>,
    #[serde(borrow)]
    pub(crate) function: Option<ChatFunction<'a>>,
    #[serde(borrow)]
    pub(crate) cache_control: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(crate) struct ChatFunction<'a> {
    #[serde(borrow)]
    pub(crate) name: JsonStr<'a>,
    #[serde(borrow)]
    pub(crate) description: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(crate) parameters: Option<&'a RawValue>,
    pub(crate) strict: Option<bool>,
    #[serde(borrow)]
    pub(crate) cache_control: Option<&'a RawValue>,
}

/// The object form of `tool_choice`.
#[derive(Deserialize)]
pub(crate) struct ChatToolChoice<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: JsonStr<'a>,
    #[serde(borrow)]
    pub(crate) function: Option<NamedFunction<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct NamedFunction<'a> {
    #[serde(borrow)]
    pub(crate) name: JsonStr<'a>,
}

#[derive(Deserialize)]
pub(crate) struct ResponseFormat<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: JsonStr<'a>,
    #[serde(borrow)]
    pub(crate) json_schema: Option<JsonSchema<'a>>,
}

#[derive(Deserialize)]
pub(crate) struct JsonSchema<'a> {
    #[serde(borrow)]
    pub(crate) name: Option<JsonStr<'a>>,
    pub(crate) strict: Option<bool>,
    #[serde(borrow)]
    pub(crate) schema: Option<&'a RawValue>,
}
