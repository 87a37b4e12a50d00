//! The conversation, message by message: Cohere's roles are chat's, its parts are text and images.

use crate::convert::request::{self, Adjusted, EarlierCall, PartPosition, refused};
use crate::wire::chat;
use crate::wire::cohere::{CohereFunctionCall, CohereMessage, CoherePart, CohereToolCall, ImageUrl};
use crate::wire::{JsonStr, read};
use gateway_domain::Fault;
use serde_json::value::RawValue;
use std::borrow::Cow;

pub(super) fn turns<'a>(
    messages: &[chat::ChatMessage<'a>],
    adjusted: &mut Adjusted,
) -> Result<Vec<CohereMessage<'a>>, Fault> {
    let mut out = Vec::with_capacity(messages.len());
    for (i, message) in messages.iter().enumerate() {
        if message.name.is_some() && message.role.0 != "tool" {
            adjusted.note("messages.name");
        }
        if message.cache_control.is_some() {
            adjusted.note("cache_control");
        }
        out.push(match &*message.role.0 {
            "system" | "developer" => {
                CohereMessage::System { content: text_only(content(message.content, i, adjusted)?, i)? }
            }
            "user" => CohereMessage::User { content: content(message.content, i, adjusted)? },
            "assistant" => assistant(message, i, adjusted)?,
            "tool" => {
                let id = message.tool_call_id.as_ref();
                let id = id.ok_or_else(|| refused(format!("messages[{i}].tool_call_id"), "is needed"))?;
                let content = text_only(content(message.content, i, adjusted)?, i)?;
                CohereMessage::Tool { tool_call_id: id.0.clone(), content }
            }
            _ => {
                let rule = "must be system, developer, user, assistant or tool";
                return Err(refused(format!("messages[{i}].role"), rule));
            }
        });
    }
    Ok(out)
}

/// What the model planned beside its calls goes back as its plan; other reasoning is for readers.
fn assistant<'a>(
    message: &chat::ChatMessage<'a>,
    i: usize,
    adjusted: &mut Adjusted,
) -> Result<CohereMessage<'a>, Fault> {
    request::refuse_kept_elsewhere(message, i)?;
    if message.content_blocks.as_ref().is_some_and(|blocks| !blocks.is_empty()) {
        adjusted.note("messages.content_blocks");
    }
    let mut parts = text_only(content(message.content, i, adjusted)?, i)?;
    if let Some(refusal) = message.refusal.as_ref().filter(|r| !r.0.is_empty()) {
        parts.push(CoherePart::Text { text: refusal.0.clone() });
    }
    let mut tool_calls = Vec::new();
    for (j, call) in message.tool_calls.iter().flatten().enumerate() {
        let at = |rest: &str| format!("messages[{i}].tool_calls[{j}]{rest}");
        let EarlierCall { id, function } = EarlierCall::of(call, &at)?;
        let arguments = function.arguments.as_ref().map_or(Cow::Borrowed("{}"), |a| a.0.clone());
        let function = CohereFunctionCall { name: function.name.0.clone(), arguments };
        tool_calls.push(CohereToolCall { id: id.clone(), kind: "function", function });
    }
    let reasoning = message.reasoning_content.and_then(|raw| read::<JsonStr<'a>>(raw.get().as_bytes()));
    let reasoning = reasoning.map(|text| text.0).filter(|text| !text.is_empty());
    if reasoning.is_some() && tool_calls.is_empty() {
        adjusted.note("messages.reasoning_content");
    }
    let tool_plan = reasoning.filter(|_| !tool_calls.is_empty());
    Ok(CohereMessage::Assistant { content: parts, tool_plan, tool_calls })
}

fn text_only(parts: Vec<CoherePart<'_>>, i: usize) -> Result<Vec<CoherePart<'_>>, Fault> {
    if parts.iter().any(|part| matches!(part, CoherePart::ImageUrl { .. })) {
        return Err(refused(format!("messages[{i}].content"), "may hold images in messages of the user only"));
    }
    Ok(parts)
}

/// Content as parts, empty text left out.
fn content<'a>(raw: Option<&'a RawValue>, i: usize, adjusted: &mut Adjusted) -> Result<Vec<CoherePart<'a>>, Fault> {
    request::content(raw, i, |text| CoherePart::Text { text }, |raw, place| part(raw, place, adjusted))
}

fn part<'a>(raw: &'a RawValue, place: PartPosition, adjusted: &mut Adjusted) -> Result<Option<CoherePart<'a>>, Fault> {
    let part = place.read(raw)?;
    adjusted.note_if("cache_control", part.cache_control.is_some());
    match &*part.kind.0 {
        "text" | "input_text" | "refusal" => {
            let text = place.needed(part.text.or(part.refusal), ".text")?.0;
            Ok((!text.is_empty()).then_some(CoherePart::Text { text }))
        }
        "image_url" => {
            let image = place.needed(part.image_url, ".image_url")?;
            let detail = image.detail.map(|d| d.0);
            Ok(Some(CoherePart::ImageUrl { image_url: ImageUrl { url: image.url.0, detail } }))
        }
        _ => Err(refused(place.field(".type"), "must be text or image_url: Cohere's chat takes no files and no audio")),
    }
}
