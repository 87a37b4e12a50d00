//! What a fine-tuning job trained, which providers tell once it has succeeded and every time that it is looked at: counted at
//! the first look, with a record of its own. The look itself costs nothing.

use super::booked::book;
use super::{CallParts, Exchange};
use crate::batches::BookedAnswer;
use crate::bookings::BookingId;
use crate::proxy::deliver::Outcome;
use crate::proxy::request::Request;
use crate::proxy::routing::Routing;
use crate::proxy::{objects, own_objects, target};
use gateway_domain::path::decoded;
use gateway_domain::record::LogRecord;
use gateway_domain::usage::UsageDetail;
use gateway_domain::{Operation, Usage};
use serde::Deserialize;

/// As OpenAI's interface tells it.
#[derive(Debug, Deserialize)]
pub(super) struct TrainedJob {
    status: String,
    model: String,
    trained_tokens: u64,
    finished_at: i64,
}

/// The call looks at a job, whose answer must be read whole then.
pub(super) fn looks(request: &Request) -> bool {
    request.ask.route.operation == Operation::RetrieveFinetune && request.ask.method == http::Method::GET
}

/// `None`: nobody asked for a job, or it has not succeeded, or what it trained is not told.
pub(super) fn seen(request: &Request, outcome: &Outcome) -> Option<TrainedJob> {
    let Outcome::Whole(answer) = outcome else { return None };
    if !looks(request) || answer.head.status.as_u16() != 200 {
        return None;
    }
    let job: TrainedJob = serde_json::from_slice(&answer.body).ok()?;
    (job.status == "succeeded" && job.trained_tokens > 0).then_some(job)
}

/// The job's own name at its provider, which is the last part of what the path holds.
fn native(request: &Request) -> Option<String> {
    let id = decoded(request.ask.route.tail().split('/').nth(3)?);
    let id = id.rsplit('/').next().filter(|id| !id.is_empty());
    id.map(str::to_owned)
}

impl Exchange<'_> {
    /// Counts what the job trained, if nobody did.
    pub(super) async fn count_trained(&mut self, job: TrainedJob) {
        if let Some(record) = counted(self.parts, (self.request, &self.routing), job).await {
            self.records.push(record);
        }
    }
}

async fn counted(
    parts: &CallParts,
    (request, routing): (&Request, &Routing),
    job: TrainedJob,
) -> Option<Box<LogRecord>> {
    let aim = target::resolve(routing.plan.leaf(), routing.inline, request).ok()?;
    let native = native(request)?;
    let keeper = objects::keeper_of(&aim, request);
    let id = BookingId::of(&[b"finetune", &keeper, native.as_bytes()]);
    match parts.bookings.claim(id, own_objects::owner(request), job.finished_at).await {
        Ok(true) => {}
        Ok(false) => return None,
        Err(e) => {
            // The next look counts it.
            tracing::warn!(error = %e, "what a fine-tuning job trained could not be counted yet");
            return None;
        }
    }
    let trained = u32::try_from(job.trained_tokens).unwrap_or(u32::MAX);
    let usage = Usage { detail: UsageDetail { trained, ..UsageDetail::default() }, ..Usage::default() };
    let (model, usage) = (Some(job.model), Some(usage));
    let booked = BookedAnswer { status: 200, asked: None, model, usage, native: None, judged: None, is_counted: true };
    let mut record = book(parts, (request, routing), &booked).await.ok()?;
    record.id = id.0;
    record.trace_id = format!("finetune-{}", id.0.simple()).into();
    record.operation = Operation::Finetune.name();
    let mut metadata: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&record.metadata).unwrap_or_default();
    metadata.insert("fine_tuning_job".to_owned(), native.into());
    record.metadata = serde_json::Value::Object(metadata).to_string().into();
    Some(record)
}
