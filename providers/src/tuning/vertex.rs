//! Tuning jobs of Vertex AI
//! (<https://docs.cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.tuningJobs>). Files are objects
//! of Cloud Storage; an id is the last part of a job's name, as project and region are the settings'.

use super::job::{TuningJob, count, secs, text};
use super::job_request::{TuningAsk, TuningMethod, refused};
use super::{Cursor, TuningCall, TuningFamily};
use crate::adapter::Call;
use gateway_domain::cloud::vertex_project;
use gateway_domain::{Fault, Operation};
use serde_json::{Map, Value, json};

pub(super) struct VertexTuning;

/// How a method is called there, with OpenAI's names and Google's of what it is tuned by.
type TuningSpec = (TuningMethod, &'static str, &'static [(&'static str, &'static str)]);

const SPECS: [TuningSpec; 2] = [
    (
        TuningMethod::Supervised,
        "supervisedTuningSpec",
        &[
            ("n_epochs", "epochCount"),
            ("learning_rate_multiplier", "learningRateMultiplier"),
            ("batch_size", "batchSize"),
            ("adapter_size", "adapterSize"),
        ],
    ),
    (
        TuningMethod::Dpo,
        "preferenceOptimizationSpec",
        &[
            ("n_epochs", "epochCount"),
            ("learning_rate_multiplier", "learningRateMultiplier"),
            ("beta", "beta"),
            ("adapter_size", "adapterSize"),
        ],
    ),
];

fn jobs(call: &Call<'_>) -> Result<String, Fault> {
    let needed = |name: &'static str| refused(name, "is needed: it is part of this provider's path");
    let project = vertex_project(call.settings).ok_or_else(|| needed("vertex_project_id"))?;
    let region = call.settings.get("vertex_region").ok_or_else(|| needed("vertex_region"))?;
    Ok(format!("/v1/projects/{project}/locations/{region}/tuningJobs"))
}

/// Google's rules for labels.
fn labels(metadata: &Value) -> Result<&Map<String, Value>, Fault> {
    let fits = |text: &str| {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_');
        text.len() <= 63 && text.bytes().all(plain)
    };
    let first = |key: &str| key.starts_with(|c: char| c.is_ascii_lowercase());
    let all = metadata.as_object();
    all.filter(|all| all.iter().all(|(key, value)| first(key) && fits(key) && value.as_str().is_some_and(fits)))
        .ok_or_else(|| {
            refused(
                "metadata",
                "becomes labels at vertex-ai: small letters, digits, `-` and `_`, 63 at most, a letter first",
            )
        })
}

impl TuningFamily for VertexTuning {
    fn more(&self) -> &'static [Operation] {
        &[Operation::ListFinetuneCheckpoints]
    }

    fn creation(&self, call: &Call<'_>, ask: &TuningAsk) -> Result<TuningCall, Fault> {
        ask.takes(&[TuningMethod::Supervised, TuningMethod::Dpo], &["job_name", "metadata", "output_file"])?;
        let (_, name, known) = SPECS.iter().find(|(method, ..)| *method == ask.method).unwrap_or(&SPECS[0]);
        let names: Vec<&str> = known.iter().map(|(ours, _)| *ours).collect();
        ask.tunes_by(&names)?;
        let model = call.model.ok_or_else(|| refused("model", "is needed"))?;
        let training = ask.address("training_file", "gs://")?;
        let training =
            training.ok_or_else(|| refused("training_file", "is needed for a fine-tuning job at vertex-ai"))?;
        let mut spec = json!({ "trainingDatasetUri": training });
        if let Some(file) = ask.address("validation_file", "gs://")? {
            spec["validationDatasetUri"] = file.into();
        }
        let tuned: Map<String, Value> = known
            .iter()
            .filter_map(|(ours, theirs)| Some(((*theirs).to_owned(), ask.hyperparameters.get(*ours)?.clone())))
            .collect();
        if !tuned.is_empty() {
            spec["hyperParameters"] = tuned.into();
        }
        let base = model.strip_prefix("google").and_then(|rest| rest.strip_prefix(['.', '/'])).unwrap_or(model);
        let mut body = json!({ "baseModel": base, *name: spec });
        if let Some(shown) = ask.text("suffix")? {
            body["tunedModelDisplayName"] = shown.into();
        }
        if let Some(described) = ask.text("job_name")? {
            body["description"] = described.into();
        }
        if let Some(output) = ask.address("output_file", "gs://")? {
            body["outputUri"] = output.into();
        }
        if let Some(metadata) = ask.get("metadata") {
            body["labels"] = labels(metadata)?.clone().into();
        }
        Ok(TuningCall { path: jobs(call)?, body: Some(body) })
    }

    fn look(&self, call: &Call<'_>, id: &str) -> Result<TuningCall, Fault> {
        let jobs = jobs(call)?;
        // The whole name of a job is taken as well.
        let id = id.rsplit("/tuningJobs/").next().unwrap_or(id);
        if id.contains(['/', ':', '+']) {
            return Err(refused("fine_tuning_job_id", "must be the id of a job, as it was told when it was made"));
        }
        let path = match call.operation {
            Operation::ListFinetunes => format!("{jobs}?pageSize=1000"),
            Operation::CancelFinetune => format!("{jobs}/{id}:cancel"),
            _ => format!("{jobs}/{id}"),
        };
        Ok(TuningCall { path, body: None })
    }

    fn job(&self, told: &Value) -> Option<TuningJob> {
        let id = told["name"].as_str()?.rsplit('/').next()?.to_owned();
        let (method, name, known) = SPECS.iter().find(|(_, name, _)| told.get(*name).is_some()).unwrap_or(&SPECS[0]);
        let spec = &told[*name];
        let tuned = &spec["hyperParameters"];
        // Counts are texts, as all large numbers are.
        let number = |value: &Value| count(value).map_or_else(|| value.clone(), Value::from);
        let hyperparameters =
            known.iter().filter_map(|(ours, theirs)| Some(((*ours).to_owned(), number(tuned.get(*theirs)?)))).collect();
        let (model, stats) = (&told["tunedModel"], &told["tuningDataStats"]);
        let of_method = match method {
            TuningMethod::Dpo => &stats["preferenceOptimizationDataStats"],
            _ => &stats["supervisedTuningDataStats"],
        };
        // The tokens of the files are told: each epoch trains all of them.
        let billed = count(&of_method["totalBillableTokenCount"]);
        let epochs = count(&tuned["epochCount"]).unwrap_or(1).max(1);
        let state = told["state"].as_str().unwrap_or_default();
        Some(TuningJob {
            id,
            status: match state.trim_start_matches("JOB_STATE_") {
                "RUNNING" | "UPDATING" => "running",
                "SUCCEEDED" | "PARTIALLY_SUCCEEDED" => "succeeded",
                "FAILED" | "EXPIRED" => "failed",
                "CANCELLING" | "CANCELLED" => "cancelled",
                "PAUSED" => "paused",
                _ => "queued",
            },
            model: text(&told["baseModel"]),
            created: secs(&told["createTime"]),
            finished: secs(&told["endTime"]),
            tuned_model: text(&model["endpoint"]).or_else(|| text(&model["model"])),
            trained_tokens: billed.map(|tokens| tokens.saturating_mul(epochs)),
            training_file: text(&spec["trainingDatasetUri"]),
            validation_file: text(&spec["validationDatasetUri"]),
            error: text(&told["error"]["message"])
                .or_else(|| (state == "JOB_STATE_EXPIRED").then(|| "The job has expired.".to_owned())),
            method: Some(*method),
            hyperparameters,
            suffix: text(&told["tunedModelDisplayName"]),
            metadata: told.get("labels").filter(|labels| labels.is_object()).cloned(),
            ..TuningJob::default()
        })
    }

    fn cursor(&self) -> Option<Cursor> {
        Some(Cursor { asked: "pageToken", told: "nextPageToken", newest_first: false })
    }

    fn listed<'a>(&self, told: &'a Value) -> Option<&'a Vec<Value>> {
        told["tuningJobs"].as_array()
    }

    fn checkpoints(&self, id: &str, told: &Value) -> Vec<Value> {
        let all = told["tunedModel"]["checkpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
        let shown = |one: &Value| {
            json!({ "id": one["checkpointId"], "object": "fine_tuning.job.checkpoint", "fine_tuning_job_id": id,
                    "created_at": secs(&told["endTime"]), "fine_tuned_model_checkpoint": one["endpoint"],
                    "step_number": count(&one["step"]), "metrics": {} })
        };
        all.iter().map(shown).collect()
    }
}
