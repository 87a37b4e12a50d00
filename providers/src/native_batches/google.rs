//! Batches of Gemini's: one of a model, an operation that runs long. Requests go up with it and answers come back in it,
//! each with a key in its metadata.

use super::{
    BatchBody, BatchCall, LineEnd, LinesForm, NativeBatches, NativeLine, NativeStanding, NativeState, ToldBatches,
};
use super::{NewBatchAsk, NewLine, get, post};
use bytes::Bytes;
use gateway_domain::Operation;
use gateway_domain::cloud::CloudService;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

pub(super) struct GoogleBatches;

/// Of a batch whose requests go up with it.
const MOST_UP: u64 = 20 << 20;
/// Of an answer with all answers in it.
const MOST_TOLD: usize = 64 << 20;

#[derive(Serialize)]
struct KeyedRequest<'a> {
    request: &'a RawValue,
    metadata: RequestKey,
}

#[derive(Deserialize, Serialize)]
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
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InlinedResponses<'a> {
    #[serde(borrow, default)]
    inlined_responses: Vec<InlinedResponse<'a>>,
}

#[derive(Deserialize)]
struct InlinedResponse<'a> {
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
        let metadata = RequestKey { key: line.name.to_owned() };
        serde_json::to_vec(&KeyedRequest { request: line.body, metadata }).unwrap_or_default()
    }

    fn creation(&self, new: &NewBatchAsk<'_>) -> BatchCall {
        let model = new.model.unwrap_or_default();
        let place = if model.contains('/') { "/v1beta/" } else { "/v1beta/models/" };
        let form = LinesForm {
            content_type: "application/json".to_owned(),
            front: format!(
                "{{\"batch\":{{\"displayName\":{},\"inputConfig\":{{\"requests\":{{\"requests\":[",
                json!(new.own_id)
            ),
            between: ",",
            back: "]}}}}".to_owned(),
        };
        let path = format!("{place}{model}:batchGenerateContent");
        BatchCall { begins: true, at: CloudService::Api, method: Method::POST, path, body: BatchBody::Lines(form) }
    }

    fn search(&self) -> Option<BatchCall> {
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
        let answers = output.and_then(|output| output.inlined_responses).map(|all| all.inlined_responses);
        let told = answers.unwrap_or_default().into_iter().filter_map(line_of).collect();
        let problems = batch.error.into_iter().map(|error| error.message).collect();
        Some(NativeStanding { id: batch.name, state, problems, results: Vec::new(), told })
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
    Some(NativeLine { name: told.metadata?.key, end })
}

/// Google's own numbers of errors (`google.rpc.Code`), or HTTP's.
fn http_status(code: u64) -> u16 {
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
