//! Mistral's batch jobs: lines go up as a file of custom ids and bodies, the job names the model of all of them, and
//! its results are files whose lines are OpenAI's.

use super::openai::result_line;
use super::{BatchBody, BatchCall, LinesForm, NativeBatches, NativeLine, NativeStanding, NativeState, ToldBatches};
use super::{NewBatchAsk, NewLine, get, post};
use gateway_domain::Operation;
use gateway_domain::cloud::CloudService;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub(super) struct MistralBatches;

const JOBS: &str = "/batch/jobs";
/// The key in a job's metadata by which it is found again.
const OWN_ID: &str = "gateway_batch_id";
/// Stands between the parts of the form by which lines go up. No line of JSON begins like it.
const BOUNDARY: &str = "gateway-batch-6f1b0c5e7d";

#[derive(Deserialize)]
struct BatchJob {
    id: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    errors: Vec<JobError>,
    output_file: Option<String>,
    error_file: Option<String>,
    metadata: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct JobError {
    message: String,
}

#[derive(Deserialize)]
struct JobList {
    #[serde(default)]
    data: Vec<BatchJob>,
}

#[derive(Deserialize)]
struct FileObject {
    id: String,
}

impl NativeBatches for MistralBatches {
    fn serves(&self, operation: Operation) -> bool {
        matches!(operation, Operation::ChatCompletions | Operation::Embeddings | Operation::Moderations)
    }

    fn has_one_model(&self) -> bool {
        true
    }

    fn takes_name(&self, _name: &str) -> bool {
        true
    }

    fn options(&self) -> &'static [&'static str] {
        &["metadata", "timeout_hours"]
    }

    fn line(&self, line: &NewLine<'_>) -> Vec<u8> {
        let mut body: Map<String, Value> = serde_json::from_str(line.body.get()).unwrap_or_default();
        // The job says it.
        body.remove("model");
        json!({ "custom_id": line.name, "body": body }).to_string().into_bytes()
    }

    fn upload(&self, _new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        let part = |head: &str| format!("--{BOUNDARY}\r\ncontent-disposition: form-data; {head}\r\n");
        let purpose = part("name=\"purpose\"") + "\r\nbatch\r\n";
        let file = part("name=\"file\"; filename=\"batch.jsonl\"") + "content-type: application/jsonl\r\n\r\n";
        let form = LinesForm {
            content_type: format!("multipart/form-data; boundary={BOUNDARY}"),
            front: purpose + &file,
            between: "\n",
            back: format!("\r\n--{BOUNDARY}--\r\n"),
        };
        Some(BatchCall {
            begins: false,
            at: CloudService::Api,
            method: Method::POST,
            path: "/files".to_owned(),
            body: BatchBody::Lines(form),
        })
    }

    fn uploaded(&self, _new: &NewBatchAsk<'_>, body: &[u8]) -> Option<String> {
        serde_json::from_slice::<FileObject>(body).ok().map(|file| file.id)
    }

    fn removal(&self, file: &str) -> Option<BatchCall> {
        Some(BatchCall {
            begins: false,
            at: CloudService::Api,
            method: Method::DELETE,
            path: format!("/files/{file}"),
            body: BatchBody::None,
        })
    }

    fn creation(&self, new: &NewBatchAsk<'_>) -> BatchCall {
        let mut body = new.options.clone();
        let metadata = body.entry("metadata").or_insert_with(|| json!({}));
        if let Value::Object(metadata) = metadata {
            metadata.insert(OWN_ID.to_owned(), new.own_id.into());
        }
        body.insert("input_files".to_owned(), json!([new.file]));
        body.insert("endpoint".to_owned(), format!("/v1{}", new.operation.facts().base).into());
        body.insert("model".to_owned(), new.model.into());
        body.entry("timeout_hours").or_insert_with(|| 24.into());
        BatchCall { begins: true, ..post(JOBS.to_owned(), Value::Object(body)) }
    }

    fn creation_of_file(&self, new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        Some(self.creation(new))
    }

    fn search(&self, _new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        Some(get(format!("{JOBS}?page_size=100")))
    }

    fn found(&self, body: &[u8], own_id: &str) -> Option<String> {
        let list: JobList = serde_json::from_slice(body).ok()?;
        let is_ours = |job: &BatchJob| {
            let name = job.metadata.as_ref().and_then(|metadata| metadata.get(OWN_ID));
            name.and_then(Value::as_str) == Some(own_id)
        };
        list.data.into_iter().find(is_ours).map(|job| job.id)
    }

    fn look(&self, id: &str) -> BatchCall {
        get(format!("{JOBS}/{id}"))
    }

    fn cancel(&self, id: &str) -> BatchCall {
        post(format!("{JOBS}/{id}/cancel"), json!({}))
    }
}

impl ToldBatches for MistralBatches {
    fn standing(&self, body: &[u8]) -> Option<NativeStanding> {
        let job: BatchJob = serde_json::from_slice(body).ok()?;
        let state = match job.status.as_str() {
            "QUEUED" => NativeState::Validating,
            "SUCCESS" => NativeState::Completed,
            "FAILED" => NativeState::Failed,
            "TIMEOUT_EXCEEDED" => NativeState::Expired,
            "CANCELLATION_REQUESTED" => NativeState::Cancelling,
            "CANCELLED" => NativeState::Cancelled,
            _ => NativeState::InProgress,
        };
        let files = [job.output_file, job.error_file].into_iter().flatten();
        let results = files.map(|file| get(format!("/files/{file}/content"))).collect();
        let problems = job.errors.into_iter().map(|error| error.message).collect();
        Some(NativeStanding { id: job.id, state, problems, results, told: Vec::new() })
    }

    fn answer(&self, line: &[u8]) -> Option<NativeLine> {
        result_line(line)
    }
}
