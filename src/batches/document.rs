//! What is told of files and batches, as it is kept and as clients see it. Times are whole seconds, as in OpenAI's
//! objects.

use super::{batch_id, file_id};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

/// A file that the gateway keeps; its bytes are the blob of its id.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FileDocument {
    pub(crate) filename: String,
    pub(crate) purpose: String,
    pub(crate) bytes: u64,
    pub(crate) created: i64,
    pub(crate) expires: i64,
    /// Batches that read it and have not ended.
    #[serde(default)]
    pub(crate) readers: Vec<Uuid>,
    /// Nobody finds it any more; its bytes go with the last of those batches.
    #[serde(default)]
    pub(crate) deleted: bool,
}

impl FileDocument {
    pub(crate) fn shown(&self, id: Uuid) -> Value {
        json!({
            "id": file_id(id), "object": "file", "bytes": self.bytes, "created_at": self.created,
            "expires_at": self.expires, "filename": self.filename, "purpose": self.purpose, "status": "processed",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum BatchStatus {
    Validating,
    Failed,
    InProgress,
    Finalizing,
    /// Guardrails judge what a provider answered.
    #[serde(rename = "processing_post_request_guardrails")]
    Judging,
    Completed,
    Expired,
    Cancelling,
    Cancelled,
}

impl BatchStatus {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Validating => "validating",
            Self::Failed => "failed",
            Self::InProgress => "in_progress",
            Self::Finalizing => "finalizing",
            Self::Judging => "processing_post_request_guardrails",
            Self::Completed => "completed",
            Self::Expired => "expired",
            Self::Cancelling => "cancelling",
            Self::Cancelled => "cancelled",
        }
    }

    pub(crate) const fn has_ended(self) -> bool {
        matches!(self, Self::Failed | Self::Completed | Self::Expired | Self::Cancelled)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LineCounts {
    pub(crate) total: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
}

/// Tokens, as far as answers told them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LineUsage {
    pub(crate) input: u64,
    pub(crate) output: u64,
}

/// Whether somebody put another output in the place of what guardrails judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Replacement {
    #[default]
    None,
    /// Yes: what was answered is still being judged and counted.
    Counting,
    /// Yes: all that was answered is counted.
    Counted,
}

/// What is wrong with a batch, or with one of its lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BatchProblem {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) param: Option<String>,
    pub(crate) line: Option<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BatchDocument {
    pub(crate) endpoint: String,
    pub(crate) input: Uuid,
    pub(crate) window: String,
    pub(crate) metadata: Value,
    /// The key that made the batch: each line is a request of it.
    pub(crate) key: Uuid,
    /// The name that the provider itself gave a batch which it runs; empty while it is being made.
    #[serde(default)]
    pub(crate) provider_job: Option<String>,
    /// The blob with the headers, metadata and config that the lines are sent with.
    pub(crate) setup: Uuid,
    pub(crate) status: BatchStatus,
    #[serde(default)]
    pub(crate) counts: LineCounts,
    #[serde(default)]
    pub(crate) usage: LineUsage,
    /// The cost of all calls that the lines made, in billionths of a dollar.
    #[serde(default)]
    pub(crate) cost: i64,
    #[serde(default)]
    pub(crate) problems: Vec<BatchProblem>,
    pub(crate) output: Option<Uuid>,
    pub(crate) failures: Option<Uuid>,
    #[serde(default)]
    pub(crate) replacement: Replacement,
    /// How long the files that it writes are kept.
    pub(crate) output_secs: i64,
    pub(crate) created: i64,
    pub(crate) expires: i64,
    pub(crate) in_progress: Option<i64>,
    pub(crate) finalizing: Option<i64>,
    pub(crate) completed: Option<i64>,
    pub(crate) failed: Option<i64>,
    pub(crate) expired: Option<i64>,
    pub(crate) cancelling: Option<i64>,
    pub(crate) cancelled: Option<i64>,
}

impl BatchDocument {
    /// Enters a state, once.
    pub(crate) fn enter(&mut self, status: BatchStatus, now: i64) {
        self.status = status;
        let at = match status {
            BatchStatus::Validating => return,
            BatchStatus::Failed => &mut self.failed,
            BatchStatus::InProgress => &mut self.in_progress,
            BatchStatus::Finalizing | BatchStatus::Judging => &mut self.finalizing,
            BatchStatus::Completed => &mut self.completed,
            BatchStatus::Expired => &mut self.expired,
            BatchStatus::Cancelling => &mut self.cancelling,
            BatchStatus::Cancelled => &mut self.cancelled,
        };
        *at = at.or(Some(now));
    }

    /// A run of it has nothing left to do.
    pub(crate) fn is_over(&self) -> bool {
        self.status.has_ended() && self.replacement != Replacement::Counting
    }

    /// When it ended, in seconds since 1970.
    pub(crate) fn ended(&self) -> i64 {
        let ends = [self.completed, self.failed, self.expired, self.cancelled];
        ends.into_iter().flatten().min().unwrap_or(self.expires)
    }

    pub(crate) fn shown(&self, id: Uuid) -> Value {
        let problems: Vec<Value> = self
            .problems
            .iter()
            .map(|p| json!({ "code": p.code, "message": p.message, "param": p.param, "line": p.line }))
            .collect();
        let errors = (!problems.is_empty()).then(|| json!({ "object": "list", "data": problems }));
        let total_tokens = self.usage.input + self.usage.output;
        let mut shown = json!({
            "id": batch_id(id), "object": "batch", "endpoint": self.endpoint, "errors": errors,
            "input_file_id": file_id(self.input), "completion_window": self.window, "status": self.status,
            "output_file_id": self.output.map(file_id), "error_file_id": self.failures.map(file_id),
            "created_at": self.created, "in_progress_at": self.in_progress, "expires_at": self.expires,
            "finalizing_at": self.finalizing, "completed_at": self.completed, "failed_at": self.failed,
            "expired_at": self.expired, "cancelling_at": self.cancelling, "cancelled_at": self.cancelled,
            "request_counts": self.counts, "metadata": self.metadata,
            "usage": {
                "input_tokens": self.usage.input, "output_tokens": self.usage.output, "total_tokens": total_tokens,
                "input_tokens_details": { "cached_tokens": 0 }, "output_tokens_details": { "reasoning_tokens": 0 },
            },
        });
        if let Some(job) = self.provider_job.as_ref().filter(|job| !job.is_empty()) {
            shown["provider_job_id"] = job.as_str().into();
        }
        shown
    }
}
