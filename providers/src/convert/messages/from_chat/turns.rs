//! The conversation: system messages are gathered, tool results become turns of the user, and the thinking that
//! an earlier answer carried in `content_blocks` goes back as it came, signatures included.

use super::parts::part;
use crate::convert::history::{Carried, ParsedFunctionCall, own};
use crate::convert::request::{self, Adjusted, PartPosition, refused};
use crate::edit;
use crate::wire::chat::{ChatMessage, ToolCall};
use crate::wire::messages::{MessagesContent, MessagesInputBlock, MessagesTurn, MessagesTypedBlock};
use crate::wire::{JsonStr, speaks};
use bytes::Bytes;
use gateway_domain::Fault;
use serde_json::value::RawValue;
use std::borrow::Cow;

pub(super) struct Conversation<'a> {
    pub(super) system: Option<MessagesContent<'a>>,
    pub(super) turns: Vec<MessagesTurn<'a>>,
    /// It ends in tool results, and the turn that called the tools shows no thinking.
    pub(super) bare_tool_turn: bool,
}

impl Conversation<'_> {
    /// Tells the model one thing more.
    pub(super) fn instruct(&mut self, text: &'static str) {
        let mut parts = match self.system.take() {
            None => Vec::new(),
            Some(MessagesContent::Text(text)) => {
                vec![MessagesInputBlock::Made(MessagesTypedBlock::Text { text, cache_control: None })]
            }
            Some(MessagesContent::Blocks(parts)) => parts,
        };
        parts.push(MessagesInputBlock::Made(MessagesTypedBlock::Text { text: text.into(), cache_control: None }));
        self.system = system_of(parts);
    }
}

/// `origin` is that of the credential, to which alone its opaque blocks go back.
pub(super) fn conversation<'a>(
    messages: &[ChatMessage<'a>],
    origin: u64,
    adjusted: &mut Adjusted,
) -> Result<Conversation<'a>, Fault> {
    let mut system = Vec::new();
    let mut turns: Vec<MessagesTurn<'a>> = Vec::new();
    let (mut in_results, mut bare) = (false, false);
    for (i, message) in messages.iter().enumerate() {
        if message.name.is_some() {
            adjusted.note("messages.name");
        }
        let role = &*message.role.0;
        match role {
            "system" | "developer" => system.extend(blocks(message, i, adjusted)?),
            "user" => {
                let content = content(message.content, message.cache_control, i, adjusted)?;
                turns.push(MessagesTurn { role: "user", content });
            }
            "assistant" => {
                let (content, thinks) = answer(message, i, origin, adjusted)?;
                bare = !thinks && message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
                if !content.is_empty() {
                    turns.push(MessagesTurn { role: "assistant", content: MessagesContent::Blocks(content) });
                }
            }
            "tool" => {
                let result = result(message, i, adjusted)?;
                match turns.last_mut() {
                    // All results of one turn of calls belong into one turn of the user.
                    Some(MessagesTurn { content: MessagesContent::Blocks(results), .. }) if in_results => {
                        results.push(result)
                    }
                    _ => turns.push(MessagesTurn { role: "user", content: MessagesContent::Blocks(vec![result]) }),
                }
            }
            _ => {
                return Err(refused(
                    format!("messages[{i}].role"),
                    "must be system, developer, user, assistant or tool",
                ));
            }
        }
        in_results = role == "tool";
    }
    trim_prefill(&mut turns);
    Ok(Conversation { system: system_of(system), turns, bare_tool_turn: in_results && bare })
}

fn system_of(mut parts: Vec<MessagesInputBlock<'_>>) -> Option<MessagesContent<'_>> {
    match parts.as_mut_slice() {
        [] => None,
        [MessagesInputBlock::Made(MessagesTypedBlock::Text { text, cache_control: None })] => {
            Some(MessagesContent::Text(std::mem::take(text)))
        }
        _ => Some(MessagesContent::Blocks(parts)),
    }
}

/// Content as blocks, empty text left out, with the message's own `cache_control` on the last one.
fn blocks<'a>(
    message: &ChatMessage<'a>,
    i: usize,
    adjusted: &mut Adjusted,
) -> Result<Vec<MessagesInputBlock<'a>>, Fault> {
    Ok(match content(message.content, message.cache_control, i, adjusted)? {
        MessagesContent::Text(text) if text.is_empty() => Vec::new(),
        MessagesContent::Text(text) => {
            vec![MessagesInputBlock::Made(MessagesTypedBlock::Text { text, cache_control: None })]
        }
        MessagesContent::Blocks(parts) => parts,
    })
}

/// Content as it came, a string or parts; a string that is to be marked has to be a part.
fn content<'a>(
    raw: Option<&'a RawValue>,
    cache_control: Option<&'a RawValue>,
    i: usize,
    adjusted: &mut Adjusted,
) -> Result<MessagesContent<'a>, Fault> {
    let mut all = Vec::new();
    match raw {
        None => {}
        Some(raw) if raw.get().starts_with('"') => {
            let text = string(raw, i)?.0;
            if cache_control.is_none() || text.is_empty() {
                return Ok(MessagesContent::Text(text));
            }
            all.push(MessagesInputBlock::Made(MessagesTypedBlock::Text { text, cache_control }));
        }
        Some(raw) => {
            let parts: Vec<&'a RawValue> = serde_json::from_str(raw.get())
                .map_err(|_| refused(format!("messages[{i}].content"), "must be a string or an array of parts"))?;
            for (j, raw) in parts.into_iter().enumerate() {
                all.extend(part(raw, PartPosition { message: i, part: j }, adjusted)?);
            }
            mark(&mut all, cache_control);
        }
    }
    Ok(MessagesContent::Blocks(all))
}

fn string(raw: &RawValue, i: usize) -> Result<JsonStr<'_>, Fault> {
    serde_json::from_str(raw.get()).map_err(|e| refused(format!("messages[{i}].content"), e))
}

fn mark<'a>(parts: &mut [MessagesInputBlock<'a>], mark: Option<&'a RawValue>) {
    let Some(MessagesInputBlock::Made(last)) = parts.last_mut() else { return };
    match last {
        MessagesTypedBlock::Text { cache_control, .. }
        | MessagesTypedBlock::Image { cache_control, .. }
        | MessagesTypedBlock::Document { cache_control, .. }
        | MessagesTypedBlock::ToolUse { cache_control, .. }
        | MessagesTypedBlock::ToolResult { cache_control, .. } => *cache_control = cache_control.or(mark),
        MessagesTypedBlock::Thinking { .. } | MessagesTypedBlock::RedactedThinking { .. } => {}
    }
}

/// An earlier answer: thinking, text, tool calls. Also says whether it shows thinking.
fn answer<'a>(
    message: &ChatMessage<'a>,
    i: usize,
    origin: u64,
    adjusted: &mut Adjusted,
) -> Result<(Vec<MessagesInputBlock<'a>>, bool), Fault> {
    request::refuse_kept_elsewhere(message, i)?;
    let calls = message.tool_calls.as_deref().unwrap_or_default();
    let CarriedBlocks { parts: mut all, text_told, thinks } = carried(message, i, origin, adjusted)?;
    if !thinks && speaks(message.reasoning_content) {
        // Without its signature Anthropic takes no thinking back; it forgets earlier turns' thinking anyway.
        adjusted.note("messages.reasoning_content");
    }
    if !text_told {
        all.extend(blocks(message, i, adjusted)?);
        if let Some(refusal) = message.refusal.as_ref().filter(|r| !r.0.is_empty()) {
            all.push(MessagesInputBlock::Made(MessagesTypedBlock::Text {
                text: refusal.0.clone(),
                cache_control: None,
            }));
        }
    }
    for (j, call) in calls.iter().enumerate() {
        all.push(MessagesInputBlock::Made(called(call, i, j)?));
    }
    mark(&mut all, message.cache_control);
    Ok((all, thinks))
}

/// Blocks that an earlier answer carried beside its text.
struct CarriedBlocks<'a> {
    parts: Vec<MessagesInputBlock<'a>>,
    /// Whether text was among them.
    text_told: bool,
    thinks: bool,
}

fn carried<'a>(
    message: &ChatMessage<'a>,
    i: usize,
    origin: u64,
    adjusted: &mut Adjusted,
) -> Result<CarriedBlocks<'a>, Fault> {
    let keep_calls = message.tool_calls.as_ref().is_none_or(Vec::is_empty);
    let (mut all, mut text_told, mut thinks) = (Vec::new(), false, false);
    for (j, raw) in message.content_blocks.iter().flatten().enumerate() {
        let field = || format!("messages[{i}].content_blocks[{j}]");
        let (raw, block) = Carried::read(raw, i, j)?;
        match (block.kind.as_ref().map(|k| &*k.0), block.thinking, block.signature, block.data, block.text) {
            (Some("thinking") | None, Some(thinking), Some(signature), ..) => match own(origin, signature) {
                Some(signature) => {
                    thinks = true;
                    all.push(MessagesInputBlock::Made(MessagesTypedBlock::Thinking {
                        thinking: thinking.0,
                        signature,
                    }));
                }
                None => adjusted.note("messages.content_blocks"),
            },
            (Some("redacted_thinking") | None, _, _, Some(data), _) => match own(origin, data) {
                Some(data) => {
                    thinks = true;
                    all.push(MessagesInputBlock::Made(MessagesTypedBlock::RedactedThinking { data }));
                }
                None => adjusted.note("messages.content_blocks"),
            },
            (Some("text") | None, .., Some(text)) => {
                text_told = true;
                if !text.0.is_empty() {
                    all.push(MessagesInputBlock::Made(MessagesTypedBlock::Text { text: text.0, cache_control: None }));
                }
            }
            (Some("thinking" | "redacted_thinking" | "text") | None, ..) => adjusted.note("messages.content_blocks"),
            (Some("tool_use"), ..) if !keep_calls => {}
            _ => all.push(match block.partial_json {
                Some(input) => MessagesInputBlock::Rebuilt(
                    with_input(raw, &input.0).ok_or_else(|| refused(field(), "is incomplete"))?,
                ),
                None => MessagesInputBlock::Raw(raw),
            }),
        }
    }
    Ok(CarriedBlocks { parts: all, text_told, thinks })
}

/// The block with its streamed input in place.
fn with_input(raw: &RawValue, input: &str) -> Option<Box<RawValue>> {
    let raw = Bytes::copy_from_slice(raw.get().as_bytes());
    let whole = edit::set_top_level(&raw, &[("partial_json", None), ("input", Some(input))]).ok()?;
    RawValue::from_string(String::from_utf8(whole.to_vec()).ok()?).ok()
}

fn called<'a>(call: &ToolCall<'a>, i: usize, j: usize) -> Result<MessagesTypedBlock<'a>, Fault> {
    let ParsedFunctionCall { id, name, input } = ParsedFunctionCall::read(call, i, j)?;
    Ok(MessagesTypedBlock::ToolUse { id: tool_id(id), name, input, cache_control: call.cache_control })
}

fn result<'a>(message: &ChatMessage<'a>, i: usize, adjusted: &mut Adjusted) -> Result<MessagesInputBlock<'a>, Fault> {
    let id = message.tool_call_id.as_ref();
    let id = id.ok_or_else(|| refused(format!("messages[{i}].tool_call_id"), "is needed"))?;
    let content = match content(message.content, None, i, adjusted)? {
        MessagesContent::Text(text) if text.is_empty() => None,
        MessagesContent::Blocks(parts) if parts.is_empty() => None,
        content => Some(content),
    };
    let tool_use_id = tool_id(id.0.clone());
    Ok(MessagesInputBlock::Made(MessagesTypedBlock::ToolResult {
        tool_use_id,
        content,
        cache_control: message.cache_control,
    }))
}

/// Anthropic takes letters, digits, `_` and `-`; ids that other providers made hold more.
fn tool_id(id: Cow<'_, str>) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if id.chars().all(fits) { id } else { id.chars().map(|c| if fits(c) { c } else { '_' }).collect::<String>().into() }
}

/// An answer to be continued must not end in space.
fn trim_prefill(turns: &mut [MessagesTurn<'_>]) {
    let Some(MessagesTurn { role: "assistant", content: MessagesContent::Blocks(parts) }) = turns.last_mut() else {
        return;
    };
    if let Some(MessagesInputBlock::Made(MessagesTypedBlock::Text { text, .. })) = parts.last_mut() {
        let kept = text.trim_end().len();
        match text {
            Cow::Borrowed(borrowed) => *borrowed = &borrowed[..kept],
            Cow::Owned(owned) => owned.truncate(kept),
        }
    }
}
