//! Files of families that keep them as objects of a kind of their own: what is asked of the provider for each of
//! OpenAI's calls, and how its answers read. A family is one file. What came by the gateway is called so that it tells
//! the workspace that it is of. Pure: nothing is sent, and no clock is read.

mod fireworks;
mod google;

pub(crate) use fireworks::{
    MOST_UP as MOST_DATASET, addresses as dataset_addresses, creation as new_dataset, upload as dataset_upload,
};
pub(crate) use google::upload as google_file;

use crate::native_batches::{BatchBody, BatchCall, BatchPlace, LinesForm, ReadAddresses};
use gateway_domain::cloud::CloudService;
use http::Method;
use serde_json::{Value, json};

/// Stands between the parts of a form by which a file goes up.
const BOUNDARY: &str = "gateway-file-b41e0a9d27c35f86";
/// What OpenAI's files are for, each with the letter that stands for it in a name.
const PURPOSES: [(&str, char); 6] =
    [("assistants", 'a'), ("batch", 'b'), ("evals", 'e'), ("fine-tune", 'f'), ("user_data", 'u'), ("vision", 'v')];
/// Digits of the workspace, and of the file, in a name.
const OF_WORKSPACE: usize = 12;
const OF_FILE: usize = 20;
/// What batches that the gateway looks after are called, and so are their files.
const OF_BATCHES: &str = "gw-batch-";

/// A file that is to be there.
#[derive(Debug)]
pub struct NewFile<'a> {
    /// What the provider is to call the file.
    pub id: &'a str,
    /// What the client calls the file.
    pub filename: &'a str,
    pub purpose: &'a str,
    pub lines: u64,
    pub place: &'a BatchPlace,
}

/// What a provider tells of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldFile {
    pub id: String,
    pub filename: Option<String>,
    pub bytes: u64,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    pub expires: Option<i64>,
    /// One of OpenAI's words.
    pub status: &'static str,
    /// The address by which models of the family are shown it.
    pub uri: Option<String>,
}

/// A family's interface for files.
pub trait KeptFiles: Sync {
    /// What cannot be done without, and is not there.
    fn lacks(&self, _place: &BatchPlace) -> Option<&'static str> {
        None
    }
    /// Bytes of one.
    fn most(&self) -> u64;
    /// What a file is for that did not come by the gateway.
    fn usual_purpose(&self) -> &'static str;
    /// How it goes up, one call after the other; the last one takes the bytes.
    fn uploads(&self, new: &NewFile<'_>) -> Vec<BatchCall>;
    fn look(&self, place: &BatchPlace, id: &str) -> BatchCall;
    fn delete(&self, place: &BatchPlace, id: &str) -> BatchCall;
    /// What is in it, or where that is.
    fn content(&self, place: &BatchPlace, id: &str) -> BatchCall;
    /// Addresses elsewhere at which the content is, where the family tells those in its place.
    fn addresses(&self) -> Option<ReadAddresses> {
        None
    }
    /// A page of all that there are, behind what the page before told.
    fn list(&self, place: &BatchPlace, page: Option<&str>) -> BatchCall;
    /// `None`: this tells of no file.
    fn parse_file(&self, file: &Value) -> Option<ToldFile>;
    /// Where a page has its files.
    fn listed(&self) -> &'static str;
}

/// `None`: the family's files are OpenAI's, objects of a bucket, or none.
pub fn kept_files(slug: &str) -> Option<&'static dyn KeptFiles> {
    match slug {
        "fireworks-ai" => Some(&fireworks::FireworksFiles),
        "google" => Some(&google::GoogleFiles),
        _ => None,
    }
}

/// What a new file is called; `workspace`, `file`: ids without hyphens.
pub fn new_name(workspace: &str, file: &str, purpose: &str) -> String {
    let letter = PURPOSES.iter().find(|(name, _)| *name == purpose).map_or('u', |(_, letter)| *letter);
    format!("gw{letter}-{}-{}", end(workspace, OF_WORKSPACE), end(file, OF_FILE))
}

/// What a batch that the gateway makes is called at a provider that takes a name, and so is its file.
pub(crate) fn batch_name(own_id: &str) -> String {
    format!("{OF_BATCHES}{}", end(own_id, OF_FILE))
}

fn end(text: &str, most: usize) -> &str {
    text.get(text.len().saturating_sub(most)..).unwrap_or(text)
}

/// Who a name says that a file is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOwner {
    /// It came by the gateway, from this workspace.
    Own,
    /// It came by the gateway from another workspace, or is a part of a batch that the gateway looks after.
    Other,
    /// It did not come by the gateway.
    Elsewhere,
}

pub fn owner(name: &str, workspace: &str) -> FileOwner {
    if name.starts_with(OF_BATCHES) {
        return FileOwner::Other;
    }
    match parts(name) {
        Some((_, of)) if of == end(workspace, OF_WORKSPACE) => FileOwner::Own,
        Some(_) => FileOwner::Other,
        None => FileOwner::Elsewhere,
    }
}

/// What a name says that a file is for.
pub fn purpose(name: &str) -> Option<&'static str> {
    parts(name).map(|(purpose, _)| purpose)
}

/// Purpose and workspace of a name of the gateway's.
fn parts(name: &str) -> Option<(&'static str, &str)> {
    let (letter, rest) = name.strip_prefix("gw")?.split_once('-')?;
    let (purpose, _) = PURPOSES.iter().find(|(_, known)| letter.len() == 1 && letter.starts_with(*known))?;
    let (workspace, file) = rest.split_once('-')?;
    let is_hex = |text: &str, long: usize| text.len() == long && text.bytes().all(|b| b.is_ascii_hexdigit());
    (is_hex(workspace, OF_WORKSPACE) && is_hex(file, OF_FILE)).then_some((*purpose, workspace))
}

/// Whether a file can be called so. Nothing that leads on in a path can.
pub fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=128).contains(&name.len()) && name.bytes().all(fits)
}

/// A page of a list: its files, and by what the next one is asked for.
pub fn page(family: &dyn KeptFiles, body: &[u8]) -> Option<(Vec<ToldFile>, Option<String>)> {
    let told: Value = serde_json::from_slice(body).ok()?;
    let files = told[family.listed()].as_array().map(Vec::as_slice).unwrap_or_default();
    let next = told["nextPageToken"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
    Some((files.iter().filter_map(|file| family.parse_file(file)).collect(), next))
}

impl ToldFile {
    /// The file in OpenAI's form, under the `id` by which the client holds it.
    pub fn shown(&self, id: &str, purpose: &str) -> Value {
        let filename = self.filename.as_deref().unwrap_or(&self.id);
        let mut shown = json!({
            "id": id, "object": "file", "bytes": self.bytes, "created_at": self.created, "filename": filename,
            "purpose": purpose, "status": self.status,
        });
        if let Some(expires) = self.expires {
            shown["expires_at"] = expires.into();
        }
        if let Some(uri) = &self.uri {
            shown["uri"] = uri.as_str().into();
        }
        shown
    }
}

fn call(at: CloudService, method: Method, path: String) -> BatchCall {
    BatchCall { begins: false, at, method, path, body: BatchBody::None }
}

/// What stands around a file in a form, as its only part.
fn form_of(filename: &str, media: &str) -> LinesForm {
    let quoted: String = filename.chars().filter(|c| !c.is_control() && !matches!(c, '"' | '\\')).collect();
    let name = if quoted.is_empty() { "file" } else { &quoted };
    LinesForm {
        content_type: format!("multipart/form-data; boundary={BOUNDARY}"),
        front: format!(
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\ncontent-type: {media}\r\n\r\n"
        ),
        between: "\n",
        back: format!("\r\n--{BOUNDARY}--\r\n"),
    }
}

/// What stands around a file in a request whose first part is JSON about the file.
fn related_of(about: &Value, media: &str) -> LinesForm {
    LinesForm {
        content_type: format!("multipart/related; boundary={BOUNDARY}"),
        front: format!(
            "--{BOUNDARY}\r\ncontent-type: application/json; charset=utf-8\r\n\r\n{about}\r\n--{BOUNDARY}\r\n\
             content-type: {media}\r\n\r\n"
        ),
        between: "\n",
        back: format!("\r\n--{BOUNDARY}--\r\n"),
    }
}

#[cfg(test)]
mod tests;
