//! Fine-tunes of Together AI (<https://docs.together.ai/reference/post-fine-tunes>), whose files are named by ids as
//! OpenAI's are. A rate of learning is absolute there, so that a multiplier has no meaning.

use super::job::{TuningJob, count, secs, text};
use super::job_request::{TuningAsk, TuningMethod, refused};
use super::{TuningCall, TuningFamily, segment};
use crate::adapter::Call;
use gateway_domain::{Fault, Operation};
use serde_json::{Map, Value, json};

pub(super) struct TogetherTuning;

const JOBS: &str = "/v1/fine-tunes";
const LONGEST_SUFFIX: usize = 40;
/// What Together calls by the names that it is asked for by.
const SAME: &[&str] = &[
    "n_epochs",
    "batch_size",
    "learning_rate",
    "warmup_ratio",
    "weight_decay",
    "max_grad_norm",
    "n_checkpoints",
    "n_evals",
];

impl TuningFamily for TogetherTuning {
    fn more(&self) -> &'static [Operation] {
        &[Operation::ListFinetuneEvents, Operation::ListFinetuneCheckpoints]
    }

    fn creation(&self, call: &Call<'_>, ask: &TuningAsk) -> Result<TuningCall, Fault> {
        ask.takes(&[TuningMethod::Supervised, TuningMethod::Dpo], &["seed"])?;
        let is_dpo = ask.method == TuningMethod::Dpo;
        let names: Vec<&str> = SAME.iter().copied().chain(is_dpo.then_some("beta")).collect();
        ask.tunes_by(&names)?;
        let model = call.model.ok_or_else(|| refused("model", "is needed"))?;
        let mut body = json!({ "model": model, "training_file": ask.needed("training_file")? });
        for name in SAME {
            if let Some(value) = ask.hyperparameters.get(*name) {
                body[*name] = value.clone();
            }
        }
        if let Some(file) = ask.text("validation_file")? {
            body["validation_file"] = file.into();
        }
        if let Some(suffix) = ask.text("suffix")? {
            if suffix.chars().count() > LONGEST_SUFFIX {
                return Err(refused("suffix", "must be of 40 characters at most at together-ai"));
            }
            body["suffix"] = suffix.into();
        }
        if let Some(seed) = ask.get("seed") {
            body["random_seed"] = seed.clone();
        }
        if is_dpo {
            body["training_method"] = json!({ "method": "dpo" });
            if let Some(beta) = ask.hyperparameters.get("beta") {
                body["training_method"]["dpo_beta"] = beta.clone();
            }
        }
        Ok(TuningCall { path: JOBS.to_owned(), body: Some(body) })
    }

    fn look(&self, call: &Call<'_>, id: &str) -> Result<TuningCall, Fault> {
        let id = segment(id);
        let path = match call.operation {
            Operation::ListFinetunes => JOBS.to_owned(),
            Operation::CancelFinetune => format!("{JOBS}/{id}/cancel"),
            Operation::ListFinetuneEvents => format!("{JOBS}/{id}/events"),
            Operation::ListFinetuneCheckpoints => format!("{JOBS}/{id}/checkpoints"),
            _ => format!("{JOBS}/{id}"),
        };
        Ok(TuningCall { path, body: None })
    }

    fn job(&self, told: &Value) -> Option<TuningJob> {
        let status = told["status"].as_str().unwrap_or_default();
        let method = match told["training_method"]["method"].as_str() {
            Some("dpo") => TuningMethod::Dpo,
            _ => TuningMethod::Supervised,
        };
        let known = |name: &&&str| told.get(**name).is_some_and(|value| !value.is_null());
        let mut hyperparameters: Map<String, Value> =
            SAME.iter().filter(known).map(|name| ((*name).to_owned(), told[*name].clone())).collect();
        if let Some(beta) = told["training_method"].get("dpo_beta").filter(|beta| !beta.is_null()) {
            hyperparameters.insert("beta".to_owned(), beta.clone());
        }
        let last = told["events"].as_array().and_then(|events| events.last());
        Some(TuningJob {
            id: text(&told["id"])?,
            status: match status {
                "running" | "compressing" | "uploading" => "running",
                "completed" => "succeeded",
                "error" | "user_error" => "failed",
                "cancel_requested" | "cancelled" => "cancelled",
                // pending, queued.
                _ => "queued",
            },
            model: text(&told["model"]),
            created: secs(&told["created_at"]),
            finished: secs(&told["updated_at"]),
            tuned_model: text(&told["model_output_name"]),
            trained_tokens: count(&told["token_count"]).filter(|tokens| *tokens > 0),
            training_file: text(&told["training_file"]),
            validation_file: text(&told["validation_file"]),
            error: last.and_then(|event| text(&event["message"])),
            method: Some(method),
            hyperparameters,
            ..TuningJob::default()
        })
    }

    fn listed<'a>(&self, told: &'a Value) -> Option<&'a Vec<Value>> {
        told["data"].as_array()
    }

    fn events(&self, told: &Value) -> Vec<Value> {
        let all = told["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let shown = |(place, event): (usize, &Value)| {
            let level = match event["level"].as_str().map(|level| level.trim_start_matches("legacy_")) {
                Some("error" | "ierror") => "error",
                Some("warning" | "iwarning") => "warn",
                _ => "info",
            };
            json!({ "id": format!("ftevent-{place}"), "object": "fine_tuning.job.event", "level": level, "type": "message",
                    "created_at": secs(&event["created_at"]), "message": event["message"], "data": { "type": event["type"] } })
        };
        // OpenAI's newest comes first.
        let mut events: Vec<Value> = all.iter().enumerate().map(shown).collect();
        events.reverse();
        events
    }

    fn checkpoints(&self, id: &str, told: &Value) -> Vec<Value> {
        let all = told["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let shown = |one: &Value| {
            let name = text(&one["object_name"]).or_else(|| text(&one["path"]));
            json!({ "id": text(&one["object_id"]).or_else(|| name.clone()), "object": "fine_tuning.job.checkpoint",
                    "fine_tuning_job_id": id, "created_at": secs(&one["created_at"]), "metrics": {},
                    "fine_tuned_model_checkpoint": name, "step_number": one["step"] })
        };
        all.iter().map(shown).collect()
    }
}
