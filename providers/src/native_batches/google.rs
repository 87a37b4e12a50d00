//! Batches of Gemini's: one of a model, an operation that runs long. Requests go up as a file and answers come back as
//! one, each with its key. Requests could go up with the batch as well, up to 20 MB: its answers come back in it then,
//! and are read, as there may be such from before and from elsewhere.

use super::{BatchCall, LineEnd, NativeBatches, NativeLine, NativeStanding, NativeState, ToldBatches};
use super::{NewBatchAsk, NewLine, get, post};
use crate::kept_files::{batch_name, google_file};
use bytes::Bytes;
use gateway_domain::Operation;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

pub(super) struct GoogleBatches;

/// Bytes of a file that goes up: the provider's own bound is 2 GB.
const MOST_UP: u64 = 2_000_000_000;
/// Bytes that are read of what is told of a batch, which may hold all of its answers.
const MOST_TOLD: usize = 64 << 20;

#[derive(Serialize)]
struct KeyedRequest<'a> {
    key: &'a str,
    request: &'a RawValue,
}

#[derive(Deserialize)]
struct RequestKey {
    key: String,
}

#[derive(Deserialize)]
struct BatchOperation<'a> {
    name: String,
    #[serde(borrow)]
    metadata: Option<BatchMetadata<'a>>,
    #[serde(borrow)]
    response: Option<BatchOutput<'a>>,
    error: Option<OperationTrouble>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BatchMetadata<'a> {
    #[serde(default)]
    state: String,
    display_name: Option<String>,
    #[serde(borrow)]
    output: Option<BatchOutput<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BatchOutput<'a> {
    #[serde(borrow)]
    inlined_responses: Option<InlinedResponses<'a>>,
    responses_file: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InlinedResponses<'a> {
    #[serde(borrow, default)]
    inlined_responses: Vec<InlinedResponse<'a>>,
}

#[derive(Deserialize)]
struct InlinedResponse<'a> {
    key: Option<String>,
    metadata: Option<RequestKey>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OperationTrouble {
    #[serde(default)]
    code: u64,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct OperationList<'a> {
    #[serde(borrow, default)]
    operations: Vec<BatchOperation<'a>>,
}

/// The file's name as paths have it, made from any of the ways in which clients name it.
fn file_name(file: &str) -> String {
    format!("files/{}", file.rsplit('/').next().unwrap_or(file))
}

impl NativeBatches for GoogleBatches {
    fn serves(&self, operation: Operation) -> bool {
        matches!(operation, Operation::ChatCompletions | Operation::Messages | Operation::Responses)
    }

    fn has_one_model(&self) -> bool {
        true
    }

    fn takes_name(&self, _name: &str) -> bool {
        true
    }

    fn most_up(&self) -> u64 {
        MOST_UP
    }

    fn most_told(&self) -> usize {
        MOST_TOLD
    }

    fn line(&self, line: &NewLine<'_>) -> Vec<u8> {
        serde_json::to_vec(&KeyedRequest { key: line.name, request: line.body }).unwrap_or_default()
    }

    fn upload(&self, new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        Some(google_file(Some(&batch_name(new.own_id)), new.own_id, "application/jsonl"))
    }

    fn takes_once(&self) -> bool {
        true
    }

    fn uploaded(&self, new: &NewBatchAsk<'_>, _body: &[u8]) -> Option<String> {
        Some(file_name(&batch_name(new.own_id)))
    }

    fn removal(&self, file: &str) -> Option<BatchCall> {
        Some(BatchCall { method: Method::DELETE, ..get(format!("/v1beta/{}", file_name(file))) })
    }

    fn creation(&self, new: &NewBatchAsk<'_>) -> BatchCall {
        let model = new.model.unwrap_or_default();
        let place = if model.contains('/') { "/v1beta/" } else { "/v1beta/models/" };
        let input = json!({ "fileName": file_name(new.file.unwrap_or_default()) });
        let body = json!({ "batch": { "displayName": new.own_id, "inputConfig": input } });
        BatchCall { begins: true, ..post(format!("{place}{model}:batchGenerateContent"), body) }
    }

    fn creation_of_file(&self, new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        Some(self.creation(new))
    }

    fn search(&self, _new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        Some(get("/v1beta/batches?pageSize=100".to_owned()))
    }

    fn found(&self, body: &[u8], own_id: &str) -> Option<String> {
        let list: OperationList<'_> = serde_json::from_slice(body).ok()?;
        let is_ours = |batch: &BatchOperation<'_>| {
            batch.metadata.as_ref().and_then(|metadata| metadata.display_name.as_deref()) == Some(own_id)
        };
        list.operations.into_iter().find(is_ours).map(|batch| batch.name)
    }

    fn look(&self, id: &str) -> BatchCall {
        get(format!("/v1beta/{id}"))
    }

    fn cancel(&self, id: &str) -> BatchCall {
        post(format!("/v1beta/{id}:cancel"), json!({}))
    }
}

impl ToldBatches for GoogleBatches {
    fn standing(&self, body: &[u8]) -> Option<NativeStanding> {
        let batch: BatchOperation<'_> = serde_json::from_slice(body).ok()?;
        let told = batch.metadata.as_ref().map_or("", |metadata| metadata.state.as_str());
        let state = match told.trim_start_matches("BATCH_STATE_").trim_start_matches("JOB_STATE_") {
            _ if batch.error.is_some() => NativeState::Failed,
            "PENDING" | "QUEUED" => NativeState::Validating,
            "SUCCEEDED" | "PARTIALLY_SUCCEEDED" => NativeState::Completed,
            "FAILED" => NativeState::Failed,
            "EXPIRED" => NativeState::Expired,
            "CANCELLING" => NativeState::Cancelling,
            "CANCELLED" => NativeState::Cancelled,
            _ => NativeState::InProgress,
        };
        let output = batch.response.or_else(|| batch.metadata.and_then(|metadata| metadata.output));
        let (inlined, file) =
            output.map(|output| (output.inlined_responses, output.responses_file)).unwrap_or_default();
        let content = |file: String| get(format!("/download/v1beta/{}:download?alt=media", file_name(&file)));
        let results = file.map(content).into_iter().collect();
        let told =
            inlined.map(|all| all.inlined_responses).unwrap_or_default().into_iter().filter_map(line_of).collect();
        let problems = batch.error.into_iter().map(|error| error.message).collect();
        Some(NativeStanding { id: batch.name, state, problems, results, told })
    }

    fn answer(&self, line: &[u8]) -> Option<NativeLine> {
        line_of(serde_json::from_slice(line).ok()?)
    }
}

fn line_of(told: InlinedResponse<'_>) -> Option<NativeLine> {
    let owned = |raw: &RawValue| Bytes::copy_from_slice(raw.get().as_bytes());
    let end = match (told.response, told.error) {
        (Some(answer), _) => LineEnd::Answered { status: 200, body: owned(answer) },
        (None, Some(error)) => {
            let status =
                serde_json::from_str::<OperationTrouble>(error.get()).map_or(500, |told| http_status(told.code));
            LineEnd::Answered { status, body: format!("{{\"error\":{}}}", error.get()).into() }
        }
        (None, None) => return None,
    };
    Some(NativeLine { name: told.key.or_else(|| Some(told.metadata?.key))?, end })
}

/// Google's own numbers of errors (`google.rpc.Code`), or HTTP's.
pub(super) fn http_status(code: u64) -> u16 {
    match code {
        400..=599 => u16::try_from(code).unwrap_or(500),
        1 => 499,
        3 | 9 | 11 => 400,
        4 => 504,
        5 => 404,
        6 | 10 => 409,
        7 => 403,
        8 => 429,
        12 => 501,
        14 => 503,
        16 => 401,
        _ => 500,
    }
}
