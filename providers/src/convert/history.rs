//! What a client of chat brings back of an earlier answer: blocks with opaque texts, and calls of tools with their
//! arguments. It knows chat's dialect and no provider's.

use super::request::refused;
use crate::opaque::{self, Opened};
use crate::wire::JsonStr;
use crate::wire::chat::ToolCall;
use gateway_domain::Fault;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A block of `content_blocks`; merged deltas of a stream may lack its type.
#[derive(Deserialize)]
pub(super) struct Carried<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Option<JsonStr<'a>>,
    /// Around the merged deltas of a stream.
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) text: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(super) signature: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(super) data: Option<JsonStr<'a>>,
    /// Input of the provider's own tool as it was streamed.
    #[serde(borrow)]
    pub(super) partial_json: Option<JsonStr<'a>>,
}

impl<'a> Carried<'a> {
    /// The block of message `i`, out of the delta around it, with the JSON that it stands in.
    pub(super) fn read(raw: &'a RawValue, i: usize, j: usize) -> Result<(&'a RawValue, Self), Fault> {
        let read = |raw: &'a RawValue| {
            let wrong = |e| refused(format!("messages[{i}].content_blocks[{j}]"), format!("is no content block: {e}"));
            serde_json::from_str::<Self>(raw.get()).map_err(wrong)
        };
        let outer = read(raw)?;
        match outer.delta {
            Some(inner) => Ok((inner, read(inner)?)),
            None => Ok((raw, outer)),
        }
    }
}

/// What an opaque text says, unless another credential made it.
pub(super) fn own(origin: u64, text: JsonStr<'_>) -> Option<Cow<'_, str>> {
    match opaque::open(origin, text.0) {
        Opened::Own(_, text) | Opened::Bare(text) => Some(text).filter(|text| !text.is_empty()),
        Opened::Foreign => None,
    }
}

/// A call of a function, its arguments an object.
pub(super) struct ParsedFunctionCall<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) name: Cow<'a, str>,
    pub(super) input: Box<RawValue>,
}

impl<'a> ParsedFunctionCall<'a> {
    /// Call `j` of message `i`.
    pub(super) fn read(call: &ToolCall<'a>, i: usize, j: usize) -> Result<Self, Fault> {
        let at = |rest: &str| format!("messages[{i}].tool_calls[{j}]{rest}");
        if call.kind.as_ref().is_some_and(|kind| kind.0 != "function") {
            return Err(refused(at(".type"), "must be function"));
        }
        let function = call.function.as_ref().ok_or_else(|| refused(at(".function"), "is needed"))?;
        let id = call.id.as_ref().ok_or_else(|| refused(at(".id"), "is needed"))?;
        let arguments = function.arguments.as_ref().map_or("", |a| a.0.trim());
        let input = match arguments {
            "" => owned("{}"),
            // The bytes of the arguments are kept: they are part of the prompt that upstream may have cached.
            object if object.starts_with('{') => RawValue::from_string(object.to_owned())
                .map_err(|e| refused(at(".function.arguments"), format!("is no JSON: {e}")))?,
            _ => return Err(refused(at(".function.arguments"), "must be a JSON object")),
        };
        Ok(Self { id: id.0.clone(), name: function.name.0.clone(), input })
    }
}

/// Raw JSON that is known to be valid.
pub(super) fn owned(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
