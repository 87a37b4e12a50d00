//! A batch at a provider, as OpenAI's interface tells of it: what goes up, and how it stands. Pure.

use super::document::{BatchProblem, BatchStatus};
use super::lines::LineAsked;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The boundary of the multipart form by which a file goes up. No line of JSON begins like it.
const BOUNDARY: &str = "gateway-batch-6f1b0c5e7d";
/// Problems that are told again.
const MOST_TOLD: usize = 100;

/// The provider's batch as it stands.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NativeBatch {
    pub(super) id: String,
    status: String,
    pub(super) output_file_id: Option<String>,
    pub(super) error_file_id: Option<String>,
    pub(super) metadata: Option<Map<String, Value>>,
    errors: Option<NativeProblems>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NativeProblems {
    data: Vec<NativeProblem>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NativeProblem {
    code: Option<String>,
    message: Option<String>,
    param: Option<String>,
    line: Option<u64>,
}

/// A page of a list of batches.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NativeList {
    pub(super) data: Vec<NativeBatch>,
}

impl NativeBatch {
    /// A word that nobody knows is one of a batch that goes on.
    pub(super) fn status(&self) -> BatchStatus {
        match self.status.to_ascii_lowercase().as_str() {
            "validating" => BatchStatus::Validating,
            "finalizing" => BatchStatus::Finalizing,
            "completed" => BatchStatus::Completed,
            "failed" => BatchStatus::Failed,
            "expired" => BatchStatus::Expired,
            "cancelling" => BatchStatus::Cancelling,
            "cancelled" => BatchStatus::Cancelled,
            _ => BatchStatus::InProgress,
        }
    }

    pub(super) fn problems(self) -> Vec<BatchProblem> {
        let told = self.errors.unwrap_or_default().data.into_iter().take(MOST_TOLD);
        told.map(|problem| BatchProblem {
            code: problem.code.unwrap_or_else(|| "provider_failed".to_owned()),
            message: problem.message.unwrap_or_default(),
            param: problem.param,
            line: problem.line,
        })
        .collect()
    }
}

/// A line as it goes up, with this body and the model that the config leads it to; it ends a line of its file.
pub(super) fn native_line(asked: &LineAsked<'_>, body: &RawValue, model: Option<&str>) -> Option<Vec<u8>> {
    let mut body: Map<String, Value> = serde_json::from_str(body.get()).ok()?;
    if let Some(model) = model {
        body.insert("model".to_owned(), model.into());
    }
    let mut line = Map::new();
    line.insert("custom_id".to_owned(), asked.custom_id.as_str().into());
    line.insert("method".to_owned(), "POST".into());
    line.insert("url".to_owned(), asked.url.as_str().into());
    line.insert("body".to_owned(), Value::Object(body));
    let mut text = Value::Object(line).to_string().into_bytes();
    text.push(b'\n');
    Some(text)
}

pub(super) fn form_type() -> String {
    format!("multipart/form-data; boundary={BOUNDARY}")
}

/// What stands before and behind the lines of the file in its form.
pub(super) fn form_around() -> (String, String) {
    let part = |head: &str| format!("--{BOUNDARY}\r\ncontent-disposition: form-data; {head}\r\n");
    let purpose = part("name=\"purpose\"") + "\r\nbatch\r\n";
    let file = part("name=\"file\"; filename=\"batch.jsonl\"") + "content-type: application/jsonl\r\n\r\n";
    (purpose + &file, format!("\r\n--{BOUNDARY}--\r\n"))
}

/// What the provider's batch is asked with: the options of the client, and what the gateway says itself.
pub(super) fn creation(options: &Map<String, Value>, own_id: &str, (file, endpoint): (&str, &str)) -> Value {
    let mut body = options.clone();
    let metadata = body.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(metadata) = metadata {
        metadata.insert(OWN_ID.to_owned(), own_id.into());
    }
    for (name, value) in [("input_file_id", file), ("endpoint", endpoint), ("completion_window", "24h")] {
        body.insert(name.to_owned(), value.into());
    }
    Value::Object(body)
}

/// The member of a batch's metadata that holds our own id for it: by it a batch is found again whose maker died before
/// it could note the provider's name.
const OWN_ID: &str = "gateway_batch_id";

pub(super) fn is_of(batch: &NativeBatch, own_id: &str) -> bool {
    batch.metadata.as_ref().is_some_and(|metadata| metadata.get(OWN_ID).and_then(Value::as_str) == Some(own_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn statuses_are_read_whatever_their_case_and_unknown_ones_go_on() {
        let of = |status: &str| {
            serde_json::from_value::<NativeBatch>(json!({ "id": "b", "status": status })).expect("a batch").status()
        };
        assert_eq!([of("COMPLETED"), of("cancelled")], [BatchStatus::Completed, BatchStatus::Cancelled]);
        assert_eq!([of("IN_PROGRESS"), of("queued")], [BatchStatus::InProgress; 2]);
    }

    #[test]
    fn a_line_goes_up_with_the_model_that_it_is_led_to() {
        let text = r#"{"custom_id":"a","method":"POST","url":"/v1/x","body":{"model":"@p/m","n":1}}"#;
        let asked: LineAsked<'_> = serde_json::from_str(text).expect("a line");
        let line = native_line(&asked, asked.body, Some("m")).expect("an object");
        let read: Value = serde_json::from_slice(&line).expect("JSON");
        assert_eq!(read["body"], json!({ "model": "m", "n": 1 }));
        assert!(line.ends_with(b"\n"));
    }

    #[test]
    fn the_gateways_own_words_stand_above_the_options() {
        let options = json!({ "endpoint": "/v1/other", "job_name": "j", "metadata": { "a": "b" } });
        let options = options.as_object().expect("an object");
        let body = creation(options, "gw_batch_1", ("file-1", "/v1/embeddings"));
        assert_eq!((&body["endpoint"], &body["job_name"]), (&json!("/v1/embeddings"), &json!("j")));
        assert_eq!(body["metadata"], json!({ "a": "b", "gateway_batch_id": "gw_batch_1" }));
        let made: NativeBatch = serde_json::from_value(body).expect("a batch");
        assert!(is_of(&made, "gw_batch_1") && !is_of(&made, "gw_batch_2"));
    }
}
