//! The conversation: system messages are gathered, results of tools become turns of the user, turns of one role become
//! one, and the reasoning of an earlier answer goes back to the credential that it was made for.

use super::parts::{cache_point, part};
use crate::convert::history::{Carried, ParsedFunctionCall, own, owned};
use crate::convert::request::{self, Adjusted, PartPosition, refused};
use crate::wire::chat::ChatMessage;
use crate::wire::converse::{ConverseBlock, ConverseMessage, ConverseReasoning, ToolResult, ToolUse};
use crate::wire::{JsonStr, speaks};
use gateway_domain::Fault;
use serde_json::value::RawValue;
use std::borrow::Cow;

pub(super) struct ConverseTurns<'a> {
    pub(super) system: Vec<ConverseBlock<'a>>,
    pub(super) turns: Vec<ConverseMessage<'a>>,
    /// Names of the tools that were called, each once.
    pub(super) called: Vec<Cow<'a, str>>,
    /// It ends in tool results, and the turn that called the tools shows no thinking.
    pub(super) bare_tool_turn: bool,
}

pub(super) fn conversation<'a>(
    messages: &[ChatMessage<'a>],
    origin: u64,
    adjusted: &mut Adjusted,
) -> Result<ConverseTurns<'a>, Fault> {
    let mut out = ConverseTurns { system: Vec::new(), turns: Vec::new(), called: Vec::new(), bare_tool_turn: false };
    let mut bare = false;
    for (i, message) in messages.iter().enumerate() {
        if message.name.is_some() && message.role.0 != "tool" {
            adjusted.note("messages.name");
        }
        let role = &*message.role.0;
        match role {
            "system" | "developer" => out.system.extend(marked(message, i, adjusted)?),
            "user" => push(&mut out.turns, "user", marked(message, i, adjusted)?),
            "assistant" => {
                let (blocks, thinks) = answer(message, i, origin, &mut out.called, adjusted)?;
                bare = !thinks && message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
                push(&mut out.turns, "assistant", blocks);
            }
            "tool" => {
                let mut blocks = vec![result(message, i, adjusted)?];
                mark(&mut blocks, message);
                push(&mut out.turns, "user", blocks);
            }
            _ => {
                let rule = "must be system, developer, user, assistant or tool";
                return Err(refused(format!("messages[{i}].role"), rule));
            }
        }
        out.bare_tool_turn = role == "tool" && bare;
    }
    make_document_names_unique(&mut out.turns);
    Ok(out)
}

/// Roles take turns: what one says in a row is one turn.
fn push<'a>(turns: &mut Vec<ConverseMessage<'a>>, role: &'static str, blocks: Vec<ConverseBlock<'a>>) {
    match turns.last_mut() {
        _ if blocks.is_empty() => {}
        Some(last) if last.role == role => last.content.extend(blocks),
        _ => turns.push(ConverseMessage { role, content: blocks }),
    }
}

/// No two documents of a request may have one name.
fn make_document_names_unique(turns: &mut [ConverseMessage<'_>]) {
    let mut taken = std::collections::HashSet::new();
    for block in turns.iter_mut().flat_map(|turn| &mut turn.content) {
        let inner: &mut [ConverseBlock<'_>] = match block {
            ConverseBlock::ToolResult(result) => &mut result.content,
            other => std::slice::from_mut(other),
        };
        for block in inner {
            let ConverseBlock::Document(document) = block else { continue };
            let mut number = 2;
            let stem = document.name.clone();
            while !taken.insert(document.name.clone()) {
                document.name = format!("{stem} {number}");
                number += 1;
            }
        }
    }
}

fn mark<'a>(blocks: &mut Vec<ConverseBlock<'a>>, message: &ChatMessage<'a>) {
    if !blocks.is_empty() {
        blocks.extend(message.cache_control.and_then(cache_point).map(ConverseBlock::CachePoint));
    }
}

fn marked<'a>(message: &ChatMessage<'a>, i: usize, adjusted: &mut Adjusted) -> Result<Vec<ConverseBlock<'a>>, Fault> {
    let mut blocks = content(message.content, i, adjusted)?;
    mark(&mut blocks, message);
    Ok(blocks)
}

/// Content as blocks, text that says nothing left out.
fn content<'a>(raw: Option<&'a RawValue>, i: usize, adjusted: &mut Adjusted) -> Result<Vec<ConverseBlock<'a>>, Fault> {
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(Vec::new()) };
    if raw.get().starts_with('"') {
        let text: JsonStr<'a> =
            serde_json::from_str(raw.get()).map_err(|e| refused(format!("messages[{i}].content"), e))?;
        return Ok(if text.0.trim().is_empty() { Vec::new() } else { vec![ConverseBlock::Text(text.0)] });
    }
    let given: Vec<&'a RawValue> = serde_json::from_str(raw.get())
        .map_err(|_| refused(format!("messages[{i}].content"), "must be a string or an array of parts"))?;
    let mut blocks = Vec::with_capacity(given.len());
    for (j, raw) in given.into_iter().enumerate() {
        part(raw, PartPosition { message: i, part: j }, adjusted, &mut blocks)?;
    }
    Ok(blocks)
}

/// An earlier answer: reasoning, text, calls. Also says whether it shows reasoning.
fn answer<'a>(
    message: &ChatMessage<'a>,
    i: usize,
    origin: u64,
    called: &mut Vec<Cow<'a, str>>,
    adjusted: &mut Adjusted,
) -> Result<(Vec<ConverseBlock<'a>>, bool), Fault> {
    request::refuse_kept_elsewhere(message, i)?;
    let (mut blocks, text_told) = carried(message, i, origin, adjusted)?;
    let thinks = blocks.iter().any(|block| matches!(block, ConverseBlock::ReasoningContent(_)));
    if !thinks && speaks(message.reasoning_content) {
        // Without its signature no model takes reasoning back.
        adjusted.note("messages.reasoning_content");
    }
    if !text_told {
        blocks.extend(content(message.content, i, adjusted)?);
        if let Some(refusal) = message.refusal.as_ref().filter(|r| !r.0.trim().is_empty()) {
            blocks.push(ConverseBlock::Text(refusal.0.clone()));
        }
    }
    for (j, call) in message.tool_calls.iter().flatten().enumerate() {
        let ParsedFunctionCall { id, name, input } = ParsedFunctionCall::read(call, i, j)?;
        if !called.contains(&name) {
            called.push(name.clone());
        }
        blocks.push(ConverseBlock::ToolUse(ToolUse { tool_use_id: tool_id(id), name, input }));
    }
    mark(&mut blocks, message);
    Ok((blocks, thinks))
}

/// Blocks that an earlier answer carried beside its text; whether text was among them.
fn carried<'a>(
    message: &ChatMessage<'a>,
    i: usize,
    origin: u64,
    adjusted: &mut Adjusted,
) -> Result<(Vec<ConverseBlock<'a>>, bool), Fault> {
    let (mut all, mut text_told) = (Vec::new(), false);
    for (j, raw) in message.content_blocks.iter().flatten().enumerate() {
        let (_, block) = Carried::read(raw, i, j)?;
        match (block.kind.as_ref().map(|k| &*k.0), block.thinking, block.signature, block.data, block.text) {
            (Some("thinking") | None, Some(thinking), Some(signature), ..) => match own(origin, signature) {
                Some(signature) => {
                    all.push(ConverseBlock::ReasoningContent(ConverseReasoning::ReasoningText {
                        text: thinking.0,
                        signature,
                    }));
                }
                None => adjusted.note("messages.content_blocks"),
            },
            (Some("redacted_thinking") | None, _, _, Some(data), _) => match own(origin, data) {
                Some(data) => all.push(ConverseBlock::ReasoningContent(ConverseReasoning::RedactedContent(data))),
                None => adjusted.note("messages.content_blocks"),
            },
            (Some("text") | None, .., Some(text)) => {
                text_told = true;
                if !text.0.trim().is_empty() {
                    all.push(ConverseBlock::Text(text.0));
                }
            }
            (Some("tool_use"), ..) if message.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty()) => {}
            _ => adjusted.note("messages.content_blocks"),
        }
    }
    Ok((all, text_told))
}

fn result<'a>(message: &ChatMessage<'a>, i: usize, adjusted: &mut Adjusted) -> Result<ConverseBlock<'a>, Fault> {
    let id = message.tool_call_id.as_ref();
    let id = id.ok_or_else(|| refused(format!("messages[{i}].tool_call_id"), "is needed"))?;
    let mut content = content(message.content, i, adjusted)?;
    // A mark belongs behind the result, and stands nowhere inside.
    content.retain(|block| !matches!(block, ConverseBlock::CachePoint(_)));
    if content.is_empty() {
        content.push(ConverseBlock::Json(Cow::Owned(owned("{}"))));
    }
    let status = message.is_error.filter(|failed| *failed).map(|_| "error");
    Ok(ConverseBlock::ToolResult(ToolResult { tool_use_id: tool_id(id.0.clone()), content, status }))
}

/// Up to 64 letters, digits, `_` and `-`; ids that other providers made hold more. Of a longer one its end tells it
/// apart.
fn tool_id(id: Cow<'_, str>) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if id.len() <= 64 && id.chars().all(fits) {
        return id;
    }
    let made: String = id.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    made[made.len().saturating_sub(64)..].to_owned().into()
}
