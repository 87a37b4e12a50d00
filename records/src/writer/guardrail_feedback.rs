//! What guardrails think of calls, as their rules say: read out of the records on their way to the store, and kept as
//! the feedback of clients is. A shipment that comes again tells nothing twice, since each piece is named by its
//! record.

use gateway_domain::feedback::{Opinion, TraceFeedback};
use gateway_domain::ports::{Feedbacks, Fut, RecordAppend, StoreError};
use gateway_domain::record::LogRecord;
use serde_json::{Value, json};
use smol_str::SmolStr;
use std::fmt;
use std::sync::Arc;
use uuid::Uuid;

/// A store of records, and beside it what they say of calls.
pub struct WithOpinions {
    store: Arc<dyn RecordAppend>,
    feedbacks: Arc<dyn Feedbacks>,
}

impl fmt::Debug for WithOpinions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WithOpinions")
    }
}

impl WithOpinions {
    pub fn new(store: Arc<dyn RecordAppend>, feedbacks: Arc<dyn Feedbacks>) -> Self {
        Self { store, feedbacks }
    }
}

impl RecordAppend for WithOpinions {
    fn append<'a>(&'a self, batch: &'a [LogRecord]) -> Fut<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.store.append(batch).await?;
            let told: Vec<TraceFeedback> = batch.iter().flat_map(of).collect();
            if told.is_empty() {
                return Ok(());
            }
            match self.feedbacks.keep_all(&told).await {
                // Both come again, and are kept once.
                Err(StoreError::Unavailable(why)) => Err(StoreError::Unavailable(why)),
                Err(error) => {
                    tracing::error!(%error, pieces = told.len(), "feedback of guardrails cannot be kept");
                    Ok(())
                }
                Ok(()) => Ok(()),
            }
        })
    }

    fn at_once(&self) -> usize {
        self.store.at_once()
    }
}

fn of(record: &LogRecord) -> Vec<TraceFeedback> {
    let Some(hooks) = record.hooks.as_deref().filter(|hooks| hooks.json.contains("\"feedback\":{")) else {
        return Vec::new();
    };
    let results: Value = serde_json::from_str(&hooks.json).unwrap_or_default();
    let sides = results.as_object().into_iter().flat_map(|sides| sides.values()).filter_map(Value::as_array);
    let feedback = |(at, hook): (u128, &Value)| {
        let told = &hook["feedback"];
        let metadata = json!({"guardrail": hook["id"], "given": told["metadata"]}).to_string();
        Some(TraceFeedback {
            id: Uuid::from_u128(record.id.as_u128().wrapping_add(at)),
            org: record.org,
            workspace: record.workspace,
            trace_id: record.trace_id.to_string(),
            opinion: Opinion::of(told["value"].as_f64()?, told["weight"].as_f64().unwrap_or(1.0), metadata)?,
            model: record.model.clone(),
            source: SmolStr::new_static("guardrail"),
            created_at: record.created_at,
        })
    };
    (1..).zip(sides.flatten()).filter_map(feedback).collect()
}
