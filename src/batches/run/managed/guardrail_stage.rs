//! Guardrails over the lines of a batch that a provider runs: before they go up, and over what was answered. The door
//! says what they make of each line, as it does for one that is asked; here that is noted, so that no line is judged
//! again which was put down. Knows no guardrail.

use super::super::line::line_id;
use super::super::{BatchRun, RunBroken, RunEnd, lost_log, next_lines};
use super::family::{LineWritten, NoLine, WrittenLines, write};
use super::results::AT_ONCE;
use super::{GRACE_SECS, LedModels, LineSender};
use crate::batches::blob_writer::{BlobWriter, new_blob};
use crate::batches::document::{BatchStatus, LineUsage};
use crate::batches::line_context::{AnswerToJudge, BookedAnswer, LineTask};
use crate::batches::lines::{FileLine, LineReader};
use crate::batches::log::{EarlierRuns, LineDone, LineSaid, LogEntry, RunLog};
use crate::batches::native_batch::native_line;
use crate::batches::operations::now_secs;
use crate::batches::{BatchDocument, LOG};
use crate::{clock, ids};
use bytes::Bytes;
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::time::Duration;
use uuid::Uuid;

/// What a line is told whose answer nobody could read.
pub(super) const UNREADABLE: (&str, &str) =
    ("answer_unreadable", "The provider's answer to this line could not be read.");
/// The pause before an answer is given to be read once more; `MOST_BUSY` says how often it is, after the first try.
const BUSY: Duration = Duration::from_millis(500);
const MOST_BUSY: u32 = 20;

/// Whether guardrails stand before the target of these lines, and behind it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineGuards {
    pub(super) input: bool,
    pub(super) output: bool,
}

/// An answer as the door tells it.
#[derive(Deserialize)]
pub(super) struct AnswerRead {
    pub(super) status: u16,
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) body: Box<RawValue>,
}

/// What guardrails said of lines that are about to go up; nothing where none judge.
pub(super) struct LineVerdicts(Option<(EarlierRuns, RunLog)>);

impl LineGuards {
    pub(super) fn of(explained: &Value) -> Self {
        let judges = |side: &str| {
            let all = explained["targets"].as_array().into_iter().flatten();
            all.into_iter().any(|target| target["guardrails"][side].as_array().is_some_and(|list| !list.is_empty()))
        };
        Self { input: judges("input"), output: judges("output") }
    }

    pub(super) const fn any(self) -> bool {
        self.input || self.output
    }
}

impl LineVerdicts {
    /// It was kept from going up by an earlier run.
    pub(super) fn has(&self, number: u64) -> bool {
        self.0.as_ref().is_some_and(|(done, _)| done.done.contains(&number))
    }

    pub(super) async fn note(&mut self, entries: &[LogEntry]) -> Result<(), RunBroken> {
        match &mut self.0 {
            Some((_, log)) if !entries.is_empty() => log.note(entries).await.map_err(lost_log),
            _ => Ok(()),
        }
    }
}

/// A line that was answered, for the file that it belongs into.
pub(super) fn answered_line(batch: Uuid, custom_id: &str, number: u64, read: &AnswerRead, cost: i64) -> LineDone {
    let id = line_id(batch, number);
    let response = json!({ "status_code": read.status, "request_id": id, "body": &read.body });
    let line = json!({ "id": id, "custom_id": custom_id, "response": response, "error": null });
    let line = RawValue::from_string(line.to_string()).unwrap_or_default();
    let usage = LineUsage { input: read.input, output: read.output };
    LineDone { number, is_good: (200..300).contains(&read.status), usage, cost, line }
}

/// One that guardrails keep from going up.
pub(super) fn denied_line(batch: Uuid, line: &FileLine, told: &AnswerRead) -> LogEntry {
    let custom_id = line.read().map(|asked| asked.custom_id).unwrap_or_default();
    LogEntry::Done(answered_line(batch, &custom_id, line.number, told, 0))
}

/// What is to be judged with the answer, in the client's words or read from the provider's own.
pub(super) fn to_judge(said: Option<LineSaid>, told: Option<Bytes>) -> AnswerToJudge {
    let LineSaid { is_soft, results } = said.unwrap_or_default();
    AnswerToJudge { told, asked: results, was_soft: is_soft }
}

impl LineSender {
    /// Has an answer read, judged and counted; `None`: nobody could read it. Whoever is busy is asked again.
    pub(super) async fn read(&self, number: u64, asked: Bytes, booked: BookedAnswer) -> Option<(AnswerRead, i64)> {
        let mut tries = 0;
        loop {
            let task = LineTask::Booked(Box::new(booked.clone()));
            match self.done(number, asked.clone(), task).await {
                Ok((told, cost)) => return serde_json::from_slice(&told).ok().map(|read| (read, cost)),
                Err(refusal) if matches!(refusal.status, 0 | 429 | 503) && tries < MOST_BUSY => {
                    tries += 1;
                    tokio::time::sleep(BUSY).await;
                }
                Err(refusal) => {
                    let why = refusal.message;
                    tracing::warn!(batch = %self.batch, line = number, why, "an answer of a batch was not read");
                    return None;
                }
            }
        }
    }
}

impl BatchRun {
    /// Whether guardrails judge the lines now, as the first line shows: they come and go while a provider works.
    pub(super) async fn guards(&mut self, batch: &BatchDocument, sender: &LineSender) -> Result<LineGuards, RunBroken> {
        let Some(line) = LineReader::new(&self.batches().blobs, batch.input).next().await? else {
            return Ok(LineGuards::default());
        };
        Ok(LineGuards::of(&self.explained(sender, &line).await?))
    }

    pub(super) async fn verdicts(&mut self, batch: &BatchDocument, judges: bool) -> Result<LineVerdicts, RunBroken> {
        Ok(LineVerdicts(if judges { Some(self.begin_log(batch).await?) } else { None }))
    }

    /// Says that answers are being judged.
    pub(super) async fn enter_judging(&self) -> Result<(), RunBroken> {
        let entered = self.batches().change(self.workspace, self.id(), |batch| {
            if matches!(batch.status, BatchStatus::InProgress | BatchStatus::Finalizing) {
                batch.enter(BatchStatus::Judging, now_secs());
            }
        });
        entered.await?;
        Ok(())
    }

    /// Nothing of it went up: guardrails denied every line.
    pub(super) async fn end_denied(&mut self, batch: &BatchDocument) -> Result<RunEnd, RunBroken> {
        let (done, _) = self.begin_log(batch).await?;
        self.finalize(batch, &done, None).await?;
        Ok(RunEnd::Ended)
    }

    /// The lines that guardrails let pass, as a provider with OpenAI's interface takes them.
    pub(super) async fn write_judged(
        &mut self,
        batch: &BatchDocument,
        sender: &LineSender,
    ) -> Result<WrittenLines, RunBroken> {
        let blobs = self.batches().blobs.clone();
        let (done, mut log) = self.begin_log(batch).await?;
        let blob = new_blob(ids::next(clock::now()), self.org(), LOG, batch.expires + 2 * GRACE_SECS);
        let mut writer = BlobWriter::begin(&blobs, &blob).await?;
        let mut written = WrittenLines::begun(blob.id);
        let (mut reader, mut led, mut exhausted) = (LineReader::new(&blobs, batch.input), LedModels::default(), false);
        while !exhausted {
            let some = next_lines(&mut reader, &done, AT_ONCE, &mut exhausted).await?;
            for line in &some {
                self.lead(sender, line, &mut led).await?;
            }
            let asked = some.iter().map(async |line| (line, write(sender, line, LineTask::Judged).await));
            let mut entries = Vec::new();
            for (line, told) in join_all(asked).await {
                match told {
                    Ok(LineWritten { body, said, .. }) => {
                        let Ok(asked) = line.read() else { continue };
                        let model = led.get(&asked.model()).and_then(Option::as_deref);
                        let Some(text) = native_line(&asked, &body, model) else { continue };
                        written.add(&text);
                        writer.push(&text).await?;
                        entries.extend(said.map(|said| LogEntry::Judged { number: line.number, said }));
                    }
                    Err(NoLine::Denied(told)) => entries.push(denied_line(self.id(), line, &told)),
                    Err(NoLine::Broken(broken)) => return Err(broken),
                    Err(NoLine::Problem(_, why)) => return Err(RunBroken::Refused(why)),
                }
            }
            if !entries.is_empty() {
                log.note(&entries).await.map_err(lost_log)?;
            }
            self.pulse_lease().await?;
        }
        writer.finish().await?;
        Ok(written)
    }
}
