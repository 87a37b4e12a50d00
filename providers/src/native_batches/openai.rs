//! Batches of families that serve OpenAI's own interface for them. Calls about these pass as they are; read here is
//! what their answers tell, for what is counted. Words and shapes differ a little: Together writes states in capitals,
//! puts a batch that it made into a `job`, and lists batches without anything around them.
//! <https://platform.openai.com/docs/api-reference/batch>, <https://docs.together.ai/reference/batch-create>.

use super::{LineEnd, NativeLine, NativeStanding, NativeState, ToldBatches, get};
use crate::stored_files::encoded;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Debug)]
pub struct OpenAiBatches;

pub const OPENAI_BATCHES: &OpenAiBatches = &OpenAiBatches;

#[derive(Deserialize)]
struct ToldBatch {
    id: String,
    #[serde(default)]
    status: String,
    output_file_id: Option<String>,
    error_file_id: Option<String>,
}

#[derive(Deserialize)]
struct ResultLine<'a> {
    custom_id: String,
    #[serde(borrow, default)]
    response: Option<ResultBody<'a>>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ResultBody<'a> {
    #[serde(default)]
    status_code: u16,
    #[serde(borrow)]
    body: &'a RawValue,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LineTrouble {
    code: Option<String>,
}

/// The batches that an answer tells of: one, or a list of them.
pub fn passed_batches(body: &[u8]) -> Vec<Value> {
    match serde_json::from_slice(body).unwrap_or_default() {
        Value::Array(batches) => batches,
        Value::Object(mut told) => match (told.remove("data"), told.remove("job")) {
            (Some(Value::Array(batches)), _) => batches,
            (_, Some(job @ Value::Object(_))) => vec![job],
            _ => vec![Value::Object(told)],
        },
        _ => Vec::new(),
    }
}

/// A line of files as OpenAI writes results.
pub(super) fn result_line(line: &[u8]) -> Option<NativeLine> {
    let told: ResultLine<'_> = serde_json::from_slice(line).ok()?;
    let owned = |raw: &RawValue| Bytes::copy_from_slice(raw.get().as_bytes());
    let end = match (&told.response, told.error) {
        (Some(response), _) => LineEnd::Answered { status: response.status_code, body: owned(response.body) },
        (None, Some(error)) => {
            let code = serde_json::from_str::<LineTrouble>(error.get()).unwrap_or_default().code;
            match code.as_deref() {
                Some("batch_expired") => LineEnd::Expired,
                Some("batch_cancelled") => LineEnd::Cancelled,
                _ => LineEnd::Answered { status: 500, body: owned(error) },
            }
        }
        (None, None) => return None,
    };
    Some(NativeLine { name: told.custom_id, end })
}

impl ToldBatches for OpenAiBatches {
    fn standing(&self, body: &[u8]) -> Option<NativeStanding> {
        let batch: ToldBatch = serde_json::from_slice(body).ok()?;
        let state = match batch.status.to_ascii_lowercase().as_str() {
            "validating" => NativeState::Validating,
            "finalizing" => NativeState::Finalizing,
            "completed" => NativeState::Completed,
            "failed" => NativeState::Failed,
            "expired" => NativeState::Expired,
            "cancelling" => NativeState::Cancelling,
            "cancelled" => NativeState::Cancelled,
            _ => NativeState::InProgress,
        };
        let files = [batch.output_file_id, batch.error_file_id].into_iter().flatten().filter(|file| !file.is_empty());
        let results = files.map(|file| get(format!("/files/{}/content", encoded(&file, b"")))).collect();
        Some(NativeStanding { id: batch.id, state, problems: Vec::new(), results, told: Vec::new() })
    }

    fn answer(&self, line: &[u8]) -> Option<NativeLine> {
        result_line(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn batches_are_found_however_they_are_told() {
        let batch = json!({ "id": "b", "status": "COMPLETED", "output_file_id": "file-1", "error_file_id": null });
        for told in [
            batch.clone(),
            json!({ "job": batch, "warning": "" }),
            json!({ "object": "list", "data": [batch] }),
            json!([batch]),
        ] {
            let found = passed_batches(told.to_string().as_bytes());
            assert_eq!(found, std::slice::from_ref(&batch), "{told}");
            let standing = OPENAI_BATCHES.standing(found[0].to_string().as_bytes()).expect("a batch");
            assert_eq!((standing.id.as_str(), standing.state), ("b", NativeState::Completed));
            assert_eq!(
                standing.results.iter().map(|call| call.path.as_str()).collect::<Vec<_>>(),
                ["/files/file-1/content"]
            );
        }
        assert!(passed_batches(b"nothing").is_empty());
        let of = |status: &str| {
            let told = json!({ "id": "b", "status": status }).to_string();
            OPENAI_BATCHES.standing(told.as_bytes()).expect("a batch").state
        };
        assert_eq!(
            [of("queued"), of("cancelled"), of("Expired")],
            [NativeState::InProgress, NativeState::Cancelled, NativeState::Expired]
        );
    }

    #[test]
    fn lines_end_as_they_were_answered() {
        let end = |line: Value| result_line(line.to_string().as_bytes()).map(|line| line.end);
        let answered =
            json!({ "custom_id": "a", "response": { "status_code": 200, "body": { "n": 1 } }, "error": null });
        let body = Bytes::from_static(b"{\"n\":1}");
        assert_eq!(end(answered), Some(LineEnd::Answered { status: 200, body }));
        let stopped = |code: &str| json!({ "custom_id": "a", "response": null, "error": { "code": code } });
        assert_eq!(end(stopped("batch_expired")), Some(LineEnd::Expired));
        assert_eq!(end(stopped("batch_cancelled")), Some(LineEnd::Cancelled));
        assert!(matches!(end(stopped("other")), Some(LineEnd::Answered { status: 500, .. })));
        assert_eq!(end(json!({ "id": "of no line" })), None);
    }
}
