//! What a fine-tuning job trained, which providers tell once it has succeeded and every time that it is looked at:
//! counted at the first look, with a record of its own. The look itself costs nothing.

use super::batch_line_usage::book;
use super::{CallParts, Exchange};
use crate::batches::BookedAnswer;
use crate::bookings::{BookingId, Knowledge, LineKey};
use crate::proxy::deliver::Outcome;
use crate::proxy::request::Request;
use crate::proxy::routing::Routing;
use crate::proxy::{objects, own_objects, target};
use gateway_domain::path::decoded;
use gateway_domain::ports::StoreError;
use gateway_domain::record::LogRecord;
use gateway_domain::usage::UsageDetail;
use gateway_domain::{Operation, Usage};
use serde::Deserialize;

/// A job is counted by one record.
const ONE: LineKey = LineKey::of_place(1);

/// A fine-tuning job that has succeeded, in the fields of OpenAI's interface.
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
        let asked = (&*self.request, &self.routing);
        if let Err(e) = counted(self.parts, asked, job).await {
            // The next look counts it.
            tracing::warn!(error = %e, "what a fine-tuning job trained could not be counted yet");
        }
    }
}

async fn counted(
    parts: &CallParts,
    (request, routing): (&Request, &Routing),
    job: TrainedJob,
) -> Result<(), StoreError> {
    let CallParts { bookings, booked_records, .. } = parts;
    let Ok(aim) = target::resolve(routing.plan.leaf(), routing.inline, request) else { return Ok(()) };
    let Some(native) = native(request) else { return Ok(()) };
    let keeper = objects::keeper_of(&aim, request);
    let (id, owner) = (BookingId::of(&[b"finetune", &keeper, native.as_bytes()]), own_objects::owner(request));
    let Some(turn) = bookings.begin_one(id, owner, job.finished_at).await? else { return Ok(()) };
    let known = match turn.unsure() {
        None => None,
        Some((unsure, _)) => Some(booked_records.knowledge(unsure).await),
    };
    let turn = match known {
        None => turn.counts(bookings, vec![ONE], &booked_records.node).await?,
        Some(Knowledge::Later) => return turn.end(bookings, false).await,
        Some(Knowledge::Never) => return turn.end(bookings, true).await,
        Some(Knowledge::ByRecord) => Some(turn),
    };
    let Some((turn, stamp)) = turn.and_then(|turn| turn.stamp(ONE).map(|stamp| (turn, stamp))) else { return Ok(()) };
    // The record cannot exist yet where the count was noted only a moment ago.
    let is_kept = known.is_some() && booked_records.has(stamp, owner.workspace).await?;
    if !is_kept && let Some(mut record) = record_of((parts, (request, routing)), job, native).await {
        (record.id, record.created_at) = (stamp.id, stamp.at);
        record.trace_id = format!("finetune-{}", id.0.simple()).into();
        booked_records.keep(vec![*record]).await;
    }
    turn.end(bookings, true).await
}

/// `None`: the target is not there any more.
async fn record_of(
    (parts, asked): (&CallParts, (&Request, &Routing)),
    job: TrainedJob,
    native: String,
) -> Option<Box<LogRecord>> {
    let trained = u32::try_from(job.trained_tokens).unwrap_or(u32::MAX);
    let usage = Usage { detail: UsageDetail { trained, ..UsageDetail::default() }, ..Usage::default() };
    let (model, usage) = (Some(job.model), Some(usage));
    let booked = BookedAnswer { status: 200, asked: None, model, usage, native: None, judged: None, record: None };
    let mut record = book(parts, asked, &booked).await.ok()?;
    record.operation.rename(Operation::Finetune.name());
    let mut metadata: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&record.metadata).unwrap_or_default();
    metadata.insert("fine_tuning_job".to_owned(), native.into());
    record.metadata = serde_json::Value::Object(metadata).to_string().into();
    Some(record)
}
