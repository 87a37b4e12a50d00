//! Batch inference jobs of Fireworks AI (<https://docs.fireworks.ai/guides/batch-inference>): lines go up as a dataset
//! of the account, the job names the model of all of them, and what came of them is another dataset, read at addresses
//! that are signed for a few minutes. There is no cancelling: a job that is removed is gone, with all that it answered.

use super::{BatchCall, BatchPlace, LineEnd, NativeBatches, NativeLine, NativeStanding, NativeState, ToldBatches};
use super::{NewBatchAsk, NewLine, ReadAddresses, delete_at, get_at, post_at};
use crate::kept_files::{MOST_DATASET, batch_name, dataset_addresses, dataset_upload, new_dataset};
use bytes::Bytes;
use gateway_domain::Operation;
use gateway_domain::cloud::CloudService;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

pub(super) struct FireworksBatches;

const JOBS: &str = "batchInferenceJobs";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InferenceJob {
    name: String,
    #[serde(default)]
    state: String,
    status: Option<InferenceTrouble>,
    output_dataset_id: Option<String>,
}

#[derive(Deserialize)]
struct InferenceTrouble {
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InferenceJobs {
    #[serde(default)]
    batch_inference_jobs: Vec<InferenceJob>,
}

#[derive(Deserialize)]
struct Dataset {
    #[serde(default)]
    state: String,
}

#[derive(Deserialize)]
struct DatasetRow<'a> {
    custom_id: String,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// An answer with a status around it, as others tell theirs.
#[derive(Deserialize)]
struct WrappedAnswer<'a> {
    status_code: u16,
    #[serde(borrow)]
    body: &'a RawValue,
}

#[derive(Deserialize)]
struct RowTrouble {
    code: Option<Value>,
    message: Option<String>,
}

fn parent(place: &BatchPlace) -> &str {
    place.parent.as_deref().unwrap_or_default()
}

/// The whole name of a dataset, from the ways in which clients write it.
fn dataset(place: &BatchPlace, id: &str) -> String {
    if id.contains('/') { id.to_owned() } else { format!("{}/datasets/{id}", parent(place)) }
}

impl ToldBatches for FireworksBatches {
    fn standing(&self, body: &[u8]) -> Option<NativeStanding> {
        let job: InferenceJob = serde_json::from_slice(body).ok()?;
        let state = match job.state.trim_start_matches("JOB_STATE_") {
            "RUNNING" | "RE_QUEUEING" | "IDLE" | "PAUSED" => NativeState::InProgress,
            "WRITING_RESULTS" => NativeState::Finalizing,
            "COMPLETED" => NativeState::Completed,
            "FAILED" => NativeState::Failed,
            "EXPIRED" | "EARLY_STOPPED" => NativeState::Expired,
            "CANCELLING" => NativeState::Cancelling,
            "CANCELLED" | "DELETING" | "DELETING_CLEANING_UP" | "DELETED" | "ARCHIVED" => NativeState::Cancelled,
            // VALIDATING, CREATING, CREATING_INPUT_DATASET, PENDING, and the answer to the creation.
            _ => NativeState::Validating,
        };
        let (account, _) = job.name.split_once(&format!("/{JOBS}/"))?;
        let place = BatchPlace { parent: Some(account.to_owned()), bucket: None };
        let read = state.has_ended() && state != NativeState::Failed && state != NativeState::Cancelled;
        let output = job.output_dataset_id.filter(|id| read && !id.is_empty());
        let addresses =
            |id: String| get_at(CloudService::Control, format!("/v1/{}:getDownloadEndpoint", dataset(&place, &id)));
        let results = output.map(addresses).into_iter().collect();
        let trouble = job.status.map(|status| status.message).filter(|message| !message.is_empty());
        Some(NativeStanding { id: job.name, state, problems: trouble.into_iter().collect(), results, told: Vec::new() })
    }

    fn addresses(&self) -> Option<ReadAddresses> {
        Some(dataset_addresses)
    }

    fn answer(&self, line: &[u8]) -> Option<NativeLine> {
        let told: DatasetRow<'_> = serde_json::from_slice(line).ok()?;
        let owned = |raw: &RawValue| Bytes::copy_from_slice(raw.get().as_bytes());
        let (status, body) = match (told.response, told.error) {
            (Some(answer), _) => match serde_json::from_str::<WrappedAnswer<'_>>(answer.get()) {
                Ok(wrapped) => (wrapped.status_code, owned(wrapped.body)),
                Err(_) => (200, owned(answer)),
            },
            (None, Some(error)) => refusal(error),
            (None, None) => return None,
        };
        Some(NativeLine { name: told.custom_id, end: LineEnd::Answered { status, body } })
    }
}

impl NativeBatches for FireworksBatches {
    fn serves(&self, operation: Operation) -> bool {
        operation == Operation::ChatCompletions
    }

    fn has_one_model(&self) -> bool {
        true
    }

    fn takes_name(&self, _name: &str) -> bool {
        true
    }

    fn options(&self) -> &'static [&'static str] {
        &["job_name"]
    }

    fn most_up(&self) -> u64 {
        MOST_DATASET
    }

    fn lacks(&self, new: &NewBatchAsk<'_>) -> Option<&'static str> {
        new.place.parent.is_none().then_some("the setting fireworks_account_id")
    }

    fn line(&self, line: &NewLine<'_>) -> Vec<u8> {
        let mut body: Map<String, Value> = serde_json::from_str(line.body.get()).unwrap_or_default();
        // The job says it.
        body.remove("model");
        json!({ "custom_id": line.name, "body": body }).to_string().into_bytes()
    }

    fn ahead(&self, new: &NewBatchAsk<'_>, lines: u64) -> Option<BatchCall> {
        Some(new_dataset(new.place, &batch_name(new.own_id), (None, lines)))
    }

    fn upload(&self, new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        Some(dataset_upload(new.place, &batch_name(new.own_id), "lines.jsonl"))
    }

    fn uploaded(&self, new: &NewBatchAsk<'_>, _body: &[u8]) -> Option<String> {
        Some(dataset(new.place, &batch_name(new.own_id)))
    }

    fn readiness(&self, file: &str) -> Option<BatchCall> {
        Some(get_at(CloudService::Control, format!("/v1/{file}")))
    }

    fn is_ready(&self, body: &[u8]) -> bool {
        serde_json::from_slice::<Dataset>(body).is_ok_and(|dataset| dataset.state == "READY")
    }

    fn removal(&self, file: &str) -> Option<BatchCall> {
        Some(delete_at(CloudService::Control, format!("/v1/{file}")))
    }

    fn creation(&self, new: &NewBatchAsk<'_>) -> BatchCall {
        let name = batch_name(new.own_id);
        let body = json!({
            "displayName": new.options.get("job_name").cloned().unwrap_or_else(|| new.own_id.into()),
            "model": new.model, "inputDatasetId": dataset(new.place, new.file.unwrap_or_default()),
            "outputDatasetId": dataset(new.place, &format!("{name}-out")),
        });
        let path = format!("/v1/{}/{JOBS}?batchInferenceJobId={name}", parent(new.place));
        BatchCall { begins: true, ..post_at(CloudService::Control, path, body) }
    }

    fn creation_of_file(&self, new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        Some(self.creation(new))
    }

    fn search(&self, new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        let path = format!("/v1/{}/{JOBS}?pageSize=200&orderBy=create_time%20desc", parent(new.place));
        Some(get_at(CloudService::Control, path))
    }

    fn found(&self, body: &[u8], own_id: &str) -> Option<String> {
        let (list, name) = (serde_json::from_slice::<InferenceJobs>(body).ok()?, batch_name(own_id));
        let mut names = list.batch_inference_jobs.into_iter().map(|job| job.name);
        names.find(|found| found.rsplit('/').next() == Some(&*name))
    }

    fn look(&self, id: &str) -> BatchCall {
        get_at(CloudService::Control, format!("/v1/{id}"))
    }

    fn cancel(&self, id: &str) -> BatchCall {
        delete_at(CloudService::Control, format!("/v1/{id}"))
    }

    fn forgets_cancelled(&self) -> bool {
        true
    }
}

/// A row of the file of errors, in whichever shape.
fn refusal(error: &RawValue) -> (u16, Bytes) {
    let told = serde_json::from_str::<RowTrouble>(error.get()).ok();
    let code = told.as_ref().and_then(|told| told.code.as_ref()?.as_u64()).and_then(|code| u16::try_from(code).ok());
    let message = told.and_then(|told| told.message).or_else(|| serde_json::from_str(error.get()).ok());
    let message = message.unwrap_or_else(|| error.get().to_owned());
    let status = code.filter(|code| (400..600).contains(code)).unwrap_or(500);
    (status, json!({ "error": { "message": message } }).to_string().into())
}
