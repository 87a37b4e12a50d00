//! Anthropic's Message Batches: the lines go up with the batch, each with its own model, and the results come in any
//! order. A batch has no field for a name of the client's: of one that may have been made only its time and its size
//! can be told.

use super::{
    BatchBody, BatchCall, LineEnd, LinesForm, NativeBatches, NativeLine, NativeStanding, NativeState, ToldBatches,
};
use super::{NewBatchAsk, NewLine, get, post};
use crate::failure::ProviderError;
use bytes::Bytes;
use gateway_domain::Operation;
use gateway_domain::cloud::CloudService;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

pub(super) struct AnthropicBatches;

const PATH: &str = "/messages/batches";

#[derive(Serialize)]
struct BatchedRequest<'a> {
    custom_id: &'a str,
    params: &'a RawValue,
}

#[derive(Deserialize)]
struct MessageBatch {
    id: String,
    processing_status: String,
    cancel_initiated_at: Option<String>,
    /// When the batch was made, in ISO 8601 and UTC: the later is the greater text.
    #[serde(default)]
    created_at: String,
    #[serde(default)]
    request_counts: RequestCounts,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RequestCounts {
    processing: u64,
    succeeded: u64,
    errored: u64,
    canceled: u64,
    expired: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BatchList {
    data: Vec<MessageBatch>,
}

impl RequestCounts {
    const fn all(&self) -> u64 {
        self.processing + self.succeeded + self.errored + self.canceled + self.expired
    }
}

#[derive(Deserialize)]
struct IndividualResponse<'a> {
    custom_id: String,
    #[serde(borrow)]
    result: LineResult<'a>,
}

#[derive(Deserialize)]
struct LineResult<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

impl NativeBatches for AnthropicBatches {
    fn serves(&self, operation: Operation) -> bool {
        matches!(operation, Operation::ChatCompletions | Operation::Messages | Operation::Responses)
    }

    fn has_one_model(&self) -> bool {
        false
    }

    fn takes_name(&self, name: &str) -> bool {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        (1..=64).contains(&name.len()) && name.bytes().all(fits)
    }

    fn line(&self, line: &NewLine<'_>) -> Vec<u8> {
        serde_json::to_vec(&BatchedRequest { custom_id: line.name, params: line.body }).unwrap_or_default()
    }

    fn creation(&self, _new: &NewBatchAsk<'_>) -> BatchCall {
        let form = LinesForm {
            content_type: "application/json".to_owned(),
            front: "{\"requests\":[".to_owned(),
            between: ",",
            back: "]}".to_owned(),
        };
        BatchCall {
            begins: true,
            at: CloudService::Api,
            method: Method::POST,
            path: PATH.to_owned(),
            body: BatchBody::Lines(form),
        }
    }

    fn search(&self, _new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        Some(get(format!("{PATH}?limit=100")))
    }

    fn names_batches(&self) -> bool {
        false
    }

    fn doubted(&self, body: &[u8], lines: u64, since: &str) -> Vec<String> {
        let Ok(list) = serde_json::from_slice::<BatchList>(body) else { return Vec::new() };
        let fits = |batch: &MessageBatch| batch.request_counts.all() == lines && batch.created_at.as_str() >= since;
        list.data.into_iter().filter(fits).map(|batch| batch.id).collect()
    }

    fn look(&self, id: &str) -> BatchCall {
        get(format!("{PATH}/{id}"))
    }

    fn cancel(&self, id: &str) -> BatchCall {
        post(format!("{PATH}/{id}/cancel"), json!({}))
    }
}

impl ToldBatches for AnthropicBatches {
    fn standing(&self, body: &[u8]) -> Option<NativeStanding> {
        let batch: MessageBatch = serde_json::from_slice(body).ok()?;
        let counts = &batch.request_counts;
        let answered = counts.succeeded + counts.errored;
        let state = match batch.processing_status.as_str() {
            "canceling" => NativeState::Cancelling,
            "ended" if answered == 0 && batch.cancel_initiated_at.is_some() => NativeState::Cancelled,
            "ended" if answered == 0 && counts.canceled == 0 && counts.expired > 0 => NativeState::Expired,
            "ended" => NativeState::Completed,
            _ => NativeState::InProgress,
        };
        let results = if state.has_ended() { vec![get(format!("{PATH}/{}/results", batch.id))] } else { Vec::new() };
        Some(NativeStanding { id: batch.id, state, problems: Vec::new(), results, told: Vec::new() })
    }

    fn answer(&self, line: &[u8]) -> Option<NativeLine> {
        let told: IndividualResponse<'_> = serde_json::from_slice(line).ok()?;
        let owned = |raw: &RawValue| Bytes::copy_from_slice(raw.get().as_bytes());
        let end = match (told.result.kind.as_str(), told.result.message, told.result.error) {
            ("succeeded", Some(message), _) => LineEnd::Answered { status: 200, body: owned(message) },
            ("canceled", ..) => LineEnd::Cancelled,
            ("expired", ..) => LineEnd::Expired,
            (_, _, Some(error)) => {
                let status = ProviderError::read(error.get().as_bytes()).map_or(500, |error| error.status());
                LineEnd::Answered { status, body: owned(error) }
            }
            _ => return None,
        };
        Some(NativeLine { name: told.custom_id, end })
    }
}
