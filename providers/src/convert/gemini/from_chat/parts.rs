//! Parts of a message's content: text, images, documents, sound and video, inline or by address.

use crate::convert::media::{data_url, type_of};
use crate::convert::request::{Adjusted, PartPosition, refused};
use crate::wire::chat;
use crate::wire::gemini::{Blob, FileData, GeminiPart};
use gateway_domain::Fault;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// `None` for empty text, which says nothing.
pub(super) fn part<'a>(
    raw: &'a RawValue,
    place: PartPosition,
    adjusted: &mut Adjusted,
) -> Result<Option<GeminiPart<'a>>, Fault> {
    let given = place.read(raw)?;
    // Gemini caches prompts by itself.
    adjusted.note_if("cache_control", given.cache_control.is_some());
    Ok(Some(match &*given.kind.0 {
        "text" | "input_text" | "refusal" => {
            let text = place.needed(given.text.or(given.refusal), ".text")?.0;
            if text.is_empty() {
                return Ok(None);
            }
            GeminiPart::Text { text }
        }
        "image_url" => {
            let image = place.needed(given.image_url, ".image_url")?;
            adjusted.note_if("image_url.detail", image.detail.is_some_and(|d| d.0 != "auto"));
            let kind = image.mime_type.map(|t| t.0);
            addressed(image.url.0, kind, Some("image/jpeg"), || place.field(".image_url.url"))?
        }
        "video_url" => {
            let video = place.needed(given.video_url, ".video_url")?;
            addressed(video.url.0, video.mime_type.map(|t| t.0), None, || place.field(".video_url.url"))?
        }
        "input_audio" => {
            let audio = place.needed(given.input_audio, ".input_audio")?;
            let format = audio.format.map_or(Cow::Borrowed("wav"), |f| f.0);
            GeminiPart::Inline { inline_data: Blob { mime_type: format!("audio/{format}").into(), data: audio.data.0 } }
        }
        "file" => file(place.needed(given.file, ".file")?, place)?,
        _ => return Err(refused(place.field(".type"), "must be text, image_url, input_audio, video_url or file")),
    }))
}

/// A data URL goes inline, an address goes as it is: Gemini fetches it.
fn addressed<'a>(
    url: Cow<'a, str>,
    given: Option<Cow<'a, str>>,
    default: Option<&'static str>,
    field: impl Fn() -> String,
) -> Result<GeminiPart<'a>, Fault> {
    if ["https://", "http://", "gs://"].iter().any(|scheme| url.starts_with(scheme)) {
        let mime_type = given.or_else(|| type_of(&url).or(default).map(Cow::Borrowed));
        return Ok(GeminiPart::File { file_data: FileData { mime_type, file_uri: url } });
    }
    let (mime_type, data) =
        data_url(url).ok_or_else(|| refused(field(), "must be an http(s), gs or base64 data URL"))?;
    let mime_type = if mime_type == "image/jpg" { Cow::Borrowed("image/jpeg") } else { mime_type };
    Ok(GeminiPart::Inline { inline_data: Blob { mime_type, data } })
}

fn file<'a>(file: chat::File<'a>, place: PartPosition) -> Result<GeminiPart<'a>, Fault> {
    let named = file.filename.as_ref().and_then(|name| type_of(&name.0)).map(Cow::Borrowed);
    let kind = file.mime_type.map(|t| t.0).or(named);
    if let Some(url) = file.file_url {
        return addressed(url.0, kind, None, || place.field(".file.file_url"));
    }
    if let Some(id) = file.file_id {
        // The id is an address of Gemini's Files API or of Cloud Storage.
        return addressed(id.0, kind, None, || place.field(".file.file_id"));
    }
    let data = place.needed(file.file_data, ".file.file_data")?.0;
    if data.starts_with("data:") {
        return addressed(data, kind, None, || place.field(".file.file_data"));
    }
    let rule = "must be a base64 data URL, or base64 beside a filename that ends in its type";
    let mime_type = kind.ok_or_else(|| refused(place.field(".file.file_data"), rule))?;
    Ok(GeminiPart::Inline { inline_data: Blob { mime_type, data } })
}
