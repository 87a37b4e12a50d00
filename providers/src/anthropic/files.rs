//! Anthropic's files for clients of OpenAI's: the same routes, with objects of another shape. What is in a file passes
//! as it is, and so does all of it for Anthropic's own clients.

use super::VERSION;
use crate::adapter::{BodyPieces, Call, Endpoint, Failure, ProviderRequest, Reply};
use crate::failure;
use crate::wire::read;
use bytes::Bytes;
use gateway_domain::{Dialect, Operation, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

/// The interface is a beta, and says so on each call.
const HEADERS: &[(&str, &str)] = &[VERSION[0], ("anthropic-beta", "files-api-2025-04-14")];
/// Files that one page of a list has at most.
const MOST_LISTED: u32 = 1_000;

#[derive(Deserialize)]
struct TheirFile {
    id: String,
    filename: String,
    #[serde(default)]
    size_bytes: u64,
    created_at: String,
}

#[derive(Deserialize)]
struct TheirFiles {
    data: Vec<TheirFile>,
    #[serde(default)]
    has_more: bool,
}

#[derive(Deserialize)]
struct Deleted {
    id: String,
}

pub(super) const fn serves(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::UploadFile
            | Operation::ListFiles
            | Operation::RetrieveFile
            | Operation::DeleteFile
            | Operation::RetrieveFileContent
    )
}

pub(super) fn endpoint() -> Endpoint {
    Endpoint { path: "/files".into(), headers: HEADERS }
}

/// Nothing but the page of a list is written otherwise.
pub(super) fn request(call: &Call<'_>) -> ProviderRequest {
    let mut path = call.tail.to_owned();
    let mut pairs = Vec::new();
    for pair in call.query.unwrap_or_default().split('&') {
        match pair.split_once('=') {
            Some(("after", id)) => pairs.push(format!("after_id={id}")),
            Some(("limit", most)) => {
                let most = most.parse::<u32>().map_or(MOST_LISTED, |most| most.clamp(1, MOST_LISTED));
                pairs.push(format!("limit={most}"));
            }
            _ => {}
        }
    }
    if !pairs.is_empty() {
        path = format!("{path}?{}", pairs.join("&"));
    }
    ProviderRequest { path: Some(path), headers: Vec::new(), body: BodyPieces::One(Bytes::new()), adjusted: Vec::new() }
}

pub(super) fn response(slug: &'static str, call: &Call<'_>, body: &Bytes) -> Result<Reply, Failure> {
    let told = match call.operation {
        Operation::ListFiles => read::<TheirFiles>(body).map(|files| {
            let data: Vec<Value> = files.data.iter().map(shown).collect();
            let end = |file: Option<&TheirFile>| file.map(|file| file.id.clone());
            json!({ "object": "list", "first_id": end(files.data.first()), "last_id": end(files.data.last()),
                    "has_more": files.has_more, "data": data })
        }),
        Operation::DeleteFile => {
            read::<Deleted>(body).map(|file| json!({ "id": file.id, "object": "file", "deleted": true }))
        }
        _ => read::<TheirFile>(body).map(|file| shown(&file)),
    };
    let told = told.ok_or_else(|| failure::unreadable(slug, "the answer", body, Dialect::OpenAi))?;
    Ok(Reply { body: told.to_string().into(), usage: None, model: None })
}

fn shown(file: &TheirFile) -> Value {
    let created = file.created_at.parse::<Timestamp>().map_or(0, Timestamp::secs);
    json!({ "id": file.id, "object": "file", "bytes": file.size_bytes, "created_at": created,
            "filename": file.filename, "purpose": "user_data", "status": "processed" })
}
