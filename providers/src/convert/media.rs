//! Images, files and sounds inside requests: what a data URL holds, and what a name or an address says of its type.

use std::borrow::Cow;

/// Media type and payload of `data:<type>;base64,<payload>`, borrowed when the URL is: images are large.
pub(crate) fn data_url(url: Cow<'_, str>) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let rest = url.strip_prefix("data:")?;
    let (head, payload) = rest.split_once(',')?;
    let media_type = head.strip_suffix(";base64")?.split(';').next()?;
    let (type_end, start) = (5 + media_type.len(), url.len() - payload.len());
    Some(match url {
        Cow::Borrowed(url) => (Cow::Borrowed(&url[5..type_end]), Cow::Borrowed(&url[start..])),
        Cow::Owned(url) => (Cow::Owned(url[5..type_end].to_owned()), Cow::Owned(url[start..].to_owned())),
    })
}

/// The media type that the end of a name or address stands for; queries are no part of it.
pub(crate) fn type_of(name: &str) -> Option<&'static str> {
    let path = name.split(['?', '#']).next().unwrap_or(name);
    let last = path.rsplit('/').next().unwrap_or(path);
    let extension = last.rsplit_once('.')?.1.to_ascii_lowercase();
    Some(match extension.as_str() {
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "heic" => "image/heic",
        "heif" => "image/heif",
        "pdf" => "application/pdf",
        "txt" | "md" => "text/plain",
        "html" | "htm" => "text/html",
        "csv" => "text/csv",
        "json" => "application/json",
        "wav" => "audio/wav",
        "mp3" => "audio/mp3",
        "ogg" => "audio/ogg",
        "flac" => "audio/flac",
        "aac" => "audio/aac",
        "aiff" => "audio/aiff",
        "mp4" => "video/mp4",
        "mov" => "video/mov",
        "webm" => "video/webm",
        "mpeg" | "mpg" => "video/mpeg",
        "avi" => "video/avi",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_names() {
        assert_eq!(type_of("https://a.example/b/c.PNG?x=1.pdf#y"), Some("image/png"));
        assert_eq!(type_of("gs://bucket/talk.mp3"), Some("audio/mp3"));
        assert_eq!(type_of("https://a.example.com/picture"), None);
        assert_eq!(type_of("https://example.com"), None);
    }
}
