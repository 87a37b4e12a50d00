//! Parts of a message's content: text, images, documents, sound and video. Bedrock fetches no addresses but those of
//! its own storage.

use crate::convert::media::{data_url, type_of};
use crate::convert::request::{Adjusted, PartPosition, refused};
use crate::wire::converse::{CachePoint, ConverseBlock, ConverseSource, Document, Media};
use crate::wire::{JsonStr, chat, read};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gateway_domain::Fault;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Adds the blocks that a part stands for, a mark for the cache behind it; none for text that says nothing, which
/// Bedrock refuses.
pub(super) fn part<'a>(
    raw: &'a RawValue,
    place: PartPosition,
    adjusted: &mut Adjusted,
    out: &mut Vec<ConverseBlock<'a>>,
) -> Result<(), Fault> {
    let given = place.read(raw)?;
    match &*given.kind.0 {
        "text" | "input_text" | "refusal" => {
            let text = place.needed(given.text.or(given.refusal), ".text")?.0;
            if !text.trim().is_empty() {
                out.push(ConverseBlock::Text(text));
            }
        }
        "image_url" => {
            let image = place.needed(given.image_url, ".image_url")?;
            adjusted.note_if("image_url.detail", image.detail.is_some_and(|d| d.0 != "auto"));
            out.push(addressed(image.url.0, None, None, &|| place.field(".image_url.url"))?);
        }
        "video_url" => {
            let video = place.needed(given.video_url, ".video_url")?;
            out.push(addressed(video.url.0, None, None, &|| place.field(".video_url.url"))?);
        }
        "input_audio" => {
            let audio = place.needed(given.input_audio, ".input_audio")?;
            let format = audio.format.map_or(Cow::Borrowed("wav"), |f| f.0);
            out.push(ConverseBlock::Audio(Media { format, source: ConverseSource::Bytes(audio.data.0) }));
        }
        "file" => out.push(file(place.needed(given.file, ".file")?, place)?),
        "guard_content" | "guardContent" => {
            out.push(ConverseBlock::GuardContent(place.needed(given.guard, ".guardContent")?));
        }
        _ => return Err(refused(place.field(".type"), "must be text, image_url, input_audio, video_url or file")),
    }
    out.extend(given.cache_control.and_then(cache_point).map(ConverseBlock::CachePoint));
    Ok(())
}

/// `{"type":"ephemeral","ttl":"1h"}` of Anthropic's as Converse's mark.
pub(super) fn cache_point(raw: &RawValue) -> Option<CachePoint<'_>> {
    #[derive(Deserialize)]
    struct Mark<'a> {
        #[serde(borrow)]
        ttl: Option<JsonStr<'a>>,
    }
    let mark: Mark<'_> = read(raw.get().as_bytes())?;
    Some(CachePoint { kind: "default", ttl: mark.ttl.map(|t| t.0) })
}

fn addressed<'a>(
    url: Cow<'a, str>,
    kind: Option<Cow<'a, str>>,
    name: Option<&str>,
    field: &dyn Fn() -> String,
) -> Result<ConverseBlock<'a>, Fault> {
    if url.starts_with("s3://") {
        let kind = kind.or_else(|| type_of(&url).map(Cow::Borrowed));
        let rule = "must end in the type of what it names, such as .png or .pdf";
        let kind = kind.ok_or_else(|| refused(field(), rule))?;
        return block(&kind, ConverseSource::S3Location { uri: url }, name, field);
    }
    let (kind, data) = data_url(url)
        .ok_or_else(|| refused(field(), "must be a base64 data URL or an s3:// address: Bedrock fetches no others"))?;
    block(&kind, ConverseSource::Bytes(data), name, field)
}

fn file<'a>(file: chat::File<'a>, place: PartPosition) -> Result<ConverseBlock<'a>, Fault> {
    let name = file.filename.as_ref().map(|name| &*name.0);
    let kind = file.mime_type.map(|t| t.0).or_else(|| name.and_then(type_of).map(Cow::Borrowed));
    if let Some(url) = file.file_url {
        return addressed(url.0, kind, name, &|| place.field(".file.file_url"));
    }
    if let Some(id) = file.file_id {
        if !id.0.starts_with("s3://") {
            return Err(refused(place.field(".file.file_id"), "names a file of another provider; send file_data"));
        }
        return addressed(id.0, kind, name, &|| place.field(".file.file_id"));
    }
    let field = || place.field(".file.file_data");
    let data = place.needed(file.file_data, ".file.file_data")?.0;
    if data.starts_with("data:") {
        return addressed(data, kind, name, &field);
    }
    let rule = "must be a base64 data URL, or base64 beside a filename that ends in its type";
    let kind = kind.ok_or_else(|| refused(field(), rule))?;
    block(&kind, ConverseSource::Bytes(data), name, &field)
}

fn block<'a>(
    kind: &str,
    source: ConverseSource<'a>,
    name: Option<&str>,
    field: &dyn Fn() -> String,
) -> Result<ConverseBlock<'a>, Fault> {
    let (class, sub) = kind.split_once('/').unwrap_or((kind, ""));
    let media = |source, format: &str| Media { format: Cow::Owned(format.to_owned()), source };
    Ok(match (class, sub) {
        ("image", "jpg" | "jpeg") => ConverseBlock::Image(media(source, "jpeg")),
        ("image", "png" | "gif" | "webp") => ConverseBlock::Image(media(source, sub)),
        ("image", _) => return Err(refused(field(), "must be a PNG, JPEG, GIF or WebP image")),
        ("video", "quicktime") => ConverseBlock::Video(media(source, "mov")),
        ("video", "x-matroska") => ConverseBlock::Video(media(source, "mkv")),
        ("video", "3gpp") => ConverseBlock::Video(media(source, "three_gp")),
        ("video", _) => ConverseBlock::Video(media(source, sub.trim_start_matches("x-"))),
        ("audio", "mpeg") => ConverseBlock::Audio(media(source, "mp3")),
        ("audio", _) => ConverseBlock::Audio(media(source, sub.trim_start_matches("x-"))),
        _ => {
            let format = document_format(class, sub)
                .ok_or_else(|| refused(field(), format_args!("is of type {kind}, which Bedrock does not read")))?;
            let source = text_is_bytes(source, field)?;
            ConverseBlock::Document(Document { format, name: document_name(name), source })
        }
    })
}

fn document_format(class: &str, sub: &str) -> Option<&'static str> {
    Some(match (class, sub) {
        ("application", "pdf") => "pdf",
        ("text", "csv") => "csv",
        ("text", "html") => "html",
        ("text", "markdown" | "x-markdown") => "md",
        ("text", _) | ("application", "json") => "txt",
        ("application", "msword") => "doc",
        ("application", "vnd.openxmlformats-officedocument.wordprocessingml.document") => "docx",
        ("application", "vnd.ms-excel") => "xls",
        ("application", "vnd.openxmlformats-officedocument.spreadsheetml.sheet") => "xlsx",
        _ => return None,
    })
}

/// What is no base64 would be refused without a name; it is told here.
fn text_is_bytes<'a>(source: ConverseSource<'a>, field: &dyn Fn() -> String) -> Result<ConverseSource<'a>, Fault> {
    match &source {
        ConverseSource::Bytes(data) if STANDARD.decode(data.as_bytes()).is_err() => {
            Err(refused(field(), "must hold base64"))
        }
        _ => Ok(source),
    }
}

/// Letters, digits, single spaces, hyphens, parentheses and brackets
/// (<https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html>).
fn document_name(name: Option<&str>) -> String {
    let name = name.unwrap_or("document");
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let fits = |c: char| if c.is_ascii_alphanumeric() || "-()[]".contains(c) { c } else { ' ' };
    let words: String = stem.chars().map(fits).collect();
    let name: Vec<&str> = words.split_whitespace().collect();
    let name: String = name.join(" ").chars().take(180).collect();
    if name.is_empty() { "document".to_owned() } else { name }
}
