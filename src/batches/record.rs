//! The record of a batch, beside those of its lines: what became of it, in its detail and as texts in metadata. It has
//! no usage and no cost of its own, which would count twice what the lines have.

use super::{BatchDocument, BatchStatus, ConfigOfBatch, LineSetup, batch_id};
use gateway_domain::id::{ConfigId, KeyId, OrgId, WorkspaceId};
use gateway_domain::money::NanoUsd;
use gateway_domain::record::{BatchDetail, Detail, LogRecord, RecordedOperation, Timings};
use gateway_domain::snapshot::Snapshot;
use gateway_domain::{Operation, Timestamp};
use serde_json::Value;
use smol_str::SmolStr;
use uuid::Uuid;

/// A batch that is over.
pub(super) struct EndedBatch<'a> {
    pub(super) id: Uuid,
    pub(super) org: OrgId,
    pub(super) workspace: WorkspaceId,
    pub(super) batch: &'a BatchDocument,
    pub(super) setup: &'a LineSetup,
}

impl EndedBatch<'_> {
    pub(super) fn record(&self, snapshot: &Snapshot) -> Box<LogRecord> {
        let batch = self.batch;
        let key = snapshot.key_by_id(KeyId(batch.key));
        let workspace = snapshot.workspace(self.workspace);
        let lasted = batch.ended().saturating_sub(batch.created).max(0).unsigned_abs().saturating_mul(1_000_000);
        let mut record = LogRecord {
            id: self.id,
            created_at: Timestamp(batch.ended().saturating_mul(1_000_000)),
            trace_id: batch_id(self.id).into(),
            attempt: 1,
            last: true,
            org: self.org,
            workspace: self.workspace,
            workspace_slug: workspace.map(|found| found.slug.as_ref().into()).unwrap_or_default(),
            key: Some(KeyId(batch.key)),
            key_name: key.map(|found| found.name.as_ref().into()).unwrap_or_default(),
            owner: key.and_then(|found| found.owner),
            operation: RecordedOperation::new(Operation::Batch.name(), Detail::Batch(Some(Box::new(self.detail())))),
            method: "POST".into(),
            path: "/v1/batches".into(),
            status: status(batch.status),
            timings: Timings { total_us: lasted, ..Timings::default() },
            metadata: self.metadata().into(),
            ..LogRecord::blank()
        };
        if let ConfigOfBatch::Saved { id, version, slug, .. } = &self.setup.config {
            (record.config, record.config_id) = (slug.as_str().into(), Some(ConfigId(*id)));
            record.config_version = Some(*version);
        }
        Box::new(record)
    }

    fn detail(&self) -> BatchDetail {
        let batch = self.batch;
        BatchDetail {
            status: SmolStr::new_static(batch.status.name()),
            endpoint: batch.endpoint.as_str().into(),
            lines: batch.counts.total,
            completed: batch.counts.completed,
            failed: batch.counts.failed,
            input_tokens: batch.usage.input,
            output_tokens: batch.usage.output,
            cost: NanoUsd(batch.cost),
        }
    }

    /// The batch's facts as texts beside its own metadata: records are found by them.
    fn metadata(&self) -> String {
        let batch = self.batch;
        let mut all = self.setup.metadata.clone();
        let told = [
            ("batch_id", batch_id(self.id)),
            ("batch_status", batch.status.name().to_owned()),
            ("batch_endpoint", batch.endpoint.clone()),
            ("batch_lines", batch.counts.total.to_string()),
            ("batch_completed", batch.counts.completed.to_string()),
            ("batch_failed", batch.counts.failed.to_string()),
            ("batch_input_tokens", batch.usage.input.to_string()),
            ("batch_output_tokens", batch.usage.output.to_string()),
            ("batch_cost", NanoUsd(batch.cost).cents().to_string()),
        ];
        all.extend(told.map(|(name, value)| (name.to_owned(), value.into())));
        Value::Object(all).to_string()
    }
}

/// A batch that was cancelled did what was asked of it.
const fn status(status: BatchStatus) -> u16 {
    match status {
        BatchStatus::Failed => 400,
        BatchStatus::Expired => 408,
        _ => 200,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batches::document::{LineCounts, LineUsage};
    use serde_json::json;

    #[test]
    fn counts_and_cost_stand_in_the_metadata_and_nothing_is_counted_twice() {
        let document = json!({
            "endpoint": "/v1/embeddings", "input": Uuid::nil(), "window": "immediate", "metadata": null, "key": Uuid::nil(),
            "setup": Uuid::nil(), "status": "expired", "output_secs": 1, "created": 100, "expires": 200, "expired": 160,
        });
        let mut batch: BatchDocument = serde_json::from_value(document).expect("a batch");
        batch.counts = LineCounts { total: 5, completed: 3, failed: 2 };
        (batch.usage, batch.cost) = (LineUsage { input: 7, output: 4 }, 25_000_000);
        let mut setup = LineSetup::default();
        setup.metadata.insert("team".to_owned(), "blue".into());
        let ids = (Uuid::from_u128(1), OrgId(Uuid::nil()), WorkspaceId(Uuid::nil()));
        let ended = EndedBatch { id: ids.0, org: ids.1, workspace: ids.2, batch: &batch, setup: &setup };
        let record = ended.record(&Snapshot::default());
        assert_eq!((record.status, record.usage(), record.cost, record.operation.name()), (408, None, None, "batch"));
        let Detail::Batch(Some(told)) = record.operation.detail() else { panic!("it is one of a batch") };
        assert_eq!((&*told.status, &*told.endpoint, told.lines), ("expired", "/v1/embeddings", 5));
        assert_eq!((told.completed, told.failed, told.input_tokens, told.output_tokens), (3, 2, 7, 4));
        assert_eq!(told.cost, NanoUsd(25_000_000));
        assert_eq!((record.created_at, record.timings.total_us), (Timestamp(160_000_000), 60_000_000));
        let metadata: Value = serde_json::from_str(&record.metadata).expect("JSON");
        let told = ["batch_lines", "batch_completed", "batch_failed", "batch_cost", "team"].map(|name| &metadata[name]);
        assert_eq!(told, [&json!("5"), &json!("3"), &json!("2"), &json!("2.5"), &json!("blue")]);
    }
}
