//! Content blocks of Messages as parts of chat.

use super::super::build::{self, Parts};
use super::super::{Adjusted, ChatForm, refused};
use crate::wire::JsonStr;
use gateway_domain::Fault;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// A content block; which fields are there depends on `kind`.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct InboundMessagesBlock<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: JsonStr<'a>,
    #[serde(borrow)]
    pub(super) text: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(super) signature: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(super) data: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_use_id: Option<JsonStr<'a>>,
    #[serde(borrow)]
    pub(super) content: Option<&'a RawValue>,
    pub(super) is_error: Option<bool>,
    #[serde(borrow)]
    pub(super) cache_control: Option<&'a RawValue>,
    /// An object of an image or a document, a string of a search result.
    #[serde(borrow)]
    source: Option<&'a RawValue>,
    #[serde(borrow)]
    title: Option<JsonStr<'a>>,
    #[serde(borrow)]
    context: Option<JsonStr<'a>>,
    #[serde(borrow)]
    citations: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct InboundMessagesSource<'a> {
    #[serde(rename = "type", borrow)]
    kind: JsonStr<'a>,
    #[serde(borrow)]
    media_type: Option<JsonStr<'a>>,
    #[serde(borrow)]
    data: Option<JsonStr<'a>>,
    #[serde(borrow)]
    url: Option<JsonStr<'a>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

/// Content as blocks; a string is one of text.
pub(super) fn of<'a>(raw: &'a RawValue, place: &str) -> Result<Vec<InboundMessagesBlock<'a>>, Fault> {
    if !raw.get().starts_with('"') {
        return serde_json::from_str(raw.get())
            .map_err(|e| refused(place, format!("must be a string or an array of content blocks: {e}")));
    }
    let text: JsonStr<'a> = serde_json::from_str(raw.get()).map_err(|e| refused(place, e))?;
    let mut block: InboundMessagesBlock<'a> =
        serde_json::from_str(r#"{"type":"text"}"#).map_err(|e| refused(place, e))?;
    block.text = Some(text);
    Ok(vec![block])
}

/// Adds a block of the user's, or of a result.
pub(super) fn part<'a>(
    block: InboundMessagesBlock<'a>,
    room: ChatForm,
    place: &str,
    parts: &mut Parts<'a>,
    adjusted: &mut Adjusted,
) -> Result<(), Fault> {
    let cache_control = block.cache_control.filter(|_| room == ChatForm::Extended);
    match &*block.kind.0 {
        "text" => {
            let text = block.text.ok_or_else(|| refused(format!("{place}.text"), "is needed"))?.0;
            if !text.is_empty() {
                parts.push_text(text, cache_control);
            }
        }
        "image" => {
            let source = source(block.source, place)?;
            let url = match &*source.kind.0 {
                "base64" => base64(&source, place)?,
                "url" => source.url.map(|t| t.0).ok_or_else(|| refused(format!("{place}.source.url"), "is needed"))?,
                _ => return Err(stored(place)),
            };
            parts.push(build::image(url, None), cache_control);
        }
        "document" => document(block, room, place, parts, adjusted)?,
        "search_result" => {
            let origin = block.source.and_then(|raw| serde_json::from_str::<JsonStr<'a>>(raw.get()).ok());
            let head = [block.title.map(|t| t.0), origin.map(|t| t.0)];
            let mut text = head.into_iter().flatten().collect::<Vec<_>>().join("\n");
            for inner in block.content.map(|raw| of(raw, place)).transpose()?.into_iter().flatten() {
                text.push('\n');
                text.push_str(&inner.text.map(|t| t.0).unwrap_or_default());
            }
            adjusted.note_if("messages.citations", cites(block.citations));
            parts.push_text(Cow::Owned(text), cache_control);
        }
        _ => {
            let rule = "must be text, image, document, search_result or tool_result";
            return Err(refused(format!("{place}.type"), rule));
        }
    }
    Ok(())
}

fn document<'a>(
    block: InboundMessagesBlock<'a>,
    room: ChatForm,
    place: &str,
    parts: &mut Parts<'a>,
    adjusted: &mut Adjusted,
) -> Result<(), Fault> {
    let cache_control = block.cache_control.filter(|_| room == ChatForm::Extended);
    adjusted.note_if("messages.citations", cites(block.citations));
    let source = source(block.source, place)?;
    let title = block.title.map(|t| t.0);
    if let Some(context) = block.context {
        parts.push_text(context.0, None);
    }
    match &*source.kind.0 {
        "base64" => {
            // OpenAI demands a name, and tells the type by its end.
            let name = title.unwrap_or(Cow::Borrowed("document"));
            let name = if name.contains('.') { name } else { Cow::Owned([&*name, ".pdf"].concat()) };
            parts.push(build::file("file_data", base64(&source, place)?, Some(name)), cache_control);
        }
        "text" => {
            let text = source.data.map(|t| t.0).unwrap_or_default();
            let text = title.map_or(text.clone(), |title| Cow::Owned([&*title, "\n", &*text].concat()));
            parts.push_text(text, cache_control);
        }
        "content" => {
            let inner = source.content.map(|raw| of(raw, place)).transpose()?;
            for (k, block) in inner.into_iter().flatten().enumerate() {
                part(block, room, &format!("{place}.source.content[{k}]"), parts, adjusted)?;
            }
        }
        "url" if room == ChatForm::Extended => {
            let url = source.url.ok_or_else(|| refused(format!("{place}.source.url"), "is needed"))?;
            parts.push(build::file("file_url", url.0, title), cache_control);
        }
        "url" => return Err(refused(format!("{place}.source"), "is a URL, which this provider does not fetch")),
        _ => return Err(stored(place)),
    }
    Ok(())
}

fn source<'a>(raw: Option<&'a RawValue>, place: &str) -> Result<InboundMessagesSource<'a>, Fault> {
    let raw = raw.ok_or_else(|| refused(format!("{place}.source"), "is needed"))?;
    serde_json::from_str(raw.get()).map_err(|e| refused(format!("{place}.source"), format!("is no source: {e}")))
}

fn base64(source: &InboundMessagesSource<'_>, place: &str) -> Result<Cow<'static, str>, Fault> {
    let (Some(media_type), Some(data)) = (&source.media_type, &source.data) else {
        return Err(refused(format!("{place}.source"), "needs media_type and data"));
    };
    Ok(build::data_url(&media_type.0, &data.0))
}

fn stored(place: &str) -> Fault {
    refused(format!("{place}.source.type"), "names a file that is stored at Anthropic; send its content")
}

/// Citations are asked for; without them the answer is the same, but for its evidence.
fn cites(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|raw| raw.get().contains("true"))
}
