//! Input items of Responses as chat messages: what one turn said and called is one message.

use super::super::build::{self, AssistantMessageBuilder, EarlierReasoning, Parts};
use super::super::{Adjusted, ChatForm, refused};
use crate::adapter::Call;
use crate::wire::JsonStr;
use crate::wire::tree::Tree;
use gateway_domain::Fault;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// An input item; which fields are there depends on `kind`, which messages may leave out.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct ResponsesInputItem<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<JsonStr<'a>>,
    #[serde(borrow)]
    role: Option<JsonStr<'a>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    call_id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    name: Option<JsonStr<'a>>,
    #[serde(borrow)]
    arguments: Option<JsonStr<'a>>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(borrow)]
    summary: Option<Vec<Summary<'a>>>,
    #[serde(borrow)]
    encrypted_content: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct Summary<'a> {
    #[serde(borrow)]
    text: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct ResponsesInputPart<'a> {
    #[serde(rename = "type", borrow)]
    kind: JsonStr<'a>,
    #[serde(borrow)]
    text: Option<JsonStr<'a>>,
    #[serde(borrow)]
    refusal: Option<JsonStr<'a>>,
    #[serde(borrow)]
    image_url: Option<JsonStr<'a>>,
    #[serde(borrow)]
    detail: Option<JsonStr<'a>>,
    #[serde(borrow)]
    file_data: Option<JsonStr<'a>>,
    #[serde(borrow)]
    file_url: Option<JsonStr<'a>>,
    #[serde(borrow)]
    file_id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    filename: Option<JsonStr<'a>>,
    #[serde(borrow)]
    input_audio: Option<&'a RawValue>,
}

pub(super) fn messages<'a>(
    input: &'a RawValue,
    to: (&Call<'_>, ChatForm),
    out: &mut Vec<Tree<'a>>,
    adjusted: &mut Adjusted,
) -> Result<(), Fault> {
    if input.get().starts_with('"') {
        out.push(Tree::map([("role", Tree::text("user")), ("content", Tree::Raw(input))]));
        return Ok(());
    }
    let items: Vec<ResponsesInputItem<'a>> = serde_json::from_str(input.get())
        .map_err(|e| refused("input", format!("must be a string or an array of items: {e}")))?;
    let mut answer = AssistantMessageBuilder::default();
    // What results cannot hold follows behind the last of them.
    let mut beside = Parts::default();
    for (i, item) in items.into_iter().enumerate() {
        let place = format!("input[{i}]");
        let kind = item.kind.as_ref().map_or("message", |k| &*k.0);
        let role = item.role.as_ref().map_or("", |r| &*r.0);
        let answers = matches!(kind, "function_call" | "reasoning") || (kind == "message" && role == "assistant");
        if !answers {
            out.extend(std::mem::take(&mut answer).message());
        }
        if kind != "function_call_output" {
            out.extend(build::user(std::mem::take(&mut beside)));
        }
        if answers && kind != "function_call" && answer.called() {
            out.extend(std::mem::take(&mut answer).message());
        }
        match kind {
            "message" if role == "assistant" => said(item.content, &place, &mut answer)?,
            "message" => out.push(message(item.content, role, to.1, &place)?),
            "function_call" => {
                let (Some(id), Some(name)) = (item.call_id, item.name) else {
                    return Err(refused(place, "needs a call_id and a name"));
                };
                answer.call((id.0, name.0), item.arguments.map(|a| a.0).unwrap_or_default(), None);
            }
            "function_call_output" => {
                let id = item.call_id.ok_or_else(|| refused(format!("{place}.call_id"), "is needed"))?;
                let parts = parts(item.output, to.1, &format!("{place}.output"))?;
                let (result, others) = build::result(id.0, parts, to.1, None);
                out.push(result);
                beside.0.extend(others.0);
            }
            "reasoning" => {
                let summary = item.summary.into_iter().flatten().filter_map(|s| s.text).map(|t| t.0);
                let text = Cow::Owned(summary.collect::<Vec<_>>().join("\n"));
                let opaque = item.encrypted_content.map(|t| t.0);
                answer.reason(EarlierReasoning { said: text, opaque, field: "input.reasoning" }, to, adjusted);
            }
            "item_reference" => {
                let why = match to.0.keeps {
                    None => "item_reference needs a provider with the Responses API of its own, which keeps items",
                    Some(_) => "item_reference names no item that is kept, or is kept any more",
                };
                let why = format!("{why}: send them whole, as clients do with `store: false`");
                return Err(refused(format!("{place}.type"), why));
            }
            kind => {
                let why = format!("{kind} needs a provider with the Responses API of its own");
                return Err(refused(format!("{place}.type"), why));
            }
        }
    }
    out.extend(answer.message());
    out.extend(build::user(beside));
    Ok(())
}

fn message<'a>(content: Option<&'a RawValue>, role: &str, room: ChatForm, place: &str) -> Result<Tree<'a>, Fault> {
    let role = match role {
        "user" => "user",
        "system" => "system",
        "developer" => "developer",
        _ => return Err(refused(format!("{place}.role"), "must be user, assistant, system or developer")),
    };
    let parts = parts(content, room, &format!("{place}.content"))?;
    let content = parts.content(role != "user" && room == ChatForm::OpenAi).unwrap_or_else(|| Tree::text(""));
    Ok(Tree::map([("role", Tree::text(role)), ("content", content)]))
}

fn list<'a>(raw: &'a RawValue, place: &str) -> Result<Vec<ResponsesInputPart<'a>>, Fault> {
    serde_json::from_str(raw.get())
        .map_err(|e| refused(place, format!("must be a string or an array of content parts: {e}")))
}

fn said<'a>(content: Option<&'a RawValue>, place: &str, answer: &mut AssistantMessageBuilder<'a>) -> Result<(), Fault> {
    let Some(raw) = content else { return Ok(()) };
    if raw.get().starts_with('"') {
        let text: JsonStr<'a> = serde_json::from_str(raw.get()).map_err(|e| refused(place, e))?;
        answer.say(text.0, None);
        return Ok(());
    }
    for (j, part) in list(raw, &format!("{place}.content"))?.into_iter().enumerate() {
        match (&*part.kind.0, part.text, part.refusal) {
            ("output_text" | "input_text" | "text", Some(text), _) => answer.say(text.0, None),
            ("refusal", _, Some(refusal)) => answer.refusal = Some(refusal.0),
            _ => return Err(refused(format!("{place}.content[{j}]"), "must be output_text or refusal")),
        }
    }
    Ok(())
}

fn parts<'a>(content: Option<&'a RawValue>, room: ChatForm, place: &str) -> Result<Parts<'a>, Fault> {
    let mut all = Parts::default();
    let Some(raw) = content else { return Ok(all) };
    if raw.get().starts_with('"') {
        let text: JsonStr<'a> = serde_json::from_str(raw.get()).map_err(|e| refused(place, e))?;
        all.push_text(text.0, None);
        return Ok(all);
    }
    for (j, part) in list(raw, place)?.into_iter().enumerate() {
        let at = |rest: &str| format!("{place}[{j}]{rest}");
        match &*part.kind.0 {
            "input_text" | "output_text" | "text" => {
                all.push_text(part.text.ok_or_else(|| refused(at(".text"), "is needed"))?.0, None);
            }
            "input_image" => {
                let rule = "is needed: images that are stored at OpenAI cannot be read";
                let url = part.image_url.ok_or_else(|| refused(at(".image_url"), rule))?;
                all.push(build::image(url.0, part.detail), None);
            }
            "input_file" => {
                let name = part.filename.map(|t| t.0);
                let file = match (part.file_data, part.file_url, part.file_id) {
                    (Some(data), ..) => build::file("file_data", data.0, name),
                    (_, Some(url), _) if room == ChatForm::Extended => build::file("file_url", url.0, name),
                    (_, Some(_), _) => return Err(refused(at(".file_url"), "is not fetched; send file_data")),
                    (.., Some(id)) => build::file("file_id", id.0, name),
                    _ => return Err(refused(at(".file_data"), "is needed")),
                };
                all.push(file, None);
            }
            "input_audio" => {
                let audio = part.input_audio.ok_or_else(|| refused(at(".input_audio"), "is needed"))?;
                let audio = [("type", Tree::text("input_audio")), ("input_audio", Tree::Raw(audio))];
                all.push(Tree::map(audio), None);
            }
            _ => {
                let rule = "must be input_text, input_image, input_file or input_audio";
                return Err(refused(at(".type"), rule));
            }
        }
    }
    Ok(all)
}
