//! Files of the Gemini API (<https://ai.google.dev/api/files>): one goes up in one call with what is said about it,
//! models are shown it by its address, and it is gone after two days. What was uploaded is not given back; what a batch
//! made is.

use super::{KeptFiles, NewFile, ToldFile, call, related_of};
use crate::native_batches::{BatchBody, BatchCall, BatchPlace};
use gateway_domain::Timestamp;
use gateway_domain::cloud::CloudService;
use http::Method;
use serde_json::{Value, json};

pub(super) struct GoogleFiles;

/// The provider's own bound is 2 GB.
const MOST_UP: u64 = 2_000_000_000;
const FILES: &str = "/v1beta/files";

/// A file with its name at the provider, by which it is found.
pub(crate) fn upload(id: Option<&str>, filename: &str, media: &str) -> BatchCall {
    let mut file = json!({ "displayName": filename, "mimeType": media });
    if let Some(id) = id {
        file["name"] = format!("files/{id}").into();
    }
    let body = BatchBody::Lines(related_of(&json!({ "file": file }), media));
    BatchCall { body, ..call(CloudService::Api, Method::POST, format!("/upload{FILES}?uploadType=multipart")) }
}

/// The media type of a file, as far as its name tells one that models read.
fn media(new: &NewFile<'_>) -> &'static str {
    let end = new.filename.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase());
    match end.as_deref() {
        _ if new.purpose == "batch" => "application/jsonl",
        Some("jsonl") => "application/jsonl",
        Some("pdf") => "application/pdf",
        Some("txt") => "text/plain",
        Some("md") => "text/md",
        Some("html") => "text/html",
        Some("csv") => "text/csv",
        Some("json") => "application/json",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("webp") => "image/webp",
        Some("mp3") => "audio/mp3",
        Some("wav") => "audio/wav",
        Some("mp4") => "video/mp4",
        _ => "application/octet-stream",
    }
}

impl KeptFiles for GoogleFiles {
    fn most(&self) -> u64 {
        MOST_UP
    }

    fn usual_purpose(&self) -> &'static str {
        "user_data"
    }

    fn uploads(&self, new: &NewFile<'_>) -> Vec<BatchCall> {
        vec![upload(Some(new.id), new.filename, media(new))]
    }

    fn look(&self, _place: &BatchPlace, id: &str) -> BatchCall {
        call(CloudService::Api, Method::GET, format!("{FILES}/{id}"))
    }

    fn delete(&self, _place: &BatchPlace, id: &str) -> BatchCall {
        call(CloudService::Api, Method::DELETE, format!("{FILES}/{id}"))
    }

    fn content(&self, _place: &BatchPlace, id: &str) -> BatchCall {
        call(CloudService::Api, Method::GET, format!("/download{FILES}/{id}:download?alt=media"))
    }

    fn list(&self, _place: &BatchPlace, page: Option<&str>) -> BatchCall {
        let next =
            page.map_or_else(String::new, |page| format!("&pageToken={}", crate::stored_files::encoded(page, b"")));
        call(CloudService::Api, Method::GET, format!("{FILES}?pageSize=100{next}"))
    }

    fn parse_file(&self, file: &Value) -> Option<ToldFile> {
        let time = |name: &str| file[name].as_str().and_then(|at| at.parse::<Timestamp>().ok()).map(Timestamp::secs);
        let size = &file["sizeBytes"];
        Some(ToldFile {
            id: file["name"].as_str()?.rsplit('/').next()?.to_owned(),
            filename: file["displayName"].as_str().filter(|name| !name.is_empty()).map(str::to_owned),
            bytes: size.as_u64().or_else(|| size.as_str()?.parse().ok()).unwrap_or_default(),
            created: time("createTime").unwrap_or_default(),
            expires: time("expirationTime"),
            status: match file["state"].as_str() {
                Some("PROCESSING") => "uploaded",
                Some("FAILED") => "error",
                _ => "processed",
            },
            uri: file["uri"].as_str().map(str::to_owned),
        })
    }

    fn listed(&self) -> &'static str {
        "files"
    }
}
