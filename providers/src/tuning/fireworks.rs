//! Fine-tuning jobs of Fireworks AI, one collection for each method
//! (<https://docs.fireworks.ai/api-reference/create-supervised-fine-tuning-job>, `dpoJobs`,
//! `reinforcementFineTuningJobs`). Files are datasets of an account. An id says its collection, but for supervised
//! jobs.

use super::job::{TuningJob, count, secs, text};
use super::job_request::{TuningAsk, TuningMethod, refused};
use super::{Cursor, TuningCall, TuningFamily, url_pairs};
use crate::adapter::Call;
use crate::compat::safe;
use gateway_domain::{Fault, Operation};
use serde_json::{Map, Value, json};

pub(super) struct FireworksTuning;

const COLLECTIONS: [(TuningMethod, &str); 3] = [
    (TuningMethod::Supervised, "supervisedFineTuningJobs"),
    (TuningMethod::Dpo, "dpoJobs"),
    (TuningMethod::Reinforcement, "reinforcementFineTuningJobs"),
];
const SAME: [(&str, &str); 3] = [("n_epochs", "epochs"), ("learning_rate", "learningRate"), ("lora_rank", "loraRank")];

fn account(call: &Call<'_>) -> Result<String, Fault> {
    let id = call.settings.get("fireworks_account_id");
    let id = id.ok_or_else(|| refused("fireworks_account_id", "is needed: it is part of this provider's path"))?;
    Ok(format!("/v1/accounts/{id}"))
}

fn collection(method: TuningMethod) -> &'static str {
    COLLECTIONS.iter().find(|(known, _)| *known == method).map_or(COLLECTIONS[0].1, |(_, name)| *name)
}

/// The whole name of what lies in an account, from the ways in which clients write it.
fn named(account: &str, kind: &str, field: &'static str, name: &str) -> Result<String, Fault> {
    if !safe(name) {
        return Err(refused(field, format!("must be the name of one of {kind} at fireworks-ai")));
    }
    let account = account.trim_start_matches("/v1/");
    Ok(if name.contains('/') { name.to_owned() } else { format!("{account}/{kind}/{name}") })
}

impl TuningFamily for FireworksTuning {
    fn more(&self) -> &'static [Operation] {
        &[Operation::ResumeFinetune]
    }

    fn creation(&self, call: &Call<'_>, ask: &TuningAsk) -> Result<TuningCall, Fault> {
        ask.takes(&COLLECTIONS.map(|(method, _)| method), &["job_name"])?;
        ask.tunes_by(&SAME.map(|(ours, _)| ours))?;
        let account = account(call)?;
        let model = call.model.ok_or_else(|| refused("model", "is needed"))?;
        let dataset = |field| ask.text(field)?.map(|name| named(&account, "datasets", field, name)).transpose();
        let training = dataset("training_file")?
            .ok_or_else(|| refused("training_file", "is needed for a fine-tuning job at fireworks-ai"))?;
        let mut config = json!({ "baseModel": model });
        for (ours, theirs) in SAME {
            if let Some(value) = ask.hyperparameters.get(ours) {
                config[theirs] = value.clone();
            }
        }
        if let Some(suffix) = ask.text("suffix")? {
            config["outputModel"] = named(&account, "models", "suffix", suffix)?.into();
        }
        let mut body = match ask.method {
            TuningMethod::Supervised => config,
            TuningMethod::Dpo | TuningMethod::Reinforcement => json!({ "trainingConfig": config }),
        };
        body["dataset"] = training.into();
        match dataset("validation_file")? {
            Some(_) if ask.method == TuningMethod::Dpo => {
                return Err(refused("validation_file", "cannot be expressed at fireworks-ai for dpo"));
            }
            Some(file) => body["evaluationDataset"] = file.into(),
            None => {}
        }
        if ask.method == TuningMethod::Reinforcement {
            let grader = ask.of_method("grader").filter(|grader| grader["type"] == "evaluator");
            let name = grader.and_then(|grader| grader["name"].as_str()).ok_or_else(|| {
                let rule =
                    "must be {\"type\": \"evaluator\", \"name\": …} with the name of an evaluator at fireworks-ai";
                refused("method.reinforcement.grader", rule)
            })?;
            body["evaluator"] = named(&account, "evaluators", "method.reinforcement.grader", name)?.into();
        }
        if let Some(name) = ask.text("job_name")? {
            body["displayName"] = name.into();
        }
        Ok(TuningCall { path: format!("{account}/{}", collection(ask.method)), body: Some(body) })
    }

    fn look(&self, call: &Call<'_>, id: &str) -> Result<TuningCall, Fault> {
        let account = account(call)?;
        if call.operation == Operation::ListFinetunes {
            let method = url_pairs(call.query.unwrap_or_default()).find(|(name, _)| *name == "method");
            let method = match method.as_ref().map(|(_, method)| method.as_str()) {
                None | Some("supervised") => TuningMethod::Supervised,
                Some("dpo") => TuningMethod::Dpo,
                Some("reinforcement") => TuningMethod::Reinforcement,
                Some(_) => return Err(refused("method", "must be supervised, dpo or reinforcement")),
            };
            let path = format!("{account}/{}?pageSize=200&orderBy=create_time%20desc", collection(method));
            return Ok(TuningCall { path, body: None });
        }
        let (kind, name) = id.split_once(':').unwrap_or((COLLECTIONS[0].1, id));
        let known = COLLECTIONS.iter().any(|(_, known)| *known == kind);
        if !known || !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
            return Err(refused("fine_tuning_job_id", "must be the id of a job, as it was told when it was made"));
        }
        Ok(match call.operation {
            Operation::CancelFinetune => {
                TuningCall { path: format!("{account}/{kind}/{name}:cancel"), body: Some(json!({})) }
            }
            Operation::ResumeFinetune => {
                TuningCall { path: format!("{account}/{kind}/{name}:resume"), body: Some(json!({})) }
            }
            _ => TuningCall { path: format!("{account}/{kind}/{name}"), body: None },
        })
    }

    fn job(&self, told: &Value) -> Option<TuningJob> {
        // accounts/{account}/{collection}/{job}
        let mut parts = told["name"].as_str()?.rsplit('/');
        let (name, kind) = (parts.next()?, parts.next()?);
        let (method, _) = COLLECTIONS.iter().find(|(_, known)| *known == kind)?;
        let config = told.get("trainingConfig").unwrap_or(told);
        let hyperparameters: Map<String, Value> = SAME
            .iter()
            .filter_map(|(ours, theirs)| {
                let value = config.get(*theirs).filter(|value| !value.is_null() && **value != 0)?;
                Some(((*ours).to_owned(), value.clone()))
            })
            .collect();
        let state = told["state"].as_str().unwrap_or_default().trim_start_matches("JOB_STATE_");
        Some(TuningJob {
            id: if *method == TuningMethod::Supervised { name.to_owned() } else { format!("{kind}:{name}") },
            status: match state {
                "VALIDATING" | "CREATING_INPUT_DATASET" => "validating_files",
                "RUNNING" | "WRITING_RESULTS" | "IDLE" => "running",
                "COMPLETED" | "EARLY_STOPPED" => "succeeded",
                "FAILED" | "EXPIRED" => "failed",
                "CANCELLED" | "CANCELLING" | "DELETING" | "DELETING_CLEANING_UP" => "cancelled",
                "PAUSED" => "paused",
                // CREATING, PENDING, RE_QUEUEING.
                _ => "queued",
            },
            model: text(&config["baseModel"]),
            created: secs(&told["createTime"]),
            finished: secs(&told["completedTime"]),
            tuned_model: text(&config["outputModel"]),
            trained_tokens: count(&told["jobProgress"]["inputTokens"]).filter(|tokens| *tokens > 0),
            training_file: text(&told["dataset"]),
            validation_file: text(&told["evaluationDataset"]),
            error: text(&told["status"]["message"]),
            method: Some(*method),
            hyperparameters,
            ..TuningJob::default()
        })
    }

    fn cursor(&self) -> Option<Cursor> {
        Some(Cursor { asked: "pageToken", told: "nextPageToken", newest_first: true })
    }

    fn listed<'a>(&self, told: &'a Value) -> Option<&'a Vec<Value>> {
        COLLECTIONS.iter().find_map(|(_, kind)| told[*kind].as_array())
    }
}
