//! Another output in the place of the one that guardrails are judging, as somebody's own pipeline made it. The batch is
//! completed with it at once; its run goes on judging and counting what was answered, and lets its own output go.

use super::document::{BatchStatus, Replacement};
use super::operations::{KeepError, now_secs};
use super::{Batches, read_id};
use gateway_domain::ports::{BatchOutputs, Fut, NewOutput, OutputStays, StoreError};
use serde_json::Value;

/// `unknown`: what is not there.
fn stays(why: &KeepError, unknown: OutputStays) -> OutputStays {
    match why {
        KeepError::Unknown => unknown,
        why => OutputStays::Store(StoreError::Unavailable(why.to_string())),
    }
}

impl BatchOutputs for Batches {
    fn replace_output<'a>(&'a self, new: NewOutput<'a>) -> Fut<'a, Result<Value, OutputStays>> {
        Box::pin(async move {
            let NewOutput { workspace, batch, file } = new;
            let id = read_id("batch", batch).ok_or(OutputStays::NoBatch)?;
            self.batch(workspace, id).await.map_err(|why| stays(&why, OutputStays::NoBatch))?;
            let output = read_id("file", file).ok_or(OutputStays::NoFile)?;
            self.file(workspace, output).await.map_err(|why| stays(&why, OutputStays::NoFile))?;
            let changed = self.change(workspace, id, |batch| {
                if batch.status == BatchStatus::Judging {
                    (batch.output, batch.replacement) = (Some(output), Replacement::Counting);
                    batch.enter(BatchStatus::Completed, now_secs());
                }
            });
            let batch = changed.await.map_err(|why| stays(&why, OutputStays::NoBatch))?;
            let is_done = batch.replacement != Replacement::None && batch.output == Some(output);
            if is_done { Ok(batch.shown(id)) } else { Err(OutputStays::NotJudged(batch.status.name())) }
        })
    }
}
