//! Bedrock's model invocation jobs: lines go up as an object of S3, the job names the model of all of them, and what
//! came of them stands in an object beside. A chat is written as Converse takes it, an embedding as its model does.

use super::{BatchCall, LineEnd, NativeBatches, NativeLine, NativeStanding, NativeState, ToldBatches};
use super::{NewBatchAsk, NewLine, delete_at, get_at, is_printable, post_at, store_lines};
use bytes::Bytes;
use gateway_domain::Operation;
use gateway_domain::cloud::CloudService;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

pub(super) struct BedrockBatches;

const JOBS: &str = "/model-invocation-job";
/// Where all of it lies in the bucket.
const FOLDER: &str = "gateway-batches";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    record_id: &'a str,
    model_input: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InvocationJob {
    job_arn: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    message: Option<String>,
    input_data_config: Option<DataConfig>,
    output_data_config: Option<DataConfig>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DataConfig {
    #[serde(alias = "s3OutputDataConfig")]
    s3_input_data_config: S3Place,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct S3Place {
    s3_uri: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordResult<'a> {
    record_id: String,
    #[serde(borrow)]
    model_output: Option<&'a RawValue>,
    error: Option<RecordError>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordError {
    #[serde(default)]
    error_code: u16,
    #[serde(default)]
    error_message: String,
    #[serde(default)]
    expired: bool,
}

/// Names of jobs have no underscores.
fn job_name(new: &NewBatchAsk<'_>) -> String {
    new.own_id.replace('_', "-")
}

fn key_of(new: &NewBatchAsk<'_>) -> String {
    format!("{FOLDER}/{}/lines.jsonl", job_name(new))
}

/// `s3://bucket/key` as the path of a request.
fn path_of(uri: &str) -> Option<String> {
    uri.strip_prefix("s3://").filter(|rest| rest.contains('/')).map(|rest| format!("/{rest}"))
}

impl InvocationJob {
    fn id(&self) -> &str {
        self.job_arn.rsplit('/').next().unwrap_or(&self.job_arn)
    }

    /// `{output}/{job}/{input}.out`.
    fn result(&self) -> Option<String> {
        let uri =
            |config: &Option<DataConfig>| config.as_ref().map(|config| config.s3_input_data_config.s3_uri.clone());
        let (input, output) = (uri(&self.input_data_config)?, uri(&self.output_data_config)?);
        let name = input.rsplit('/').next()?;
        path_of(&format!("{}/{}/{name}.out", output.trim_end_matches('/'), self.id()))
    }
}

impl NativeBatches for BedrockBatches {
    fn serves(&self, operation: Operation) -> bool {
        matches!(operation, Operation::ChatCompletions | Operation::Responses | Operation::Embeddings)
    }

    fn has_one_model(&self) -> bool {
        true
    }

    fn takes_name(&self, name: &str) -> bool {
        is_printable(name)
    }

    fn options(&self) -> &'static [&'static str] {
        &["role_arn", "job_name", "timeout_hours"]
    }

    fn lacks(&self, new: &NewBatchAsk<'_>) -> Option<&'static str> {
        if new.place.bucket.is_none() {
            return Some("the setting aws_s3_bucket: the bucket that lines and results lie in");
        }
        let has_role = new.options.get("role_arn").is_some_and(|role| role.as_str().is_some_and(|arn| !arn.is_empty()));
        (!has_role).then_some("provider_options.role_arn: the role by which Bedrock reads and writes that bucket")
    }

    fn line(&self, line: &NewLine<'_>) -> Vec<u8> {
        serde_json::to_vec(&Record { record_id: line.name, model_input: line.body }).unwrap_or_default()
    }

    fn upload(&self, new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        Some(store_lines(format!("/{}/{}", new.place.bucket.as_deref()?, key_of(new))))
    }

    /// S3 tells nothing of it.
    fn uploaded(&self, new: &NewBatchAsk<'_>, _body: &[u8]) -> Option<String> {
        Some(format!("s3://{}/{}", new.place.bucket.as_deref()?, key_of(new)))
    }

    fn removal(&self, file: &str) -> Option<BatchCall> {
        Some(delete_at(CloudService::Storage, path_of(file)?))
    }

    /// A token sent again names the job that it made, so that one that may have been made needs not be looked for.
    fn creation(&self, new: &NewBatchAsk<'_>) -> BatchCall {
        let name = job_name(new);
        let output = format!("s3://{}/{FOLDER}/{name}/results/", new.place.bucket.as_deref().unwrap_or_default());
        let kind = if new.operation == Operation::Embeddings { "InvokeModel" } else { "Converse" };
        let mut body = json!({
            "jobName": new.options.get("job_name").cloned().unwrap_or_else(|| name.clone().into()),
            "clientRequestToken": name, "roleArn": new.options.get("role_arn"), "modelId": new.model,
            "modelInvocationType": kind,
            "inputDataConfig": { "s3InputDataConfig": { "s3InputFormat": "JSONL", "s3Uri": new.file } },
            "outputDataConfig": { "s3OutputDataConfig": { "s3Uri": output } },
        });
        if let Some(hours) = new.options.get("timeout_hours") {
            body["timeoutDurationInHours"] = hours.clone();
        }
        BatchCall { begins: true, ..post_at(CloudService::Control, JOBS.to_owned(), body) }
    }

    fn creation_of_file(&self, new: &NewBatchAsk<'_>) -> Option<BatchCall> {
        Some(self.creation(new))
    }

    fn look(&self, id: &str) -> BatchCall {
        get_at(CloudService::Control, format!("{JOBS}/{id}"))
    }

    fn cancel(&self, id: &str) -> BatchCall {
        post_at(CloudService::Control, format!("{JOBS}/{id}/stop"), json!({}))
    }
}

impl ToldBatches for BedrockBatches {
    fn standing(&self, body: &[u8]) -> Option<NativeStanding> {
        let job: InvocationJob = serde_json::from_slice(body).ok()?;
        let state = match job.status.as_str() {
            "InProgress" => NativeState::InProgress,
            "Completed" | "PartiallyCompleted" => NativeState::Completed,
            "Failed" => NativeState::Failed,
            "Stopping" => NativeState::Cancelling,
            "Stopped" => NativeState::Cancelled,
            "Expired" => NativeState::Expired,
            // Submitted, Validating, Scheduled, and the answer to the creation, which tells none.
            _ => NativeState::Validating,
        };
        let result = job.result().filter(|_| state.has_ended() && state != NativeState::Failed);
        let results = result.map(|path| get_at(CloudService::Storage, path)).into_iter().collect();
        let (id, problems) = (job.id().to_owned(), job.message.clone().into_iter().collect());
        Some(NativeStanding { id, state, problems, results, told: Vec::new() })
    }

    fn answer(&self, line: &[u8]) -> Option<NativeLine> {
        let told: RecordResult<'_> = serde_json::from_slice(line).ok()?;
        let end = match (told.model_output, told.error) {
            (Some(output), None) => {
                LineEnd::Answered { status: 200, body: Bytes::copy_from_slice(output.get().as_bytes()) }
            }
            (_, Some(error)) if error.expired => LineEnd::Expired,
            (_, Some(error)) => {
                let status = if (400..600).contains(&error.error_code) { error.error_code } else { 500 };
                LineEnd::Answered { status, body: json!({ "message": error.error_message }).to_string().into() }
            }
            (None, None) => return None,
        };
        Some(NativeLine { name: told.record_id, end })
    }
}
