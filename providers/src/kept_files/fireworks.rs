//! Files at Fireworks AI are datasets of an account (<https://docs.fireworks.ai/api-reference/create-dataset>,
//! `upload-dataset-files`, `get-dataset-download-endpoint`): one is made, then takes its file, and is read at addresses
//! that are signed for a few minutes.

use super::{KeptFiles, NewFile, ToldFile, call, form_of};
use crate::native_batches::{BatchBody, BatchCall, BatchPlace, ReadAddresses};
use gateway_domain::Timestamp;
use gateway_domain::cloud::CloudService;
use http::Method;
use serde_json::{Value, json};

pub(super) struct FireworksFiles;

/// Bytes of a file that goes up in one call, at most.
pub(crate) const MOST_UP: u64 = 150_000_000;

/// The path of an account's datasets.
fn datasets(place: &BatchPlace) -> String {
    format!("/v1/{}/datasets", place.parent.as_deref().unwrap_or_default())
}

/// Makes a dataset that takes a file then. How many lines it has is asked for, and not held to what comes.
pub(crate) fn creation(place: &BatchPlace, id: &str, (name, lines): (Option<&str>, u64)) -> BatchCall {
    let mut dataset = json!({ "userUploaded": {}, "exampleCount": lines.max(1).to_string() });
    if let Some(name) = name {
        dataset["displayName"] = name.into();
    }
    let body = BatchBody::Json(json!({ "datasetId": id, "dataset": dataset }));
    BatchCall { body, ..call(CloudService::Control, Method::POST, datasets(place)) }
}

/// The file of a dataset.
pub(crate) fn upload(place: &BatchPlace, id: &str, filename: &str) -> BatchCall {
    let path = format!("{}/{id}:upload", datasets(place));
    let body = BatchBody::Lines(form_of(filename, "application/jsonl"));
    BatchCall { body, ..call(CloudService::Control, Method::POST, path) }
}

/// Where the files of a dataset are, an address for each.
pub(crate) fn addresses(told: &[u8]) -> Vec<String> {
    let told: Value = serde_json::from_slice(told).unwrap_or_default();
    let files = told["filenameToSignedUrls"].as_object().into_iter().flatten();
    files.filter_map(|(_, url)| url.as_str().map(str::to_owned)).collect()
}

impl KeptFiles for FireworksFiles {
    fn lacks(&self, place: &BatchPlace) -> Option<&'static str> {
        place.parent.is_none().then_some("the setting fireworks_account_id")
    }

    fn most(&self) -> u64 {
        MOST_UP
    }

    fn usual_purpose(&self) -> &'static str {
        "fine-tune"
    }

    fn uploads(&self, new: &NewFile<'_>) -> Vec<BatchCall> {
        let creation = creation(new.place, new.id, (Some(new.filename), new.lines));
        vec![creation, upload(new.place, new.id, new.filename)]
    }

    fn look(&self, place: &BatchPlace, id: &str) -> BatchCall {
        call(CloudService::Control, Method::GET, format!("{}/{id}", datasets(place)))
    }

    fn delete(&self, place: &BatchPlace, id: &str) -> BatchCall {
        call(CloudService::Control, Method::DELETE, format!("{}/{id}", datasets(place)))
    }

    fn content(&self, place: &BatchPlace, id: &str) -> BatchCall {
        call(CloudService::Control, Method::GET, format!("{}/{id}:getDownloadEndpoint", datasets(place)))
    }

    fn addresses(&self) -> Option<ReadAddresses> {
        Some(addresses)
    }

    fn list(&self, place: &BatchPlace, page: Option<&str>) -> BatchCall {
        let next =
            page.map_or_else(String::new, |page| format!("&pageToken={}", crate::stored_files::encoded(page, b"")));
        let path = format!("{}?pageSize=200&orderBy=create_time%20desc{next}", datasets(place));
        call(CloudService::Control, Method::GET, path)
    }

    fn parse_file(&self, file: &Value) -> Option<ToldFile> {
        let name = file["name"].as_str()?;
        Some(ToldFile {
            id: name.rsplit('/').next()?.to_owned(),
            filename: file["displayName"].as_str().filter(|name| !name.is_empty()).map(str::to_owned),
            // Datasets do not say how long they are.
            bytes: 0,
            created: file["createTime"].as_str().and_then(|at| at.parse::<Timestamp>().ok()).map_or(0, Timestamp::secs),
            expires: None,
            status: if file["state"] == "READY" { "processed" } else { "uploaded" },
            uri: None,
        })
    }

    fn listed(&self) -> &'static str {
        "datasets"
    }
}
