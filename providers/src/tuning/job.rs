//! A fine-tuning job as OpenAI's interface tells it: times in seconds, states in its words.

use super::job_request::{TuningAsk, TuningMethod};
use gateway_domain::Timestamp;
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, Default)]
pub(super) struct TuningJob {
    pub(super) id: String,
    /// One of OpenAI's words.
    pub(super) status: &'static str,
    pub(super) model: Option<String>,
    pub(super) created: Option<i64>,
    pub(super) finished: Option<i64>,
    pub(super) tuned_model: Option<String>,
    pub(super) trained_tokens: Option<u64>,
    pub(super) training_file: Option<String>,
    pub(super) validation_file: Option<String>,
    pub(super) error: Option<String>,
    pub(super) method: Option<TuningMethod>,
    pub(super) hyperparameters: Map<String, Value>,
    pub(super) seed: Option<Value>,
    pub(super) suffix: Option<String>,
    pub(super) metadata: Option<Value>,
}

impl TuningJob {
    pub(super) fn of(id: String, status: &'static str) -> Self {
        Self { id, status, ..Self::default() }
    }

    /// What the family does not repeat of a job that was just made.
    pub(super) fn complete(&mut self, ask: &TuningAsk, now: i64) {
        let text = |field: &str| ask.get(field).and_then(Value::as_str).map(str::to_owned);
        self.created.get_or_insert(now);
        self.model = self.model.take().or_else(|| text("model"));
        self.training_file = self.training_file.take().or_else(|| text("training_file"));
        self.validation_file = self.validation_file.take().or_else(|| text("validation_file"));
        self.suffix = self.suffix.take().or_else(|| text("suffix"));
        self.seed = self.seed.take().or_else(|| ask.get("seed").cloned());
        self.metadata = self.metadata.take().or_else(|| ask.get("metadata").cloned());
        self.method.get_or_insert(ask.method);
        if self.hyperparameters.is_empty() {
            self.hyperparameters = ask.hyperparameters.clone();
        }
    }

    pub(super) fn shown(&self) -> Value {
        let error = self.error.as_ref().filter(|_| self.status == "failed");
        let ended = matches!(self.status, "succeeded" | "failed" | "cancelled");
        let error = error.map(|message| json!({ "code": "job_failed", "message": message, "param": null }));
        let method = self.method.map(|method| {
            let name = method.name();
            json!({ "type": name, name: { "hyperparameters": self.hyperparameters } })
        });
        json!({
            "id": self.id, "object": "fine_tuning.job", "status": self.status, "model": self.model,
            "created_at": self.created, "finished_at": self.finished.filter(|_| ended),
            "fine_tuned_model": self.tuned_model.as_ref().filter(|_| self.status == "succeeded"),
            "trained_tokens": self.trained_tokens.filter(|_| ended), "training_file": self.training_file,
            "validation_file": self.validation_file, "error": error, "method": method,
            "hyperparameters": self.hyperparameters, "seed": self.seed, "user_provided_suffix": self.suffix,
            "metadata": self.metadata, "integrations": [], "result_files": [], "organization_id": "",
            "estimated_finish": null,
        })
    }
}

pub(super) fn text(told: &Value) -> Option<String> {
    told.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A time as ISO 8601 writes it, or as seconds.
pub(super) fn secs(told: &Value) -> Option<i64> {
    match told {
        Value::String(text) => Some(text.parse::<Timestamp>().ok()?.secs()),
        Value::Number(number) => number.as_i64().or_else(|| number.as_u64()?.try_into().ok()),
        _ => None,
    }
}

/// Google writes large counts as text.
pub(super) fn count(told: &Value) -> Option<u64> {
    told.as_u64().or_else(|| told.as_str()?.parse().ok())
}
