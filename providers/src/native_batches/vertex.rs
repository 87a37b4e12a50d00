//! Batch prediction jobs of Vertex AI: lines go up as an object of Cloud Storage, the job names the model of all of
//! them, and what came of them stands in objects below a folder that the job makes. Gemini's lines and Claude's differ.

use super::{BatchCall, LineEnd, NativeBatches, NativeLine, NativeStanding, NativeState, ToldBatches};
use super::{NewBatchAsk, NewLine, delete_at, get, get_at, is_printable, post, store_lines};
use bytes::Bytes;
use gateway_domain::Operation;
use gateway_domain::cloud::CloudService;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use std::collections::HashMap;

pub(super) struct VertexBatches;

/// Where all of it lies in the bucket.
const FOLDER: &str = "gateway-batches";
/// The label by which a job is found again.
const OWN_LABEL: &str = "gateway_batch_id";

/// Gemini's lines have a name that the job leaves out of what the model reads; Claude's have one of their own.
#[derive(Serialize)]
struct BatchInstance<'a> {
    #[serde(rename = "requestId", skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    custom_id: Option<&'a str>,
    request: &'a RawValue,
}

/// What tells a request to Claude.
#[derive(Deserialize)]
struct ClaudeRequest {
    #[serde(rename = "anthropic_version")]
    _version: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PredictionJob {
    name: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    model: String,
    error: Option<JobTrouble>,
    output_info: Option<OutputInfo>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LabelledJobs {
    #[serde(rename = "batchPredictionJobs")]
    jobs: Vec<LabelledJob>,
}

#[derive(Deserialize)]
struct LabelledJob {
    name: String,
    #[serde(default)]
    labels: HashMap<String, String>,
}

#[derive(Deserialize)]
struct JobTrouble {
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OutputInfo {
    gcs_output_directory: Option<String>,
}

#[derive(Deserialize)]
struct BatchPrediction<'a> {
    #[serde(rename = "requestId")]
    request_id: Option<String>,
    custom_id: Option<String>,
    instance: Option<NamedInstance>,
    #[serde(default)]
    status: String,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct NamedInstance {
    #[serde(rename = "requestId")]
    request_id: Option<String>,
}

fn object(new: &NewBatchAsk<'_>) -> String {
    format!("{FOLDER}/{}/lines.jsonl", new.own_id)
}

/// `publishers/{publisher}/models/{model}`, from the ways in which clients write it.
fn model_of(model: &str) -> String {
    if model.contains("publishers/") || model.starts_with("projects/") {
        return model.to_owned();
    }
    for publisher in ["google", "anthropic", "meta", "mistralai"] {
        if let Some(name) = model.strip_prefix(publisher).and_then(|rest| rest.strip_prefix(['.', '/'])) {
            return format!("publishers/{publisher}/models/{name}");
        }
    }
    let publisher = if model.starts_with("claude-") { "anthropic" } else { "google" };
    format!("publishers/{publisher}/models/{model}")
}

impl NativeBatches for VertexBatches {
    fn serves(&self, operation: Operation) -> bool {
        matches!(operation, Operation::ChatCompletions | Operation::Responses | Operation::Messages)
    }

    fn has_one_model(&self) -> bool {
        true
    }

    fn takes_name(&self, name: &str) -> bool {
        is_printable(name)
    }

    fn options(&self) -> &'static [&'static str] {
        &["job_name"]
    }

    fn lacks(&self, new: &NewBatchAsk<'_>) -> Option<&'static str> {
        if new.place.bucket.is_none() {
            return Some("the setting vertex_storage_bucket_name: the bucket that lines and results lie in");
        }
        new.place.parent.is_none().then_some("the settings vertex_project_id and vertex_region")
    }

    fn line(&self, line: &NewLine<'_>) -> Vec<u8> {
        let is_claude = serde_json::from_str::<ClaudeRequest>(line.body.get()).is_ok();
        let (request_id, custom_id) = if is_claude { (None, Some(line.name)) } else { (Some(line.name), None) };
        let instance = BatchInstance { request_id, custom_id, request: line.body };
        serde_json::to_vec(&instance).unwrap_or_default()
    }

    fn upload(&self, new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        Some(store_lines(format!("/{}/{}", new.place.bucket.as_deref()?, object(new))))
    }

    /// Cloud Storage tells nothing of it.
    fn uploaded(&self, new: &NewBatchAsk<'_>, _body: &[u8]) -> Option<String> {
        Some(format!("gs://{}/{}", new.place.bucket.as_deref()?, object(new)))
    }

    fn removal(&self, file: &str) -> Option<BatchCall> {
        Some(delete_at(CloudService::Storage, format!("/{}", file.strip_prefix("gs://")?)))
    }

    fn creation(&self, new: &NewBatchAsk<'_>) -> BatchCall {
        let bucket = new.place.bucket.as_deref().unwrap_or_default();
        let model = model_of(new.model.unwrap_or_default());
        let mut body = json!({
            "displayName": new.options.get("job_name").cloned().unwrap_or_else(|| new.own_id.into()), "model": model,
            "labels": { OWN_LABEL: new.own_id },
            "inputConfig": { "instancesFormat": "jsonl", "gcsSource": { "uris": [new.file] } },
            "outputConfig": {
                "predictionsFormat": "jsonl",
                "gcsDestination": { "outputUriPrefix": format!("gs://{bucket}/{FOLDER}/{}/results", new.own_id) },
            },
        });
        if model.contains("publishers/google/") {
            body["instanceConfig"] = json!({ "excludedFields": ["requestId"] });
        }
        BatchCall {
            begins: true,
            ..post(format!("/v1/{}/batchPredictionJobs", new.place.parent.as_deref().unwrap_or_default()), body)
        }
    }

    fn creation_of_file(&self, new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        Some(self.creation(new))
    }

    /// Searches for a job by the label that it was made with.
    fn search(&self, new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        let parent = new.place.parent.as_deref()?;
        Some(get(format!("/v1/{parent}/batchPredictionJobs?pageSize=10&filter=labels.{OWN_LABEL}%3D{}", new.own_id)))
    }

    fn found(&self, body: &[u8], own_id: &str) -> Option<String> {
        let list: LabelledJobs = serde_json::from_slice(body).ok()?;
        let is_ours = |job: &LabelledJob| job.labels.get(OWN_LABEL).is_some_and(|label| label == own_id);
        list.jobs.into_iter().find(is_ours).map(|job| job.name)
    }

    fn look(&self, id: &str) -> BatchCall {
        get(format!("/v1/{id}"))
    }

    fn cancel(&self, id: &str) -> BatchCall {
        post(format!("/v1/{id}:cancel"), json!({}))
    }
}

impl ToldBatches for VertexBatches {
    fn standing(&self, body: &[u8]) -> Option<NativeStanding> {
        let job: PredictionJob = serde_json::from_slice(body).ok()?;
        let state = match job.state.trim_start_matches("JOB_STATE_") {
            "RUNNING" | "UPDATING" => NativeState::InProgress,
            "SUCCEEDED" | "PARTIALLY_SUCCEEDED" => NativeState::Completed,
            "FAILED" => NativeState::Failed,
            "CANCELLING" => NativeState::Cancelling,
            "CANCELLED" => NativeState::Cancelled,
            "EXPIRED" => NativeState::Expired,
            _ => NativeState::Validating,
        };
        let folder = job.output_info.and_then(|info| info.gcs_output_directory).filter(|_| state.has_ended());
        let file = if job.model.contains("publishers/google/") { "predictions.jsonl" } else { "000000000000.jsonl" };
        let path = folder.and_then(|uri| Some(format!("/{}/{file}", uri.strip_prefix("gs://")?.trim_end_matches('/'))));
        let results = path.map(|path| get_at(CloudService::Storage, path)).into_iter().collect();
        let problems = job.error.into_iter().map(|error| error.message).collect();
        Some(NativeStanding { id: job.name, state, problems, results, told: Vec::new() })
    }

    fn answer(&self, line: &[u8]) -> Option<NativeLine> {
        let told: BatchPrediction<'_> = serde_json::from_slice(line).ok()?;
        let name = told.request_id.or(told.custom_id).or_else(|| told.instance?.request_id)?;
        let answered = told.response.filter(|response| response.get().trim() != "{}" && response.get() != "null");
        let end = match answered {
            Some(response) if told.status.is_empty() => {
                LineEnd::Answered { status: 200, body: Bytes::copy_from_slice(response.get().as_bytes()) }
            }
            _ => {
                let body = json!({ "error": { "message": told.status } }).to_string();
                LineEnd::Answered { status: 400, body: body.into() }
            }
        };
        Some(NativeLine { name, end })
    }
}
