//! Parts of a message's content: text, images, documents.

use crate::convert::media::data_url;
use crate::convert::request::{Adjusted, PartPosition, refused};
use crate::wire::chat;
use crate::wire::messages::{MessagesInputBlock, MessagesSource, MessagesTypedBlock};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gateway_domain::Fault;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// `None` for empty text, which Anthropic does not accept and which says nothing.
pub(super) fn part<'a>(
    raw: &'a RawValue,
    place: PartPosition,
    adjusted: &mut Adjusted,
) -> Result<Option<MessagesInputBlock<'a>>, Fault> {
    let part = place.read(raw)?;
    let cache_control = part.cache_control;
    let made = match &*part.kind.0 {
        "text" | "input_text" | "refusal" => {
            let text = place.needed(part.text.or(part.refusal), ".text")?.0;
            if text.is_empty() {
                return Ok(None);
            }
            MessagesTypedBlock::Text { text, cache_control }
        }
        "image_url" => {
            let image = place.needed(part.image_url, ".image_url")?;
            adjusted.note_if("image_url.detail", image.detail.is_some_and(|d| d.0 != "auto"));
            image_of(image.url.0, place, cache_control)?
        }
        "file" => file_of(part.file, place, cache_control)?,
        "input_audio" => return Err(refused(place.field(""), "is audio, which Anthropic does not take")),
        "image"
        | "document"
        | "search_result"
        | "thinking"
        | "redacted_thinking"
        | "tool_use"
        | "tool_result"
        | "server_tool_use"
        | "web_search_tool_result" => return Ok(Some(MessagesInputBlock::Raw(raw))),
        _ => return Err(refused(place.field(".type"), "must be text, image_url or file")),
    };
    Ok(Some(MessagesInputBlock::Made(made)))
}

fn image_of<'a>(
    url: Cow<'a, str>,
    place: PartPosition,
    cache_control: Option<&'a RawValue>,
) -> Result<MessagesTypedBlock<'a>, Fault> {
    if url.starts_with("https://") || url.starts_with("http://") {
        return Ok(MessagesTypedBlock::Image { source: MessagesSource::Url { url }, cache_control });
    }
    let (media_type, data) =
        data_url(url).ok_or_else(|| refused(place.field(".image_url.url"), "must be an http(s) or base64 data URL"))?;
    let source = |media_type, data| MessagesSource::Base64 { media_type, data };
    Ok(match &*media_type {
        "application/pdf" => {
            MessagesTypedBlock::Document { source: source(media_type, data), title: None, cache_control }
        }
        "image/jpg" => MessagesTypedBlock::Image { source: source("image/jpeg".into(), data), cache_control },
        _ => MessagesTypedBlock::Image { source: source(media_type, data), cache_control },
    })
}

fn file_of<'a>(
    file: Option<chat::File<'a>>,
    place: PartPosition,
    cache_control: Option<&'a RawValue>,
) -> Result<MessagesTypedBlock<'a>, Fault> {
    let file = place.needed(file, ".file")?;
    if file.file_id.is_some() {
        return Err(refused(place.field(".file.file_id"), "names a file of another provider; send file_data"));
    }
    let title = file.filename.map(|name| name.0);
    let data = place.needed(file.file_data, ".file.file_data")?.0;
    let (media_type, data) = if data.starts_with("data:") {
        data_url(data).ok_or_else(|| refused(place.field(".file.file_data"), "must be a base64 data URL"))?
    } else if title.as_ref().is_some_and(|name| name.to_ascii_lowercase().ends_with(".pdf")) {
        (Cow::Borrowed("application/pdf"), data)
    } else {
        return Err(refused(place.field(".file.file_data"), "must be a base64 data URL"));
    };
    let source = match &*media_type {
        "application/pdf" => MessagesSource::Base64 { media_type, data },
        image if image.starts_with("image/") => {
            return Ok(MessagesTypedBlock::Image {
                source: MessagesSource::Base64 { media_type, data },
                cache_control,
            });
        }
        text if text.starts_with("text/") || text == "application/json" => {
            let bytes = STANDARD.decode(data.as_bytes()).ok();
            let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
            let text = text.ok_or_else(|| refused(place.field(".file.file_data"), "is not base64 of UTF-8 text"))?;
            MessagesSource::Text { media_type: "text/plain", data: text }
        }
        _ => return Err(refused(place.field(".file.file_data"), "must be a PDF, text or an image")),
    };
    Ok(MessagesTypedBlock::Document { source, title, cache_control })
}
