//! The conversation as items: what a turn said is a message, each call that it made an item of its own.

use super::ResponsesRoom;
use crate::convert::request::{self, Adjusted, EarlierCall, PartPosition, refused};
use crate::wire::chat;
use crate::wire::tree::Tree;
use gateway_domain::Fault;
use serde_json::value::RawValue;
use std::borrow::Cow;

pub(super) fn items<'a>(
    messages: &[chat::ChatMessage<'a>],
    room: ResponsesRoom,
    adjusted: &mut Adjusted,
) -> Result<Vec<Tree<'a>>, Fault> {
    let mut out = Vec::with_capacity(messages.len());
    for (i, message) in messages.iter().enumerate() {
        adjusted.note_if("messages.name", message.name.is_some() && message.role.0 != "tool");
        adjusted.note_if("cache_control", message.cache_control.is_some());
        match &*message.role.0 {
            role @ ("system" | "developer" | "user") => {
                let role = match role {
                    "system" => "system",
                    "developer" => "developer",
                    _ => "user",
                };
                let content = content(message.content, (i, room), adjusted)?;
                if role != "user" && content.iter().any(|part| matches!(part, InputPart::Other(_))) {
                    let rule = "may hold images and files in messages of the user only";
                    return Err(refused(format!("messages[{i}].content"), rule));
                }
                out.push(said(role, content));
            }
            "assistant" => assistant(message, (i, room), &mut out, adjusted)?,
            "tool" => {
                let id = message.tool_call_id.as_ref();
                let id = id.ok_or_else(|| refused(format!("messages[{i}].tool_call_id"), "is needed"))?;
                let content = content(message.content, (i, room), adjusted)?;
                if !room.files && content.iter().any(|part| matches!(part, InputPart::Other(_))) {
                    let rule = format_args!("may hold text only: {} takes results as text", room.provider);
                    return Err(refused(format!("messages[{i}].content"), rule));
                }
                let output = one(content).unwrap_or_else(|| Tree::text(""));
                out.push(Tree::map([
                    ("type", Tree::text("function_call_output")),
                    ("call_id", Tree::Text(id.0.clone())),
                    ("output", output),
                ]));
            }
            _ => {
                let rule = "must be system, developer, user, assistant or tool";
                return Err(refused(format!("messages[{i}].role"), rule));
            }
        }
    }
    Ok(out)
}

/// What it thought is bound to whom it was told; a client of chat cannot carry it here.
fn assistant<'a>(
    message: &chat::ChatMessage<'a>,
    (i, room): (usize, ResponsesRoom),
    out: &mut Vec<Tree<'a>>,
    adjusted: &mut Adjusted,
) -> Result<(), Fault> {
    request::refuse_kept_elsewhere(message, i)?;
    adjusted.note_if("messages.content_blocks", message.content_blocks.as_ref().is_some_and(|b| !b.is_empty()));
    adjusted.note_if("messages.reasoning_content", message.reasoning_content.is_some());
    let mut parts = content(message.content, (i, room), adjusted)?;
    if parts.iter().any(|part| matches!(part, InputPart::Other(_))) {
        let rule = "may hold images and files in messages of the user only";
        return Err(refused(format!("messages[{i}].content"), rule));
    }
    parts
        .extend(message.refusal.as_ref().filter(|text| !text.0.is_empty()).map(|text| InputPart::Text(text.0.clone())));
    if !parts.is_empty() {
        // One text: the parts that an answer has are not those of a question.
        let text: Vec<Cow<'a, str>> = parts.into_iter().filter_map(InputPart::text).collect();
        let text = if let [_] = &text[..] { text.concat() } else { text.join("\n") };
        out.push(Tree::map([
            ("type", Tree::text("message")),
            ("role", Tree::text("assistant")),
            ("content", Tree::text(text)),
        ]));
    }
    for (j, call) in message.tool_calls.iter().flatten().enumerate() {
        let at = |rest: &str| format!("messages[{i}].tool_calls[{j}]{rest}");
        let EarlierCall { id, function } = EarlierCall::of(call, &at)?;
        let arguments = function.arguments.as_ref().map_or(Cow::Borrowed("{}"), |a| a.0.clone());
        out.push(Tree::map([
            ("type", Tree::text("function_call")),
            ("call_id", Tree::Text(id.clone())),
            ("name", Tree::Text(function.name.0.clone())),
            ("arguments", Tree::Text(arguments)),
        ]));
    }
    Ok(())
}

fn said<'a>(role: &'static str, content: Vec<InputPart<'a>>) -> Tree<'a> {
    let content = one(content).unwrap_or_else(|| Tree::text(""));
    Tree::map([("type", Tree::text("message")), ("role", Tree::text(role)), ("content", content)])
}

/// A part of a message.
#[derive(Debug)]
enum InputPart<'a> {
    Text(Cow<'a, str>),
    Other(Tree<'a>),
}

impl<'a> InputPart<'a> {
    fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Text(text) => Some(text),
            Self::Other(_) => None,
        }
    }

    fn whole(self) -> Tree<'a> {
        match self {
            Self::Text(text) => Tree::map([("type", Tree::text("input_text")), ("text", Tree::Text(text))]),
            Self::Other(tree) => tree,
        }
    }
}

/// A lone text is a string, anything else a list of parts.
fn one(mut content: Vec<InputPart<'_>>) -> Option<Tree<'_>> {
    match content.len() {
        0 => None,
        1 if matches!(content[0], InputPart::Text(_)) => content.pop().and_then(InputPart::text).map(Tree::Text),
        _ => Some(Tree::List(content.into_iter().map(InputPart::whole).collect())),
    }
}

fn content<'a>(
    raw: Option<&'a RawValue>,
    (i, room): (usize, ResponsesRoom),
    adjusted: &mut Adjusted,
) -> Result<Vec<InputPart<'a>>, Fault> {
    request::content(raw, i, InputPart::Text, |raw, place| part(raw, place, room, adjusted))
}

fn part<'a>(
    raw: &'a RawValue,
    place: PartPosition,
    room: ResponsesRoom,
    adjusted: &mut Adjusted,
) -> Result<Option<InputPart<'a>>, Fault> {
    let part = place.read(raw)?;
    adjusted.note_if("cache_control", part.cache_control.is_some());
    match &*part.kind.0 {
        "text" | "input_text" | "refusal" => {
            let text = place.needed(part.text.or(part.refusal), ".text")?.0;
            Ok((!text.is_empty()).then_some(InputPart::Text(text)))
        }
        "image_url" => {
            let image = place.needed(part.image_url, ".image_url")?;
            let made = [("type", Tree::text("input_image")), ("image_url", Tree::Text(image.url.0))];
            let detail = image.detail.filter(|_| room.files).map(|detail| Tree::Text(detail.0));
            Ok(Some(InputPart::Other(Tree::map(made).with("detail", detail))))
        }
        "file" if room.files => {
            let file = place.needed(part.file, ".file")?;
            let text = |text: Option<crate::wire::JsonStr<'a>>| text.map(|text| Tree::Text(text.0));
            let made = Tree::map([("type", Tree::text("input_file"))])
                .with("file_data", text(file.file_data))
                .with("file_id", text(file.file_id))
                .with("file_url", text(file.file_url))
                .with("filename", text(file.filename));
            Ok(Some(InputPart::Other(made)))
        }
        kind => {
            let rule = format_args!("must be text or image_url: {} takes no {kind} here", room.provider);
            Err(refused(place.field(".type"), rule))
        }
    }
}
