//! Model customization jobs of Bedrock, at the address where its models are listed
//! (<https://docs.aws.amazon.com/bedrock/latest/APIReference/API_CreateModelCustomizationJob.html>). Files are objects
//! of S3. How many tokens were trained is not told.

use super::job::{TuningJob, secs, text};
use super::job_request::{TuningAsk, TuningMethod, refused};
use super::{Cursor, TuningCall, TuningFamily, segment};
use crate::adapter::Call;
use gateway_domain::{Fault, Operation};
use serde_json::{Map, Value, json};

pub(super) struct BedrockTuning;

const JOBS: &str = "/model-customization-jobs";
const FIELDS: &[&str] = &["job_name", "role_arn", "output_file", "metadata"];
const LONGEST_NAME: usize = 63;

/// Unique, and the same for each try of one call: its token makes a job once.
fn own_name(call: &Call<'_>) -> String {
    format!("gateway-{:x}-{:x}", call.now_ms, call.dice)
}

fn has_edges(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn job_name(call: &Call<'_>, ask: &TuningAsk) -> Result<String, Fault> {
    let Some(name) = ask.text("job_name")? else { return Ok(own_name(call)) };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-+.".contains(&byte);
    if has_edges(name) && name.bytes().all(fits) && !name.ends_with('-') {
        return Ok(name.to_owned());
    }
    Err(refused("job_name", "must be of 1..63 letters, digits, `-`, `+` and `.`, a letter or digit at its edges"))
}

/// The whole name of the model that is made.
fn model_name(call: &Call<'_>, ask: &TuningAsk) -> Result<String, Fault> {
    let Some(name) = ask.text("suffix")? else { return Ok(own_name(call)) };
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let doubled = name.as_bytes().windows(2).any(|pair| pair.iter().all(|byte| b"-_".contains(byte)));
    if has_edges(name) && name.bytes().all(fits) && !doubled {
        return Ok(name.to_owned());
    }
    let rule =
        "is the name of the model at bedrock: 1..63 letters, digits and single `-` or `_`, a letter or digit first";
    Err(refused("suffix", rule))
}

/// All of them are texts there; names that are not OpenAI's are the model's own.
fn hyperparameters(ask: &TuningAsk) -> Result<Map<String, Value>, Fault> {
    let mut all = Map::new();
    for (name, value) in &ask.hyperparameters {
        let name = match name.as_str() {
            "n_epochs" => "epochCount",
            "batch_size" => "batchSize",
            "learning_rate_multiplier" => "learningRateMultiplier",
            name => name,
        };
        let written = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => {
                let field = format!("method.supervised.hyperparameters.{name}");
                return Err(refused(&field, "must be a number or a text"));
            }
        };
        all.insert(name.to_owned(), written.into());
    }
    Ok(all)
}

fn tags(metadata: &Value) -> Result<Vec<Value>, Fault> {
    let wrong = || refused("metadata", "must be an object of texts, which become tags of the job at bedrock");
    let fits = |text: &str, most: usize| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c.is_ascii_whitespace() || "._:/=+@-".contains(c);
        text.len() <= most && text.chars().all(plain)
    };
    let all = metadata.as_object().ok_or_else(wrong)?;
    let tag = |(key, value): (&String, &Value)| {
        let value = value.as_str().filter(|value| fits(value, 256) && !key.is_empty() && fits(key, 128));
        value.map(|value| json!({ "key": key, "value": value })).ok_or_else(wrong)
    };
    all.iter().map(tag).collect()
}

impl TuningFamily for BedrockTuning {
    fn creation(&self, call: &Call<'_>, ask: &TuningAsk) -> Result<TuningCall, Fault> {
        ask.takes(&[TuningMethod::Supervised], FIELDS)?;
        let model = call.model.ok_or_else(|| refused("model", "is needed"))?;
        let needed = |field: &'static str| move || refused(field, "is needed for a fine-tuning job at bedrock");
        let training = ask.address("training_file", "s3://")?.ok_or_else(needed("training_file"))?;
        let name = job_name(call, ask)?;
        let bucket = call.settings.get("aws_s3_bucket");
        let own = || bucket.map(|bucket| format!("s3://{bucket}/gateway-tuning/{name}/"));
        let output = ask.address("output_file", "s3://")?.or_else(own);
        let output = output.ok_or_else(|| {
            refused(
                "output_file",
                "is needed where aws_s3_bucket is not set: where bedrock writes what it says of the job",
            )
        })?;
        let mut body = json!({
            "jobName": name, "customModelName": model_name(call, ask)?, "roleArn": ask.needed("role_arn")?,
            "clientRequestToken": own_name(call), "baseModelIdentifier": model, "customizationType": "FINE_TUNING",
            "trainingDataConfig": { "s3Uri": training }, "outputDataConfig": { "s3Uri": output },
        });
        if let Some(file) = ask.address("validation_file", "s3://")? {
            body["validationDataConfig"] = json!({ "validators": [{ "s3Uri": file }] });
        }
        let all = hyperparameters(ask)?;
        if !all.is_empty() {
            body["hyperParameters"] = all.into();
        }
        if let Some(metadata) = ask.get("metadata") {
            body["jobTags"] = tags(metadata)?.into();
        }
        Ok(TuningCall { path: JOBS.to_owned(), body: Some(body) })
    }

    fn look(&self, call: &Call<'_>, id: &str) -> Result<TuningCall, Fault> {
        let path = match call.operation {
            Operation::ListFinetunes => format!("{JOBS}?maxResults=1000&sortBy=CreationTime&sortOrder=Descending"),
            Operation::CancelFinetune => format!("{JOBS}/{}/stop", segment(id)),
            _ => format!("{JOBS}/{}", segment(id)),
        };
        Ok(TuningCall { path, body: None })
    }

    fn job(&self, told: &Value) -> Option<TuningJob> {
        let mut all = told["hyperParameters"].as_object().cloned().unwrap_or_default();
        for (theirs, ours) in [
            ("epochCount", "n_epochs"),
            ("batchSize", "batch_size"),
            ("learningRateMultiplier", "learning_rate_multiplier"),
        ] {
            let Some(value) = all.remove(theirs) else { continue };
            let number =
                value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok()).filter(Value::is_number);
            all.insert(ours.to_owned(), number.unwrap_or(value));
        }
        let validators = &told["validationDataConfig"]["validators"];
        Some(TuningJob {
            id: text(&told["jobArn"])?,
            status: match told["status"].as_str().unwrap_or_default() {
                "Completed" => "succeeded",
                "Failed" => "failed",
                "Stopping" | "Stopped" => "cancelled",
                // InProgress, and the answer to the creation, which tells none.
                _ => "running",
            },
            model: text(&told["baseModelArn"])
                .map(|arn| arn.rsplit("foundation-model/").next().unwrap_or(&arn).to_owned()),
            created: secs(&told["creationTime"]),
            finished: secs(&told["endTime"]),
            tuned_model: text(&told["outputModelArn"]).or_else(|| text(&told["customModelArn"])),
            training_file: text(&told["trainingDataConfig"]["s3Uri"]),
            validation_file: text(&validators[0]["s3Uri"]),
            error: text(&told["failureMessage"]),
            method: told
                .get("customizationType")
                .and_then(|kind| (kind == "FINE_TUNING").then_some(TuningMethod::Supervised)),
            hyperparameters: all,
            suffix: text(&told["outputModelName"]).or_else(|| text(&told["customModelName"])),
            ..TuningJob::default()
        })
    }

    fn cursor(&self) -> Option<Cursor> {
        Some(Cursor { asked: "nextToken", told: "nextToken", newest_first: true })
    }

    fn listed<'a>(&self, told: &'a Value) -> Option<&'a Vec<Value>> {
        told["modelCustomizationJobSummaries"].as_array()
    }
}
